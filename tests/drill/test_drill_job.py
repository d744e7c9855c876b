from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from drill_helpers import FAKE_RANK, PATIENCE, MakeJob, ended, until

from rankmuster.drill.fault_needs import obstacle
from rankmuster.drill.faults import fault_named
from rankmuster.drill.job import DrillJob, JobFailed
from rankmuster.evidence.bundle import load
from rankmuster.model.engine import EnginePage
from rankmuster.model.frameworklog import SignalDeath, WorkerDeath
from rankmuster.model.instance import InstanceFacts

NO_LINK, NO_SHM = obstacle(fault_named("link_cut")), obstacle(fault_named("small_shm"))


def environ_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")


def test_a_job_serves_and_everything_of_it_can_be_found_from_outside(make_job: MakeJob) -> None:
    with make_job() as job:
        job.wait_serving(PATIENCE, steps=50)
        assert sorted(job.pids) == [0, 1, 2]
        assert job.exit_codes == {0: None, 1: None, 2: None}
        for rank, pid in job.pids.items():
            told = environ_of(pid)
            assert f"RANK={rank}" in told
            assert "WORLD_SIZE=3" in told
            assert "RANKMUSTER_INSTANCE=drill-fake" in told
        assert job.server_pid is not None
        assert "RANKMUSTER_INSTANCE=drill-fake" in environ_of(job.server_pid)
        before = job.steps
        until(lambda: job.steps > before, "moving")
        assert "fake rank 2 of 3" in (job.folder / "logs" / "rank2.log").read_text()
    assert all(ended(pid) for pid in job.pids.values())
    assert ended(job.server_pid)


def test_its_metrics_page_is_one_that_an_engine_would_give(make_job: MakeJob, tmp_path: Path) -> None:
    pages = tmp_path / "bundle" / "engine"
    pages.mkdir(parents=True)
    with make_job() as job:
        job.wait_serving(PATIENCE, steps=50)
        with urllib.request.urlopen(job.metrics_url or "", timeout=PATIENCE) as page:
            (pages / "1795986513.800.prom").write_bytes(page.read())
    (page_read,) = load(tmp_path / "bundle").of(EnginePage)
    (stream,) = page_read.streams
    assert stream.running == job.plan.batch
    assert stream.steps["vllm:generation_tokens_total"] >= 50 * job.plan.batch


def test_a_page_is_refused_until_the_first_steps_are_done(make_job: MakeJob) -> None:
    with make_job("mute") as job, pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(job.metrics_url or "", timeout=PATIENCE)


def test_what_ranks_leave_behind_dies_with_the_job_and_signals_that_are_ignored_do_not_help(make_job: MakeJob) -> None:
    with make_job("child") as job:
        job.wait_serving(PATIENCE)
        children = [int((job.folder / f"child{rank}").read_text()) for rank in job.pids]
        assert not any(ended(child) for child in children)
    for pid in (*children, *job.pids.values()):
        until(lambda pid=pid: ended(pid), f"rid of {pid}")


def test_an_exception_inside_the_block_ends_the_job_too(make_job: MakeJob) -> None:
    job = make_job()
    with pytest.raises(ZeroDivisionError), job:
        print(job.wait_serving(PATIENCE) / 0)
    assert all(ended(pid) for pid in job.pids.values())


