"""`nvidia-smi nvlink -s` (`--status`): the speed of every NVLink of every GPU, or the complaint that there is none."""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.pci import ADDRESS, bus_id
from rankmuster.evidence.smi_text import prompt_host
from rankmuster.evidence.text import head, lines
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.topology import NvlinkStatus

MAX_LINKS = 256
"""Link numbers beyond are damage; NVML's header has room for 36."""

_GPU = re.compile(r"^\s*GPU (\d{1,4}|" + ADDRESS + r"): .{0,200}?\(UUID: ([\w\-]{1,80})\)")
_LINK = re.compile(r"^\s*Link (\d{1,6}): (?:(\d{1,6}(?:\.\d{1,6})?) GB/s|<([\w ]{1,32})>)\s*$")
_CANNOT = re.compile(r"Unable to retrieve NVLink information")
_OF_GPU = re.compile(rf"\bGPU ({ADDRESS}|\d{{1,4}}(?![:\w]))")
_SIGN = re.compile(
    r"^\s*Link \d{1,6}: (?:\d{1,6}(?:\.\d{1,6})? GB/s|<[\w ]{1,32}>)\s*$|Unable to retrieve NVLink information", re.M
)


def _recognises(blob: Blob) -> bool:
    return _SIGN.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    found: list[NvlinkStatus] = []
    problems: list[Problem] = []
    host = names.host_of(blob.path)
    gpu: tuple[str, str | None] | None = None
    links: dict[int, float | None] = {}
    notes: list[str] = []
    known = odd = 0

    def close() -> None:
        if gpu is not None:
            speeds = tuple(links.get(i) for i in range(max(links, default=-1) + 1))
            found.append(NvlinkStatus(blob.path, host, gpu[0], gpu[1], speeds, "; ".join(notes) or None))

    for _, line in lines(blob.data):
        heading = _GPU.match(line)
        link = None if heading else _LINK.match(line)
        if heading:
            close()
            gpu, links, notes = (_name(heading.group(1)), heading.group(2)), {}, []
            known += 1
        elif link:
            number, speed, word = link.groups()
            if gpu is None or int(number) >= MAX_LINKS:
                odd += 1
                continue
            links[int(number)] = float(speed) if speed else None
            if word and word.lower() != "inactive" and word not in notes:
                notes.append(word)  # e.g. sleep: not in use, and not down
            known += 1
        elif _CANNOT.search(line):
            named = _OF_GPU.search(line)
            if named or gpu is None:
                close()
                gpu, links, notes = (_name(named.group(1)) if named else "", None), {}, []
            notes.append(line.strip())
            known += 1
        elif "$" in line:
            host = prompt_host(line) or host
    close()
    if odd:
        message = f"{odd} link lines belong to no GPU of this text or have impossible numbers; the others were used"
        problems.append(Problem(ProblemKind.DAMAGED, blob.path, message))
    return Reading(tuple(found), tuple(problems), known)


def _name(said: str) -> str:
    return said if said.isdigit() else bus_id(said) or said


READER = Reader("nvidia-smi-nvlink", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
