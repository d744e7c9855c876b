"""Byte counters of a /sys of our own making, and whose GPUs they stand beside."""

from __future__ import annotations

import math
import os
import threading
import time

import numpy as np
import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.diagnose.spin import rates
from rankmuster.watch.progress.tracks import Tracks
from rankmuster.watch.signals import rdma as module
from rankmuster.watch.signals.gpu_rdma import HOLD_SECONDS, PortBytes, RdmaLook, nearest, with_rdma
from rankmuster.watch.signals.gpu_rows import one_sample
from rankmuster.watch.signals.rdma import SEARCH_SECONDS, RdmaSignal
from rankmuster.watch.signals.signal import Declined, Failed, Heard


class Sys:
    """A folder as /sys: two sockets, each with a switch, below which a GPU and a port stand."""

    def __init__(self, root):
        self.root = root

    def device(self, path, **files):
        folder = self.root / "devices" / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("class_", "class")).write_text(text + "\n")
        link = self.root / "bus" / "pci" / "devices" / folder.name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(folder, link.parent))
        return folder

    def gpu(self, path):
        self.device(path, vendor="0x10de", class_="0x030200")

    def port(self, path, name, *, state="4: ACTIVE", port="1", counters="counters", **values):
        device = self.device(path, vendor="0x15b3", class_="0x020700")
        made = device / "infiniband" / name
        at = made / "ports" / port
        (at / counters).mkdir(parents=True, exist_ok=True)
        (at / "state").write_text(f"{state}\n")
        if not (made / "device").is_symlink():
            (made / "device").symlink_to("../..")
        link = self.root / "class" / "infiniband" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(made, link.parent))
        self.count(name, port=port, counters=counters, **values)
        return at

    def count(self, name, *, port="1", counters="counters", **values):
        for file, value in values.items():
            (self.root / "class" / "infiniband" / name / "ports" / port / counters / file).write_text(f"{value}\n")


SWITCH_A = "pci0000:15/0000:15:01.0/0000:16:00.0"
SWITCH_B = "pci0000:95/0000:95:01.0/0000:96:00.0"
GPU_A, GPU_B = "0000:9a:00", "0000:9b:00"


@pytest.fixture
def sys(tmp_path):
    made = Sys(tmp_path)
    made.gpu(f"{SWITCH_A}/0000:17:00.0/0000:9a:00.0")
    made.gpu(f"{SWITCH_B}/0000:97:00.0/0000:9b:00.0")
    made.port(f"{SWITCH_A}/0000:17:01.0/0000:1a:00.0", "mlx5_0", port_xmit_data=1000, port_rcv_data=2000)
    made.port(f"{SWITCH_B}/0000:97:01.0/0000:9d:00.0", "mlx5_1", port_xmit_data=5, port_rcv_data=6)
    return made


class Watch:
    def __init__(self, sys):
        self.moment = 100.0
        self.signal = RdmaSignal(sys.root, clock=lambda: self.moment, now=lambda: 1.7e9 + self.moment)
        self.looks = []

    def step(self, seconds=5.0):
        self.moment += seconds
        said = list(self.signal.poll(Deadline.after(5.0)))
        self.looks += [one.observation for one in said if isinstance(one, Heard)]
        return said

    def track(self, bus, gpu=0, *, sole=False, offset=0.0):
        held = Tracks(4, 100)
        for number, look in enumerate(self.looks):
            piece = one_sample(
                host="a", gpu=gpu, uuid=None, bus=bus, time=look.time + offset, pids=None, columns={"sm_percent": 100.0}
            )
            held.add(with_rdma(piece, self.looks[: number + 1], sole=sole), 0.0)
        return held.tracks(0.0)[0]


def words(gigabytes):
    return int(gigabytes * 1e9 / 4)


def test_bytes_of_a_port_stand_beside_the_gpu_below_the_same_switch(sys):
    watch = Watch(sys)
    watch.step()
    sys.count("mlx5_0", port_xmit_data=1000 + words(2), port_rcv_data=2000 + words(1))
    watch.step()
    watch.step()
    assert rates(watch.track(GPU_A)).tolist() == pytest.approx([3e9 / 1024 / 5, 0])
    assert rates(watch.track(GPU_B)).tolist() == [0, 0]


