"""Sub-kinds of `transport_stall`: everybody entered, and the bytes do not arrive."""

from __future__ import annotations

from rankmuster.diagnose.catalogue_entry import TIMEOUT_RULE, Entry
from rankmuster.model.fault import Subkind
from rankmuster.model.plane import Plane

RAS_EQUAL = (Plane.RAS, "counts launches: all equal, RUNNING and OK, for ever")
FLIGHT_WHY = (Plane.FLIGHT, "shows that all entered and none left, and cannot say why")

ENTRIES = (
    Entry(
        Subkind.PATH_LOST,
        "Two hosts that spoke to each other no longer can: link, switch, route or firewall. Each side sees the other "
        "as missing.",
        (
            (Subkind.HOST_LOST, "there one host is gone for everybody; here each side still answers its own"),
            (Subkind.UNRESPONSIVE, "there one process is silent while its host answers"),
            (Subkind.LINK_ERROR, "there the adapter reports errors; here often nothing but silence"),
            (Subkind.BOOTSTRAP_UNREACHABLE, "there the path has never worked"),
        ),
        (
            (Plane.RAS, "asked on both sides: each reports the other side's processes as missing"),
            (Plane.NCCL_LOG, "connections closed or timed out between the two; completions with status 12"),
            (Plane.FLIGHT, "groups across the two stop, groups within one host go on until they depend on it"),
            (Plane.KERNEL, "`Link down`, `NETDEV WATCHDOG`, bond slaves that go down"),
            (Plane.HARDWARE, "RDMA counters that stand still, acknowledge time-outs that rise"),
            (Plane.HARDWARE, "the interface that GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names is down"),
        ),
        (
            (Plane.ENGINE, "sees that work stopped"),
            (Plane.PLATFORM, "nodes stay Ready if their control path is another"),
        ),
        (
            "a cable, transceiver or switch port",
            "a firewall or policy change",
            "a route that moved",
            "a bond that lost all",
        ),
        (
            "ping -c3 -W1 HOST; nc -vz HOST PORT        # from both sides",
            "ibstat; rdma link show; ip -s link",
            "dmesg -T | grep -iE 'link (up|down)|mlx5|bond'",
        ),
    ),
    Entry(
        Subkind.LINK_ERROR,
        "A network adapter or link reports errors: the transport gave up on a peer, or the port is bad.",
        (
            (Subkind.PATH_LOST, "there the path is gone without an error of this adapter"),
            (Subkind.ADDRESS_OR_GID, "there the very first exchange fails, on every start"),
            (Subkind.KILLED, "a peer that died causes the same completion error: look who was first"),
        ),
        (
            (Plane.NCCL_LOG, "`NET/IB : Got completion … status=12`; status 5 (flush) is only its echo"),
            (Plane.KERNEL, "`Cable error`, `health compromised`, PCIe errors of the adapter"),
            (Plane.HARDWARE, "symbol_error, link_downed, port_rcv_errors, local_ack_timeout_err that rise"),
        ),
        (RAS_EQUAL, FLIGHT_WHY),
        (
            "a bad cable or transceiver",
            "adapter firmware",
            "loss on a RoCE network without flow control",
            "a peer that died",
        ),
        (
            "for f in /sys/class/infiniband/*/ports/*/hw_counters/*; do echo $f $(cat $f); done",
            "mlxlink -d DEVICE -m -c",
            "ethtool -S INTERFACE | grep -iE 'err|drop|discard|pause'",
        ),
    ),
    Entry(
        Subkind.ADDRESS_OR_GID,
        "The adapters work and use an address that the peer cannot be reached from: a RoCE GID of the wrong version or "
        "network, or a wrong partition.",
        (
            (Subkind.LINK_ERROR, "there the same path has worked"),
            (Subkind.BOOTSTRAP_UNREACHABLE, "there plain TCP fails; here the bootstrap is done and RDMA fails"),
        ),
        (
            (Plane.NCCL_LOG, "`ibv_modify_qp failed`, GIDs in the completion error, `localGid fe80::…`"),
            (Plane.TOPOLOGY, "the GID table: version and address of each index"),
        ),
        (RAS_EQUAL, FLIGHT_WHY, (Plane.HARDWARE, "the counters stand still, as in every stall")),
        (
            "NCCL_IB_GID_INDEX that points to a RoCE v1 or link-local entry",
            "an index that moved when an address was added or removed",
            "NCCL before 2.21, which does not choose by itself",
        ),
        ("show_gids", "ibv_devinfo -v | grep -A20 GID", "cat /sys/class/infiniband/DEVICE/ports/1/gid_attrs/types/3"),
    ),
    Entry(
        Subkind.ALL_ENTERED_NONE_LEFT,
        "Every member entered the same operation, alike, and none came out. The program is not to blame; below it, "
        "nobody stands out.",
        (
            (Subkind.SIZE_MISMATCH, "there the entries differ: sizes have to be compared before this is said"),
            (Subkind.GPU_STALLED, "there one GPU has not begun it (needs timing in the Flight Recorder)"),
            (Subkind.PATH_LOST, "there the silence runs along a line between hosts"),
            (Subkind.PERSISTENT, "there a second look shows that numbers move"),
        ),
        (
            (Plane.FLIGHT, "all members at one number, none finished, the oldest far older than a step"),
            (Plane.HARDWARE, "all GPUs at 100 % and no bytes on NVLink or RDMA"),
            (Plane.RAS, "equal counts that stand still while requests run"),
        ),
        (
            (Plane.RAS, "a single reply: RUNNING and OK"),
            (Plane.KERNEL, "often nothing: no error was raised"),
            (Plane.FLIGHT, "cannot say which member's hardware holds it, without timing"),
        ),
        (
            "a lost network message",
            "an NVLink or switch fault without an Xid",
            "a library bug",
            "kernels that starve each other",
        ),
        (
            "nvidia-smi nvlink -e; nvidia-smi -q | grep -iE 'xid|recovery'",
            "echo 'verbose status' | nc localhost 28028        # twice, 10 s apart",
            "dmesg -T | grep -E 'Xid|SXid'",
        ),
        f"Only if a second look shows that it moves. {TIMEOUT_RULE}",
    ),
)
