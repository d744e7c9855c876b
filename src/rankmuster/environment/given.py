"""What was found to be set, for one process, container or file; whatever it came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from rankmuster.environment.table import TABLE
from rankmuster.environment.variable import Engine
from rankmuster.environment.version import Version

OURS = ("TORCH_NCCL_", "TORCH_FR_", "TORCH_INCLUDE_", "NCCL_", "TORCHCOMM_")
"""Prefixes of names that are looked at, whether the table has them or not."""
ALSO = frozenset({"XDG_CACHE_HOME", "HOME"})
"""They decide where a dump goes."""
_PLAIN = re.compile(r"[A-Z0-9_]{1,80}")
"""A name that may be shown: what a broken line makes of a name and a secret is none."""


class Unreadable(Exception):
    """Nothing can be read from it; the message says what was tried, on what, what came back, what to do next."""


class FolderState(Enum):
    """What a look at a folder says; UNKNOWN: it cannot be looked at from here."""

    FINE = "fine"
    MISSING = "missing"
    NO_FOLDER = "no folder"
    NOT_WRITABLE = "not writable"
    UNKNOWN = "unknown"


def cannot_look(path: str) -> FolderState:  # noqa: ARG001  # stands where a real look may stand
    """The look of those who see no file system: a pod's specification, a file."""
    return FolderState.UNKNOWN


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume in a container. `size`: its limit in bytes, None: none."""

    path: str
    kind: str  # emptyDir, hostPath, persistentVolumeClaim, ...
    memory: bool = False
    size: int | None = None


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What a pod's specification says of one container. `gpus`: asked for; `rdma`: an RDMA device is asked for."""

    pod: str
    container: str
    init: bool
    gpus: int
    host_ipc: bool
    host_network: bool
    ipc_lock: bool
    rdma: bool
    mounts: tuple[Mount, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """One environment. `values`: only names that matter here, never a secret; `unknown`: set, but to something that is
    only known where it runs; `odd`: complaints of the reader.

    `torch`, `nccl`: versions seen beside it, None unknown. `look`: how its folders can be looked at. `communication`:
    every variable of torch's and NCCL's, whether the table has it or not, with its value: what a release is made of.
    """

    where: str
    values: Mapping[str, str]
    unknown: frozenset[str] = frozenset()
    odd: tuple[str, ...] = ()
    engine: Engine | None = None
    ray: bool = False
    torch: Version | None = None
    nccl: Version | None = None
    pod: PodFacts | None = None
    look: Callable[[str], FolderState] = field(default=cannot_look, repr=False)
    communication: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of(self, name: str) -> str | None:
        """The value, None where it is not set or not known."""
        return self.values.get(name)

    def has(self, name: str) -> bool:
        """Whether it is set, to whatever."""
        return name in self.values or name in self.unknown

    def with_versions(self, torch: Version | None, nccl: Version | None, engine: Engine | None) -> Given:
        """What the caller says wins over what was seen."""
        return replace(self, torch=torch or self.torch, nccl=nccl or self.nccl, engine=engine or self.engine)


def of_interest(name: str) -> bool:
    """Whether a variable may be looked at and shown at all."""
    return name in TABLE or name in ALSO or (name.startswith(OURS) and _PLAIN.fullmatch(name) is not None)


def sifted(values: Mapping[str, str]) -> dict[str, str]:
    """Without everything that is none of our business. Values of names that the table does not have are dropped."""
    return {name: value if name in TABLE or name in ALSO else "" for name, value in values.items() if of_interest(name)}


def communication(values: Mapping[str, str]) -> dict[str, str]:
    """The variables that change how ranks talk and what they leave behind, with their values. None of them is a secret:
    they are those of the table, and names that begin as torch's and NCCL's do."""
    return {name: value for name, value in values.items() if is_communication(name)}


LIBRARIES = frozenset({"LD_PRELOAD", "LD_LIBRARY_PATH", "VLLM_NCCL_SO_PATH", "CUDA_VISIBLE_DEVICES"})
"""They decide which NCCL is loaded, and which GPUs it sees."""
TRANSPORTS = ("UCX_", "NVSHMEM_", "FI_", "GLOO_")
"""Prefixes of what other libraries under an engine's communication read."""
NOT_OURS = frozenset({"POD_UID", "RANKMUSTER_INSTANCE"})
"""Of the table, and different in every pod or instance: they name places, and change no communication."""


def is_communication(name: str) -> bool:
    """Whether a variable belongs to what a release is made of."""
    if name in LIBRARIES or (name.startswith(TRANSPORTS) and _PLAIN.fullmatch(name) is not None):
        return True
    return of_interest(name) and name not in ALSO and name not in NOT_OURS


def engine_of(words: str) -> Engine | None:
    """The engine that a command line or an image's name shows."""
    lower = words.lower()
    for text, engine in (("sglang", Engine.SGLANG), ("vllm", Engine.VLLM), ("trtllm", Engine.TRTLLM)):
        if text in lower:
            return engine
    return Engine.TRTLLM if "tensorrt-llm" in lower or "tensorrt_llm" in lower else None


def ray_of(words: str, names: Mapping[str, object]) -> bool:
    """Whether Ray starts the workers, as far as command and names of variables show."""
    return any(name.startswith("RAY_") for name in names) or "ray start" in words or "executor-backend ray" in words
