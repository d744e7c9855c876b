"""`manifest.json` of a bundle (schema `rankmuster.bundle/1`) -> `ManifestFacts`.

`{"schema": "rankmuster.bundle/1", "files": {"flight/nccl_trace_rank_2": {"look_time": 1795986513.8, "rank": 2,
"host": "10.0.0.7", "sha256": "..."}}, "clock_offsets": {"10.0.0.7": -0.004}, "collectors": {"ras": "answered"}}`.
The maps `look_times`, `ranks`, `hosts` and `digests` may also stand alone, and `files` may be a list with `path`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from rankmuster.evidence import json_text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.instance import MAX_RANK
from rankmuster.evidence.json_fields import number, unix_seconds
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

_WINDOW = 65_536
_OWN = re.compile(rb'"schema"\s*:\s*"rankmuster\.bundle/|"(?:look_times|clock_offsets?|collectors)"\s*:')
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MAPS = {"look_times": "look_time", "ranks": "rank", "hosts": "host", "digests": "sha256", "sha256": "sha256"}


def recognises(blob: Blob) -> bool:
    """A JSON object with the bundle's schema, or with look times, clock offsets or collectors."""
    head = blob.data[:_WINDOW]
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and _OWN.search(head) is not None


def read(blob: Blob) -> Reading:
    """The facts, with paths as the sources of the other observations spell them: relative to the same root."""
    parsed = json_text.parse(blob.data, depth=3)
    if not isinstance(parsed.value, dict):
        message = f"begins like a manifest but cannot be read ({parsed.damage or 'not an object'})"
        return Reading(problems=(Problem(ProblemKind.DAMAGED, blob.path, message),))
    folder = blob.path[: max(blob.path.rfind("/"), blob.path.rfind("!")) + 1]
    look_times: dict[str, float] = {}
    ranks: dict[str, int] = {}
    hosts: dict[str, str] = {}
    digests: dict[str, str] = {}
    refused: list[str] = []
    for path, key, value in _entries(parsed.value):
        path = folder + path.removeprefix("./")
        rank = number(value, most=MAX_RANK) if key == "rank" else None
        time = unix_seconds(value) if key == "look_time" else None
        if time is not None:
            look_times[path] = time
        elif rank is not None:
            ranks[path] = rank
        elif key == "host" and isinstance(value, str):
            hosts[path] = value
        elif key == "sha256" and isinstance(value, str) and _SHA256.fullmatch(value.lower()):
            digests[path] = value.lower()
        elif value is not None:
            refused.append(f"{key} of {path} ({str(value)[:40]!r})")
    facts = ManifestFacts(
        source=blob.path,
        look_times=look_times,
        ranks=ranks,
        hosts=hosts,
        clock_offsets=_offsets(parsed.value, refused),
        outcomes=_outcomes(parsed.value, "outcome"),
        notes=_outcomes(parsed.value, "note"),
        digests=digests,
    )
    problems = []
    if parsed.damage:
        message = f"damaged ({parsed.damage}); what stands before was used"
        problems.append(Problem(ProblemKind.DAMAGED, blob.path, message))
    if refused:
        message = f"{len(refused)} field(s) of the wrong type were left out: " + "; ".join(refused[:3])
        problems.append(Problem(ProblemKind.CORRUPT, blob.path, message))
    return Reading((facts,), tuple(problems), 1)


def _entries(document: dict[str, object]) -> Iterator[tuple[str, str, object]]:
    """(path, field, value) of every shape in which a manifest speaks of its files."""
    for name, key in _MAPS.items():
        table = document.get(name)
        if isinstance(table, dict):
            yield from ((path, key, value) for path, value in table.items())
    files = document.get("files")
    if isinstance(files, dict):
        listed = list(files.items())
    elif isinstance(files, list):
        listed = [(entry.get("path"), entry) for entry in files if isinstance(entry, dict)]
    else:
        listed = []
    for path, entry in listed:
        if isinstance(path, str) and isinstance(entry, dict):
            for key in ("look_time", "rank", "host", "sha256"):
                yield path, key, entry.get(key)


def _offsets(document: dict[str, object], refused: list[str]) -> dict[str, float]:
    table = document.get("clock_offsets", document.get("clock_offset"))
    offsets: dict[str, float] = {}
    for host, value in table.items() if isinstance(table, dict) else ():
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            offsets[host] = float(value)
        else:
            refused.append(f"clock offset of {host} ({str(value)[:40]!r})")
    return offsets


def _outcomes(document: dict[str, object], key: str) -> dict[str, str]:
    """Collector -> its `key`, from a map of objects (or of texts, the outcomes), or a list of objects with `name`."""
    table = document.get("outcomes", document.get("collectors"))
    if isinstance(table, list):
        table = {str(entry.get("name")): entry for entry in table if isinstance(entry, dict)}
    outcomes: dict[str, str] = {}
    for name, value in table.items() if isinstance(table, dict) else ():
        said = value.get(key) if isinstance(value, dict) else value if key == "outcome" else None
        if said is not None:
            outcomes[name] = str(said)
    return outcomes


READER = Reader("manifest.json", Plane.PLATFORM, ReaderKind.DOCUMENT, recognises, read)