def test_a_frozen_rank_dies_as_well(make_job: MakeJob) -> None:
    with make_job(fault="freeze") as job:
        job.wait_serving(PATIENCE)
        assert job.inject(PATIENCE) is not None
        stat = Path(f"/proc/{job.pids[1]}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "stopped")
    assert job.exit_codes[1] == -signal.SIGKILL


def test_stop_may_come_at_any_time_and_twice(make_job: MakeJob) -> None:
    job = make_job()
    job.stop()
    job.start()
    job.stop()
    job.stop()
    assert all(ended(pid) for pid in job.pids.values())
    with pytest.raises(JobFailed, match="is not running"):
        _ = job.steps


ORPHANS = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from drill_helpers import FAKE_RANK
from rankmuster.drill.job import DrillJob
from rankmuster.drill.plan import JobPlan
job = DrillJob(JobPlan.small("drill-orphan", 2), {"FAKE": "serve"}, Path(sys.argv[1]), worker=FAKE_RANK)
job.start()
job.wait_serving(20)
print(*job.pids.values(), job.server_pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_kernel_ends_the_ranks_when_the_parent_is_killed(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", ORPHANS, str(tmp_path / "job"), here]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE * 2, check=False)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 3, done.stderr.decode()
    for pid in pids:
        until(lambda pid=pid: ended(pid), f"rid of {pid}")


def test_a_rank_whose_parent_is_another_ends_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "FAKE": "serve", "RANKMUSTER_INSTANCE": "x"}
    line = [*FAKE_RANK, str(tmp_path), "--parent", str(os.getppid())]
    assert subprocess.run(line, env=environment, timeout=PATIENCE, check=False).returncode == 4


def test_a_rank_that_ends_early_is_told_with_its_last_words(make_job: MakeJob) -> None:
    with make_job("exit") as job, pytest.raises(JobFailed, match=r"ended with status 7 and said last: fake rank \d"):
        job.wait_serving(PATIENCE)


def test_a_job_that_does_not_come_up_is_told_with_who_has_come_how_far(make_job: MakeJob) -> None:
    with make_job("mute") as job, pytest.raises(JobFailed, match=r"not serving after 1 s: rank 0 not_there, rank 1"):
        job.wait_serving(1.0)


def test_a_program_that_is_not_there_leaves_nothing_running(make_job: MakeJob) -> None:
    job = make_job()
    job._worker = ("/nonexistent/rank",)
    with pytest.raises(OSError, match="nonexistent"), job:
        pass
    assert job.pids == {}


def test_a_killed_rank_is_known_to_the_launchers_log_and_to_the_supervisor(make_job: MakeJob, tmp_path: Path) -> None:
    with make_job(fault="kill") as job:
        job.wait_serving(PATIENCE)
        at = job.inject(PATIENCE)
        until(lambda: job.exit_codes[1] is not None, "killed")
        assert job.exit_codes == {0: None, 1: -signal.SIGKILL, 2: None}
        assert at is not None
        assert 0 <= job.exits[1].at - at < PATIENCE
        with pytest.raises(JobFailed, match="rank 1 ended before signal 9"):
            job.signal(1, signal.SIGKILL)
        until(lambda: "exitcode" in (job.folder / "logs" / "launcher.log").read_text(), "told")
        facts, launcher = job.facts(), (job.folder / "logs" / "launcher.log").read_bytes()
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "launcher.log").write_bytes(launcher)
    evidence = load(bundle)
    (death,) = evidence.of(WorkerDeath)
    assert (death.pid, death.exit_code) == (job.pids[1], -9)
    assert [one.signal for one in evidence.of(SignalDeath)] == [9]
    (bundle / "instance.json").write_text(json.dumps(facts))
    (known,) = load(bundle).of(InstanceFacts)
    assert known.instance == "drill-fake"
    assert [process.exit_code for process in known.processes] == [None, -9, None]


def test_a_fault_is_made_when_the_word_is_given_and_not_before(make_job: MakeJob) -> None:
    with make_job(fault="skip") as job:
        job.wait_serving(PATIENCE, steps=50)
        assert job.fault_at is None
        assert job.inject(PATIENCE) == job.fault_at
        assert job.fault_at is not None
        job.resume()
        until(lambda: job.fault_at is None, "taken back")


def said_of_place(job: DrillJob, rank: int) -> list[str]:
    """Device of /dev/shm and network namespace of a rank."""
    (line,) = (one for one in (job.folder / "logs" / f"rank{rank}.log").read_text().splitlines() if "shm" in one)
    return line.split()[1:4:2]


@pytest.mark.skipif(bool(NO_LINK), reason=NO_LINK)
def test_one_rank_lives_behind_a_link_that_is_cut_and_goes_with_the_job(make_job: MakeJob) -> None:
    before = {name for _, name in socket.if_nameindex()}
    with make_job(fault="link_cut") as job:
        job.wait_serving(PATIENCE, steps=50)
        assert list(job.pids) == [0, 1, 2]
        (link,) = {name for _, name in socket.if_nameindex()} - before
        assert f"GLOO_SOCKET_IFNAME={link}" in environ_of(job.pids[0])
        assert "GLOO_SOCKET_IFNAME=drill0" in environ_of(job.pids[1])
        (master,) = (one for one in environ_of(job.pids[2]) if one.startswith("MASTER_ADDR="))
        assert master.startswith("MASTER_ADDR=198.1")
        assert said_of_place(job, 0)[1] == said_of_place(job, 2)[1] != said_of_place(job, 1)[1]
        carrier = Path("/sys/class/net", link, "carrier")
        assert carrier.read_text().strip() == "1"
        assert job.inject(PATIENCE) is not None
        until(lambda: carrier.read_text().strip() == "0", "cut")
        assert set(job.exit_codes.values()) == {None}
    assert {name for _, name in socket.if_nameindex()} == before


@pytest.mark.skipif(bool(NO_SHM), reason=NO_SHM)
def test_all_ranks_have_the_small_shared_memory_in_common(make_job: MakeJob) -> None:
    with make_job(fault="small_shm") as job:
        job.wait_serving(PATIENCE)
        devices = {said_of_place(job, rank)[0] for rank in job.pids}
        assert len(devices) == 1
        assert str(os.stat("/dev/shm").st_dev) not in devices


def test_a_fault_that_cannot_be_made_here_starts_nothing(make_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKMUSTER_DRILL_OTHER_NCCL", raising=False)
    job = make_job(fault="version_mismatch")
    with pytest.raises(JobFailed, match="version_mismatch cannot be made here: it needs another"), job:
        pass
    assert job.pids == {}


def test_a_rank_that_its_surroundings_end_before_it_is_loaded_keeps_nobody_waiting(make_job: MakeJob) -> None:
    with make_job(fault="wrong_interface") as job:
        job.wait_serving(PATIENCE)
        assert job.fault_at is not None
    with make_job("exit", fault="wrong_interface") as job, pytest.raises(JobFailed, match=r"rank [02] ended with"):
        job.wait_serving(PATIENCE)


def test_no_fault_needs_no_word(make_job: MakeJob) -> None:
    with make_job() as job:
        job.wait_serving(PATIENCE)
        assert job.inject(PATIENCE) is None


def test_what_a_killed_rank_had_started_goes_with_it_and_its_peers_stay(make_job: MakeJob) -> None:
    with make_job("child", fault="kill") as job:
        job.wait_serving(PATIENCE)
        children = {rank: int((job.folder / f"child{rank}").read_text()) for rank in job.pids}
        job.inject(PATIENCE)
        until(lambda: ended(children[1]), "rid of the killed rank's child")
        assert not ended(children[0])
        assert not ended(children[2])
