"""Access Control Services of PCIe ports, as lspci prints them."""

from __future__ import annotations

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.pci_acs import READER
from rankmuster.model.topology import PciAccessControl

OFF = "\t\tACSCtl:\tSrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-\n"
ON = OFF.replace("SrcValid-", "SrcValid+")


def read(text: str) -> list[PciAccessControl]:
    blob = Blob("lspci.txt", text.encode())
    return [x for x in READER.read(blob).observations if isinstance(x, PciAccessControl)]


def test_ports_that_redirect_are_told_from_those_that_do_not() -> None:
    text = f"00:03.1 PCI bridge: A\n\tControl: I/O+\n{ON}0000:41:00.0 PCI bridge: B\n{OFF}"
    assert [(port.device, port.redirects) for port in read(text)] == [("00:03.1", True), ("0000:41:00.0", False)]


def test_a_grep_without_devices_still_counts() -> None:
    assert [(port.device, port.redirects) for port in read(ON + OFF)] == [(None, True), (None, False)]
