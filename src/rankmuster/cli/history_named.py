"""What a person names in a history: times, classes by their first digits, profiles by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timezone

from rankmuster.cli.status import CommandError

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
EARLIEST = 1_262_304_000.0
"""2010-01-01 in unix seconds: before any GPU that NCCL runs on (its first release is of 2015)."""

CLOCKS_DIFFER_S = 86_400.0
"""Seconds that a node's clock, or a time zone that nobody named, may be ahead of this machine's."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def length(text: str, option: str) -> float:
    """Seconds of `90d`, `12h`. Raises CommandError."""
    found = _LENGTH.fullmatch(text.strip())
    if found is None:
        raise CommandError(f"{option} {text[:100]!r} is no length of time: give 90d, 12w or 36h")
    return float(found[1]) * _SECONDS[found[2]]


def moment(text: str, option: str, now: float) -> float:
    """Unix seconds of `30d` (ago), `2026-11-03`, `2026-11-03T14:00`, or unix seconds; without a zone it is UTC.

    Raises CommandError.
    """
    given = text.strip()
    if _LENGTH.fullmatch(given):
        found_at = now - length(given, option)
        if found_at < 0:
            raise CommandError(f"{option} {text[:100]!r} is before 1970; give 30d, or a date")
        return found_at
    if re.fullmatch(r"\d{9,11}(\.\d+)?", given):
        return float(given)
    try:
        found = datetime.fromisoformat(given.replace("Z", "+00:00"))
    except ValueError:
        raise CommandError(f"{option} {text[:100]!r} is no time: give 30d, 2026-11-03 or 2026-11-03T14:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


def check_measured_at(at: float, what: str, now: float) -> None:
    """Raises CommandError for a time at which nothing was measured: before GPUs that NCCL runs on, or to come."""
    if at < EARLIEST:
        raise CommandError(
            f"{what} is before 2010, and nothing of this ran then: a clock that was not set, or another unit"
        )
    if at > now + CLOCKS_DIFFER_S:
        raise CommandError(f"{what} has not come yet: a clock that is wrong, or another unit than seconds")


def class_named(known: Iterable[str], given: str) -> str:
    """The class whose hash begins like this. Raises CommandError for none or several."""
    digits = given.removeprefix("sha256:")
    found = sorted({one for one in known if one == given or one.removeprefix("sha256:").startswith(digits)})
    return _only(found, "class", given)


def profile_named(known: Iterable[str], given: str) -> str:
    """The series of results with this key (`links@0123456789ab/built-in/8`), or a part of it that only one has: the
    profile's name or its own key, with the tool and the number of GPUs or without. Raises CommandError."""
    found = sorted({one for one in known if is_named(one, given)})
    return _only(found, "profile", given)


def is_named(key: str, given: str) -> bool:
    """Whether a series of results goes by this name, or a part of its key."""
    profile, *rest = key.split("/")
    wanted, *of = given.split("/")
    if wanted not in (profile, profile.partition("@")[0]):
        return False
    return of == rest[: len(of)] or of == rest[1:]  # the number of GPUs alone says it too: links/8


def _only(found: list[str], what: str, given: str) -> str:
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandError(f"{given!r} is not one {what} but {len(found)}: {', '.join(found[:5])}; say more of it")
    raise CommandError(f"the history has no {what} {given!r}; `rankmuster history show` lists what there is")
