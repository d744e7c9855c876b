"""The words a verdict is made of: classes, progress, confidence, boundaries, roles and the states of a plane."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Role
from rankmuster.model.plane import Plane, PlaneState


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the verdict. `kind` is the verdict's field it stands in."""

    name: str
    kind: str
    meaning: str


CLASSES = {
    FaultClass.INIT_STUCK: (
        "The instance does not come to its first completed collective: ranks are absent, cannot reach each other, do "
        "not fit, or the fabric is not ready."
    ),
    FaultClass.COLLECTIVE_DESYNC: (
        "Ranks of one group do not issue the same operations in the same order: one did not enter, or entered another "
        "operation, size, type or order. It is a fault of the program."
    ),
    FaultClass.TRANSPORT_STALL: (
        "Everybody entered and the bytes do not arrive: path, link, address, or nobody knows which."
    ),
    FaultClass.PERFORMANCE_DEGRADATION: (
        "Work advances, more slowly than it did or than its kind does. Nothing is rebuilt for it in a hurry."
    ),
    FaultClass.PROCESS_OR_DEVICE_LOST: (
        "A process, GPU or host that the others need is gone, stopped, or does not get to its work."
    ),
    FaultClass.HEALTHY: (
        "There is positive evidence that work advances, or that there is none to do. Silence of all planes is never "
        "health."
    ),
    FaultClass.INCONCLUSIVE: (
        "Evidence exists and does not decide. The verdict says what would decide it. Exit status 2: not healthy, and "
        "no ground to act on."
    ),
    FaultClass.BLIND: (
        "No plane could see the part that matters, for instance because decoding runs in CUDA graphs and only the "
        "Flight Recorder was collected. The verdict says which plane could. Exit status 2."
    ),
}

_PROGRESS = {
    Progress.ADVANCING: "Work moves between two looks.",
    Progress.SLOW: "Work moves, against its own earlier rate or a baseline too slowly; without either, not known.",
    Progress.IDLE: "No request is running, no GPU spins and nobody waits: class healthy.",
    Progress.STOPPED: "There is work to do and none is done.",
    Progress.STARTING: "Communicators are being made and nothing has completed yet.",
    Progress.DRAINING: "The instance is ending as it should: finishing what it has.",
    Progress.UNKNOWN: "No plane that could tell has spoken.",
}
_CONFIDENCE = {
    Confidence.CONFIRMED: (
        "Two independent planes agree, or one said what cannot be read otherwise (SIGKILL, SIGSEGV or SIGBUS before "
        "the first time-out, Xid 79, a size mismatch)."
    ),
    Confidence.LIKELY: "One plane says so.",
    Confidence.POSSIBLE: "A lead: look there first, do not act on it.",
}
_BOUNDARY = {
    Boundary.NONE: "Nothing has to be rebuilt.",
    Boundary.REQUEST: "Single requests are to be repeated; the instance stays.",
    Boundary.INSTANCE: "The instance's load is shed or it is replaced in a planned way; nothing is rebuilt in a hurry.",
    Boundary.PROCESS_GROUP: (
        "All processes of the process group end and start together, with a new rendezvous. One rank alone cannot be "
        "put back: NCCL takes no new process into an old communicator."
    ),
    Boundary.NODE: "The node is fenced, the process group starts elsewhere, and the node comes back after its tests.",
    Boundary.CLUSTER: "What changed is common to many nodes: the fabric, a version, a setting.",
}
_ROLE = {
    Role.CULPRIT: "The evidence separates it from its victims.",
    Role.SUSPECT: "One of few who may be it; the evidence does not separate them.",
    Role.VICTIM: "It waits for, or died of, the culprit. Do not fence its node.",
}
_STATE = {
    PlaneState.SPOKE: "The plane had something to say.",
    PlaneState.SILENT: "The plane should have spoken and did not: asked in vain, file absent.",
    PlaneState.BLIND: "The plane cannot see this kind of event or traffic, whatever it says.",
}

_PLANE = {
    Plane.TOPOLOGY: "What the path is made of: nvidia-smi, RDMA ports, versions. Blind to whether it moves.",
    Plane.RAS: (
        "NCCL's own roll call over its RAS socket: processes that answer, launched counts of five operations. Blind to "
        "equal-count hangs, sends and receives, replayed CUDA graphs, and all before init."
    ),
    Plane.FLIGHT: (
        "PyTorch's Flight Recorder: order, operation, sizes and state of each collective per rank. Blind to ranks "
        "without a dump, what the ring overwrote, replayed CUDA graphs, and communicators outside ProcessGroupNCCL."
    ),
    Plane.NCCL_LOG: "What NCCL_DEBUG wrote: init, transports, network errors. Blind to what that level does not log.",
    Plane.FRAMEWORK_LOG: "Logs of torch and the engine: time-outs, exceptions, which operation. Blind to why.",
    Plane.KERNEL: "The kernel log: Xid, SXid, out-of-memory kills, links. Blind to hangs of software.",
    Plane.HARDWARE: (
        "GPU load and link byte counters: whether bytes move and which GPUs spin or idle, with CUDA graphs too. Blind "
        "to which operation."
    ),
    Plane.ENGINE: "The serving engine's metrics: requests running, tokens, steps. Blind to which rank.",
    Plane.PLATFORM: "Exit codes, pods, nodes: who left and why. Blind to hangs.",
}

WORDS: tuple[Word, ...] = (
    *(Word(key.value, "class", text) for key, text in CLASSES.items()),
    *(Word(key.value, "progress", text) for key, text in _PROGRESS.items()),
    *(Word(key.value, "confidence", text) for key, text in _CONFIDENCE.items()),
    *(Word(key.value, "boundary", text) for key, text in _BOUNDARY.items()),
    *(Word(key.value, "role", text) for key, text in _ROLE.items()),
    *(Word(key.value, "plane", text) for key, text in _PLANE.items()),
    # a plane's "blind" is another word than the class "blind"; both are shown for that name
    *(Word(key.value, "plane state", text) for key, text in _STATE.items()),
)

FIELDS = {
    "progress": "Whether the instance does its work, apart from whether anything is wrong.",
    "confidence": "How independent the evidence is on which the verdict stands.",
    "boundary": "The smallest thing that has to be rebuilt for work to go on.",
    "role": "What a suspect is: the cause, perhaps the cause, or one of those who wait for it.",
    "plane": "One source of evidence.",
    "plane state": "What a plane of evidence did in this diagnosis.",
    "class": "One of five faults or three honest answers.",
}
"""A field's own name can be explained too; its words follow it."""
