"""Files as the source of an admission: recorded benchmarks, a fingerprint or what one is made from, logs.

For nodes that others measured, and for looking at an old admission again. Files are told by content.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rankmuster.admission.captured_beside import Captured, OtherNode, with_captured, with_clocks, written_at
from rankmuster.admission.dcgm import DcgmReport, read_dcgm
from rankmuster.admission.kernel_source import KernelRead, kernel_of, observed
from rankmuster.admission.made_from import NotMadeOfAPath, path_of
from rankmuster.bench.nccl_view import view_of_log
from rankmuster.bench.read_file import MOST_BYTES, NoRuns, runs_in
from rankmuster.evidence import kernel_log
from rankmuster.evidence.benchmark_file import recognises
from rankmuster.evidence.bundle import load
from rankmuster.evidence.fingerprint_file import FingerprintRefused, read_fingerprint
from rankmuster.evidence.folder import EvidenceEmpty, EvidenceForbidden, EvidenceMissing, EvidenceUnreadable
from rankmuster.evidence.given_file import CannotRead, bytes_in
from rankmuster.evidence.kernel_boots import for_this_boot
from rankmuster.evidence.node_path import NotOneNode, from_evidence
from rankmuster.evidence.node_path_readers import for_node_paths
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.node_path import NodePath
from rankmuster.model.topology import GpuFacts

MOST_FILES = 2_000
"""Files of one call: a node's captures are some dozens."""

_FINGERPRINT = re.compile(rb'"?schema"?\s*:\s*"?rankmuster\.fingerprint/')
_ANSWER = re.compile(rb'"schema"\s*:\s*"rankmuster\.admission/')
_DCGM = re.compile(rb'"DCGM (?:GPU )?Diagnostic"')
_HEAD = 16_384
_KERNEL = kernel_log.READER.name


class NotRecorded(Exception):
    """The files hold no admission; the message says which file is wrong, how, and what to give instead."""


@dataclass(slots=True)
class Recorded:
    """What the files hold. `kernel`: whether a kernel log is among them, however quiet. `notes`: what was damaged.

    `dated`: of each run, whether its start is its file's, since it does not say it itself. `captured`: text, file
    by file."""

    runs: list[BenchmarkRun] = field(default_factory=list)
    fingerprint: Fingerprint | None = None
    path: NodePath | None = None
    observations: list[object] = field(default_factory=list)
    dcgm: DcgmReport | None = None
    kernel: bool = False
    notes: list[str] = field(default_factory=list)
    dated: list[bool] = field(default_factory=list)
    captured: list[Captured] = field(default_factory=list)


def read_recorded(paths: Sequence[Path], host: str | None = None) -> Recorded:
    """Every file, or all files of a folder. `host`: which, where text is of several. Raises NotRecorded."""
    found = Recorded()
    logs: list[bytes] = []
    for path in _files(paths):
        data = _bytes(path)
        if _FINGERPRINT.search(data[:_HEAD]):
            found.fingerprint = _fingerprint(path, data)
        elif _ANSWER.search(data[:_HEAD]):
            raise NotRecorded(f"{path} is an admission's answer: `rankmuster admit verify` checks one")
        elif _DCGM.search(data[:_HEAD]):
            found.dcgm = read_dcgm(data)
        elif not _runs(found, path, data):
            if b"NCCL INFO" in data:
                logs.append(data)
            _evidence(found, path, data)
    if not found.runs:
        raise NotRecorded(
            f"no benchmark in {_named(paths)}: give what nccl-tests printed, its JSON, or bench's own form"
        )
    found.runs = _each_once(found)
    tools = sorted({run.tool for run in found.runs})
    if len(tools) > 1:
        raise NotRecorded(
            f"runs of {' and '.join(tools)} in {_named(paths)}: below the plateau they do not measure the same, and "
            "have histories of their own; admit with one of them at a time"
        )
    if logs:
        _with_log(found, b"\n".join(logs))
    found.path = _path(found, host)
    return found


