"""NVLinks (up, as many as the model has, as fast as their neighbours, without errors) and the NVSwitch fabric."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rankmuster.admission.gathering import Answer, gathered
from rankmuster.admission.gpu_words import Said, subject
from rankmuster.admission.hardware_memory import RESET
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
"""A link below this share of the fastest one has trained down. All links of a GPU report the very same speed."""

_FABRIC_HEALTH = (
    (0, "the bandwidth is degraded"),
    (4, "a route is unhealthy"),
)
"""Shift in the health mask (nvml.h, two bits each: 1 true, 2 false) and what it says."""

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
        return None
    whole = max(wanted or 0, most)
    down = [link.link for link in gpu.links if link.state == "inactive"]
    if down:
        words = f"NVLink {_numbers(down)} down: {len(gpu.links) - len(down)} of {whole} are up"
        return Answer(subject(gpu), CheckState.FAIL, words, f"look for Xid 74 or 144 to 150 in the kernel log; {RESET}")
    if len(gpu.links) < whole:
        why = "its model has" if wanted == whole else "its siblings have"
        words = f"{len(gpu.links)} NVLinks where {why} {whole}"
        return Answer(subject(gpu), CheckState.FAIL, words, RESET)
    slow = [
        link.link
        for link in gpu.links
        if isinstance(link.speed_gbps, (int, float)) and 0 < link.speed_gbps < SLOWER * top
    ]
    if slow:
        words = f"NVLink {_numbers(slow)} is slower than the others ({top:g} GB/s)"
        return Answer(subject(gpu), CheckState.FAIL, words, RESET)
    odd = [link.link for link in gpu.links if isinstance(link.state, Unknown)]
    if odd:
        return Answer(subject(gpu), CheckState.UNKNOWN, f"the state of NVLink {_numbers(odd)} could not be read")
    return Answer(subject(gpu), CheckState.PASS, "")


def _errors(gpu: GpuPath, earlier: Mapping[tuple[int, str], int] | None) -> Answer:
    counted = Said.of(gpu).link_errors()
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
    return Answer(subject(gpu), CheckState.PASS, "")


def fabric_checks(gpus: Sequence[GpuPath]) -> list[Check]:
    """The fabric as each GPU is registered in it (Hopper and later on NVSwitches); others have none to check."""
    answers = [answer for gpu in gpus if (answer := _fabric(gpu)) is not None]
    well = "registered in the NVSwitch fabric (state Completed, status Success)"
    return gathered("fabric", CheckGroup.HARDWARE, answers, kind="GPUs", well=well, required=True)


def _fabric(gpu: GpuPath) -> Answer | None:
    said = Said.of(gpu)
    state, status = said.word("fabric / state"), said.word("fabric / status")
    if state is None:
        return None
    advice = "look at the fabric manager (on the host, for a VM): systemctl status nvidia-fabricmanager"
    if state.lower() != "completed":
        return Answer(subject(gpu), CheckState.FAIL, f"the fabric's state is {state}, not Completed", advice)
    if status is not None and status.lower() != "success":
        return Answer(subject(gpu), CheckState.FAIL, f"the fabric's status is {status}", advice)
    summary = (said.word("fabric / health / summary") or "").lower()
    mask = said.word("fabric / health mask")
    told = [words for shift, words in _FABRIC_HEALTH if mask is not None and (_hex(mask) >> shift) & 3 == 1]
    if (said.word("fabric / health / bandwidth") or "").lower() == "degraded":
        told.append(_FABRIC_HEALTH[0][1])
    if (said.word("fabric / health / route unhealthy") or "").lower() in ("true", "yes"):
        told.append(_FABRIC_HEALTH[1][1])
    if summary == "unhealthy" or told:
        words = " and ".join(dict.fromkeys(told)) or "it is unhealthy"
        return Answer(subject(gpu), CheckState.FAIL, f"the fabric says: {words}", advice)
    if summary == "limited capacity":
        return Answer(subject(gpu), CheckState.WARN, "the fabric has limited capacity", advice)
    return Answer(subject(gpu), CheckState.PASS, "")


def _hex(text: str) -> int:
    try:
        return int(text[:20], 16)
    except ValueError:
        return 0


def _of_any(why: Unknown, gpu: GpuPath) -> str:
    """The reason without the GPU's own number, so that the same trouble of eight GPUs is said once."""
    return why.reason.replace(f"GPU {gpu.index}", "the GPU")


def _numbers(links: Sequence[int]) -> str:
    return ", ".join(map(str, links[:8])) + (f" and {len(links) - 8} more" if len(links) > 8 else "")
