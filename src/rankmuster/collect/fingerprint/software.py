"""Which NCCL, CUDA runtime, torch and serving engine a process runs, or would run. Nothing is imported."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.fingerprint.installed import of_process, of_python, of_this_program, versions_of
from rankmuster.collect.machine import Machine
from rankmuster.collect.node.sys_files import names, read_text
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.ras.version import SourceKind, read_version
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.model.fingerprint import NONE
from rankmuster.model.node_path import SoftwareFacts
from rankmuster.model.unknown import Unknown

ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "tensorrt_llm"}
"""Name of the package -> name of the engine."""

SYSTEM_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/lib", "usr/lib")
"""Where Debian's and Red Hat's packages of NCCL put libnccl.so.2, below the root."""

_LIBRARY = re.compile(r"libnccl\.so\.(\d{1,2}\.\d{1,3}\.\d{1,3})")
_CUDA_OF_TORCH = re.compile(r"\+cu(\d{2})(\d{1,2})\b")


def read_software(
    machine: Machine,
    deadline: Deadline,
    *,
    python: Path | None,
    pid: int | None,
    root: Path,
) -> SoftwareFacts:
    """Of the process `pid`, else of `python`, else of the interpreter that runs this program. The image's digest is not
    looked for here."""
    image = Unknown("not looked for yet")
    if pid is not None:
        packages = of_process(machine.proc, pid, deadline)
    elif python is not None:
        packages = of_python(python, deadline)
    else:
        packages = of_this_program()
    nccl = _running_nccl(machine, pid, deadline) if pid is not None else None
    if isinstance(packages, Unknown):
        return SoftwareFacts(image, packages, nccl or packages, packages, packages, packages)
    engine, version = _engine(packages, _command(machine, pid))
    return SoftwareFacts(
        image_digest=image,
        cuda_runtime=_cuda(packages, root),
        nccl=nccl or _installed_nccl(packages, root),
        pytorch=packages.get("torch", NONE),
        engine=engine,
        engine_version=version,
    )


def _running_nccl(machine: Machine, pid: int, deadline: Deadline) -> str | Unknown | None:
    """The release of the library that the process has mapped; None where it has none."""
    process = ProcessOfInstance(
        *(pid, pid, None, 0, 0.0, Role.WORKER, ""), rank=0, root=machine.proc / str(pid) / "root"
    )
    seen = read_version(Target("", machine.hostname, (process,)), machine, deadline)
    texts = {source.release for source in seen.sources if source.kind is SourceKind.TEXT}
    named = texts or {source.release for source in seen.sources}
    if len(named) == 1:
        return str(next(iter(named)))
    if named:
        return Unknown(f"process {pid} has several releases of NCCL mapped: {seen}")
    if seen.mapped or seen.notes:
        return Unknown(f"NCCL of process {pid}: {'; '.join(seen.notes) or 'its release cannot be told'}")
    return None


def _packaged(packages: Mapping[str, str], name: str) -> str | Unknown | None:
    """The version of the packages that begin with `name`; None where there is none."""
    found = versions_of(packages, name)
    if len({version for _, version in found}) == 1:
        return found[0][1]
    if found:
        return Unknown(f"several are installed: {', '.join(f'{name} {version}' for name, version in found)}")
    return None


def _installed_nccl(packages: Mapping[str, str], root: Path) -> str | Unknown:
    packaged = _packaged(packages, "nvidia-nccl")
    if packaged is not None:
        return packaged
    for place in SYSTEM_LIBRARIES:
        libraries = [match.group(1) for name in names(root / place) if (match := _LIBRARY.fullmatch(name))]
        if len(set(libraries)) == 1:
            return libraries[0]
        if libraries:
            linked = _LIBRARY.search(os.path.realpath(root / place / "libnccl.so.2"))
            return linked.group(1) if linked else Unknown(f"{root / place} has several: {', '.join(libraries)}")
    if "torch" in packages and "+cpu" not in packages["torch"]:
        return Unknown(
            f"torch {packages['torch']} is installed without a package of NCCL: it may be linked into it; ask a "
            "running process (--pid)"
        )
    return NONE


def _cuda(packages: Mapping[str, str], root: Path) -> str | Unknown:
    packaged = _packaged(packages, "nvidia-cuda-runtime")
    if packaged is not None:
        return packaged
    match = _CUDA_OF_TORCH.search(packages.get("torch", ""))
    if match:
        return f"{match.group(1)}.{match.group(2)}"
    said = read_text(root / "usr/local/cuda/version.json", 1 << 16) or ""
    toolkit = re.search(r'"cuda"\s*:\s*\{[^{}]{0,200}"version"\s*:\s*"(\d[\d.]{1,20})"', said)
    if toolkit:
        return toolkit.group(1)
    if "torch" in packages and "+cpu" not in packages["torch"]:
        return Unknown(f"torch {packages['torch']} is installed without a package of the CUDA runtime")
    return NONE


def _engine(packages: Mapping[str, str], command: str) -> tuple[str | Unknown, str | Unknown]:
    found = [(engine, packages[name]) for name, engine in ENGINES.items() if name in packages]
    if len(found) > 1:
        named = [
            (engine, version)
            for engine, version in found
            if engine in command.lower().replace("trtllm", "tensorrt_llm")
        ]
        if len(named) != 1:
            unknown = Unknown(
                f"several are installed: {', '.join(f'{engine} {version}' for engine, version in found)}; ask a "
                "running process (--pid)"
            )
            return unknown, unknown
        found = named
    return found[0] if found else (NONE, NONE)


def _command(machine: Machine, pid: int | None) -> str:
    if pid is None:
        return ""
    try:
        return " ".join(Proc(machine.proc).command(pid) or ())[:4096]
    except (NotAllowed, OSError):
        return ""
