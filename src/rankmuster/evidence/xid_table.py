"""The Xid and SXid tables as data: what a code means, what it leaves of the GPU, and what it usually follows.

Sources: NVIDIA's Xid catalogue (2025-10) as copied in leptonai/gpud 4a8de33 `catalog_generated.go`; names of 173-176
and the NVLink5 line from NVIDIA/open-gpu-kernel-modules 595.45.04 (`nverror.h`, `kernel_rc.c`); NVLink5 sub-codes from
gpud and oci-hpc `xid_catalog_data.json`; SXid sets from the Fabric Manager user guide D.4-D.6 through gpud `sxid.go`
and `error_nvswitch.h`, the harmless set as imbue-ai/cluster-health whitelists it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rankmuster.model.kernel import GpuAfter

_OK, _RESET, _LOST = GpuAfter.OK, GpuAfter.RESET, GpuAfter.LOST
_UNUSABLE, _NO_NVLINK, _UNKNOWN = GpuAfter.UNUSABLE, GpuAfter.NO_NVLINK, GpuAfter.UNKNOWN

_ROWS: tuple[tuple[Iterable[int], str, GpuAfter], ...] = (
    ((8,), "channel idle timeout, GPU stopped processing", _OK),
    ((13,), "graphics or SM exception (illegal instruction, address out of range)", _OK),
    ((31,), "MMU fault (illegal address)", _OK),
    ((32,), "corrupt push buffer", _OK),
    ((37, 38), "FECS firmware error", _OK),
    ((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), "copy engine error", _OK),
    ((43,), "channel reset: GPU stopped processing for this program", _OK),
    ((44,), "fault during context switch", _OK),
    ((45,), "clean-up after another error, or after a killed CUDA program", _OK),
    ((46,), "GPU stopped processing", _RESET),
    ((48,), "uncorrectable ECC error", _UNKNOWN),  # with 94 the GPU is ok, with 95 it needs a reset
    ((54,), "auxiliary power is not connected", _UNKNOWN),
    ((60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139), "video, JPEG or optical flow engine error", _OK),
    ((61,), "PMU breakpoint", _UNKNOWN),
    ((62,), "internal microcontroller halt", _RESET),
    ((63,), "row remap or page retirement recorded", _OK),
    ((64,), "row remap or page retirement failed", _RESET),
    ((66, 67), "illegal register access by the driver", _OK),
    ((69,), "graphics class error", _OK),
    ((74,), "NVLink error", _RESET),
    ((78,), "vGPU start failed, guest and host driver differ", _UNKNOWN),
    ((79,), "GPU has fallen off the bus", _LOST),
    ((80,), "push buffer checksum mismatch", _OK),
    ((92,), "high single-bit ECC error rate", _OK),
    ((94,), "contained memory error", _OK),
    ((95,), "uncontained memory error", _RESET),
    ((108, 137), "NVLink remote translation or privilege error (peer unmapped or died)", _OK),
    ((109,), "context switch timeout", _RESET),
    ((110,), "security fault", _RESET),
    ((119,), "GSP RPC timeout", _RESET),
    ((120,), "GSP error", _RESET),
    ((121,), "C2C error", _UNKNOWN),
    ((122, 123, 124, 125), "SPI or InfoROM error", _OK),
    ((136,), "NVLink ALI training failed", _NO_NVLINK),
    ((140,), "unrecovered ECC error", _RESET),
    ((141, 142), "CUDA fast-path or video encoder error", _OK),
    ((143,), "GPU initialisation error", _UNUSABLE),
    ((144,), "NVLink5 SAW error", _UNKNOWN),
    ((145,), "NVLink5 RLW error", _UNKNOWN),
    ((146,), "NVLink5 TLW error", _UNKNOWN),
    ((147,), "NVLink5 TREX error", _UNKNOWN),
    ((148,), "NVLink5 NVLPW error", _UNKNOWN),
    ((149,), "NVLink5 NETIR error", _UNKNOWN),
    ((150,), "NVLink5 MSE error", _UNKNOWN),
    ((151,), "confidential computing key rotation error", _UNKNOWN),
    ((154,), "GPU recovery action changed", _UNKNOWN),
    ((155,), "NVLink taken down by software", _RESET),
    ((156,), "resource retirement event", _RESET),
    ((157,), "resource retirement failed", _RESET),
    ((158,), "GPU fatal timeout", _RESET),
    ((159,), "CHI non-data error", _UNKNOWN),
    ((160,), "channel retirement event", _OK),
    ((161,), "channel retirement failed", _OK),
    ((162, 163, 164, 165), "power smoothing circuitry", _OK),
    ((166, 170), "NVLink encryption or confidential computing interrupt", _UNKNOWN),
    ((167,), "PCIe fatal timeout", _UNKNOWN),
    ((168,), "reduced GPU memory capacity", _UNKNOWN),
    ((169,), "SEC2 halt", _UNKNOWN),
    ((171,), "uncorrectable DRAM error (companion of 48)", _UNKNOWN),
    ((172,), "uncorrectable SRAM error (companion of 48)", _UNKNOWN),
    ((173,), "C2C fatal link failure", _UNKNOWN),
    ((174,), "process killed in silence", _UNKNOWN),
    ((175,), "memory subsystem error", _UNKNOWN),
    ((176,), "PCIe correctable errors", _UNKNOWN),
)


@dataclass(frozen=True, slots=True)
class XidEntry:
    """One row: what the code means, and what the GPU is good for afterwards unless the line itself says more."""

    meaning: str
    after: GpuAfter


XIDS: Mapping[int, XidEntry] = MappingProxyType(
    {code: XidEntry(meaning, after) for codes, meaning, after in _ROWS for code in codes}
)
UNKNOWN_XID = XidEntry("not in the catalogue", _UNKNOWN)

RECOVERY_ACTIONS: Mapping[str, GpuAfter] = MappingProxyType(
    {
        "none": _OK,
        "gpu reset required": _RESET,
        "node reboot required": _UNUSABLE,
        "drain p2p": _NO_NVLINK,
        "drain and reset": _RESET,
        "recover imex domain": _NO_NVLINK,
        "bus_reset": _RESET,
        "system_reboot": _UNUSABLE,
    }
)
"""Names in Xid 154's parentheses (`nvmlDeviceGpuRecoveryAction`) to what the GPU is until then."""

