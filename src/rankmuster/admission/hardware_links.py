"""NVLinks (up, as many as the model has, as fast as their neighbours, without errors) and the NVSwitch fabric."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

from rankmuster.admission.gathering import Answer, gathered
from rankmuster.admission.gpu_words import Said, subject
from rankmuster.admission.hardware_memory import RESET
from rankmuster.baseline.gpu_links import nvlink_of
from rankmuster.evidence.gpu_facts import COUNTED_LINKS
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.node_path import GpuPath, NvLink
from rankmuster.model.unknown import Unknown

MODEL_LINKS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"\bV100-SXM"), 6),
    (re.compile(r"\bA100-SXM"), 12),
    (re.compile(r"\bH100 80GB HBM3|\bH100 SXM|\bH20\b(?! NVL)|\bH200$|\bH200 SXM"), 18),
    (re.compile(r"\bH800$|\bH800 SXM"), 8),
    (re.compile(r"\bG?B[23]00\b"), 18),
)
"""NVLinks of a whole GPU by its name (NVIDIA data sheets; NVIDIA's own health checks allow none of them inactive).
Models with bridges (NVL, PCIe) are not here: how many links a bridge uses depends on the bridge."""

SLOWER = 0.98
"""A link below this share of the fastest one, or of its model's rate, has trained down. All links of a GPU report the
very same speed."""

UP = frozenset({"active", "sleep"})
"""States of a link that is well: one that sleeps wakes with the first packet, and tells no speed until then."""
DOWN = frozenset({"inactive", "disabled", "off", "down"})

_BEFORE_FABRIC = re.compile(r"\b(?:V100|A100|A800)\b")
"""Models that are joined by NVSwitches and register in no fabric that NVML tells of: that came with Hopper."""

_FABRIC_HEALTH = (
    (0, "the bandwidth is degraded"),
    (4, "a route is unhealthy"),
)
"""Shift in the health mask (nvml.h, two bits each: 1 true, 2 false) and what it says."""

_FABRIC = "fabric / "
_HEALTH: Mapping[str, frozenset[str]] = {
    "health mask": frozenset(),
    "health / summary": frozenset({"healthy", "unhealthy", "limited capacity"}),
    "health / bandwidth": frozenset({"full", "degraded"}),
    "health / route unhealthy": frozenset({"true", "false", "yes", "no"}),
}
"""What else a fabric tells, and in which words; any other word is one that nobody can judge. The mask is a number."""

_FATAL_ERRORS = frozenset({"failed_recoveries"})
_RECOVERIES = frozenset({"dl_recovery", "recoveries", "ecc_data"})
"""The link went away and came back, or data was lost on it: during the benchmark that refuses."""
_RETRIES = frozenset({"dl_crc", "crc_flit", "crc_data", "dl_replay"})
"""Packets that were sent again. A link in order has next to none, but no number is published that would refuse one."""


def link_checks(gpus: Sequence[GpuPath], before: Sequence[GpuPath] = ()) -> list[Check]:
    """`before`: the same GPUs before the benchmark, to tell errors that came while it ran from old ones."""
    earlier = {gpu.index: Said.of(gpu).link_errors() for gpu in before}
    most = max((len(gpu.links) for gpu in gpus if not isinstance(gpu.links, Unknown)), default=0)
    speeds = [link.speed_gbps for gpu in gpus for link in _links(gpu) if isinstance(link.speed_gbps, (int, float))]
    top = max(speeds, default=0.0)
    checks = gathered(
        "nvlinks",
        CheckGroup.HARDWARE,
        [answer for gpu in gpus if (answer := _state(gpu, most, top)) is not None],
        kind="GPUs",
        well=f"all {most} NVLinks up, {most * top:.0f} GB/s a direction" if top else f"all {most} NVLinks up",
        required=True,
    )
    if most:
        checks += gathered(
            "nvlink-errors",
            CheckGroup.HARDWARE,
            [_errors(gpu, earlier.get(gpu.index)) for gpu in gpus],
            kind="GPUs",
            well="no NVLink had to recover or retransmit",
        )
    return checks + fabric_checks(gpus)


def _links(gpu: GpuPath) -> tuple[NvLink, ...]:
    return () if isinstance(gpu.links, Unknown) else gpu.links


def expected_links(model: str | Unknown) -> int | None:
    """How many NVLinks a GPU of this name has; None where the name does not tell."""
    if isinstance(model, Unknown):
        return None
    return next((count for pattern, count in MODEL_LINKS if pattern.search(model)), None)


def _state(gpu: GpuPath, most: int, top: float) -> Answer | None:
    wanted = expected_links(gpu.model)
    if isinstance(gpu.links, Unknown):
        if wanted is None and most == 0:
            return None  # a model that may have none
        return Answer(subject(gpu), CheckState.UNKNOWN, f"its NVLinks could not be read ({_of_any(gpu.links, gpu)})")
    if wanted is None and most == 0:
        if not isinstance(gpu.model, Unknown):
            return None
        return Answer(
            subject(gpu), CheckState.UNKNOWN, "its model could not be read, so whether it has NVLinks is open"
        )
    whole = max(wanted or 0, most)
    states = {link.link: _word(link.state) for link in gpu.links}
    down = [link.link for link in gpu.links if states[link.link] in DOWN or link.speed_gbps == 0]
    if down:
        words = f"NVLink {_numbers(down)} down: {len(gpu.links) - len(down)} of {whole} are up"
        return Answer(subject(gpu), CheckState.FAIL, words, f"look for Xid 74 or 144 to 150 in the kernel log; {RESET}")
    if len(gpu.links) < whole:
        why = "its model has" if wanted == whole else "its siblings have"
        words = f"{len(gpu.links)} NVLinks where {why} {whole}"
        return Answer(subject(gpu), CheckState.FAIL, words, RESET)
    speeds = {link.link: link.speed_gbps for link in gpu.links if isinstance(link.speed_gbps, (int, float))}
    listed = nvlink_of(None if isinstance(gpu.model, Unknown) else gpu.model)
    rate = listed.link_gbs if listed is not None else 0.0
    slow = [link for link, speed in speeds.items() if speed < SLOWER * max(top, rate)]
    if slow:
        than = f"the others ({top:g} GB/s)" if rate <= top else f"its model's are ({rate:g} GB/s)"
        words = f"NVLink {_numbers(slow)} is slower than {than}"
        return Answer(subject(gpu), CheckState.FAIL, words, RESET)
    odd = [link for link, state in states.items() if state not in UP]
    if odd:
        return Answer(subject(gpu), CheckState.UNKNOWN, f"the state of NVLink {_numbers(odd)} could not be read")
    silent = [link for link, state in states.items() if state != "sleep" and link not in speeds]
    if silent:
        return Answer(subject(gpu), CheckState.UNKNOWN, f"the speed of NVLink {_numbers(silent)} could not be read")
    return Answer(subject(gpu), CheckState.PASS, "")


def _word(state: str | Unknown) -> str:
    return "" if isinstance(state, Unknown) else state.strip().strip("<>").lower()


def _errors(gpu: GpuPath, earlier: Mapping[tuple[int, str], int] | None) -> Answer:
    counters = Said.of(gpu).link_counters()
    silent = sorted({link for (link, _), count in counters.items() if count is None})
    counted = {key: count for key, count in counters.items() if count}
    grown = {key: value for key, value in counted.items() if earlier is not None and value > earlier.get(key, 0)}
    fatal = [key for key in counted if key[1] in _FATAL_ERRORS]
    risen = [key for key in grown if key[1] in _RECOVERIES | _FATAL_ERRORS]
    if fatal or risen:
        keys = risen or fatal
        what = "rose while the benchmark ran" if risen else "is not zero"
        link, name = keys[0]
        words = f"NVLink {_numbers(sorted({key[0] for key in keys}))}: {name} {what} ({counted[link, name]})"
        return Answer(subject(gpu), CheckState.FAIL, words, RESET)
    retried = [key for key in grown if key[1] in _RETRIES]
    if retried:
        more = sum(counted[key] - (earlier or {}).get(key, 0) for key in retried)
        words = f"{more} packets sent again on NVLink {_numbers(sorted({key[0] for key in retried}))} while it ran"
        return Answer(subject(gpu), CheckState.WARN, words, "watch whether it goes on, and whether one link stands out")
    old = [key for key in counted if key[1] in _RECOVERIES | _RETRIES]
    if old:
        words = (
            f"{sum(counted[key] for key in old)} errors on NVLink {_numbers(sorted({key[0] for key in old}))} earlier"
        )
        return Answer(subject(gpu), CheckState.WARN, f"{words}, none while the benchmark ran" if earlier else words)
    counted_links = max(Said.of(gpu).number(COUNTED_LINKS.lower()) or 0, len({link for link, _ in counters}))
    if silent or counted_links < max(len(_links(gpu)), 1):
        which = f" of NVLink {_numbers(silent)}" if silent else f" of {len(_links(gpu)) - counted_links} NVLinks"
        return Answer(subject(gpu), CheckState.UNKNOWN, f"the error counters{which} could not be read")
    return Answer(subject(gpu), CheckState.PASS, "")


def fabric_checks(gpus: Sequence[GpuPath]) -> list[Check]:
    """The fabric as each GPU is registered in it (Hopper and later on NVSwitches); others have none to check."""
    told = {key for gpu in gpus for key in ("", *_HEALTH) if Said.of(gpu).word(_FABRIC + (key or "state")) is not None}
    answers = [answer for gpu in gpus if (answer := _fabric(gpu, told)) is not None]
    well = "registered in the NVSwitch fabric (state Completed, status Success)"
    return gathered("fabric", CheckGroup.HARDWARE, answers, kind="GPUs", well=well, required=True)


def _fabric(gpu: GpuPath, told: Set[str]) -> Answer | None:
    """`told`: what some GPU of the node tells of its fabric, "" for its state: not every driver tells its health."""
    said = Said.of(gpu)
    state, status = said.word(_FABRIC + "state"), said.word(_FABRIC + "status")
    advice = "look at the fabric manager (on the host, for a VM): systemctl status nvidia-fabricmanager"
    if state is None:
        if "" in told or said.unanswered(_FABRIC + "state") or _must_register(gpu):
            return Answer(subject(gpu), CheckState.UNKNOWN, "the fabric's state could not be read", advice)
        return None
    if state.lower() != "completed":
        return Answer(subject(gpu), CheckState.FAIL, f"the fabric's state is {state}, not Completed", advice)
    if status is None:
        return Answer(subject(gpu), CheckState.UNKNOWN, "the fabric's status could not be read", advice)
    if status.lower() != "success":
        return Answer(subject(gpu), CheckState.FAIL, f"the fabric's status is {status}", advice)
    summary = (said.word(_FABRIC + "health / summary") or "").lower()
    mask = _hex(said.word(_FABRIC + "health mask"))
    bad = [words for shift, words in _FABRIC_HEALTH if mask is not None and (mask >> shift) & 3 == 1]
    if (said.word(_FABRIC + "health / bandwidth") or "").lower() == "degraded":
        bad.append(_FABRIC_HEALTH[0][1])
    if (said.word(_FABRIC + "health / route unhealthy") or "").lower() in ("true", "yes"):
        bad.append(_FABRIC_HEALTH[1][1])
    if summary == "unhealthy" or bad:
        words = " and ".join(dict.fromkeys(bad)) or "it is unhealthy"
        return Answer(subject(gpu), CheckState.FAIL, f"the fabric says: {words}", advice)
    unread = [key for key in _HEALTH if _unread(said, key, told)]
    if unread:
        return Answer(subject(gpu), CheckState.UNKNOWN, f"the fabric's {unread[0]} could not be read", advice)
    if summary == "limited capacity":
        return Answer(subject(gpu), CheckState.WARN, "the fabric has limited capacity", advice)
    return Answer(subject(gpu), CheckState.PASS, "")


def _must_register(gpu: GpuPath) -> bool:
    """Whether its links lead to a switch, or may: then the GPU has a fabric to be registered in."""
    if isinstance(gpu.model, str) and _BEFORE_FABRIC.search(gpu.model):
        return False
    ends = [link.remote for link in _links(gpu)]
    return "switch" in ends or (expected_links(gpu.model) is not None and any(isinstance(end, Unknown) for end in ends))


def _unread(said: Said, key: str, told: Set[str]) -> bool:
    word = said.word(_FABRIC + key)
    if word is None:
        return key in told or said.unanswered(_FABRIC + key)
    return _hex(word) is None if key == "health mask" else word.lower() not in _HEALTH[key]


def _hex(text: str | None) -> int | None:
    try:
        return int(text[:20], 16) if text is not None else None
    except ValueError:
        return None


def _of_any(why: Unknown, gpu: GpuPath) -> str:
    """The reason without the GPU's own number, so that the same trouble of eight GPUs is said once."""
    return why.reason.replace(f"GPU {gpu.index}", "the GPU")


def _numbers(links: Sequence[int]) -> str:
    return ", ".join(map(str, links[:8])) + (f" and {len(links) - 8} more" if len(links) > 8 else "")
