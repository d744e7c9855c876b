"""The configuration space of a PCI device: whether a port sends peer-to-peer traffic up to the root (ACS).

Source: PCI Express Base Specification 7.7.11, linux include/uapi/linux/pci_regs.h. The extended capabilities begin at
0x100, each with a header of 4 bytes: id in bits 0-15, version in 16-19, place of the next in 20-31. ACS has id 0x000D
and its control register at +6.
"""

from __future__ import annotations

from rankmuster.model.unknown import Unknown

EXTENDED_START = 0x100
EXTENDED_SIZE = 0x1000
"""Bytes of the whole space of a PCI Express device; a conventional one has 256 and no extended capabilities."""
ACS = 0x000D
CONTROL = 6
REDIRECTS = 0x01 | 0x04 | 0x08 | 0x10
"""Source validation, request redirect, completion redirect, upstream forwarding: the bits that `lspci -vvv` writes as
SrcValid, ReqRedir, CmpltRedir and UpstreamFwd, and that NCCL's guide wants off."""
MAX_CAPABILITIES = (EXTENDED_SIZE - EXTENDED_START) // 8
"""More would be a circle."""


def acs_redirects(config: bytes, size: int, name: str) -> bool | Unknown:
    """Of the bytes that could be read of a space of `size` bytes.

    Unknown where less was read than there is: without CAP_SYS_ADMIN the kernel gives 64 bytes, which says nothing of
    ACS. False where the device has no such capability.
    """
    if size <= EXTENDED_START:
        return False
    if len(config) < EXTENDED_START + 4:
        return Unknown(
            f"{name}: {len(config)} of {size} bytes of its configuration space may be read; the rest, with ACS, needs "
            "root (CAP_SYS_ADMIN)"
        )
    at = EXTENDED_START
    for _ in range(MAX_CAPABILITIES):
        header = int.from_bytes(config[at : at + 4], "little")
        if header == 0xFFFFFFFF:
            return Unknown(f"{name}: its configuration space reads as all ones; the device does not answer")
        if header & 0xFFFF == ACS:
            control = int.from_bytes(config[at + CONTROL : at + CONTROL + 2], "little")
            return bool(control & REDIRECTS)
        following = header >> 20
        if following == 0:
            return False
        if following < EXTENDED_START or following + CONTROL + 2 > len(config):
            return Unknown(
                f"{name}: a capability lies at {following:#x}, beyond the {len(config)} bytes that were read"
            )
        at = following
    return Unknown(f"{name}: its list of capabilities has no end")
