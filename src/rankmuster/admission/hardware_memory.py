"""GPU memory: uncorrectable errors, rows that wait for a reset or could not be remapped, the driver's recovery action.

Sources: NVIDIA's GPU memory error management guide (row remapping: a pending remap needs a reset, a failed one is the
sign for a replacement), nvml.h fields 3 to 6, 142 to 145, 230, and the words of `nvidia-smi -q` of R470 to R580.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.admission.gathering import Answer, gathered
from rankmuster.admission.gpu_words import Said, subject
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.node_path import GpuPath

RESET = "drain the node, reset the GPU (nvidia-smi -r -i INDEX, or reboot), then admit again"
REPLACE = "take the GPU out of service and have it replaced: its vendor's diagnosis takes this as the sign for it"

_ECC = "ecc errors / "
_REPAIRS = {
    "channel repair pending": RESET,
    "tpc repair pending": RESET,
    "unrepairable memory": REPLACE,
    "aggregate / sram threshold exceeded": REPLACE,
}


def memory_checks(gpus: Sequence[GpuPath]) -> list[Check]:
    """ECC errors, remapped rows and the recovery action of every GPU."""
    return [
        *gathered(
            "memory-errors",
            CheckGroup.HARDWARE,
            [_errors(gpu) for gpu in gpus],
            kind="GPUs",
            well="no uncorrectable memory error since the driver was loaded",
            required=True,
        ),
        *gathered(
            "remapped-rows",
            CheckGroup.HARDWARE,
            [answer for gpu in gpus for answer in _rows(gpu)],
            kind="GPUs",
            well="no row waits for a reset and none failed to be remapped",
            required=True,
        ),
        *gathered(
            "recovery-action",
            CheckGroup.HARDWARE,
            [_recovery(gpu) for gpu in gpus],
            kind="GPUs",
            well="the driver asks for no recovery",
        ),
    ]


def _errors(gpu: GpuPath) -> Answer:
    said = Said.of(gpu)
    volatile = _uncorrectable(said, "volatile / ")
    aggregate = _uncorrectable(said, "aggregate / ")
    for key, advice in _REPAIRS.items():
        if (said.word(_ECC + key) or "").lower() == "yes":
            return Answer(subject(gpu), CheckState.FAIL, f"{key.rpartition(' / ')[2].strip()}: yes", advice)
    if volatile:
        words = f"{volatile} uncorrectable memory error(s) since the driver was loaded"
        return Answer(subject(gpu), CheckState.FAIL, words, RESET)
    if volatile is None:
        if str(gpu.ecc).lower() == "disabled":
            words = "ECC is off: errors of memory are not seen"
            return Answer(subject(gpu), CheckState.WARN, words, "switch ECC on (nvidia-smi -e 1) unless that is meant")
        words = "how many uncorrectable memory errors there were could not be read"
        return Answer(subject(gpu), CheckState.UNKNOWN, words)
    if aggregate:
        words = f"{aggregate} uncorrectable memory error(s) in the GPU's life, none since the driver was loaded"
        return Answer(subject(gpu), CheckState.WARN, words, "watch whether the number rises")
    return Answer(subject(gpu), CheckState.PASS, "")


def _uncorrectable(said: Said, section: str) -> int | None:
    """Sum over the memories of a section; None where no counter says a number. Drivers name them differently."""
    total: int | None = None
    for key, _ in said.below(_ECC + section):
        if "uncorrectable" in key or key == "double bit / total":
            number = said.number(_ECC + section + key)
            total = total if number is None else (total or 0) + number
    return total


def _rows(gpu: GpuPath) -> list[Answer]:
    said = Said.of(gpu)
    pending = said.word("remapped rows / pending", "remapped rows / remapped row pending")
    failed = said.word("remapped rows / remapping failure occurred", "remapped rows / remapped row failure")
    if pending is None and failed is None:
        retired = said.word("retired pages / pending page blacklist", "retired pages / pending blacklist")
        if retired is None:
            words = "the state of remapped rows could not be read"
            return [Answer(subject(gpu), CheckState.UNKNOWN, words)]
        if retired.lower() == "yes":  # up to Volta pages are retired instead
            return [Answer(subject(gpu), CheckState.FAIL, "retired pages wait for a reset", RESET)]
    if (failed or "").lower() == "yes":
        return [Answer(subject(gpu), CheckState.FAIL, "a row could not be remapped", REPLACE)]
    if (pending or "").lower() == "yes":
        return [Answer(subject(gpu), CheckState.FAIL, "a row waits for a reset to be remapped", RESET)]
    spent = said.number("remapped rows / bank remap availability histogram / none")
    if spent:
        words = f"{spent} memory bank(s) have no spare row left: their next error cannot be repaired"
        return [Answer(subject(gpu), CheckState.WARN, words, REPLACE)]
    return [Answer(subject(gpu), CheckState.PASS, "")]


def _recovery(gpu: GpuPath) -> Answer:
    action = Said.of(gpu).word("gpu recovery action")
    if action is None:
        words = "the driver does not tell its recovery action (R550 and later do)"
        return Answer(subject(gpu), CheckState.UNKNOWN, words)
    if action.lower() == "none":
        return Answer(subject(gpu), CheckState.PASS, "")
    advice = "reboot the node" if "reboot" in action.lower() else RESET
    return Answer(
        subject(gpu), CheckState.FAIL, f"the driver asks for recovery: {action}", f"{advice}; then admit again"
    )


def recovery_known(gpus: Sequence[GpuPath]) -> bool:
    """Whether every GPU's driver says that no recovery is needed: what an Xid that refuses would have changed."""
    return bool(gpus) and all(_recovery(gpu).state is CheckState.PASS for gpu in gpus)
