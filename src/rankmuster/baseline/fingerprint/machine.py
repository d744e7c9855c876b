"""Whether two fingerprints are of one machine: what names it stands for itself, not as a difference of every part."""

from __future__ import annotations

from rankmuster.baseline.fingerprint.leaves import Leaf

_NAMES = ("uuid", "guid")
_WHERE = ("bus_id", "address", "netdev")
MACHINE = "machine"


def without_who(one: dict[str, Leaf], other: dict[str, Leaf]) -> tuple[dict[str, Leaf], dict[str, Leaf]]:
    """Both without names and addresses, and with `machine` in their place, where they have no name in common."""
    mine, theirs = _named(one), _named(other)
    if not mine or not theirs or mine & theirs:
        return one, other
    return _without(one) | {MACHINE: _few(mine)}, _without(other) | {MACHINE: _few(theirs)}


def _named(leaves: dict[str, Leaf]) -> set[str]:
    return {
        value
        for path, value in leaves.items()
        if path.startswith(("gpus/", "nics/")) and path.rpartition("/")[2] in _NAMES and isinstance(value, str)
    }


def _without(leaves: dict[str, Leaf]) -> dict[str, Leaf]:
    return {
        path: value
        for path, value in leaves.items()
        if not (path.startswith(("gpus/", "nics/")) and path.rpartition("/")[2] in (*_NAMES, *_WHERE))
    }


def _few(names: set[str]) -> str:
    first = min(names)
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"
