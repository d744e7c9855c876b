"""Ports and GIDs come out in one vocabulary, whichever tool was asked."""

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.rdma import READER

DEVINFO = (
    "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.41.1000\n\tphys_port_cnt:\t\t\t1\n"
    "\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t1024 (3)\n"
    "\t\t\tlink_layer:\t\tEthernet\n"
)
VERBOSE = (
    DEVINFO
    + "\t\t\tactive_width:\t\t4X (2)\n\t\t\tactive_speed:\t\t100.0 Gbps (128)\n\t\t\tphys_state:\t\tLINK_UP (5)\n"
    "\t\t\tGID[  0]:\t\tfe80:0000:0000:0000:0e42:a1ff:fe8b:8ea8, RoCE v1\n\t\t\tGID[  3]:\t\t::ffff:10.0.0.1, RoCE v2\n"
)
IBSTAT = (
    "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: "
    "1\n\tFirmware version: 28.41.1000\n\tPort 1:\n\t\tState: Initializing\n"
    "\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 12\n\t\tLink layer: InfiniBand\n"
)
GIDS = (
    "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
    "mlx5_0\t1\t0\tfe80:0000:0000:0000:0e42:a1ff:fe8b:8ea8\t\t\tv1\teth0\n"
    "mlx5_0\t1\t3\t0000:0000:0000:0000:0000:ffff:0a00:0001\t10.0.0.1  \tv2\teth0\nn_gids_found=2\n"
)
SYSFS = (
    "mlx5_0/fw_ver: 28.41.1000\nmlx5_0/ports/1/counters/link_downed: 255\nmlx5_0/ports/1/link_layer: InfiniBand\n"
    "mlx5_0/ports/1/phys_state: 5: LinkUp\nmlx5_0/ports/1/rate: 200 Gb/sec (2X NDR)\nmlx5_0/ports/1/state: 4: ACTIVE\n"
    "mlx5_0/ports/1/gids/3: 0000:0000:0000:0000:0000:ffff:0a00:0001\nmlx5_0/ports/1/gid_attrs/types/3: RoCE v2\n"
)


def read(text: str):
    blob = Blob("rdma.txt", text.encode())
    assert READER.recognises(blob)
    return READER.read(blob)


def test_ibv_devinfo():
    (port,) = read(DEVINFO).observations
    assert (port.device, port.port, port.state, port.link_layer) == ("mlx5_0", 1, "PORT_ACTIVE", "Ethernet")
    assert (port.mtu, port.max_mtu, port.firmware, port.rate_gbps) == (1024, 4096, "28.41.1000", None)


def test_verbose_ibv_devinfo_has_rate_and_gids():
    (port,) = read(VERBOSE).observations
    assert (port.rate_gbps, port.physical_state) == (400.0, "LinkUp")
    assert port.gids == (
        (0, "fe80:0000:0000:0000:0e42:a1ff:fe8b:8ea8", "IB/RoCE v1"),
        (3, "::ffff:10.0.0.1", "RoCE v2"),
    )


def test_ibstat():
    (port,) = read(IBSTAT).observations
    assert (port.state, port.physical_state, port.rate_gbps, port.link_layer) == (
        "PORT_INIT",
        "LinkUp",
        400.0,
        "InfiniBand",
    )
    assert port.firmware == "28.41.1000"


def test_show_gids():
    (port,) = read(GIDS).observations
    assert [(i, kind) for i, _, kind in port.gids] == [(0, "IB/RoCE v1"), (3, "RoCE v2")]


@pytest.mark.parametrize("prefix", ["", "/sys/class/infiniband/"])
def test_sysfs_captures(prefix):
    (port,) = read("".join(prefix + line for line in SYSFS.splitlines(keepends=True))).observations
    assert (port.state, port.physical_state, port.rate_gbps, port.firmware) == (
        "PORT_ACTIVE",
        "LinkUp",
        200.0,
        "28.41.1000",
    )
    assert port.gids == ((3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2"),)
    assert port.counters == {"link_downed": 255}


def test_what_several_tools_say_of_one_port_is_joined():
    (port,) = read(DEVINFO + "\n" + GIDS + SYSFS).observations
    assert (port.mtu, port.rate_gbps, len(port.gids), port.counters["link_downed"]) == (1024, 200.0, 2, 255)


def test_a_device_that_was_cut_before_its_port_is_told():
    reading = read(DEVINFO + "\nhca_id:\tmlx5_1\n\tfw_ver:\t\t28")
    assert [p.device for p in reading.observations] == ["mlx5_0"]
    assert "mlx5_1" in reading.problems[0].message


def test_a_counter_too_long_to_be_one_is_left():
    (port,) = read(
        "mlx5_0/ports/1/counters/link_downed: " + "9" * 200 + "\nmlx5_0/ports/1/state: 1: DOWN\n"
    ).observations
    assert (port.counters, port.state) == ({}, "PORT_DOWN")
