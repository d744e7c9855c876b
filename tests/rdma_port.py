"""A healthy RDMA port, and changes of it."""

from __future__ import annotations

from rankmuster.model.topology import RdmaPort


def port(device: str = "mlx5_0", **changes: object) -> RdmaPort:
    values: dict[str, object] = {
        "source": "sys",
        "host": None,
        "device": device,
        "port": 1,
        "state": "PORT_ACTIVE",
        "physical_state": "LinkUp",
        "link_layer": "InfiniBand",
        "rate_gbps": 400.0,
        "mtu": 4096,
        "max_mtu": 4096,
        "firmware": "28.39",
        "gids": (),
        "counters": {"link_downed": 0, "symbol_error": 0},
        **changes,
    }
    return RdmaPort(**values)  # type: ignore[arg-type]
