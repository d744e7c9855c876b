"""TensorRT-LLM's JSON `GET /metrics` (a drained list of iteration statistics) -> `EnginePage`.

`[{"iter": 154, "iterLatencyMS": 7.0, "numActiveRequests": 1, "numQueuedRequests": 0, "kvCacheStats": {...}}, ...]`,
trtllm-serve with `enable_iter_perf_stats: true`. A read empties the list: with a second reader `iter` has gaps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rankmuster.evidence import json_text, names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.engine_page import SINGLE
from rankmuster.evidence.engine_table import TENSORRT_LLM
from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

_ITERATION = re.compile(rb'"iter"\s*:\s*\d')
_SIBLING = re.compile(rb'"(?:iterLatencyMS|numActiveRequests|kvCacheStats|inflightBatchingStats)"')
_WINDOW = 65_536
"""Bytes looked at by the recogniser; one item with all of its statistics is about 2 KiB."""


def recognises(blob: Blob) -> bool:
    """A JSON list or object with `iter` and one of its siblings near the start."""
    head = blob.data[:_WINDOW]
    return (
        head.lstrip()[:1] in (b"[", b"{") and _ITERATION.search(head) is not None and _SIBLING.search(head) is not None
    )


def _number(item: Mapping[str, object], key: str) -> float | None:
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def read(blob: Blob) -> Reading:
    """One page: the newest iteration of the list, at the time of the file's name (the scrape, not the iteration)."""
    parsed = json_text.parse(blob.data, depth=1)
    items = parsed.value if isinstance(parsed.value, list) else [parsed.value]
    iterations = [item for item in items if isinstance(item, dict) and _number(item, "iter") is not None]
    problems = []
    if parsed.damage or len(iterations) < len(items):
        message = f"iteration statistics are damaged ({parsed.damage or 'an item without iter'}); "
        problems.append(Problem(ProblemKind.DAMAGED, blob.path, message + f"{len(iterations)} item(s) were used"))
    if not iterations:
        return Reading(problems=tuple(problems))
    newest = max(iterations, key=lambda item: _number(item, "iter") or 0.0)
    cache = newest.get("kvCacheStats")
    gauges = {
        "iterLatencyMS": _number(newest, "iterLatencyMS"),
        "kvCacheStats.usedNumBlocks": _number(cache, "usedNumBlocks") if isinstance(cache, dict) else None,
    }
    stream = EngineStream(
        key=SINGLE,
        running=_number(newest, "numActiveRequests"),
        waiting=_number(newest, "numQueuedRequests"),
        steps={"iter": _number(newest, "iter") or 0.0},
        ends={},
        gauges={name: value for name, value in gauges.items() if value is not None},
    )
    page = EnginePage(blob.path, names.time_of(blob.path), TENSORRT_LLM.name, (stream,))
    return Reading((page,), tuple(problems), len(iterations))


READER = Reader("engine iterations", Plane.ENGINE, ReaderKind.DOCUMENT, recognises, read)
