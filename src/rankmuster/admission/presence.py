"""Whether there are GPUs to admit at all, and whether each of them answers."""

from __future__ import annotations

from rankmuster.admission.gathering import Answer, gathered
from rankmuster.admission.gpu_words import Said, subject
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.node_path import GpuPath, NodePath
from rankmuster.model.unknown import Unknown

BLOCKS = "the driver blocks"
"""In the reason of whatever NVML was asked and did not answer in time (`collect.fingerprint.gpus`)."""

_UUIDS = ("GPU-", "MIG-")

RESTART = "look for Xid 79, 119 or 120 in the kernel log; reset the GPU or reboot the node"


def presence_checks(path: NodePath | None) -> list[Check]:
    """`path`: None where only a stored fingerprint was given: then nobody asked the GPUs."""
    name, group, node = "gpus", CheckGroup.HARDWARE, "the node"
    if path is None:
        words = "the GPUs were not asked: there is a stored fingerprint without what it was made from"
        return [Check(name, group, CheckState.UNKNOWN, node, words, required=True)]
    if isinstance(path.gpus, Unknown):
        if BLOCKS in path.gpus.reason:
            words = f"the GPUs did not answer: {path.gpus.reason}"
            return [Check(name, group, CheckState.HUNG, node, words, RESTART, required=True)]
        words = f"the GPUs could not be read: {path.gpus.reason}"
        return [Check(name, group, CheckState.ERROR, node, words, "run it where NVML works", required=True)]
    if not path.gpus:
        words = "no NVIDIA GPU on this machine: there is nothing to admit"
        return [Check(name, group, CheckState.ERROR, node, words, "run it on the node itself", required=True)]
    well = "each answers"
    return gathered(name, group, [_answer(gpu) for gpu in path.gpus], kind="GPUs", well=well, required=True)


def _answer(gpu: GpuPath) -> Answer:
    error = gpu.facts.get("error") or Said.of(gpu).trouble()
    if error:
        return Answer(subject(gpu), CheckState.FAIL, f"NVML says instead of an answer: {error}", RESTART)
    asked = (gpu.uuid, gpu.links, gpu.bus_id, gpu.model, gpu.vbios, gpu.ecc, gpu.mig, gpu.pcie.width)
    hangs = next((value.reason for value in asked if isinstance(value, Unknown) and BLOCKS in value.reason), None)
    if hangs is not None:  # it may have told its name before
        return Answer(subject(gpu), CheckState.HUNG, f"it did not answer: {hangs}", RESTART)
    if isinstance(gpu.uuid, Unknown):
        return Answer(subject(gpu), CheckState.UNKNOWN, f"it did not answer: {gpu.uuid.reason}", RESTART)
    if not gpu.uuid.startswith(_UUIDS):
        return Answer(subject(gpu), CheckState.UNKNOWN, f"it gives no UUID but {gpu.uuid!r}", RESTART)
    return Answer(subject(gpu), CheckState.PASS, "")
