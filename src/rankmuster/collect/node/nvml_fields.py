"""NVML's numbers: which field is which, and what its states are called.

Source of ids, units and limits: nvml.h, API 13.
"""

from __future__ import annotations

ALL_LINKS = 0xFFFFFFFF
"""Scope of the NVLink byte counters: the sum over all links."""

MAX_LINKS = 36
"""NVML_NVLINK_MAX_LINKS of the newest header; older ones know 18."""

LOST = (15, 16)
"""NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED: whatever is asked of this GPU, this is the answer."""

ENERGY, POWER_INSTANT = 83, 186
NVLINK_TX, NVLINK_RX = 138, 139  # KiB, cumulative, all links
NVLINK5_TX, NVLINK5_RX = 202, 204  # bytes, cumulative, per link (Blackwell)
PCIE_TX, PCIE_RX = 197, 198  # bytes, the counter wraps
LINK_COUNT, LINK_STATE, LINK_SPEED, LINK_VERSION = 91, 165, 164, 166
RECOVERY = 230

SAMPLED = {
    ENERGY: "energy_mj",
    POWER_INSTANT: "power_instant_mw",
    74: "throttled_power_ns",
    76: "throttled_sync_boost_ns",
    269: "throttled_sw_thermal_ns",
    270: "throttled_hw_thermal_ns",
    271: "throttled_power_brake_ns",
    PCIE_TX: "pcie_tx_wrapping_counter",
    PCIE_RX: "pcie_rx_wrapping_counter",
}
"""The PCIe counters get names of their own: they wrap within a second, and an idle GPU that is looked at moves bytes
on PCIe too, so that no reader may take them for the traffic of the instance."""

FACTS = {
    3: "ECC Errors / Volatile / Correctable",
    4: "ECC Errors / Volatile / Uncorrectable",
    5: "ECC Errors / Aggregate / Correctable",
    6: "ECC Errors / Aggregate / Uncorrectable",
    142: "Remapped Rows / Correctable Error",
    143: "Remapped Rows / Uncorrectable Error",
    144: "Remapped Rows / Pending",
    145: "Remapped Rows / Remapping Failure Occurred",
    94: "PCI / Replays Since Reset",
    95: "PCI / Replay Number Rollovers",
    173: "PCI / Correctable Errors",
    174: "PCI / NAKs Received",
    175: "PCI / Receiver Errors",
    176: "PCI / Bad TLPs",
    177: "PCI / NAKs Sent",
    178: "PCI / Bad DLLPs",
    179: "PCI / Non Fatal Errors",
    180: "PCI / Fatal Errors",
    181: "PCI / Unsupported Requests",
    169: "PCI / L0 To Recovery",
    147: "NVLink / Links To NVSwitch",
    LINK_COUNT: "NVLink / Link Count",
}
YES_NO = ("Remapped Rows / Pending", "Remapped Rows / Remapping Failure Occurred")
RECOVERY_WORDS = (
    "None",
    "GPU Reset Required",
    "Node Reboot Required",
    "Drain P2P",
    "Drain and Reset",
    "Recover IMEX Domain",
    "Bus Reset",
    "System Reboot",
)
LINK_ERRORS = {
    161: "dl_replay",
    162: "dl_recovery",
    163: "dl_crc",
    206: "malformed_packets",
    207: "buffer_overruns",
    208: "receive_errors",
    209: "remote_errors",
    211: "local_integrity_errors",
    212: "transmit_discards",
    213: "recoveries",
    214: "failed_recoveries",
    219: "effective_errors",
    221: "symbol_errors",
    294: "plr_blocks",
    295: "plr_retries",
}
OLD_LINK_ERRORS = ("dl_replay", "dl_recovery", "crc_flit", "crc_data", "ecc_data")
LINK_STATES = {0: "inactive", 1: "active", 2: "sleep"}
VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
FABRIC_STATES = {0: "N/A", 1: "Not Started", 2: "In Progress", 3: "Completed"}
CLOCKS = {"sm_clock_mhz": 1, "memory_clock_mhz": 2}
