"""What a NIC model can do at most, which a port that fell does not change."""

from __future__ import annotations

from collections.abc import Mapping

MOST_GBPS: Mapping[int, float] = {
    4099: 56.0,  # ConnectX-3
    4103: 56.0,  # ConnectX-3 Pro
    4113: 56.0,  # Connect-IB
    4115: 100.0,  # ConnectX-4
    4116: 100.0,  # its virtual function
    4117: 50.0,  # ConnectX-4 Lx
    4119: 100.0,  # ConnectX-5
    4120: 100.0,  # its virtual function
    4121: 100.0,  # ConnectX-5 Ex
    4122: 100.0,  # its virtual function
    4123: 200.0,  # ConnectX-6
    4124: 200.0,  # its virtual function
    4125: 200.0,  # ConnectX-6 Dx
    4127: 50.0,  # ConnectX-6 Lx
    4129: 400.0,  # ConnectX-7
    4131: 800.0,  # ConnectX-8
    41682: 100.0,  # BlueField
    41686: 200.0,  # BlueField-2
    41692: 400.0,  # BlueField-3
}
"""Gb/s of one port of the fastest board, by the PCI device number of vendor 0x15b3, which is the number in the `MT...`
of hca_type (MT4129 is device 0x1021). Boards of a model differ in rate, but neither does its hca_type tell them apart
nor a port that fell. Sources: pci.ids for the numbers, NVIDIA's data sheets of the adapters for the rates."""

_MELLANOX = "0x15b3:"
_HCA = "MT"


def most_gbps(model: str) -> float | None:
    """Gb/s of one port at most, by hca_type ("MT4129") or vendor:device ("0x15b3:0x1021"); None for a model that is
    not in the table."""
    name = model.strip()
    if name.startswith(_HCA) and name[len(_HCA) :].isdecimal():
        return MOST_GBPS.get(int(name[len(_HCA) :]))
    if name.lower().startswith(_MELLANOX):
        try:
            return MOST_GBPS.get(int(name[len(_MELLANOX) :], 16))
        except ValueError:
            return None
    return None
