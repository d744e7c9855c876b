"""Versions of torch and NCCL as people write them, compared as integers ("2.10" is newer than "2.9")."""

from __future__ import annotations

import re

Version = tuple[int, ...]

OLDEST_TORCH: Version = (2, 2)
NEWEST_TORCH: Version = (2, 15)
OLDEST_NCCL: Version = (2, 18)
NEWEST_NCCL: Version = (2, 32)
"""What the table of variables was made for. Outside of it the nearest end is used, and said."""

ASSUMED_TORCH: Version = (2, 13)
ASSUMED_NCCL: Version = (2, 28, 9)
"""Used where nobody said which version runs; every answer that rests on it says so."""

_WRITTEN = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?(?:[.+\-_a-z].{0,60})?", re.IGNORECASE)
_CODE = re.compile(r"\d{4,6}")


def parse_version(text: str) -> Version:
    """`2.11`, `2.11.0+cu128`, `2.9.0a0+git1234`, `v2.28.9-1`, and NCCL's own number 22809 -> (2, 28, 9).

    Raises ValueError with the text that was not understood.
    """
    text = text.strip()
    if _CODE.fullmatch(text):  # X*10000 + Y*100 + Z since 2.9, X*1000 + Y*100 + Z before
        code = int(text)
        if code >= 10_000:
            return (code // 10_000, code // 100 % 100, code % 100)
        return (code // 1000, code // 100 % 10, code % 100)
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no version; write it like 2.11 or 2.28.9")
    return tuple(int(part) for part in match.groups() if part is not None)


def written(version: Version) -> str:
    """(2, 28, 9) -> `2.28.9`."""
    return ".".join(str(part) for part in version)


def at_least(version: Version, bound: Version) -> bool:
    """Whether `version` is `bound` or newer; 2.11 stands for all of 2.11.x."""
    return version[: len(bound)] >= bound


def at_most(version: Version, bound: Version) -> bool:
    """Whether `version` is `bound` or older; a bound of 2.10 includes 2.10.x."""
    return version[: len(bound)] <= bound
