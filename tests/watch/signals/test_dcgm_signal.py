"""A DCGM exporter as the source: its rates, its interval, and servers that are none."""

from __future__ import annotations

import math
import threading
import time

import pytest
from dcgm_server import Moment, exporter, free_port, labels, render

from rankmuster.collect.deadline import Deadline
from rankmuster.diagnose.spin import rates
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.kernel import Xid
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.tracks import Tracks
from rankmuster.watch.signals.dcgm import DcgmSignal
from rankmuster.watch.signals.signal import Declined, Failed, Heard

UTIL, POWER = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"
ENERGY, TOTAL = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
SENT, RECEIVED = "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"
PCIE_SENT, PCIE_RECEIVED = "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"
XID = "DCGM_FI_DEV_XID_ERRORS"


@pytest.fixture
def server():
    with exporter() as made:
        yield made


class Watch:
    """One signal, a page of two GPUs that is collected anew at each `step`, and what came of it."""

    def __init__(self, server, **options):
        self.server = server
        self.moment = Moment()
        self.signal = DcgmSignal(
            server.url, "node-a", clock=self.moment.clock, now=self.moment.unix, **{"period": 5.0, **options}
        )
        self.energy = 1_000_000
        self.tracks = Tracks(16, 100)
        self.values = {SENT: 2_000_000_000, RECEIVED: 1_000_000_000}

    def step(self, seconds=5.0, fresh=True, gpus=(0, 1), **labels):
        self.moment.at += seconds
        self.energy += 1000 if fresh else 0
        values = {UTIL: 100, POWER: 400.5, ENERGY: self.energy, **self.values}
        self.server.body = render(dict.fromkeys(gpus, values), **labels).encode()
        return self.poll()

    def poll(self, seconds=10.0):
        said = list(self.signal.poll(Deadline.after(seconds)))
        for one in said:
            if isinstance(one, Heard) and isinstance(one.observation, GpuTrack):
                self.tracks.add(one.observation, one.now - one.unix)
        return said

    def rates(self, gpu=0):
        return rates(self.tracks.tracks(0.0)[gpu]).tolist()


def heard(said, kind=GpuTrack):
    return [one.observation for one in said if isinstance(one, Heard) and isinstance(one.observation, kind)]


def reasons(said, kind=Failed):
    return " | ".join(one.reason for one in said if isinstance(one, kind))


def test_rates_become_counters_whose_steps_are_the_rates(server):
    watch = Watch(server)
    for _ in range(4):
        said = watch.step()
    assert [track.gpu for track in heard(said)] == [0, 1]
    track = heard(said)[0]
    assert (track.host, track.uuid, track.bus_id) == ("node-a", "GPU-00000000", "0000:53:00")
    assert (track.sm_percent[0], track.power_w[0], track.pids) == (100, 400.5, (None,))
    assert watch.rates() == pytest.approx([3e9 / 1024] * 3)
    watch.values = {SENT: 0, RECEIVED: 0}
    watch.step()
    watch.step()
    assert watch.rates()[-2:] == [0, 0]


def test_a_page_that_has_not_changed_is_no_new_sample(server):
    watch = Watch(server)
    assert heard(watch.step())
    assert not watch.step(fresh=False)
    assert heard(watch.step())


def test_a_spinning_gpu_whose_values_stand_still_is_seen_to_be_alive_by_its_energy(server):
    watch = Watch(server)
    watch.step()
    watch.values = {SENT: 0, RECEIVED: 0}
    assert all(heard(watch.step()) for _ in range(5))


def test_an_exporter_that_serves_old_values_for_long_is_silent_not_stopped(server):
    watch = Watch(server)
    watch.step()
    said = [one for _ in range(30) for one in watch.step(fresh=False)]
    assert not heard(said)
    assert "have not changed for" in reasons(said)


def test_an_interval_that_is_too_long_is_said_once_with_the_option(server):
    watch = Watch(server)
    said = []
    for _ in range(6):
        said += watch.step()
        for _ in range(5):
            said += watch.step(fresh=False)
    assert len([one for one in said if isinstance(one, Declined)]) == 1
    assert "DCGM_EXPORTER_INTERVAL" in reasons(said, Declined)
    assert "about every 30 s" in reasons(said, Declined)
    assert " 5000 (milliseconds)" in reasons(said, Declined)
    assert len(heard(said)) == 12, "what it says is late, and still true"
    for _ in range(8):
        assert not reasons(watch.step(), Declined)


def test_an_ordinary_interval_is_not_blamed(server):
    watch = Watch(server)
    assert not [one for _ in range(10) for one in watch.step() if not isinstance(one, Heard)]