ALWAYS_SECONDARY = frozenset({154})
"""The verdict line of the driver: never a cause."""

SECONDARY_TO_ANY = frozenset({45})
"""Secondary as soon as the log has any other Xid; alone it is also what a killed CUDA program leaves."""

SAME_GPU_FOLLOWS: Mapping[int, frozenset[int]] = MappingProxyType(
    {
        43: frozenset({13, 31}),
        63: frozenset({48}),
        64: frozenset({48}),
        94: frozenset({48}),
        95: frozenset({48}),
        119: frozenset({62, 79}),
        171: frozenset({48}),
        172: frozenset({48}),
    }
)
"""Code to the codes that it follows on the same GPU."""

PEER_REPORTS = frozenset({108, 137})
"""What an importer of memory logs when the exporter's process died: secondary to an earlier Xid of another GPU."""

NVLINK5 = frozenset(range(144, 151))
NVLINK5_VICTIMS = frozenset(range(144, 150))
"""Both ends of a link log; the non-fatal end is the victim of a fatal one, and of a peer that is lost (79)."""

# ---- NVLink5 (gpud, oci-hpc): the key of a rule is unit, sub-code and error status -----------------------------

_LINK_EVENT = "NETIR_LINK_EVT"
_LINK_EVENT_IGNORED = frozenset({0x26, 0x28})
_LINK_EVENT_LEADS: Mapping[int, str] = MappingProxyType(
    {
        0x00: "sympathetic",
        **dict.fromkeys((0x02, 0x04, 0x0A), "signal integrity"),
        **dict.fromkeys((0x0F, 0x11, 0x16), "software or user took the link down"),
        **dict.fromkeys((0x10, 0x12), "software or signal integrity"),
        **dict.fromkeys((0x15, *range(0x20, 0x26)), "peer device"),
        0x28: "host",
        **dict.fromkeys((0x2A, 0x2B), "signal integrity and cables"),
    }
)
_SAW_FATAL = frozenset({0x2, 0x10})
_REMAP_EVALUATE = range(0x1, 0x21)


