"""Which lines of a text hold one of some words: found by searching, so that a log without them costs little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType


def with_any(
    lowered: bytes, needles: Iterable[bytes], but_before: Mapping[bytes, bytes] = MappingProxyType({})
) -> list[tuple[int, int]]:
    """(start, end) of each line that holds one of `needles`, in order, without its line end.

    `but_before`: needles that do not count when one of these bytes follows (`token`, but not `tokens`).

    `lowered`, `needles`: in lower case. Linear: of each line and needle at most one place is looked at.
    """
    starts: dict[int, int] = {}
    for needle in needles:
        at = lowered.find(needle)
        skipped = but_before.get(needle, b"")
        while at >= 0:
            behind = lowered[at + len(needle) : at + len(needle) + 1]
            if behind and behind in skipped:
                at = lowered.find(needle, at + len(needle))
                continue
            end = lowered.find(b"\n", at)
            end = len(lowered) if end < 0 else end
            starts[lowered.rfind(b"\n", 0, at) + 1] = end
            at = lowered.find(needle, end)
    return sorted(starts.items())


def edit(data: bytes, spans: Iterable[tuple[int, int]], change: Callable[[bytes], bytes]) -> bytes:
    """`data` with each of these lines changed."""
    pieces: list[bytes] = []
    at = 0
    for start, end in spans:
        line = data[start:end]
        changed = change(line)
        if changed != line:
            pieces += (data[at:start], changed)
            at = end
    return b"".join(pieces) + data[at:] if pieces else data
