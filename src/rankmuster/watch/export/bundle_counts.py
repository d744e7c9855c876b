"""What a bundle of a stop adds to the counters, worked out in a process of its own: `python -m <this module> BUNDLE`.

Reading a bundle takes hundreds of megabytes for a moment, which the watch, small as it is to be, would not give back.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from rankmuster.watch.signals.signal import Counted

MOST_BYTES = 1 << 20
"""Of the answer: thirteen classes of at most some hundreds of values each are 100 KB."""

MODULE = "rankmuster.watch.export.bundle_counts"


@dataclass(frozen=True, slots=True)
class BundleCounts:
    """`calls`: as `flight_calls` has them. `asked`, `taken`: Flight Recorder dumps, by this collection."""

    calls: tuple[Counted, ...] = ()
    asked: int = 0
    taken: int = 0


def command(bundle: Path) -> tuple[str, ...]:
    """What to run, in `/` (a working folder is searched for modules first); its output is for `read`."""
    return (sys.executable, "-m", MODULE, str(bundle))


def count(bundle: Path) -> BundleCounts:
    """Reads the bundle. Raises what `evidence.bundle.load` does."""
    from rankmuster.evidence.bundle import load
    from rankmuster.model.flight import DumpRequest, FlightDump
    from rankmuster.watch.export.flight_calls import flight_calls

    evidence = load(bundle)
    return BundleCounts(tuple(flight_calls(evidence)), len(evidence.of(DumpRequest)), len(evidence.of(FlightDump)))


def write(counts: BundleCounts) -> str:
    """As JSON; a duration that nobody measured is null."""
    calls = [
        {
            "what": one.what,
            "labels": dict(one.labels),
            "values": [value if math.isfinite(value) else None for value in one.values],
            "counts": list(one.counts),
        }
        for one in counts.calls
    ]
    return json.dumps({"calls": calls, "asked": counts.asked, "taken": counts.taken}, allow_nan=False)


def read(text: str | bytes) -> BundleCounts:
    """The answer of the other process. Raises ValueError where it is none."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"the counts of a bundle have {len(text)} bytes; at most {MOST_BYTES} are read")
    try:
        found = json.loads(text)
        calls = tuple(
            Counted(
                str(one["what"]),
                tuple((str(name), str(value)) for name, value in one["labels"].items()),
                tuple(math.nan if value is None else float(value) for value in one["values"]),
                tuple(float(value) for value in one["counts"]),
            )
            for one in found["calls"]
        )
        return BundleCounts(calls, int(found["asked"]), int(found["taken"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"these are no counts of a bundle ({type(error).__name__}: {error})") from error


def main(arguments: list[str]) -> int:
    """Prints the counts; 3 where the bundle cannot be read."""
    from rankmuster.evidence.folder import EvidenceError

    if len(arguments) != 1:
        sys.stderr.write(f"usage: python -m {MODULE} BUNDLE\n")
        return 3
    try:
        counts = count(Path(arguments[0]))
    except (EvidenceError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 3
    sys.stdout.write(write(counts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