def test_datagrams_of_the_network_itself_are_no_traffic(sys):
    watch = Watch(sys)
    watch.step()
    for number in range(1, 4):
        sys.count("mlx5_0", port_xmit_data=1000 + number * words(0.004))
        watch.step()
    assert rates(watch.track(GPU_A)).tolist() == [0, 0, 0]


def test_where_paths_do_not_tell_the_sum_stands_beside_all_gpus_of_a_sole_instance(tmp_path):
    flat = Sys(tmp_path)
    flat.gpu("pci0000:00/0000:00:05.0")
    flat.port("pci0000:00/0000:00:09.0", "mlx5_0", port_xmit_data=0, port_rcv_data=0)
    flat.port("pci0000:00/0000:00:0a.0", "mlx5_1", port_xmit_data=0, port_rcv_data=0)
    watch = Watch(flat)
    watch.step()
    flat.count("mlx5_0", port_xmit_data=words(1))
    flat.count("mlx5_1", port_xmit_data=words(2))
    watch.step()
    assert rates(watch.track("0000:00:05", sole=True)).tolist() == pytest.approx([3e9 / 1024 / 5])
    assert rates(watch.track("ffff:00:05", sole=True)).tolist() == pytest.approx([3e9 / 1024 / 5])
    assert np.isnan(rates(watch.track("0000:00:05", sole=False))).all(), "with two instances nobody knows whose"


def test_two_ports_at_the_same_distance_are_added(sys):
    sys.port(f"{SWITCH_A}/0000:17:02.0/0000:1b:00.0", "mlx5_2", port_xmit_data=0, port_rcv_data=0)
    watch = Watch(sys)
    watch.step()
    sys.count("mlx5_0", port_xmit_data=1000 + words(1))
    sys.count("mlx5_2", port_xmit_data=words(1))
    watch.step()
    assert rates(watch.track(GPU_A)).tolist() == pytest.approx([2e9 / 1024 / 5])


def test_drivers_that_count_in_hw_counters_only_are_read_there(tmp_path):
    cloud = Sys(tmp_path)
    cloud.port("pci0000:00/0000:00:1b.0", "efa_0", counters="hw_counters", tx_bytes=10, rx_bytes=20, rdma_write_bytes=0)
    watch = Watch(cloud)
    watch.step()
    cloud.count("efa_0", counters="hw_counters", rdma_write_bytes=10**9)
    watch.step()
    [port] = watch.looks[-1].ports
    assert port.tx_kib == pytest.approx(1e9 / 1024)
    assert port.rx_kib == 0


def test_ports_that_are_down_come_in_when_they_come_up_and_stay(sys):
    at = sys.port(f"{SWITCH_B}/0000:97:02.0/0000:9e:00.0", "mlx5_9", state="1: DOWN", port_xmit_data=0, port_rcv_data=0)
    watch = Watch(sys)
    watch.step()
    assert {port.device for port in watch.looks[-1].ports} == {"mlx5_0", "mlx5_1"}
    (at / "state").write_text("4: ACTIVE\n")
    watch.step()
    assert len(watch.looks[-1].ports) == 2, "the tree is not searched at every poll"
    watch.step(SEARCH_SECONDS)
    assert len(watch.looks[-1].ports) == 3
    (at / "state").write_text("1: DOWN\n")
    watch.step(SEARCH_SECONDS)
    assert len(watch.looks[-1].ports) == 3


def test_a_counter_that_is_gone_or_nonsense_is_unknown_not_still(sys):
    watch = Watch(sys)
    watch.step()
    for text in ("", "N/A (no PMA)", "-4", "99999999999999999999999999x", "\xff"):
        sys.count("mlx5_0", port_xmit_data=text)
        watch.step()
        assert math.isnan(watch.looks[-1].ports[0].tx_kib)
    (sys.root / "class/infiniband/mlx5_0/ports/1/counters/port_xmit_data").unlink()
    watch.step()
    assert math.isnan(watch.looks[-1].ports[0].tx_kib)
    assert watch.looks[-1].ports[1].tx_kib == 0