@dataclass(frozen=True, slots=True)
class Nvlink5:
    """A decoded unit line: what it leaves of the GPU, and where the catalogue says to look (None: nowhere special)."""

    after: GpuAfter
    lead: str | None


def subcode(intrinfo: int) -> int:
    """Bits 20 to 25 of the first word of the line's parentheses."""
    return (intrinfo >> 20) & 0x3F


def decode_nvlink5(code: int, unit: str, *, fatal: bool, intrinfo: int, status: int) -> Nvlink5:
    """Rules of 144-150. What the catalogue calls IGNORE leaves the GPU as it is; what is left to Xid 154 is unknown."""
    lead = None
    if code == 149:
        if unit.startswith("NETIR_BER"):
            return Nvlink5(_OK, "cables")
        if unit.startswith(_LINK_EVENT):
            number = subcode(intrinfo)
            lead = _LINK_EVENT_LEADS.get(number)
            if number in _LINK_EVENT_IGNORED:
                return Nvlink5(_OK, lead)
        elif fatal or unit.startswith("NETIR_INT"):
            return Nvlink5(_RESET, lead)
    elif code == 150:
        return Nvlink5(_RESET if fatal or "WATCHDOG" in unit else _OK, lead)
    elif code == 144 and unit.startswith("SAW_MVB") and status in _SAW_FATAL:
        return Nvlink5(_RESET, lead)
    elif code == 145 and unit.startswith("RLW_REMAP") and status in _REMAP_EVALUATE:
        return Nvlink5(_UNKNOWN, "what Xid 154 says")
    return Nvlink5(_RESET if fatal else _OK, lead)


# ---- SXid (FM guide D.4-D.6): NVSwitch 1 to 3 ----

_HARMLESS = frozenset(
    {11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071}
    | {22013, 24001, 24002, 24003}
)
_SLOW = frozenset({10004, 10005, 20001, 20009, 28003})
_HANG = frozenset({11004, 12028})
_PARTITION = frozenset(
    {11001, 11009, 11013, *range(11018, 11021), 12001, 12002, 12022, *range(12024, 12028), *range(12030, 12033), 14017}
    | {15001, 15006, 15009, 15010, 15012, 15013, 19047, 19048, 19054, 19056, 19058, 19060, 19061, 19063, 19064, 19066}
    | {19067, 19069, 19070, 20012, 20034, 22012, *range(24004, 24008), 25010}
)
_FABRIC = frozenset({10003, 12020, 19084, 22003, 22011, *range(23001, 23018), 26006})


def sxid_effect(code: int, fatal: bool | None) -> str:
    """none, slow, hang, partition, fabric or unknown.

    The driver picks Fatal or Non-fatal for the second set at run time (its `contain` bit), so the word outranks that
    set; it does not outrank 11004 and 12028, which say non-fatal and stall the GPU all the same.
    """
    if code in _HANG:
        return "hang"
    if code in _FABRIC and fatal is not False:
        return "fabric"
    if fatal is True:
        return "partition"
    if code in _SLOW:
        return "slow"
    if code in _PARTITION:
        return "partition" if fatal is None else "none"
    if code in _HARMLESS or fatal is False:
        return "none"
    return "unknown"
