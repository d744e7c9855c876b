"""How many entries the ring needs for a window, how large a dump gets, how long it takes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rankmuster.environment import costs
from rankmuster.environment.calibrated import Grounds, Value
from rankmuster.environment.values import read_flag
from rankmuster.environment.version import Version, at_least

if TYPE_CHECKING:
    from rankmuster.environment.recorded import Recorded, Ring

LEAST_ENTRIES = 100
"""Entries of a ring from which its rate is taken: fewer are the start of a job, not its load."""
LEAST_SPAN = 0.1
"""Seconds that they must span: stamps of the host are good to microseconds, its scheduling to tens of milliseconds."""
FLOOR = 2000
"""Entries; torch's own default since 2.11. Less saves nothing that matters."""
MOST = 1_000_000
"""Entries; a dump of 115 MB a rank, without stacks. Larger windows need another tool than a ring in memory."""
STEP = 500
MARGIN = 1.2
"""The busiest rank recorded is hardly the busiest that will ever be; a fifth more."""
SLOWEST_STACKS = 15.0
"""Seconds that a dump with stacks may take: one attempt of torch's (15 s). Beyond it stacks are switched off."""


def ring(bundles: Sequence[Recorded], window: float, torch: Version) -> tuple[Value, bool]:
    """(the ring's size, whether stacks may stay on). The busiest rank of any bundle counts."""
    both = at_least(torch, (2, 8))
    names = ["TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"] if both else ["TORCH_NCCL_TRACE_BUFFER_SIZE"]
    rates = _rates(bundles)
    if not rates:
        held = max((ring.entries for bundle in bundles for ring in bundle.rings), default=0)
        return (
            Value(
                "ring_entries", None, "entries", Grounds.UNDECIDED,
                f"no rank left {LEAST_ENTRIES} entries over {LEAST_SPAN:g} s (the most were {held})",
                missing="dumps of an instance under its ordinary load (`rankmuster collect --dumps always`)",
            ),
            True,
        )  # fmt: skip
    rate, how = max(rates)
    wanted = math.ceil(rate * window * MARGIN / STEP) * STEP
    entries = min(max(FLOOR, wanted), MOST)
    stacks = costs.dump_seconds(entries, stacks=True) <= SLOWEST_STACKS
    spans = [ring.span for bundle in bundles for ring in bundle.rings if ring.full]
    now = f"; the rings now hold {min(spans):.2g} to {max(spans):.2g} s" if spans else ""
    cut = f"; {wanted} entries were needed, which is more than {MOST}" if wanted > MOST else ""
    return (
        Value(
            name="ring_entries",
            number=entries,
            unit="entries",
            grounds=Grounds.FLOOR if entries == FLOOR and wanted < FLOOR else Grounds.MEASURED,
            basis=f"{window:g} s at {rate:.0f} entries a second ({how}), with a margin of {MARGIN:g}{now}{cut}",
            samples=len(rates),
            cost=costs.RECORDING,
            variables=tuple((name, str(entries)) for name in names)
            + (() if stacks else (("TORCH_INCLUDE_STACK_TRACE", "0"),) if at_least(torch, (2, 5)) else ()),
        ),
        stacks,
    )


def _rates(bundles: Sequence[Recorded]) -> list[tuple[float, str]]:
    rates = []
    for bundle in bundles:
        for one in bundle.rings:
            if one.entries >= LEAST_ENTRIES and one.span >= LEAST_SPAN and one.rate is not None:
                rates.append((one.rate, f"rank {one.rank if one.rank is not None else '?'}, over {one.span:.2g} s"))
    return [*rates, *_between_looks(bundles)]


