"""NVML's numbers for pairs of GPUs as `nvidia-smi topo` prints them, so that both give the same matrix."""

from __future__ import annotations

P2P_WORDS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
"""nvmlGpuP2PStatus_t -> the word of `topo -p2p`: chipset, GPU or topology not supported, disabled by the registry, not
supported, unknown (nvml.h; nvidia-smi's legend)."""

ANCESTOR_WORDS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
"""nvmlGpuTopologyLevel_t -> the word of `topo -m`. 0 is one board: as near as PIX."""

SELF = "X"
