"""What a fault needs of the machine, and in words what of it is not there: who cannot make a fault says so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rankmuster.drill.fault_kinds import Fault, Need

OTHER_NCCL = "RANKMUSTER_DRILL_OTHER_NCCL"
"""Variable with the path of another libnccl.so, which one rank is to load."""
NET_TOOLS = ("ip", "nsenter")
"""Programs (iproute2, util-linux) that make a link into another network namespace."""
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 1 << 12, 1 << 21
"""Bits of capabilities(7): for links and addresses, and for namespaces and mounts."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What this process may and has. `privileged`: namespaces, mounts and links. `missing_tools`: of `NET_TOOLS`.
    `rdma`: a device is there. `gpu`: NVIDIA's driver is there. `other_nccl`: the variable's value, "" without;
    `other_nccl_there`: whether that file is."""

    privileged: bool
    missing_tools: tuple[str, ...]
    rdma: bool
    gpu: bool
    other_nccl: str
    other_nccl_there: bool

    @classmethod
    def here(cls, environment: Mapping[str, str] | None = None) -> Machine:
        """This one. `environment`: None for this process's own."""
        given = os.environ if environment is None else environment
        other = given.get(OTHER_NCCL, "")
        return cls(
            privileged=_capable(),
            missing_tools=tuple(tool for tool in NET_TOOLS if shutil.which(tool) is None),
            rdma=_any(Path("/sys/class/infiniband")),
            gpu=Path("/dev/nvidiactl").exists(),
            other_nccl=other,
            other_nccl_there=bool(other) and Path(other).is_file(),
        )


def lacking(fault: Fault, machine: Machine) -> tuple[str, ...]:
    """Each need of the fault that the machine does not meet, in words; empty when it can be made there."""
    return tuple(words for need in fault.needs if (words := _LACKS[need](machine)))


def obstacle(fault: Fault, machine: Machine | None = None) -> str:
    """Why the fault cannot be made, for people; empty when it can. `machine`: None for this one, as it is now."""
    missing = lacking(fault, machine if machine is not None else Machine.here())
    return f"{fault.name} cannot be made here: it needs {', and '.join(missing)}" if missing else ""


def _tools(machine: Machine) -> str:
    missing = " and ".join(machine.missing_tools)
    return f"{missing} on the path (Debian: iproute2, util-linux)" if missing else ""


def _nccl(machine: Machine) -> str:
    if machine.other_nccl_there:
        return ""
    named = f"; {machine.other_nccl} is no file" if machine.other_nccl else ", which is not set"
    return f"another libnccl.so, named by {OTHER_NCCL}{named}"


_LACKS: Mapping[Need, Callable[[Machine], str]] = {
    Need.ROOT: lambda machine: "" if machine.privileged else "root (CAP_SYS_ADMIN and CAP_NET_ADMIN)",
    Need.IP: _tools,
    Need.RDMA: lambda machine: "" if machine.rdma else "an RDMA device (/sys/class/infiniband has none)",
    Need.OTHER_NCCL: _nccl,
    Need.GRAPH: lambda machine: "" if machine.gpu else "a GPU whose CUDA graphs can be captured (no /dev/nvidiactl)",
}


def _capable() -> bool:
    """Whether the effective set has what namespaces and links need; root of a container often has not."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        held = int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)
    except (OSError, ValueError, StopIteration):
        return False
    wanted = _CAP_NET_ADMIN | _CAP_SYS_ADMIN
    return held & wanted == wanted


def _any(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False