def _between_looks(bundles: Sequence[Recorded]) -> list[tuple[float, str]]:
    """Two dumps of one process: record numbers count everything that it ever enqueued, so the time between counts."""
    looks: dict[tuple[object, ...], list[Ring]] = defaultdict(list)
    for bundle in bundles:
        if bundle.instance[0] is not None and bundle.instance[1] is not None:  # else it may be another start
            for one in bundle.rings:
                if one.rank is not None and one.newest_ns:
                    looks[(bundle.instance, one.rank)].append(one)
    rates = []
    for key, rings in sorted(looks.items(), key=str):
        rings.sort(key=lambda one: one.newest_ns)
        for before, after in pairwise(rings):
            seconds = (after.newest_ns - before.newest_ns) / 1e9
            count = after.newest_record - before.newest_record
            if seconds > LEAST_SPAN and count > LEAST_ENTRIES:
                rates.append((count / seconds, f"rank {key[-1]}, between two looks {seconds:.0f} s apart"))
    return rates


def dump(rings: Sequence[Ring], size: Value, *, stacks: bool) -> tuple[Value, Value]:
    """Size in bytes and time in seconds of one rank's dump."""
    if size.number is None:
        missing = "the ring's size"
        return (
            Value("dump_bytes", None, "bytes per rank", Grounds.UNDECIDED, "the ring is undecided", missing=missing),
            Value("dump_seconds", None, "s per rank", Grounds.UNDECIDED, "the ring is undecided", missing=missing),
        )
    entries = int(size.number)
    each = [one.bytes / one.entries for one in rings if one.bytes and one.entries >= LEAST_ENTRIES
            and one.stacks == stacks]  # fmt: skip
    kind = "with" if stacks else "without"
    if each:
        grounds, per = Grounds.MEASURED, float(np.median(each))
        basis = f"{per:.0f} bytes an entry {kind} stacks, the median of {len(each)} dumps"
    else:
        grounds, per = Grounds.CONSTANT, costs.dump_bytes(1, stacks=stacks)
        basis = f"{per} bytes an entry {kind} stacks, as no such dump was given (constant: torch 2.13)"
    timed = [one.took / one.entries for one in rings if one.took and one.entries >= LEAST_ENTRIES
             and one.stacks == stacks]  # fmt: skip
    if timed:
        how, seconds = Grounds.MEASURED, float(np.median(timed)) * entries
        source = (
            f"the median of {len(timed)} dumps, from the request to the file (the pipe is looked into every second)"
        )
    else:
        how, seconds = Grounds.CONSTANT, costs.dump_seconds(entries, stacks=stacks)
        source = "constant: torch 2.13, two slow cores"
    return (
        Value("dump_bytes", round(per * entries), "bytes per rank", grounds, basis, len(each),
              f"{costs.size_text(per * entries)} on the disk per rank and look"),
        Value("dump_seconds", round(seconds, 3), "s per rank", how,
              f"{kind} stacks, {seconds / entries * 1e6:.3g} µs an entry ({source})", len(timed),
              "Python stands still meanwhile" if stacks else "no interpreter lock is needed"),
    )  # fmt: skip


def cpp_stacks(bundles: Sequence[Recorded]) -> Value:
    """C++ frames: only bundles with and without them tell."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for bundle in bundles:
        setting = bundle.environment.get("TORCH_FR_CPP_STACK", bundle.environment.get("TORCH_NCCL_TRACE_CPP_STACK"))
        on = read_flag(setting) if setting is not None else None
        if on is not None:
            found[on] += [one.bytes / one.entries for one in bundle.rings
                          if one.bytes and one.stacks and one.entries >= LEAST_ENTRIES]  # fmt: skip
    if not found[True] or not found[False]:
        return Value(
            "cpp_stack_bytes", None, "bytes per entry", Grounds.UNDECIDED,
            f"{len(found[True])} dumps with C++ frames and {len(found[False])} without, known to be so",
            missing="bundles of one load with TORCH_FR_CPP_STACK=1 and with 0; leave it at 0 until then",
            to_set=False,
        )  # fmt: skip
    more = float(np.median(found[True]) - np.median(found[False]))
    return Value(
        "cpp_stack_bytes", round(more), "bytes per entry", Grounds.MEASURED,
        f"{np.median(found[True]):.0f} bytes an entry with C++ frames, {np.median(found[False]):.0f} without",
        len(found[True]) + len(found[False]),
        "symbolising them is slower still, and was not measured",
        to_set=False,
    )  # fmt: skip
