"""From when to when each process of a log wrote stamped lines: proof that it was alive then.

Lines count that torch (glog), vLLM, SGLang, TensorRT-LLM or TGI stamped; a file of several ranks gives a span for each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins
from rankmuster.model.frameworklog import LogSpan
from rankmuster.model.plane import Plane

MAX_WRITERS = 4096
"""Writers followed in one file; the largest jobs that log into one file are below it."""

_STAMPED = re.compile(
    r"\[[IWEF]\d{3,4} \d\d:\d\d:\d\d|"
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d [\[\w]|"
    r"^[^\[]{0,60}\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: (?:DP|PP|TP|EP|ATTN_CP|MOE_DP)\d{1,5})|"
    r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[(?:TRT-LLM|TensorRT-LLM)\]|"
    r"^\d{4}-\d\d-\d\dT[\d:.]{8,20}Z {1,3}[A-Z]{4,5} .{0,80}?text_generation|"
    r'^\{"timestamp":"[^"]{1,60}","level"'
)
_STAMPED_BYTES = re.compile(_STAMPED.pattern.encode(), re.MULTILINE)
_WRITER = re.compile(
    r"\[rank\d{1,9}\]:|\([^()\s]{1,120}(?: rank=\d{1,9})? pid=\d{1,9}[^()]{0,90}\)|"
    r"\[[\d\- :.,]{19,32}(?P<parts>(?: [A-Z_]{2,8}\d{1,5}){1,8})\]|\[(?:MPI_Rank|RANK) \d{1,9}\]|\brank=\d{1,9}"
)
SEARCHED = 300
"""Characters of a line in which its stamp and writer are looked for."""


@dataclass
class _Writer:
    first: tuple[int, str]
    last: tuple[int, str]
    lines: int = 0


def read(blob: Blob) -> Reading:
    """A LogSpan for each rank (or for the file where no line names one), in order of their first lines."""
    writers: dict[str, _Writer] = {}
    for number, line in text.lines(blob.data):
        head = line[:SEARCHED]
        if not _STAMPED.search(head) or " NCCL " in head:
            continue
        named = _WRITER.search(head) or (_WRITER.search(line[-60:]) if "text_generation" in line else None)
        key = (named["parts"] or named.group(0)) if named else ""
        writer = writers.get(key)
        if writer is None:
            if len(writers) >= MAX_WRITERS:
                continue
            writer = writers[key] = _Writer((number, line), (number, line))
        writer.last = (number, line)
        writer.lines += 1
    return _spans(blob, writers)


def _spans(blob: Blob, writers: dict[str, _Writer]) -> Reading:
    origins = Origins(blob)
    spans: dict[int | None, LogSpan] = {}
    for writer in writers.values():
        first, prefix = origins.of(*writer.first)
        last, _ = origins.of(*writer.last)
        if first.stamp is None and last.stamp is None:
            continue
        span = LogSpan(blob.path, first.rank, writer.lines, first.stamp, last.stamp, prefix.engine)
        earlier = spans.get(first.rank)
        spans[first.rank] = span if earlier is None else _joined(earlier, span)
    known = sum(span.lines for span in spans.values())
    return Reading(tuple(spans.values()), (), known)


def _joined(a: LogSpan, b: LogSpan) -> LogSpan:
    firsts = [s for s in (a.first, b.first) if s is not None]
    lasts = [s for s in (a.last, b.last) if s is not None]
    # Stamps of different kinds cannot be ordered: those of the writer met first stay.
    comparable = len({s.kind for s in (*firsts, *lasts)}) == 1
    return LogSpan(
        a.source,
        a.rank,
        a.lines + b.lines,
        (min(firsts) if comparable else firsts[0]) if firsts else None,
        (max(lasts) if comparable else lasts[0]) if lasts else None,
        a.engine or b.engine,
    )


def _recognises(blob: Blob) -> bool:
    return text.is_text(blob.data) and _STAMPED_BYTES.search(text.seen(blob.data)) is not None


READER = Reader("log span", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
