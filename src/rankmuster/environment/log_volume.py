"""How much NCCL and the framework log: once per start, and per hour of running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rankmuster.environment import costs
from rankmuster.environment.calibrated import Grounds, Value

if TYPE_CHECKING:
    from rankmuster.environment.recorded import LogVolume, Recorded

LEAST_SECONDS = 5.0
"""A log must span so much after its init: stamps are whole seconds, and one line more or less is a rate of its own."""
HOUR = 3600


def volumes(bundles: Sequence[Recorded]) -> tuple[Value, Value]:
    """NCCL's and the framework's, for all processes of the instance together; the worst bundle counts."""
    return (
        _volume(bundles, "nccl_log_bytes_per_hour", lambda log: log.nccl, "NCCL_DEBUG_FILE logs"),
        _volume(bundles, "framework_log_bytes_per_hour", lambda log: not log.nccl, "framework logs with stamped lines"),
    )


def _volume(bundles: Sequence[Recorded], name: str, ours: Callable[[LogVolume], bool], what: str) -> Value:
    every = [[log for log in bundle.logs if ours(log)] for bundle in bundles]
    usable = [[log for log in logs if log.seconds >= LEAST_SECONDS] for logs in every]
    starts = max((sum(log.start_bytes for log in logs) for logs in every), default=0.0)
    once = f"; {costs.size_text(starts)} more at every start" if starts else ""
    if not any(usable):
        logs = sum(map(len, every))
        longest = max((log.seconds for logs in every for log in logs), default=0.0)
        return Value(
            name, None, "bytes per hour", Grounds.UNDECIDED,
            f"{logs} {what}, the longest over {longest:.0f} s after its init{once}",
            missing=f"logs that span {LEAST_SECONDS:g} s or more of serving",
            to_set=False,
        )  # fmt: skip
    # processes whose log is too short write as much as the others, until something else is known
    hourly, count, files = max(
        (sum(log.bytes / log.seconds for log in good) / len(good) * len(logs) * HOUR, len(good), len(logs))
        for good, logs in zip(usable, every, strict=True)
        if good
    )
    return Value(
        name, round(hourly), "bytes per hour", Grounds.MEASURED,
        f"{count} of {files} {what} of one bundle, {sum(map(len, usable))} in all{once}{_level(bundles, name)}",
        sum(map(len, usable)),
        f"{costs.size_text(hourly * 24)} a day for the whole instance",
        to_set=False,
    )  # fmt: skip


def _level(bundles: Sequence[Recorded], name: str) -> str:
    """What was logged, since it is what decides."""
    words = sorted({b.environment["NCCL_DEBUG_SUBSYS"] for b in bundles if "NCCL_DEBUG_SUBSYS" in b.environment})
    if not name.startswith("nccl") or not words:
        return ""
    return "; logged was " + " and ".join(words[:2])