def test_the_total_is_mebibytes_a_second_or_a_counter_by_its_size(server):
    rate = Watch(server)
    rate.values = {TOTAL: 500}
    for _ in range(3):
        rate.step()
    assert rate.rates() == pytest.approx([500 * 1024] * 2)
    counter = Watch(server)
    counter.values = {TOTAL: 9_000_000_000}
    counter.step()
    counter.values = {TOTAL: 9_000_000_000 + 5 * 700_000}
    counter.step()
    counter.step()
    assert counter.rates() == pytest.approx([700_000, 0])


def test_links_that_never_carried_a_byte_say_nothing(server):
    watch = Watch(server)
    watch.values = {SENT: 0, RECEIVED: 0, TOTAL: 0}
    said = [one for _ in range(4) for one in watch.step()]
    assert all(math.isnan(rate) for rate in watch.rates()), "a 0 that is always there is no stop"
    assert len([one for one in said if isinstance(one, Declined)]) == 1
    assert "no link" in reasons(said, Declined)


def test_pcie_counts_only_where_there_is_no_nvlink_and_not_what_looking_moves(server):
    watch = Watch(server)
    watch.values = {PCIE_SENT: 9e8, PCIE_RECEIVED: 175_084}
    for _ in range(3):
        watch.step()
    assert watch.rates() == pytest.approx([9e8 / 1024] * 2)
    watch.values = {PCIE_SENT: 175_084, PCIE_RECEIVED: 19_831}
    watch.step()
    assert watch.rates()[-1] == 0
    both = Watch(server)
    both.values = {SENT: 1024, RECEIVED: 0, PCIE_SENT: 9e8}
    for _ in range(2):
        both.step()
    assert both.rates() == pytest.approx([1])


def test_a_page_without_bytes_is_declined_with_what_to_add_and_still_shows_load(server):
    watch = Watch(server)
    watch.values = {}
    said = watch.step() + watch.step()
    assert len([one for one in said if isinstance(one, Declined)]) == 1
    assert SENT in reasons(said, Declined)
    assert len(heard(said)) == 4


def test_a_page_without_utilisation_is_declined(server):
    watch = Watch(server)
    server.body = render({0: {SENT: 5, ENERGY: 4}}).encode()
    assert "nobody sees who waits" in reasons(watch.poll(), Declined)


def test_the_engine_ratio_stands_in_for_utilisation_and_sm_active_does_not(server):
    watch = Watch(server)
    server.body = render({0: {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.995, "DCGM_FI_PROF_SM_ACTIVE": 0.2, SENT: 5}}).encode()
    assert heard(watch.poll())[0].sm_percent[0] == pytest.approx(99.5)


def test_partitioned_gpus_are_left_out_with_the_reason(server):
    watch = Watch(server)
    said = watch.step(GPU_I_PROFILE="1g.10gb", GPU_I_ID="7")
    assert "MIG" in reasons(said, Declined)
    assert not heard(said)
    server.body += render({5: {UTIL: 3, SENT: 9}}).encode()
    assert [track.gpu for track in heard(watch.poll())] == [5]


def test_a_gpu_that_several_pods_share_is_one_gpu_and_its_pods_are_known(server):
    watch = Watch(server)
    first = render({0: {UTIL: 90, SENT: 5}}, pod="llm-0", namespace="a", container="main")
    server.body = (first + render({0: {UTIL: 90, SENT: 5}}, pod="llm-1", namespace="a", container="main")).encode()
    assert [track.sm_percent[0] for track in heard(watch.poll())] == [90]
    assert watch.signal.pods == {"GPU-00000000": frozenset({"a/llm-0", "a/llm-1"})}


def test_series_of_single_links_and_blank_values_are_passed_over(server):
    watch = Watch(server)
    page = render({0: {UTIL: 9223372036854775794, SENT: 100}})
    page += f"{SENT}{{{labels(0, nvlink='3')}}} 999999\n{UTIL}{{{labels(1)}}} NaN\n{POWER}{{{labels(1)}}} -1\n"
    server.body = page.encode()
    tracks = heard(watch.poll())
    assert [track.gpu for track in tracks] == [0]
    assert math.isnan(tracks[0].sm_percent[0])


def test_an_xid_is_told_when_it_changes_and_not_for_the_first_page(server):
    watch = Watch(server)
    watch.values[XID] = 31
    assert not heard(watch.step(), Xid), "it happened before the watch began, nobody knows when"
    assert not heard(watch.step(), Xid)
    watch.values[XID] = 79
    said = watch.step()
    assert [(xid.code, xid.bus_id) for xid in heard(said, Xid)] == [(79, "0000:53:00"), (79, "0000:54:00")]
    assert all(one.plane is Plane.KERNEL for one in said if isinstance(getattr(one, "observation", 0), Xid))
    del watch.values[XID]
    assert not heard(watch.step(), Xid)
    watch.values[XID] = 0
    assert not heard(watch.step(), Xid)


