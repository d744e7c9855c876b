"""Contradictions of where dumps, pipes and logs go."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from rankmuster.environment.contradiction import Contradiction, Severity, Subject
from rankmuster.environment.given import FolderState
from rankmuster.environment.values import quoted, shown
from rankmuster.environment.version import written

COMMON_FOLDERS = frozenset({"/tmp", "/var/tmp", "/dev/shm", "/var/log", "/", "/root", "/data", "/mnt"})  # noqa: S108
"""Folders that every instance of a node sees; a name in them has no room for an instance."""

_DUMP = "TORCH_FR_DUMP_TEMP_FILE"
_PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"


def shared_prefix(subject: Subject) -> Iterator[Contradiction]:
    """Dumps that the next instance, or the next start, writes over."""
    now = subject.effective
    if not now.dump_on_timeout and now.pipe is None:
        return
    if not now.prefix_set:
        if now.recorder_buffer:
            yield Contradiction(
                Severity.WARNING,
                "default_prefix",
                (_DUMP,),
                f"dumps go to torch's default, {shown(now.prefix or '')}<rank>: instances of one node and the next "
                "start write over them, and an old one may be taken for a new one",
                f"set {_dump_name(subject)} to a folder with instance and incarnation in its path",
            )
        return
    if now.prefix is not None and _folder(now.prefix) in COMMON_FOLDERS:
        yield Contradiction(
            Severity.WARNING,
            "shared_prefix",
            (_dump_name(subject),),
            f"{quoted(now.prefix)} lies in a folder that all instances share; the global rank is all that torch adds",
            "put instance and incarnation into the path; `rankmuster env print` does",
        )


def _dump_name(subject: Subject) -> str:
    given = subject.given
    old = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
    return old if subject.torch < (2, 8) or (given.has(old) and not given.has(_DUMP)) else _DUMP


def folders(subject: Subject) -> Iterator[Contradiction]:
    """Folders that are not there, as far as they can be looked at."""
    now, given = subject.effective, subject.given
    log = given.of("NCCL_DEBUG_FILE")
    wanted = (
        (_dump_name(subject), now.prefix if now.prefix_set else None, Severity.ERROR, "no dump is written"),
        (_PIPE, now.pipe if now.pipe_buffer else None, Severity.ERROR, "torch ends the process that cannot make it"),
        ("NCCL_DEBUG_FILE", log, Severity.WARNING, "NCCL logs to standard output instead"),
    )
    for name, path, severity, effect in wanted:
        if not path or "$(" in path:
            continue
        if not path.startswith("/"):
            yield Contradiction(
                Severity.WARNING,
                "relative_path",
                (name,),
                f"{name} is {quoted(path)}, relative to wherever the process stands",
                "give an absolute path",
            )
            continue
        folder = _folder(path)
        state = given.look(folder)
        if state in (FolderState.MISSING, FolderState.NO_FOLDER, FolderState.NOT_WRITABLE):
            yield Contradiction(
                severity,
                "folder_unusable",
                (name,),
                f"the folder {quoted(folder)} of {name} is {_words(state)}: {effect}",
                f"make it before the start, writable for the process: mkdir -p {shown(folder)[:80]}",
            )


def _words(state: FolderState) -> str:
    return {FolderState.NO_FOLDER: "not a folder", FolderState.NOT_WRITABLE: "not writable for the process"}.get(
        state, "not there"
    )


def _folder(path: str) -> str:
    """Of a prefix or file: `/a/b_` -> `/a`; `/a/` -> `/a`. Percent signs of NCCL's names stand for themselves."""
    return (
        posixpath.normpath(path.replace("%%", "%")).rpartition("/")[0] or "/"
        if not path.endswith("/")
        else (posixpath.normpath(path))
    )


def file_name(subject: Subject) -> Iterator[Contradiction]:
    """A prefix that the rank makes ambiguous, or that is a folder."""
    now = subject.effective
    name = _dump_name(subject)
    if not now.prefix_set or not now.prefix:
        return
    if now.prefix.endswith("/"):
        yield Contradiction(
            Severity.NOTE,
            "bare_prefix",
            (name,),
            f"{quoted(now.prefix)} ends in a slash: the dumps are files that are called 0, 1, 2",
            f"append nccl_trace_rank_ to {name}",
        )
    elif now.prefix[-1].isdigit():
        yield Contradiction(
            Severity.WARNING,
            "prefix_ends_in_digit",
            (name,),
            f"{quoted(now.prefix)} ends in a digit, and torch {written(subject.torch)} puts the rank right behind it: "
            "rank 1 cannot be told from another number",
            "end the prefix in rank_",
        )


RULES = (shared_prefix, folders, file_name)
