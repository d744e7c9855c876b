"""What a process's title or command line says: which engine, which part of it, which parallel ranks.

Titles are read from `cmdline`; `comm` is cut to 15 characters (`VLLM::Worker_TP`) and only good for the kind. Sources:
vLLM 0.10.2 to 0.33.0 (`set_process_title`, prefix VLLM_PROCESS_NAME_PREFIX), SGLang 0.4.6 to 0.5.23, TensorRT-LLM 2026,
TGI 3.3.7, LMDeploy 0.16, Ray 2.60. Older vLLM leaves `python -c from multiprocessing.spawn ...`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.collect.target import Role

VLLM, SGLANG, TRTLLM, TGI, LMDEPLOY, TRITON = "vllm", "sglang", "tensorrt-llm", "tgi", "lmdeploy", "triton"
TORCH, MPI, RAY = "torch", "mpi", "ray"

_PARTS = re.compile(r"_(DP|PP|PCP|ATTN_CP|MOE_DP|TP|DCP|EP)(\d{1,6})")
_VLLM = re.compile(r"[A-Za-z][\w.\-]{0,60}::(APIServer|EngineCore|Worker|DPCoordinator)((?:_[A-Z_]*\d{1,6})*)")
_VLLM_CUT = re.compile(r"VLLM::(APISer|EngineC|Worker|DPCoord)")
_SGLANG = re.compile(r"sglang::(\w+)")
_RAY = re.compile(r"ray::([\w.:<>]+)")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*[a-z]*")
_WRAPPERS = ("sh", "bash", "dash", "tini", "dumb-init", "numactl", "taskset", "env", "nohup", "setsid", "sudo", "su")
_LAUNCHERS = (
    "mpirun",
    "mpiexec",
    "orterun",
    "prterun",
    "prte",
    "prted",
    "orted",
    "mpiexec.hydra",
    "hydra_pmi_proxy",
    "srun",
)
_VLLM_ROLES = {
    "APIServer": Role.SERVER,
    "APISer": Role.SERVER,
    "EngineCore": Role.ENGINE,
    "EngineC": Role.ENGINE,
    "Worker": Role.WORKER,
    "DPCoordinator": Role.ENGINE,
    "DPCoord": Role.ENGINE,
}
_NOT_PART = ("resource_tracker", "semaphore_tracker", "compile_worker", "forkserver")


@dataclass(frozen=True, slots=True)
class Known:
    """`parts`: parallel ranks by kind (`{"PP": 1, "TP": 3}`), without those whose size is 1. `name`: for people.

    `cut`: only the 15 characters of `comm` were there, so `parts` may lack some.
    """

    engine: str
    role: Role
    name: str
    parts: Mapping[str, int] = field(default_factory=dict)
    cut: bool = False


def parts_of(text: str) -> dict[str, int]:
    """`_DP0_PP1_TP3` -> `{"DP": 0, "PP": 1, "TP": 3}`."""
    return {name: int(number) for name, number in _PARTS.findall(text)}


def recognise(command: tuple[str, ...], comm: str) -> Known | None:
    """What is known of a process by its own words; None for one that says nothing of an engine or a launcher."""
    if not command:
        return _cut(comm)
    return _titled(command[0]) or _commanded(command)


def is_wrapper(command: tuple[str, ...], comm: str) -> bool:
    """Whether it only starts something else (a shell, `tini`, `numactl`): never the process with the rank."""
    return _base(command[0]).lstrip("-") in _WRAPPERS if command else comm in _WRAPPERS


def is_python(program: str) -> bool:
    """Whether a command's first word is an interpreter."""
    return _PYTHON.fullmatch(_base(program)) is not None


def _base(argument: str) -> str:
    return argument.rsplit("/", 1)[-1]


def _titled(title: str) -> Known | None:
    found = _VLLM.match(title)
    if found:
        return Known(VLLM, _VLLM_ROLES[found[1]], title[:100], parts_of(found[2]))
    found = _SGLANG.match(title)
    if found:
        return Known(SGLANG, _sglang_role(found[1]), title[:100], parts_of(found[1]))
    found = _RAY.match(title)
    if found:
        return _ray(found[1], title)
    return None


def _sglang_role(what: str) -> Role:
    if what.startswith("schedul"):
        return Role.WORKER
    if what.startswith(("http_server", "tokenizer")):
        return Role.SERVER
    return Role.ENGINE if what.startswith("data_parallel") else Role.HELPER