def _each_once(found: Recorded) -> list[BenchmarkRun]:
    """The same run in two files is one process that was measured once, whatever the files are called and dated."""
    once: dict[BenchmarkRun, BenchmarkRun] = {}
    for run, dated in zip(found.runs, found.dated, strict=True):
        content = replace(run, source="", started_at=None if dated else run.started_at)
        known = once.setdefault(content, run)
        if known is not run:
            found.notes.append(f"a run was given more than once ({known.source}), and counts once")
    return list(once.values())


def with_kernel_log(found: Recorded, path: Path) -> KernelRead:
    """Takes a file for the kernel log of this boot, whatever it looks like; what it says. Raises NotRecorded."""
    told = observed(_bytes(path), str(path))
    found.observations += told
    found.kernel = True
    return kernel_of(told)


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    count = 0
    for path in paths:
        if not path.exists():
            raise NotRecorded(f"{path} is not there")
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if each.is_file():
                count += 1
                if count > MOST_FILES:
                    raise NotRecorded(f"more than {MOST_FILES} files: name those of one node")
                yield each


def _bytes(path: Path) -> bytes:
    try:
        return bytes_in(path, MOST_BYTES, "recorded file")
    except CannotRead as error:
        raise NotRecorded(str(error)) from error


def _fingerprint(path: Path, data: bytes) -> Fingerprint:
    try:
        return read_fingerprint(data)
    except FingerprintRefused as error:
        raise NotRecorded(f"{path}: {error}") from error


def _runs(found: Recorded, path: Path, data: bytes) -> bool:
    """Whether the file is a benchmark's. Damage of our own form is refused; of nccl-tests' it is the run's state."""
    try:
        runs = runs_in(data, str(path))
        found.runs += [_dated(run, path) for run in runs]
        found.dated += [run.started_at is None for run in runs]
        return True
    except NoRuns as error:
        if recognises(data):
            raise NotRecorded(str(error)) from error
        return False


def _dated(run: BenchmarkRun, path: Path) -> BenchmarkRun:
    """nccl-tests' tables do not say when they were made: then the file's time does. Brought twice, it is one run."""
    return run if run.started_at is not None else replace(run, started_at=path.stat().st_mtime)


def _evidence(found: Recorded, path: Path, data: bytes) -> None:
    try:
        evidence = load(path, readers=for_this_boot(for_node_paths()))
    except (EvidenceMissing, EvidenceEmpty, EvidenceForbidden, EvidenceUnreadable) as error:
        raise NotRecorded(f"{error}; it is no benchmark and no fingerprint either") from error
    observations = tuple(each for kind in evidence.by_type.values() for each in kind)
    found.observations += observations
    found.captured.append(Captured(str(path), written_at(data, path.stat().st_mtime), observations))
    found.kernel = found.kernel or any(_KERNEL in source.readers for source in evidence.sources)
    found.notes += [f"{problem.source}: {problem.message}" for problem in evidence.problems]


def _with_log(found: Recorded, log: bytes) -> None:
    """What NCCL's log says of runs that do not say it themselves."""
    view = view_of_log(log)
    found.runs = [
        replace(
            run,
            nccl_version=run.nccl_version or view.nccl_version,
            choices=run.choices or view.choices,
            transports=run.transports or view.transports,
            channels=run.channels if run.channels is not None else view.channels,
        )
        for run in found.runs
    ]


def _path(found: Recorded, host: str | None) -> NodePath | None:
    if found.fingerprint is not None:
        try:
            return with_captured(path_of(found.fingerprint), found.captured, host)
        except NotMadeOfAPath as error:
            found.notes.append(f"the fingerprint says nothing of the parts it was made from ({error})")
            return None
        except OtherNode as error:
            raise NotRecorded(str(error)) from error
    if not found.observations:
        return None
    try:
        path = from_evidence(found.observations, host=host)
    except NotOneNode as error:
        if any(isinstance(each, GpuFacts) for each in found.observations):
            raise NotRecorded(f"the captured text is not of one node: {error}") from error
        return None
    return with_clocks(path, found.observations)


def _named(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths[:4])) + (f" and {len(paths) - 4} more" if len(paths) > 4 else "")
