"""The facts of NICs for a comparison. Addresses say who a NIC is, not what; of the GIDs the index alone matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.model.unknown import Unknown

_Leaf = str | int | float | bool | None | Unknown
_AS_THEY_ARE = ("rdma", "guid", "address", "model", "firmware", "numa", "netdev")
_OF_THE_PORT = ("state", "link_layer", "rate_gbps", "mtu")
_ROCE_V2 = "v2"
_IPV4 = ("::ffff:", "0000:0000:0000:0000:0000:ffff:")
PRESENT = "present"


def nic_leaves(nics: Sequence[Any]) -> dict[str, _Leaf]:
    """Facts by path, of `madeFrom/nics`. What has another shape is passed over."""
    found: dict[str, _Leaf] = {}
    for nic in nics:
        if not isinstance(nic, Mapping):
            continue
        at = f"nics/{str(nic.get('name')).replace('/', '_')}"
        found[at] = PRESENT
        found |= {f"{at}/{name}": nic[name] for name in _AS_THEY_ARE if name in nic}
        ports = nic.get("ports")
        for port in ports if isinstance(ports, (list, tuple)) else ():
            if isinstance(port, Mapping):
                of_port = f"{at}/ports/{port.get('port')}"
                found |= {f"{of_port}/{name}": port[name] for name in _OF_THE_PORT if name in port}
                index = _gid_index(port.get("gids"))
                if index is not None:
                    found[f"{of_port}/gid index"] = index
    return found


def _gid_index(gids: Any) -> int | None:
    """The index of the first RoCE v2 GID with an IPv4 address; None where there is none."""
    for gid in gids if isinstance(gids, (list, tuple)) else ():
        if isinstance(gid, (list, tuple)) and len(gid) == 3 and isinstance(gid[0], int):
            _, address, kind = gid
            if isinstance(kind, str) and _ROCE_V2 in kind.lower() and str(address).lower().startswith(_IPV4):
                return gid[0]
    return None
