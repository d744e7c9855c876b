"""What differs between two fingerprints, in words, most consequential first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rankmuster.baseline.fingerprint.effects import ADMISSION, BASELINE, KNOWN, PROFILE, Difference, Rule, Weight
from rankmuster.baseline.fingerprint.leaves import Leaf, leaves_of
from rankmuster.baseline.fingerprint.machine import without_who
from rankmuster.baseline.fingerprint.rules_gpus import RULES as GPU_RULES
from rankmuster.baseline.fingerprint.rules_nccl import RULES as NCCL_RULES
from rankmuster.baseline.fingerprint.rules_network import RULES as NETWORK_RULES
from rankmuster.baseline.fingerprint.rules_pcie import RULES as PCIE_RULES
from rankmuster.baseline.fingerprint.rules_software import RULES as SOFTWARE_RULES
from rankmuster.baseline.fingerprint.settings import NCCL_UNKNOWN
from rankmuster.model.fingerprint import Change, Fingerprint
from rankmuster.model.ranks_text import rank_ranges
from rankmuster.model.unknown import Unknown

RULES: tuple[Rule, ...] = (*PCIE_RULES, *GPU_RULES, *NETWORK_RULES, *SOFTWARE_RULES, *NCCL_RULES)
"""The whole table of effects, in the order in which rules are asked."""

ABSENT = "absent"
UNSET = "unset"
_UNKNOWN = "unknown ("
_MOST_NAMED = 4
"""Parts that a change names when several changed alike; the rest are counted."""

_SYS = "settings/sys.complete"
_NCCL = f"settings/{NCCL_UNKNOWN}"
_FOLLOW_FROM_SYS = ("topologyHash", "nicOrder", "settings/acs")
"""Not told of where the PCI tree was read on one side alone: they follow from that."""

_PARTS = ("gpus", "nics", "pci")

_REST = Rule("*", Weight.NOTE, "", "no effect on NCCL is known")


def changes(before: Fingerprint, after: Fingerprint) -> tuple[Change, ...]:
    """What differs and what that does to NCCL's choices, most consequential first; changes alike are one.

    What is unknown on a side is a change that nobody can decide; unknown on both it is told of where the class hash is
    over it, for it equals nothing. Empty: everything that is known of both is the same.
    """
    one, other = without_who(leaves_of(before), leaves_of(after))
    groups: dict[tuple[object, ...], list[tuple[Difference, Rule]]] = {}
    for difference in _differences(before, after, one, other):
        rule = next((rule for rule in RULES if rule.fits(difference)), _REST)
        stem, _ = _parted(difference.path)
        key = (stem, _told(difference, difference.before), _told(difference, difference.after), rule.pattern)
        groups.setdefault(key, []).append((difference, rule))
    same_class = before.class_hash == after.class_hash  # never of unknown ones
    found = [(_weight(members[0]), _change(members, same_class)) for members in groups.values()]
    found.sort(key=lambda one: (one[0], one[1].applies, one[1].part))
    return tuple(change for _, change in found)


def applies(found: Sequence[Change]) -> bool:
    """Whether results from before can still be compared with: whether every change leaves them standing."""
    return all(change.applies for change in found)


def regenerate(found: Sequence[Change]) -> tuple[str, ...]:
    """What has to be measured anew, each once, in the order of the changes."""
    return tuple(dict.fromkeys(what for change in found for what in change.regenerate))


def undecided(change: Change) -> bool:
    """Whether it cannot be told if this changed, since a side is unknown."""
    return change.before.startswith(_UNKNOWN) or change.after.startswith(_UNKNOWN)


def _differences(
    before: Fingerprint, after: Fingerprint, one: dict[str, Leaf], other: dict[str, Leaf]
) -> Iterator[Difference]:
    follows = _following(one, other)
    unread = {path for leaves in (one, other) for path, value in leaves.items() if isinstance(value, Unknown)}
    for path in dict.fromkeys([*one, *other]):
        difference = Difference(path, one.get(path), other.get(path), before, after)
        if _wholes(path) & unread:
            continue  # the part as a whole is unknown on a side, which is said of that part
        if path.startswith("nccl_view/") and (difference.before is None or difference.after is None):
            continue  # a benchmark ran on one side alone, or measured another size
        if (path not in one or path not in other) and _said_elsewhere(path, one, other):
            continue
        if path in follows:
            continue
        both_unknown = isinstance(difference.before, Unknown) and isinstance(difference.after, Unknown)
        if both_unknown and not difference.of_class:
            continue
        if both_unknown or difference.before != difference.after:
            yield difference


def _following(one: dict[str, Leaf], other: dict[str, Leaf]) -> tuple[str, ...]:
    """Paths that another difference speaks for."""
    if isinstance(one["pci"], Unknown) is isinstance(other["pci"], Unknown):
        return ()
    said = (one.get(_SYS), other.get(_SYS))
    known = not any(isinstance(value, Unknown) for value in said) and said[0] != said[1]
    return (*_FOLLOW_FROM_SYS, "pci" if known else _SYS)


def _wholes(path: str) -> set[str]:
    """What the path is a part of."""
    parts = path.split("/")
    found = {"/".join(parts[:number]) for number in range(1, len(parts))}
    if path.startswith("bridges/") or _of_nics_link(path):
        found.add("pci")
    if path.startswith(("settings/NCCL_", "nccl_settings/")):
        found.add(_NCCL)
    return found - {path}


def _of_nics_link(path: str) -> bool:
    return path.startswith("nics/") and "/pcie/" in path


def _said_elsewhere(path: str, one: dict[str, Leaf], other: dict[str, Leaf]) -> bool:
    """Whether a fact is absent on a side because the device is, which is said of the device as a whole."""
    if path.startswith("container/") or (path.count("/") > 1 and path.startswith(("bridges/", "matrices/"))):
        return True
    if _of_nics_link(path):
        return True  # /sys shows the NIC on one side alone
    if "/facts/" in path:
        return True  # an older driver, or a text, tells fewer
    whole = "/".join(path.split("/")[:2])
    return whole != path and (whole in one) is not (whole in other)


def _weight(member: tuple[Difference, Rule]) -> Weight:
    difference, rule = member
    if not difference.undecided or rule.of_unknown:
        return rule.weight
    return Weight.UNKNOWN if difference.of_class or difference.path in _PARTS else Weight.NOTE


def _change(members: list[tuple[Difference, Rule]], same_class: bool) -> Change:
    difference, rule = members[0]
    again: tuple[str, ...]
    if difference.undecided and not rule.of_unknown:
        effect = _effect_of_unknown(difference)
        again = (KNOWN,) if difference.of_class else ()
    else:
        effect, again = rule.words(difference), rule.regenerate
    keeps = PROFILE not in again and (same_class or not (difference.of_class or BASELINE in again))
    if keeps:  # what the class hash is not over leaves the baseline standing
        again = tuple(what for what in again if what != BASELINE) or ((ADMISSION,) if again else ())
    return Change(
        part=_part([member.path for member, _ in members]),
        before=_told(difference, difference.before),
        after=_told(difference, difference.after),
        effect=effect,
        applies=keeps,
        regenerate=again,
    )


def _effect_of_unknown(difference: Difference) -> str:
    if isinstance(difference.before, Unknown) and isinstance(difference.after, Unknown):
        return "known on neither side: an unknown equals nothing, so no history applies"
    side = "before" if isinstance(difference.before, Unknown) else "after"
    rest = "; until it is known no history applies" if difference.of_class else ""
    return f"not known {side}: it cannot be told whether it changed{rest}"


def _told(difference: Difference, value: Leaf) -> str:
    if isinstance(value, Unknown):
        return f"{_UNKNOWN}{value.reason})"
    if value is None:
        return UNSET if "settings/NCCL_" in difference.path else ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parted(path: str) -> tuple[str, str]:
    """(what changes alike are gathered by, the member): `gpus/*/vbios` and `3`."""
    parts = path.split("/")
    place = 2 if parts[0] in ("matrices", "nccl_view") and len(parts) > 2 else 1
    if len(parts) <= place or parts[0] in ("settings", "cpu", "container", "nccl_settings"):
        return path, ""
    return "/".join([*parts[:place], "*", *parts[place + 1 :]]), parts[place]


def _part(paths: list[str]) -> str:
    if len(paths) == 1:
        return paths[0]
    stem = _parted(paths[0])[0]
    members = [_parted(path)[1] for path in paths]
    if all(member.isdigit() for member in members):
        named = rank_ranges([int(member) for member in members]).removeprefix("ranks ").removeprefix("rank ")
    else:
        more = len(members) - _MOST_NAMED
        named = ", ".join([*members[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
    return stem.replace("*", named, 1)