def test_an_xid_series_that_appears_later_is_news_and_after_a_failure_is_not(server):
    watch = Watch(server)
    watch.step()
    watch.values[XID] = 48
    assert len(heard(watch.step(), Xid)) == 2
    server.status = 500
    watch.step()
    server.status = 200
    watch.values[XID] = 94
    assert not heard(watch.step(), Xid)


def test_a_gpu_that_has_gone_from_the_page_is_said(server):
    watch = Watch(server)
    watch.step()
    said = watch.step(gpus=(0,))
    assert "GPU 1 is no longer" in reasons(said)
    assert isinstance(said[-1], Heard)


def test_another_gpu_under_the_same_number_begins_anew(server):
    watch = Watch(server)
    watch.step()
    watch.step()
    said = watch.step(UUID="GPU-new")
    assert heard(said)[0].uuid == "GPU-new"
    assert heard(said)[0].nvlink_tx_kib[0] == 0


@pytest.mark.parametrize(
    ("body", "status", "wanted"),
    [
        (b"", 200, "no metrics page"),
        (b"<html><body>login</body></html>", 200, "no metrics page"),
        (b"\xff\xfe\x00\x01" * 100, 200, "no metrics page"),
        (b"gone", 404, "status 404"),
        (b"no", 401, "wants a key"),
        (b"up 1\nvllm:num_requests_running 1\n", 200, "no series of DCGM"),
    ],
)
def test_what_is_no_page_is_said(server, body, status, wanted):
    watch = Watch(server)
    server.body, server.status = body, status
    assert wanted in reasons(watch.poll())


def test_damaged_lines_harm_only_themselves(server):
    watch = Watch(server)
    bad = [
        b"DCGM_FI_DEV_GPU_UTIL{",
        b'DCGM_FI_DEV_GPU_UTIL{gpu="0"',
        b'DCGM_FI_DEV_GPU_UTIL{gpu="-1"} 3',
        b'DCGM_FI_DEV_GPU_UTIL{gpu="99999999999999999999"} 3',
        b'DCGM_FI_DEV_GPU_UTIL{UUID="x"} 3',
        b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} three',
        b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 1e400',
        b'DCGM_FI_DEV_GPU_UTIL{gpu="0",x="\xff\xfe"} -Inf',
        b'DCGM_FI_DEV_GPU_UTIL{gpu="0",x="' + b"y" * 200_000 + b'"} 50',
        b'DCGM_FI_DEV_GPU_UTIL{gpu="7"} 4',  # cut: without its line end
    ]
    server.body = render({0: {UTIL: 77, SENT: 5}}).encode() + b"\n".join(bad)
    tracks = heard(watch.poll())
    assert [(track.gpu, track.sm_percent[0]) for track in tracks] == [(0, 77)]


def test_servers_that_hang_drip_or_never_end_cost_a_bounded_time(server):
    for mode in ("hang", "drip", "endless"):
        watch = Watch(server)
        server.mode = mode
        began = time.monotonic()
        assert reasons(watch.poll(seconds=0.4))
        assert time.monotonic() - began < 5
    nobody = DcgmSignal(f"http://127.0.0.1:{free_port()}/metrics", "node-a")
    assert "nobody listens" in reasons(list(nobody.poll(Deadline.after(1.0))))
    assert "no http" in reasons(list(DcgmSignal("file:///etc/passwd", "node-a").poll(Deadline.after(1.0))))


def test_closing_ends_a_poll_that_goes_on(server):
    server.mode = "hang"
    signal = DcgmSignal(server.url, "node-a")
    said = []
    thread = threading.Thread(target=lambda: said.extend(signal.poll(Deadline.after(30.0))))
    began = time.monotonic()
    thread.start()
    while not server.asked and time.monotonic() - began < 10:
        time.sleep(0.01)
    signal.close()
    thread.join(10)
    assert not thread.is_alive()
    assert list(signal.poll(Deadline.after(1.0))) == []


@pytest.mark.parametrize("port", [True, False])
def test_what_is_secret_in_the_address_is_never_said(server, port):
    where = server.url.rpartition("/")[0].rpartition(":")[2] if port else str(free_port())
    signal = DcgmSignal(
        f"http://user:S3CRET@127.0.0.1:{where}/none?key=S3CRET", "node0", clock=time.monotonic, now=time.time
    )
    said = list(signal.poll(Deadline.after(10)))
    assert reasons(said)
    assert f"127.0.0.1:{where}/none" in str(said)
    assert "S3CRET" not in str(said)
