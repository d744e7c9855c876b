"""What differences of GPUs and their links do."""

from __future__ import annotations

from rankmuster.baseline.fingerprint.effects import ADMISSION, BASELINE, DUMPS, Difference, Rule, Weight

_SEARCH = "NCCL src/graph/topo.cc and search.cc: a path's width is links times the model's GB/s of one link"


def _fell(difference: Difference) -> bool:
    return difference.fell


def _lost(difference: Difference) -> bool:
    return difference.lost


RULES = (
    Rule(
        "gpus/*/nvlinks/up",
        Weight.SLOWER,
        "NVLinks lost: NCCL finds a narrower graph, with fewer channels or less on each, and every ring and tree goes "
        "at the pace of this GPU; reset or service the GPU, its baseboard or the switch",
        f"{_SEARCH}; NVIDIA's health validation allows no inactive link (NVIDIA DGX and HGX guides)",
        (ADMISSION,),
        _fell,
    ),
    Rule(
        "gpus/*/nvlinks/up",
        Weight.SLOWER,
        "NVLinks came back: results with fewer links say nothing of it now",
        _SEARCH,
        (ADMISSION,),
    ),
    Rule(
        "gpus/*/nvlinks/count",
        Weight.CLASS,
        "the GPU has another number of NVLinks: another board or another driver's view, other channels",
        _SEARCH,
        (BASELINE, DUMPS),
    ),
    Rule(
        "gpus/*/nvlinks/slowest GB/s",
        Weight.SLOWER,
        "a link runs at another speed; NCCL counts links and does not see it, the traffic does",
        "NCCL src/graph/topo.cc: GB/s of one link come from the compute capability, not from NVML",
        (ADMISSION,),
    ),
    Rule(
        "gpus/*/nvlinks/version",
        Weight.CLASS,
        "NVLinks of another version: another board, or another driver's view of it",
        "NVML nvmlDeviceGetNvLinkVersion",
        (BASELINE, ADMISSION),
    ),
    Rule(
        "gpus/*/nvlinks/leads to",
        Weight.PATH,
        "NVLinks lead elsewhere: other pairs are neighbours, and NCCL finds other rings",
        _SEARCH,
        (BASELINE, DUMPS),
    ),
    Rule(
        "gpus/*/pcie/width",
        Weight.SLOWER,
        lambda d: (
            f"the GPU's PCIe is {_share(d)} as wide: that much less between it and host memory or a NIC; NCCL "
            "2.30 and later see it and may choose other paths, earlier ones do not and wait for it; reseat the card "
            "or riser"
        ),
        "NCCL 2.30 reads the current width from NVML, earlier ones max_link_width of /sys (src/graph/xml.cc)",
        (ADMISSION,),
        _fell,
    ),
    Rule(
        "gpus/*/pcie/width",
        Weight.SLOWER,
        "PCIe of the GPU is wider than it was",
        "NCCL src/graph/xml.cc",
        (ADMISSION,),
    ),
    Rule(
        "gpus/*/pcie/*_max",
        Weight.CLASS,
        "what the GPU's slot can do is another thing: another board, riser or BIOS setting",
        "PCI Express: both ends agree on the most that they can do",
        (BASELINE, ADMISSION),
    ),
    Rule(
        "gpus/*/uuid",
        Weight.NODE,
        "the GPU was swapped: the class is the same, this part of the node is not; re-admit the node",
        "GPU UUIDs name the board (NVML nvmlDeviceGetUUID)",
        (ADMISSION,),
    ),
    Rule(
        "gpus/*/bus_id",
        Weight.NODE,
        "the GPU is on another bus: NVML and NCCL number GPUs in bus order, so rank numbers may fall on other GPUs",
        "NVML: index follows the PCI bus id; NCCL sorts by busId (src/graph/topo.cc)",
        (ADMISSION,),
    ),
    Rule(
        "gpus/*/vbios",
        Weight.NODE,
        "another VBIOS: power and clock limits may be others, NCCL's choices are not",
        "NVIDIA release notes of VBIOS; NCCL does not read it",
        (ADMISSION,),
    ),
    Rule(
        "gpus/*/numa",
        Weight.PATH,
        "the GPU belongs to another NUMA node: NCCL binds its threads there and takes other NICs for near",
        "NCCL src/graph/topo.cc, ncclTopoGetCpuAffinity; a BIOS setting or a VM's definition moves it",
        (ADMISSION, DUMPS),
    ),
    Rule("gpus/*/model", Weight.CLASS, "another GPU model", "the class is of one model", (BASELINE, ADMISSION)),
    Rule(
        "gpus/*",
        Weight.PATH,
        "the GPU is gone: fewer ranks, another ring; look for Xid 79 in the kernel log",
        "NVIDIA Xid catalogue: 79, fallen off the bus",
        (BASELINE, ADMISSION),
        lambda d: d.lost and d.path.count("/") == 1,
    ),
    Rule(
        "gpus/*",
        Weight.PATH,
        "a GPU more: another number of ranks, another ring",
        "bus bandwidth is of a number of ranks (nccl-tests doc/PERFORMANCE.md)",
        (BASELINE, ADMISSION),
        lambda d: d.before is None and d.path.count("/") == 1,
    ),
    Rule(
        "gpuCount",
        Weight.CLASS,
        "another number of GPUs: other rings and trees, and another factor between times and bus bandwidth",
        "nccl-tests doc/PERFORMANCE.md: the factor is of the number of ranks",
        (BASELINE, DUMPS),
    ),
    Rule(
        "gpuModel",
        Weight.CLASS,
        "another GPU model: nothing measured before is of its kind",
        "results are compared within one kind of hardware",
        (BASELINE, DUMPS),
    ),
    Rule(
        "settings/mig",
        Weight.PATH,
        "MIG was switched: between MIG instances there is no P2P, neither NVLink nor PCIe; NCCL goes through "
        "host memory",
        "NVIDIA MIG user guide, Application Considerations: no GPU to GPU P2P",
        (BASELINE, ADMISSION),
    ),
    Rule(
        "settings/ecc",
        Weight.CLASS,
        "ECC was switched: memory bandwidth is another one, and without it a flipped bit is a wrong result nobody sees",
        "nvidia-smi documentation, ECC mode: takes effect at the next reset",
        (BASELINE, ADMISSION),
    ),
    Rule(
        "nvswitches",
        Weight.SLOWER,
        "another number of NVSwitches is visible: Fabric Manager may run a degraded fabric",
        "NVIDIA Fabric Manager guide, degraded modes",
        (ADMISSION,),
    ),
    Rule(
        "gpus/*/facts/Fabric, State",
        Weight.FAILS,
        "the NVLink fabric is not ready: CUDA starts with error 802 (system not yet initialized); look at Fabric "
        "Manager",
        "NVIDIA Fabric Manager guide; NVML nvmlDeviceGetGpuFabricInfoV: state 3 is completed",
        (ADMISSION,),
        lambda d: str(d.after).lower() != "completed",
    ),
    Rule("gpus/*/facts/*", Weight.NOTE, "", "nvidia-smi -q; no effect on NCCL is known"),
)
"""First that fits."""


def _share(difference: Difference) -> str:
    before, after = float(difference.before), float(difference.after)  # type: ignore[arg-type]
    return "half" if after * 2 == before else f"{after / before:.0%}" if before else "not"