def test_a_counter_that_is_reset_is_no_traffic_and_no_fall(sys):
    watch = Watch(sys)
    sys.count("mlx5_0", port_xmit_data=words(5))
    watch.step()
    sys.count("mlx5_0", port_xmit_data=0)
    watch.step()
    sys.count("mlx5_0", port_xmit_data=words(1))
    watch.step()
    assert rates(watch.track(GPU_A)).tolist() == pytest.approx([0, 1e9 / 1024 / 5])


def test_a_node_without_rdma_says_nothing_and_one_without_counters_says_why(tmp_path):
    assert Watch(Sys(tmp_path / "none")).step() == []
    virtual = Sys(tmp_path / "virtual")
    virtual.port("pci0000:00/0000:00:09.0", "mlx5_0", counters="hw_counters", lifespan=10)
    watch = Watch(virtual)
    [said] = watch.step()
    assert isinstance(said, Declined)
    assert "mlx5_0" in said.reason
    assert watch.step() == []


def test_firmware_that_hangs_costs_one_thread_and_a_bounded_time(sys, monkeypatch):
    held = threading.Event()
    real = module.read_number
    calls = []

    def slow(path):
        calls.append(path)
        held.wait(20)
        return real(path)

    monkeypatch.setattr(module, "read_number", slow)
    watch = Watch(sys)
    signal = watch.signal
    before = threading.active_count()
    began = time.monotonic()
    for _ in range(4):
        said = list(signal.poll(Deadline.after(0.2)))
        assert isinstance(said[0], Failed)
    assert time.monotonic() - began < 5
    assert threading.active_count() <= before + 1
    assert "hangs" in said[0].reason
    held.set()
    until = time.monotonic() + 10
    while not isinstance(said[0], Heard) and time.monotonic() < until:
        said = list(signal.poll(Deadline.after(1.0))) or said
    assert isinstance(said[0], Heard)


def look(time, kib, *, device="mlx5_0", path=("pci0000:15", "b", "c")):
    return RdmaLook(time, (PortBytes(device, 1, path, kib, 0.0),), {GPU_A: ("pci0000:15", "b", "d")})


def sample(time):
    return one_sample(host="a", gpu=0, uuid=None, bus=GPU_A, time=time, pids=None, columns={"sm_percent": 100.0})


def test_between_two_looks_bytes_are_interpolated_and_the_last_stands_for_a_moment():
    looks = [look(10.0, 0.0), look(15.0, 500.0)]
    assert with_rdma(sample(12.5), looks, sole=False).rdma_tx_kib[0] == 250
    assert with_rdma(sample(15.0 + HOLD_SECONDS / 2), looks, sole=False).rdma_tx_kib[0] == 500
    assert math.isnan(with_rdma(sample(15.1 + HOLD_SECONDS), looks, sole=False).rdma_tx_kib[0])
    assert math.isnan(with_rdma(sample(9.0), looks, sole=False).rdma_tx_kib[0])


def test_a_look_without_the_port_is_passed_over():
    looks = [look(10.0, 100.0), look(15.0, 7.0, device="other", path=()), look(20.0, 300.0)]
    assert with_rdma(sample(15.0), looks, sole=False).rdma_tx_kib[0] == 200


def test_without_looks_or_samples_a_track_stays_as_it_is():
    track = sample(1.0)
    assert with_rdma(track, [], sole=True) is track
    assert with_rdma(track, [RdmaLook(1.0, (), {})], sole=True) is track


def test_a_shared_root_complex_alone_is_no_nearness():
    port = PortBytes("mlx5_0", 1, ("pci0000:00", "0000:00:09.0"), 0.0, 0.0)
    assert nearest(("pci0000:00", "0000:00:05.0"), [port]) == ()
    assert nearest((), [port]) == ()
    assert nearest(("pci0000:00", "0000:00:09.0", "x"), [port]) == (port,)
