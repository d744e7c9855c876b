"""Network ports over time: counters of RDMA ports and Ethernet interfaces as /sys has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rankmuster.model.hardware import Floats


class PortKind(str, Enum):
    RDMA = "rdma"
    ETHERNET = "ethernet"


@dataclass(frozen=True, slots=True, eq=False)
class NetworkTrack:
    """The looks at one port, ordered by time; every array has the shape (looks,), NaN where a look lacks the value.

    `counters`: raw, cumulative since the driver was loaded. Units: `port_xmit_data` and `port_rcv_data` of RDMA ports
    count 4 bytes (`bytes_of` multiplies); `tx_bytes`, `rx_bytes` of Ethernet count bytes, traffic of RDMA over the same
    port not among them. The Q counters below `hw_counters/` are 32 bits wide and wrap.
    `states`: `4: ACTIVE` or `up` at each look, None where not said. `time`: unix seconds.
    """

    source: str
    host: str | None
    device: str
    port: int | None  # None for Ethernet
    kind: PortKind
    time: Floats
    states: tuple[str | None, ...]
    counters: Mapping[str, Floats]

    def bytes_of(self, sent: bool) -> Floats | None:
        """Bytes sent (or received) since the driver was loaded; None where the port does not count them."""
        rdma = self.kind is PortKind.RDMA
        name = ("port_xmit_data" if sent else "port_rcv_data") if rdma else ("tx_bytes" if sent else "rx_bytes")
        counted = self.counters.get(name)
        return None if counted is None else counted * (4 if rdma else 1)
