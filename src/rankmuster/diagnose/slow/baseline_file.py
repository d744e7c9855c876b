"""The baseline as a file (schema `rankmuster.flight-baseline/1`): written small, read as if anybody had written it."""

from __future__ import annotations

import json
import math
from itertools import pairwise

from rankmuster.diagnose.slow.baseline import MOST_WINDOWS
from rankmuster.evidence.json_text import parse
from rankmuster.model.plain_json import Bounds, NotPlain, from_plain, to_plain
from rankmuster.model.slow import GRID
from rankmuster.model.slow_baseline import SCHEMA, Baseline, Sample

MOST_BYTES = 64 << 20
"""Of a file that is read: 16 windows of thousands of kinds are a tenth of it."""

_BOUNDS = Bounds(text=4096, members=100_000)

_LONGEST_MS = 1e9
"""Eleven days: what takes longer is no collective."""


class BaselineDamaged(ValueError):
    """The file is no baseline that can be used; the message says what is wrong with it and what to do."""


def dumps(baseline: Baseline) -> bytes:
    """JSON, ASCII, ending with a line feed; the same baseline gives the same bytes."""
    return (json.dumps(to_plain(baseline, _BOUNDS), separators=(",", ":"), allow_nan=False) + "\n").encode("ascii")


def loads(data: bytes, name: str = "the baseline") -> Baseline:
    """The baseline in a file's bytes. `name`: what messages call it. Raises BaselineDamaged."""
    if len(data) > MOST_BYTES:
        raise _damaged(name, f"it has {len(data)} bytes, more than {MOST_BYTES}")
    parsed = parse(data)
    if parsed.damage is not None:
        raise _damaged(name, f"it is no whole JSON document ({parsed.damage})")
    said = parsed.value.get("schema") if isinstance(parsed.value, dict) else None
    if said != SCHEMA:
        raise _damaged(name, f"its schema is {str(said)[:60]!r}, not {SCHEMA!r}")
    try:
        baseline = from_plain(Baseline, parsed.value, _BOUNDS)
    except NotPlain as error:
        raise _damaged(name, str(error)) from None
    _check(baseline, name)
    return baseline


def _check(baseline: Baseline, name: str) -> None:
    if baseline.grid != GRID:
        raise _damaged(name, "its quantiles are at other probabilities, as another version wrote them")
    if not baseline.windows or len(baseline.windows) > MOST_WINDOWS:
        raise _damaged(name, f"it has {len(baseline.windows)} windows, not 1 to {MOST_WINDOWS}")
    for window in baseline.windows:
        if not 0 <= window.start <= window.end:
            raise _damaged(name, f"a window ends before it starts ({window.start} to {window.end})")
        if not all(rank.isdecimal() and 0 <= share <= math.inf for rank, share in window.waited.items()):
            raise _damaged(name, "its shares of waiting are not of ranks")
    if len({one.key for one in baseline.operations}) != len(baseline.operations):
        raise _damaged(name, "it holds one kind of collective twice")
    for history in baseline.operations:
        what = f"{history.key.op} of {history.key.role}"
        if not len(history.transfer) == len(history.wait) <= MOST_WINDOWS:
            raise _damaged(name, f"{what} has {len(history.transfer)} and {len(history.wait)} samples")
        for one in (*history.transfer, *history.wait):
            if not _sound(one):
                raise _damaged(name, f"a distribution of {what} is none: its quantiles must be as many, and ascend")


def _sound(one: Sample) -> bool:
    if one.n < 1 or len(one.grid) != len(GRID) or not one.grid[0] >= 0 or one.grid[-1] > _LONGEST_MS:
        return False
    if any(after < before for before, after in pairwise(one.grid)):
        return False
    return 0 <= one.lowest_median <= one.highest_median <= _LONGEST_MS


def _damaged(name: str, what: str) -> BaselineDamaged:
    return BaselineDamaged(f"{name} cannot be used as a baseline: {what[:400]}; save a new one")
