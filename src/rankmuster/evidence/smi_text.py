"""What the outputs of nvidia-smi share: the prompt line above them, and the complaints printed in their place."""

from __future__ import annotations

import re

from rankmuster.evidence.pci import ADDRESS, bus_id
from rankmuster.model.topology import GpuFacts

_PROMPT_HOST = re.compile(r"(?:^|\s)[\w.\-]{1,64}@([A-Za-z0-9][\w.\-]{0,252})[:\s]")
_STAMPED_HOST = re.compile(r"\d\d:\d\d:\d\d ([A-Za-z0-9][\w.\-]{0,252}) nvidia-smi\b")

_COMPLAINT = re.compile(
    r"Unable to determine the device handle for|NVIDIA-SMI has failed because|Failed to initialize NVML|"
    r"No devices were found|\bGPU is lost\b|GPU access blocked by the operating system"
)
_OF_GPU = re.compile(rf"\bGPU *({ADDRESS})")

COMPLAINT_WORDS = (
    "Unable to determine the device handle for",
    "NVIDIA-SMI has failed because",
    "Failed to initialize NVML",
    "No devices were found",
    "GPU is lost",
    "GPU access blocked by the operating system",
)


def prompt_host(line: str) -> str | None:
    """The host in `user@host:~$ nvidia-smi ...` or `<time> host nvidia-smi ...`."""
    if "nvidia-smi" not in line and "ib" not in line:
        return None
    match = _STAMPED_HOST.search(line) or _PROMPT_HOST.search(line)
    return match.group(1) if match else None


def complaint(line: str, source: str, host: str | None) -> GpuFacts | None:
    """A line that the tool printed instead of facts: of one GPU where it names one, else of the whole driver."""
    if not _COMPLAINT.search(line):
        return None
    gpu = _OF_GPU.search(line)
    address = bus_id(gpu.group(1)) if gpu else None
    return GpuFacts(source, host, None, address, None, None, {"error": line.strip()})
