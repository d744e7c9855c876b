"""An opening from what people and hooks have: a stop as the watch tells it, a verdict, a bundle, or a name. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rankmuster.incident.seen import Seen
from rankmuster.model.fault import Progress
from rankmuster.model.incident import OpenedBy, Opening
from rankmuster.report.inert import plain

STOP_SCHEMA = "rankmuster.stop/1"

LATE_SECONDS = 60.0
"""A stop that is told later than this is opened now: counted from its detection, the total deadline might have passed
before anything is done. Hooks come after the evidence and its diagnosis, half a minute after the detection."""

OLDEST_SECONDS = 86_400.0
"""What has become of an instance since an older stop nobody here knows."""

CLOCKS_DIFFER = 60.0
"""Seconds by which the clock of the watch's host may be ahead of this one's."""

MOST_REASON = 2_000
MOST_PIDS = 4_096


class NoOpening(Exception):
    """Nothing can be opened from it; the message says why and what is wanted."""


def from_stop(raw: object, host: str, now: float) -> Opening:
    """Of a hook's document (schema `rankmuster.stop/1`). `now`: unix seconds. Raises NoOpening."""
    if not isinstance(raw, Mapping) or raw.get("schema") != STOP_SCHEMA:
        said = raw.get("schema") if isinstance(raw, Mapping) else type(raw).__name__
        raise NoOpening(f"it is no stop as a hook gets it: its schema is {str(said)[:60]!r}, wanted is {STOP_SCHEMA!r}")
    watch = raw.get("watch")
    instance, incarnation = raw.get("instance"), raw.get("incarnation")
    if not isinstance(instance, str) or not instance or not isinstance(watch, Mapping):
        raise NoOpening("the stop names no instance, or does not say what the watch saw")
    try:
        progress = Progress(watch.get("progress"))
    except ValueError as error:
        raise NoOpening(f"the stop's progress is {str(watch.get('progress'))[:60]!r}, which is none") from error
    if progress not in (Progress.STOPPED, Progress.SLOW):
        raise NoOpening(f"its progress is {progress.value}: only what has stopped, or is slow, is a stop")
    verdict, bundle, deployment = raw.get("verdict"), raw.get("bundle"), raw.get("deployment")
    at, since = _when(raw, now)
    pids = raw.get("pids")
    return Opening(
        instance=instance,
        incarnation=incarnation if isinstance(incarnation, str) and incarnation else None,
        by=OpenedBy.SLOW if progress is Progress.SLOW else OpenedBy.STOPPED,
        progress=progress,
        at=at,
        since=since,
        reason=plain(str(watch.get("reason") or ""), MOST_REASON),
        host=plain(str(raw.get("host") or host), 255),
        deployment=deployment if isinstance(deployment, str) else None,
        pids=tuple(one for one in pids[:MOST_PIDS] if _pid(one)) if isinstance(pids, list) else (),
        bundle=bundle if isinstance(bundle, str) and bundle else None,
        verdict=verdict if isinstance(verdict, Mapping) else None,
    )


def by_hand(
    instance: str,
    *,
    now: float,
    host: str,
    seen: Seen | None,
    reason: str = "",
    bundle: str | None = None,
    verdict: Mapping[str, Any] | None = None,
    metrics_url: str | None = None,
) -> Opening:
    """By an operator. What the watch says now counts; without one it is what the verdict says, or unknown."""
    progress = Progress.UNKNOWN
    if seen is not None:
        progress = seen.progress
    elif verdict is not None:
        try:
            progress = Progress(verdict.get("progress"))
        except ValueError as error:
            raise NoOpening(
                f"the verdict's progress is {str(verdict.get('progress'))[:60]!r}, which is none"
            ) from error
    return Opening(
        instance=instance,
        incarnation=None if seen is None else seen.incarnation,
        by=OpenedBy.OPERATOR,
        progress=progress,
        at=now,
        since=None if seen is None else seen.since,
        reason=plain(reason, MOST_REASON) or "an operator asked for it",
        host=host,
        bundle=bundle,
        verdict=verdict,
        metrics_url=metrics_url,
    )


def _when(raw: Mapping[str, Any], now: float) -> tuple[float, float | None]:
    """From when the runbook's time counts, and since when the instance stands still. Raises NoOpening."""
    detected, since = _time(raw.get("detected_at")), _time(raw.get("since"))
    if detected is None:
        raise NoOpening("the stop does not say when it was detected (detected_at, unix seconds)")
    if detected > now + CLOCKS_DIFFER:
        raise NoOpening(
            f"the stop's detected_at ({detected:g}) is {detected - now:g} s after now: it is unix seconds, and the "
            "clocks of the hosts have to agree"
        )
    if now - detected > OLDEST_SECONDS:
        raise NoOpening(
            f"the stop was detected {now - detected:.0f} s ago, and nobody knows what has been since: "
            "leave --stop out, and what the watch says now counts"
        )
    if now - detected <= LATE_SECONDS:
        return detected, since
    return now, detected if since is None else min(since, detected)


def _time(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _pid(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 1 << 22
