"""GPU memory: uncorrectable errors, rows that wait for a reset or could not be remapped, the driver's recovery action.

Sources: NVIDIA's GPU memory error management guide (row remapping: a pending remap needs a reset, a failed one is the
sign for a replacement), nvml.h fields 3 to 6, 142 to 145, 230, and the words of `nvidia-smi -q` of R470 to R580.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from rankmuster.admission.gathering import Answer, gathered
from rankmuster.admission.gpu_words import Said, subject
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.node_path import GpuPath

RESET = "drain the node, reset the GPU (nvidia-smi -r -i INDEX, or reboot), then admit again"
REPLACE = "take the GPU out of service and have it replaced: its vendor's diagnosis takes this as the sign for it"

_ECC = "ecc errors / "
_VOLATILE = "volatile / "
_REPAIRS = {
    "channel repair pending": RESET,
    "tpc repair pending": RESET,
    "unrepairable memory": REPLACE,
    "aggregate / sram threshold exceeded": REPLACE,
}
_PENDING = ("remapped rows / pending", "remapped rows / remapped row pending")
_FAILED = ("remapped rows / remapping failure occurred", "remapped rows / remapped row failure")
_RETIRED = ("retired pages / pending page blacklist", "retired pages / pending blacklist")
"""In the words of nvidia-smi's text and of its XML."""


def memory_checks(gpus: Sequence[GpuPath]) -> list[Check]:
    """ECC errors, remapped rows and the recovery action of every GPU."""
    told = {
        key
        for said in map(Said.of, gpus)
        for key in (*_REPAIRS, *(_VOLATILE + name for name in said.keys(_ECC + _VOLATILE)))
        if said.word(_ECC + key) is not None
    }
    return [
        *gathered(
            "memory-errors",
            CheckGroup.HARDWARE,
            [_errors(gpu, told) for gpu in gpus],
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


def _errors(gpu: GpuPath, told: Set[str]) -> Answer:
    """`told`: which of `_REPAIRS`, and of the counters, some GPU of the node tells; not every driver tells all."""
    said = Said.of(gpu)
    volatile = _uncorrectable(said, _VOLATILE, told)
    aggregate = _uncorrectable(said, "aggregate / ")
    for key, advice in _REPAIRS.items():
        if said.yes(_ECC + key):
            return Answer(subject(gpu), CheckState.FAIL, f"{key.rpartition(' / ')[2].strip()}: yes", advice)
    if volatile.count:
        words = f"{volatile.count} uncorrectable memory error(s) since the driver was loaded"
        return Answer(subject(gpu), CheckState.FAIL, words, RESET)
    if str(gpu.ecc).lower() == "disabled" and not volatile.known:
        words = "ECC is off: errors of memory are not seen"
        return Answer(subject(gpu), CheckState.WARN, words, "switch ECC on (nvidia-smi -e 1) unless that is meant")
    if not volatile.whole:
        silent = f" ({', '.join(volatile.silent[:4])})" if volatile.known else ""
        words = f"how many uncorrectable memory errors there were could not be read{silent}"
        return Answer(subject(gpu), CheckState.UNKNOWN, words)
    for key in _REPAIRS:
        name = _ECC + key
        if said.yes(name) is None and (key in told or said.unanswered(name)):
            return Answer(subject(gpu), CheckState.UNKNOWN, f"{key.rpartition(' / ')[2]}: could not be read")
    if aggregate.count:
        words = f"{aggregate.count} uncorrectable memory error(s) in the GPU's life, none since the driver was loaded"
        return Answer(subject(gpu), CheckState.WARN, words, "watch whether the number rises")
    return Answer(subject(gpu), CheckState.PASS, "")


@dataclass(frozen=True, slots=True)
class _Counted:
    """Uncorrectable errors of a section. `known`: counters that say a number; `silent`: those that do not."""

    count: int
    known: int
    silent: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return self.known > 0 and not self.silent


def _uncorrectable(said: Said, section: str, told: Set[str] = frozenset()) -> _Counted:
    """Drivers name the counters differently: one sum, one for each memory, or up to Volta a total of double bits."""
    keys = {*said.keys(_ECC + section), *(key[len(section) :] for key in told if key.startswith(section))}
    names = sorted(key for key in keys if "uncorrectable" in key or key == "double bit / total")
    counts = {name: said.number(_ECC + section + name) for name in names}
    known = [count for count in counts.values() if count is not None]
    silent = [name for name, count in counts.items() if count is None]
    for one, other in (("sram", "dram"), ("dram", "sram")):  # of two memories both have to be told
        if any(name.startswith(one) for name in names) and not any(name.startswith(other) for name in names):
            silent.append(other)
    return _Counted(sum(known), len(known), tuple(silent))


def _rows(gpu: GpuPath) -> list[Answer]:
    said = Said.of(gpu)
    pending, failed = said.yes(*_PENDING), said.yes(*_FAILED)
    if said.word(*_PENDING, *_FAILED) is None:
        retired = said.yes(*_RETIRED)  # up to Volta pages are retired instead
        if retired:
            return [Answer(subject(gpu), CheckState.FAIL, "retired pages wait for a reset", RESET)]
        if retired is None or said.unanswered(*_PENDING, *_FAILED):
            words = "the state of remapped rows could not be read"
            return [Answer(subject(gpu), CheckState.UNKNOWN, words)]
        return [Answer(subject(gpu), CheckState.PASS, "")]
    if failed:
        return [Answer(subject(gpu), CheckState.FAIL, "a row could not be remapped", REPLACE)]
    if pending:
        return [Answer(subject(gpu), CheckState.FAIL, "a row waits for a reset to be remapped", RESET)]
    asked = {"whether a row could not be remapped": failed, "whether a row waits for a reset": pending}
    unread = [words for words, answer in asked.items() if answer is None]
    if unread:
        return [Answer(subject(gpu), CheckState.UNKNOWN, f"{' and '.join(unread)} could not be read")]
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
