"""GPUs through the real binding, a real child and a driver of our own making, over days made short."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal as signals
import subprocess
import threading
import time

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.nvml_session import NvmlSession
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.kernel import GpuAfter, Xid
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.settings import DEFAULTS
from rankmuster.watch.progress.tracks import Tracks
from rankmuster.watch.signals.signal import Declined, Failed, Heard

pytest_plugins = ("nvml_driver",)


def tracks(said) -> dict[int, GpuTrack]:
    return {one.observation.gpu: one.observation for one in said if type(getattr(one, "observation", 0)) is GpuTrack}


def reasons(said, kind=Failed) -> str:
    return " | ".join(one.reason for one in said if isinstance(one, kind))


def four(said) -> bool:
    return len(tracks(said)) == 4 and not reasons(said)


def test_every_poll_brings_a_sample_of_every_gpu(driver):
    signal = driver.signal()
    first = driver.until(signal, four)
    second = signal.poll(Deadline.after(10.0))
    assert four(second), second
    for gpu, track in tracks(second).items():
        assert track.host == "node-a"
        assert track.uuid == f"GPU-00000000-0000-0000-0000-00000000000{gpu}"
        assert track.bus_id == f"0000:{0x9A + gpu:02x}:00"
        assert track.time[0] == pytest.approx(time.time(), abs=30)
        assert track.time[0] > tracks(first)[gpu].time[0]
        assert track.sm_percent[0] == (0 if gpu == 3 else 100)
        assert track.clock_mhz[0] == 1980
        assert track.nvlink_tx_kib[0] >= tracks(first)[gpu].nvlink_tx_kib[0]
        assert track.pids == ((7000 + gpu,),)
    assert all(one.plane is Plane.HARDWARE for one in second)
    assert signal.listed == ((7000,), (7001,), (7002,), (7003,))
    assert signal.starts == 1


def test_what_is_listed_seldom_stands_in_between(driver):
    signal = driver.signal()
    driver.until(signal, four)
    for _ in range(12):
        said = signal.poll(Deadline.after(10.0))
        assert [track.pids for track in tracks(said).values()] == [((7000 + gpu,),) for gpu in range(4)]
        assert [track.clock_mhz[0] for track in tracks(said).values()] == [1980] * 4


def test_a_gpu_that_hangs_silences_itself_alone_and_is_started_anew(driver):
    signal = driver.signal("block", failing_seconds=2.0, first_pause=0.05)
    said = driver.until(signal, lambda said: "GPU 2" in reasons(said))
    assert "nvmlDeviceGetFieldValues" in reasons(said)
    assert isinstance(said[0], Failed), "it comes before what was heard, and is no newer"
    assert all(one.now >= said[0].now for one in said)
    said = driver.until(signal, lambda said: bool(tracks(said)))
    assert set(tracks(said)) == {0, 1, 3}
    driver.mode("normal")
    driver.until(signal, four)
    assert signal.starts == 2


def test_a_poll_ends_at_its_deadline_while_nvml_starts_for_ever(driver):
    signal = driver.signal("init-blocks")
    began = time.monotonic()
    said = signal.poll(Deadline.after(0.5))
    assert time.monotonic() - began < 5
    assert "asked to start" in reasons(said)
    assert not tracks(said)
    child = signal.child
    signal.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_lost_gpu_is_named_and_looked_for_again(driver):
    signal = driver.signal("lost", failing_seconds=0.2, first_pause=0.05)
    said = driver.until(signal, lambda said: "GPU is lost" in reasons(said) and bool(tracks(said)))
    assert set(tracks(said)) == {0, 1, 3}
    driver.mode("normal")
    driver.until(signal, four)


def test_a_library_that_crashes_is_said_and_another_child_follows(driver):
    signal = driver.signal("crash", first_pause=0.05)
    driver.until(signal, lambda said: "killed by signal 11" in reasons(said))
    driver.mode("normal")
    driver.until(signal, four)
    assert signal.starts >= 2


def test_a_child_that_is_killed_or_stopped_is_replaced(driver):
    signal = driver.signal(first_pause=0.05, silent_seconds=0.5)
    driver.until(signal, four)
    os.kill(signal.child, signals.SIGKILL)
    driver.until(signal, lambda said: "killed by signal 9" in reasons(said))
    driver.until(signal, four)
    os.kill(signal.child, signals.SIGSTOP)
    until = time.monotonic() + 10
    said = []
    while "said nothing" not in reasons(said) and time.monotonic() < until:
        said = signal.poll(Deadline.after(0.3))
    assert "said nothing" in reasons(said)
    driver.until(signal, four)
    assert signal.starts == 3


def test_pauses_between_children_grow(driver):
    moment = [100.0]
    signal = driver.signal("crash", first_pause=10.0, clock=lambda: moment[0])
    starts = []
    for _ in range(200):
        signal.poll(Deadline.after(10.0))
        if signal.starts > len(starts):
            starts.append(moment[0])
        moment[0] += 1.0 if signal.child is None else 0.01
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert len(gaps) >= 2
    assert gaps == sorted(gaps)
    assert gaps[1] > 1.5 * gaps[0]


def test_no_driver_is_declined_once_and_looked_for_again(driver):
    moment = [0.0]
    signal = driver.signal("no-driver", clock=lambda: moment[0])
    driver.until(signal, lambda said: "no NVIDIA driver" in reasons(said, Declined))
    for _ in range(30):
        moment[0] += 5.0
        assert signal.poll(Deadline.after(10.0)) == []
    assert signal.starts >= 3
    driver.mode("normal")
    moment[0] += 60.0
    driver.until(signal, four)


def test_gpus_that_give_nothing_away_are_declined_once_and_nvml_is_not_started_anew(driver):
    moment = [0.0]
    signal = driver.signal("bare", clock=lambda: moment[0])
    said = driver.until(signal, lambda said: bool(reasons(said, Declined)))
    for _ in range(30):
        said += signal.poll(Deadline.after(10.0))
        moment[0] += 5.0
    assert [type(one) for one in said] == [Declined]
    assert "GPU 0, 1, 2, 3" in said[0].reason
    assert signal.starts == 1


def test_a_failing_gpu_keeps_the_others_waiting_for_no_pause(driver):
    moment = [0.0]
    signal = driver.signal("lost", clock=lambda: moment[0])
    driver.until(signal, lambda said: bool(tracks(said)))
    blind = 0
    for _ in range(200):
        said = signal.poll(Deadline.after(10.0))
        blind += not tracks(said)
        moment[0] += 5.0
    assert blind == 0
    assert 3 <= signal.starts <= 8, "NVML is started anew at growing distances"


def test_an_xid_is_told_as_the_kernel_log_would(driver):
    signal = driver.signal()
    driver.until(signal, four)
    driver.mode("xid")
    said = driver.until(signal, lambda said: any(isinstance(getattr(one, "observation", 0), Xid) for one in said))
    [heard] = [one for one in said if isinstance(one, Heard) and isinstance(one.observation, Xid)]
    assert heard.plane is Plane.KERNEL
    assert heard.observation.code == 79
    assert heard.observation.bus_id == "0000:9b:00"
    assert heard.observation.after is GpuAfter.LOST
    assert heard.observation.origin.host == "node-a"
    assert heard.observation.origin.stamp.unix_seconds == pytest.approx(time.time(), abs=30)


def test_a_child_that_nobody_asks_does_not_wake(driver):
    signal = driver.signal(xids=False)
    driver.until(signal, four)

    def switches() -> int:
        total = 0
        for task in os.listdir(f"/proc/{signal.child}/task"):
            with open(f"/proc/{signal.child}/task/{task}/status") as status:
                total += sum(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt"))
        return total

    until = time.monotonic() + 10
    before, now = -1, switches()
    while before != now and time.monotonic() < until:  # the end of the round before
        time.sleep(0.05)
        before, now = now, switches()
    time.sleep(0.4)
    assert switches() == now


def test_a_child_ends_with_its_parent(driver):
    driver.mode("block")
    session = NvmlSession(mode="rounds")
    session.ask()
    process = session._process
    process.stdin.close()
    assert process.wait(10) == 0
    with contextlib.suppress(OSError):
        session.close()


def test_closing_ends_a_poll_that_goes_on(driver):
    signal = driver.signal("init-blocks")
    said = []
    thread = threading.Thread(target=lambda: said.extend(signal.poll(Deadline.after(30.0))))
    thread.start()
    until = time.monotonic() + 10
    while signal.child is None and time.monotonic() < until:
        time.sleep(0.01)
    child = signal.child
    signal.close()
    thread.join(10)
    assert not thread.is_alive()
    assert signal.child is None
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert signal.poll(Deadline.after(1.0)) == []


def test_without_nvlink_bytes_over_pcie_are_counted(driver):
    signal = driver.signal("no-links")
    last = {}
    driver.until(signal, four)
    for _ in range(6):
        last = tracks(signal.poll(Deadline.after(10.0)))
        time.sleep(0.02)
    first = last[0]
    again = tracks(signal.poll(Deadline.after(10.0)))[0]
    assert not (first.nvlink_tx_kib >= 0).any()
    assert again.pcie_tx_kib[0] > first.pcie_tx_kib[0] > 0


def test_the_window_takes_samples_of_a_stop_that_it_shows(driver):
    signal = driver.signal()
    held = Tracks(8, 100)
    driver.until(signal, four)
    for mode in ("normal", "normal", "still", "still", "still"):
        driver.mode(mode)
        for one in signal.poll(Deadline.after(10.0)):
            assert isinstance(one, Heard)
            held.add(one.observation, one.now - one.unix)
        time.sleep(0.02)
    track = held.tracks(0.0)[0]
    assert len(track.time) == 5
    rose = (track.nvlink_tx_kib[1:] - track.nvlink_tx_kib[:-1]).tolist()
    assert rose[0] > 0
    assert rose[-2:] == [0, 0]
    assert DEFAULTS.most_samples >= DEFAULTS.window_seconds / signal.period


def test_no_child_can_be_started(driver, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    signal = driver.signal()
    monkeypatch.setattr(subprocess, "Popen", full)
    said = signal.poll(Deadline.after(1.0))
    assert "could not be started (Resource temporarily unavailable)" in reasons(said)
    monkeypatch.undo()
