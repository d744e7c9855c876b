"""NCCL's logs of ranks that have ended: files of the pattern that the living know, under any other pid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rankmuster.collect import files_below
from rankmuster.collect.left_behind import Candidate
from rankmuster.collect.logs.nccl_files import ROTATED, absolute, host_part, shape
from rankmuster.collect.target import ProcessOfInstance

MAX_FOLDERS = 256
"""Folders looked into for one pattern: `/logs/%p/nccl.log` has one a process."""


def candidates(process: ProcessOfInstance, pattern: str, hosts: Iterable[str]) -> list[Candidate]:
    """Every file below the process's root that the pattern could have named on this host, whosever it is."""
    parts = [part for part in absolute(process, pattern).split("/") if part]
    names = "|".join(re.escape(name) for name in dict.fromkeys(host_part(host) for host in hosts)) or "(?!)"
    places: list[tuple[str, int | None]] = [("", None)]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if "%" not in part and not last:
            places = [(f"{place}/{part}", pid) for place, pid in places]
            continue
        looks = shape(part, r"\d{1,10}", names)
        places = [step for place in places[:MAX_FOLDERS] for step in _steps(process, place, looks, last=last)]
    return [Candidate(process, path, pid) for path, pid in places if pid is not None or "%p" not in pattern]


def _steps(
    process: ProcessOfInstance, place: tuple[str, int | None], looks: re.Pattern[str], *, last: bool
) -> Iterator[tuple[str, int | None]]:
    folder, pid = place
    try:
        listed = files_below.names_in(process.root, folder or "/")
    except OSError:
        return
    for name in listed:
        match = looks.fullmatch(name)
        if match is None or (match["rotated"] and not (last and ROTATED.fullmatch(match["rotated"]))):
            continue
        said = match.groupdict().get("pid")
        number = int(said) if said is not None else pid
        if pid is None or number == pid:
            yield f"{folder}/{name}", number
