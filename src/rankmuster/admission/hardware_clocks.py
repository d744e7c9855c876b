"""Clocks: what holds a GPU back while it works, and whether the driver stays loaded between jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.admission.facts import UnderLoad
from rankmuster.admission.gathering import Answer, gathered
from rankmuster.admission.gpu_words import Said, subject
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.node_path import GpuPath

HARDWARE_REASONS = {0x8: "HW slowdown", 0x40: "HW thermal slowdown", 0x80: "HW power brake slowdown"}
"""Bits of NVML's clock event reasons (nvml.h) that no software asked for: heat, or a power supply that gives up. A
software power cap (0x4) is how a GPU works at full load."""

SOFTWARE_THERMAL = 0x20
"""The driver lowers the clock for heat: worth a word, the cooling is at its limit."""

_THERMAL = "SW thermal slowdown"

_COOLING = "look at the node's cooling and power supplies, then admit again"
_SECTIONS = ("clocks event reasons / ", "clocks throttle reasons / ")
"""The second is what R530 and older call it. The XML repeats the section in each key."""


def clock_checks(gpus: Sequence[GpuPath], load: Mapping[int, UnderLoad]) -> list[Check]:
    """`load`: the reasons seen while the benchmark ran; without it those of the moment at which the GPU was asked."""
    watched = any(seen.clock_reasons is not None for seen in load.values())
    return [
        *gathered(
            "clocks",
            CheckGroup.HARDWARE,
            [_clocks(gpu, load.get(gpu.index), watched=watched) for gpu in gpus],
            kind="GPUs",
            well="clocks not held back by heat or power" + (" under load" if watched else " (seen idle)"),
        ),
        *gathered(
            "persistence",
            CheckGroup.HARDWARE,
            [_persistence(gpu) for gpu in gpus],
            kind="GPUs",
            well="the driver stays loaded (persistence mode)",
        ),
    ]


def _clocks(gpu: GpuPath, load: UnderLoad | None, *, watched: bool) -> Answer:
    """`watched`: others were seen under load."""
    reasons = load.clock_reasons if load is not None else None
    if reasons is not None:
        held = [name for bit, name in HARDWARE_REASONS.items() if reasons & bit]
        if held:
            words = f"clocks held back under load: {', '.join(held)}"
            return Answer(subject(gpu), CheckState.FAIL, words, _COOLING)
        if reasons & SOFTWARE_THERMAL:
            words = "clocks lowered by the driver for heat under load"
            return Answer(subject(gpu), CheckState.WARN, words, _COOLING)
        return Answer(subject(gpu), CheckState.PASS, "")
    told = {key: value.lower() for section in _SECTIONS for key, value in Said.of(gpu).below(section)}
    states = {name: _state(told, name) for name in (*HARDWARE_REASONS.values(), _THERMAL)}
    active = [name for name in HARDWARE_REASONS.values() if states[name] == "active"]
    if active:
        return Answer(subject(gpu), CheckState.FAIL, f"clocks held back: {', '.join(active)}", _COOLING)
    if states[_THERMAL] == "active":
        return Answer(subject(gpu), CheckState.WARN, "clocks lowered by the driver for heat", _COOLING)
    if watched:
        return Answer(subject(gpu), CheckState.UNKNOWN, "it was not seen under load, as others were")
    unread = [name for name, state in states.items() if state not in ("active", "not active")]
    if unread:
        what = f": {', '.join(unread)}" if told else ""
        return Answer(subject(gpu), CheckState.UNKNOWN, f"what holds its clocks back could not be read{what}")
    return Answer(subject(gpu), CheckState.PASS, "")


def _state(told: Mapping[str, str], name: str) -> str | None:
    """Of the reason whose key ends in this name; the XML repeats the section in each key."""
    return next((value for key, value in told.items() if key.endswith(name.lower())), None)


def _persistence(gpu: GpuPath) -> Answer:
    mode = Said.of(gpu).word("persistence mode")
    if mode is None or mode.lower() not in ("enabled", "disabled"):
        return Answer(subject(gpu), CheckState.UNKNOWN, "its persistence mode could not be read")
    if mode.lower() == "enabled":
        return Answer(subject(gpu), CheckState.PASS, "")
    words = "persistence mode is off: the driver unloads between jobs, and error counters start again"
    return Answer(subject(gpu), CheckState.WARN, words, "run nvidia-persistenced, or nvidia-smi -pm 1")