def _ray(what: str, title: str) -> Known | None:
    if what.startswith("RayWorker"):  # RayWorkerWrapper, RayWorkerProc
        return Known(VLLM, Role.WORKER, title[:100])
    if what.startswith("RayGPUWorker"):
        return Known(TRTLLM, Role.WORKER, title[:100])
    if what.startswith("EngineCoreActor") or "EngineCore" in what:
        return Known(VLLM, Role.ENGINE, title[:100])
    return None


def _cut(comm: str) -> Known | None:
    """A zombie has lost its title, and one that cannot be read has not given it: the 15 characters are left."""
    found = _VLLM_CUT.match(comm)
    if found:
        return Known(VLLM, _VLLM_ROLES[found[1]], comm, parts_of(comm), cut=True)
    found = _SGLANG.match(comm)
    return Known(SGLANG, _sglang_role(found[1]), comm, parts_of(comm), cut=True) if found else None


def _commanded(command: tuple[str, ...]) -> Known | None:
    """By program or module; shells and interpreters before it are passed over, options too."""
    words = [word for word in command[:12] if word]
    first = _base(words[0]) if words else ""
    if first in _LAUNCHERS:
        return Known(MPI, Role.LAUNCHER, first)
    if first.lstrip("-") in _WRAPPERS:
        return None
    if _PYTHON.fullmatch(first):
        return _python(words[1:])
    return _program(first, words[1:])


def _python(words: list[str]) -> Known | None:
    for at, word in enumerate(words):
        if at > 0 and words[at - 1] in ("-X", "-W"):
            continue  # what that option is set to
        if word == "-c":
            code = words[at + 1] if at + 1 < len(words) else ""
            helper = any(name in code for name in _NOT_PART)
            return Known("", Role.HELPER, "python") if helper else None
        if word == "-m":
            return _module(words[at + 1], words[at + 2 :]) if at + 1 < len(words) else None
        if word.startswith("-"):
            continue  # -u, -X and their like
        base = _base(word)
        return _program(base, words[at + 1 :]) or _script(word)
    return None


def _script(path: str) -> Known | None:
    if any(name in path for name in ("torch/_inductor/compile_worker", "multiprocessing/resource_tracker")):
        return Known("", Role.HELPER, _base(path))
    return None


def _program(base: str, rest: list[str]) -> Known | None:
    if base == "vllm":
        headless = "--headless" in rest
        role = Role.ENGINE if headless else Role.SERVER
        return Known(VLLM, role, "vllm serve") if "serve" in rest[:2] or headless else None
    if base == "sglang":
        return Known(SGLANG, Role.SERVER, "sglang serve") if "serve" in rest[:2] else None
    if base == "torchrun":
        return Known(TORCH, Role.LAUNCHER, base)
    if base in ("trtllm-serve", "trtllm-serve.py"):
        return Known(TRTLLM, Role.SERVER, base)
    if base == "trtllm-llmapi-launch":
        return Known(TRTLLM, Role.LAUNCHER, base)
    if base in ("text-generation-launcher", "text-generation-router", "text-generation-server"):
        kind = base.rsplit("-", 1)[1]
        role = {"launcher": Role.LAUNCHER, "router": Role.SERVER}.get(kind, Role.WORKER)
        return Known(TGI, role, base)
    if base == "lmdeploy":
        return Known(LMDEPLOY, Role.SERVER, "lmdeploy serve") if "serve" in rest[:2] else None
    if base == "tritonserver":
        return Known(TRITON, Role.SERVER, base)
    if base in ("executorWorker", "trtllmExecutorWorker"):
        return Known(TRTLLM, Role.WORKER, base)
    return None


_MODULES: tuple[tuple[str, str, Role], ...] = (
    ("vllm.entrypoints.", VLLM, Role.SERVER),
    ("sglang.launch_server", SGLANG, Role.SERVER),
    ("tensorrt_llm.llmapi.mgmn_", TRTLLM, Role.WORKER),
    ("tensorrt_llm.commands.serve", TRTLLM, Role.SERVER),
    ("torch.distributed.run", TORCH, Role.LAUNCHER),
    ("torch.distributed.launch", TORCH, Role.LAUNCHER),
    ("lmdeploy.serve", LMDEPLOY, Role.SERVER),
    ("torch._inductor.compile_worker", "", Role.HELPER),
)


def _module(module: str, rest: list[str]) -> Known | None:
    for start, engine, role in _MODULES:
        if module.startswith(start):
            headless = "--headless" in rest
            return Known(engine, Role.ENGINE if headless else role, f"python -m {module}"[:100])
    return _program(module, rest)  # python -m vllm serve, python -m sglang serve
