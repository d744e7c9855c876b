"""Jobs of a real Slurm, ended whole and started whole; jobs that cannot be, and a Slurm that hangs or lies."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rankmuster.adapters.slurm_job import read_job
from rankmuster.adapters.slurm_requeue import SlurmRequeue
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, GroupState, StartWish
from slurm_cluster import Cluster, cluster, eventually, missing

real = pytest.mark.skipif(bool(missing()), reason=missing() or "there is one")

Submit = Callable[..., str]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    with cluster(["n1", "n2"]) as made:
        yield made


@pytest.fixture
def submit(slurm: Cluster, tmp_path: Path) -> Iterator[Submit]:
    jobs = []

    def submitted(*options: str, body: str = "srun sleep 600", until: str = "RUNNING") -> str:
        script = tmp_path / "job.sh"
        script.write_text(f"#!/bin/sh\n#SBATCH --output={tmp_path}/out --nodes=1\n{body}\n")
        done = subprocess.run(
            ["sbatch", "--parsable", *options, str(script)], env=slurm.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done
        job = done.stdout.strip()
        jobs.append(job)
        eventually(lambda: state(slurm, job) == until, f"{until} of job {job}")
        return job

    yield submitted
    for job in jobs:
        slurm.ask("scancel", job)
    eventually(lambda: not slurm.ask("squeue", "--noheader").strip(), "an empty queue")


def state(slurm: Cluster, job: str) -> str:
    return slurm.ask("squeue", "--noheader", f"--jobs={job}", "--states=all", "--format=%T").strip()


def excluded(slurm: Cluster, job: str) -> str:
    found = read_job(slurm.ask("scontrol", "show", "job", job), job)
    assert not isinstance(found, str)
    return found.excluded


def soon(seconds: float = 20.0) -> Deadline:
    return Deadline.after(seconds)


def group(slurm: Cluster, job: str, notes: Path | None = None) -> SlurmRequeue:
    return SlurmRequeue(job, environ=slurm.environment, notes=notes)


@real
def test_a_job_is_ended_whole_and_started_elsewhere(slurm: Cluster, submit: Submit, tmp_path: Path) -> None:
    job = submit("--job-name=llm-0", body="srun sleep 600 &\nwait")
    notes = tmp_path / "notes.json"
    ours = group(slurm, "llm-0", notes)
    before = ours.look(soon())
    assert (before.state, before.incarnation) == (GroupState.RUNNING, f"slurm-{job}.0")
    assert before.at is not None
    (node,) = before.hosts
    other = {"n1": "n2", "n2": "n1"}[node]

    ended = ours.terminate(before.incarnation, "op-1", soon())
    assert ended.ending is Ending.DONE, ended
    held = ours.look(soon())
    assert (held.state, held.incarnation, held.ended_by_itself) == (GroupState.ENDED, before.incarnation, False)
    assert "nothing runs" in ours.terminate(before.incarnation, "op-1", soon()).note

    started = ours.start(before.incarnation, "op-2", StartWish(avoid=(node,), suspect="path_lost"), soon())
    assert started.ending is Ending.DONE, started
    assert started.data == {"incarnation": f"slurm-{job}.1"}
    assert "no incident logging profile" in started.note
    eventually(lambda: ours.look(soon()).state is GroupState.RUNNING, "the second run", 60.0)
    after = ours.look(soon())
    assert (after.hosts, after.incarnation) == ((other,), f"slurm-{job}.1")

    untouched = ours.terminate(before.incarnation, "op-1", soon())
    assert untouched.ending is Ending.DONE
    assert "not touched" in untouched.note
    assert ours.look(soon()).state is GroupState.RUNNING
    again = ours.start(before.incarnation, "op-2", StartWish(), soon())
    assert again.ending is Ending.DONE
    assert "no second one" in again.note
    assert ours.start(after.incarnation, "op-3", StartWish(), soon()).ending is Ending.FAILED

    # what we have excluded is taken back with the next start, by another process too
    assert ours.terminate(after.incarnation, "op-4", soon()).ending is Ending.DONE
    assert excluded(slurm, job) == node
    later = group(slurm, job, notes)
    assert later.start(after.incarnation, "op-5", StartWish(), soon()).ending is Ending.DONE
    assert excluded(slurm, job) == ""


@real
def test_what_ignores_sigterm_is_gone_before_it_is_said_to_be(slurm: Cluster, submit: Submit, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    deaf = tmp_path / "deaf.sh"
    deaf.write_text(f"trap '' TERM\necho $$ >> {pids}\nwhile :; do sleep 1; done\n")
    job = submit(body=f"srun sh {deaf} &\nwait")
    eventually(pids.exists, "the step")
    answer = group(slurm, job).terminate(f"slurm-{job}.0", "op", soon())
    assert answer.ending is Ending.DONE, answer
    assert [pid for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()] == []


@real
def test_the_owner_s_own_exclusions_stay(slurm: Cluster, submit: Submit) -> None:
    job = submit("--exclude=n2")
    ours = group(slurm, job)
    assert ours.terminate(f"slurm-{job}.0", "op", soon()).ending is Ending.DONE
    started = ours.start(f"slurm-{job}.0", "op", StartWish(avoid=("n1", "n2")), soon())
    assert started.ending is Ending.DONE
    assert excluded(slurm, job) in ("n1,n2", "n[1-2]")
    waiting = ours.look(soon())
    assert (waiting.state, waiting.incarnation) == (GroupState.STARTING, f"slurm-{job}.1")
    # a run that has not begun is ended by keeping it from beginning, and that hold is ours
    assert ours.terminate(waiting.incarnation, "op", soon()).ending is Ending.DONE
    assert ours.look(soon()).state is GroupState.ENDED
    assert ours.start(f"slurm-{job}.0", "op", StartWish(), soon()).ending is Ending.DONE
    assert excluded(slurm, job) == "n2"


@real
def test_a_hold_of_somebody_else_is_not_released(slurm: Cluster, submit: Submit) -> None:
    job = submit()
    ours = group(slurm, job)
    slurm.ask("scontrol", "hold", job)
    assert ours.terminate(None, "op", soon()).ending is Ending.DONE
    refused = ours.start(f"slurm-{job}.0", "op", StartWish(), soon())
    assert refused.ending is Ending.REFUSED
    assert f"scontrol release {job}" in refused.note


@real
def test_unknown_nodes_to_avoid_leave_it_held(slurm: Cluster, submit: Submit) -> None:
    job = submit()
    ours = group(slurm, job)
    assert ours.terminate(None, "op", soon()).ending is Ending.DONE
    assert ours.start(f"slurm-{job}.0", "op", StartWish(avoid=("nobody",)), soon()).ending is Ending.FAILED
    assert ours.start(f"slurm-{job}.0", "op", StartWish(avoid=("n[1-9]",)), soon()).ending is Ending.REFUSED
    assert ours.look(soon()).state is GroupState.ENDED


@real
def test_a_job_that_must_not_be_requeued_is_refused_and_lives(slurm: Cluster, submit: Submit) -> None:
    job = submit("--no-requeue")
    refused = group(slurm, job).terminate(f"slurm-{job}.0", "op", soon())
    assert refused.ending is Ending.REFUSED
    assert f"scontrol update JobId={job} Requeue=1" in refused.note
    assert state(slurm, job) == "RUNNING"


@real
def test_an_interactive_job_is_refused(slurm: Cluster) -> None:
    srun = subprocess.Popen(["srun", "--job-name=hand", "sleep", "600"], env=slurm.environment)
    try:
        ours = group(slurm, "hand")
        eventually(lambda: ours.look(soon()).state is GroupState.RUNNING, "the interactive job")
        refused = ours.terminate(ours.look(soon()).incarnation, "op", soon())
        assert refused.ending is Ending.REFUSED
        assert "sbatch" in refused.note
    finally:
        srun.terminate()
        srun.wait()


@real
def test_several_jobs_of_a_name_are_nobody(slurm: Cluster, submit: Submit) -> None:
    jobs = [submit("--job-name=twice"), submit("--job-name=twice")]
    ours = group(slurm, "twice")
    assert ours.look(soon()).state is GroupState.UNKNOWN
    assert ours.terminate(None, "op", soon()).ending is Ending.REFUSED
    assert [state(slurm, job) for job in jobs] == ["RUNNING", "RUNNING"]


@real
def test_an_array_is_no_group_and_its_task_is_one(slurm: Cluster, submit: Submit) -> None:
    script_job = submit("--array=1-2", until="RUNNING\nRUNNING")
    assert group(slurm, script_job).terminate(None, "op", soon()).ending is Ending.REFUSED
    task = group(slurm, f"{script_job}_1")
    assert task.terminate(task.look(soon()).incarnation, "op", soon()).ending is Ending.DONE
    assert state(slurm, f"{script_job}_2") == "RUNNING"


@real
def test_a_job_that_failed_by_itself_is_started_again(slurm: Cluster, submit: Submit) -> None:
    job = submit(body='[ "$SLURM_RESTART_COUNT" ] || exit 3\nsleep 600', until="FAILED")
    ours = group(slurm, job)
    seen = ours.look(soon())
    assert (seen.state, seen.ended_by_itself, seen.exit_status) == (GroupState.ENDED, True, 3)
    assert ours.terminate(seen.incarnation, "op", soon()).ending is Ending.DONE
    assert ours.start(seen.incarnation, "op", StartWish(), soon()).ending is Ending.DONE
    eventually(lambda: ours.look(soon()).state is GroupState.RUNNING, "the second run", 60.0)


@real
def test_a_job_that_somebody_cancelled_stays_cancelled(slurm: Cluster, submit: Submit) -> None:
    job = submit()
    slurm.ask("scancel", job)
    eventually(lambda: state(slurm, job) == "CANCELLED", "the cancelled job")
    ours = group(slurm, job)
    seen = ours.look(soon())
    assert (seen.state, seen.ended_by_itself) == (GroupState.ENDED, False)
    assert ours.start(seen.incarnation, "op", StartWish(), soon()).ending is Ending.REFUSED


@real
@pytest.mark.parametrize("job", ["4711", "no-such-name"])
def test_a_job_that_slurm_does_not_know_has_ended(slurm: Cluster, job: str) -> None:
    ours = group(slurm, job)
    assert ours.look(soon()).state is GroupState.ENDED
    assert ours.terminate(None, "op", soon()).ending is Ending.DONE
    assert ours.start(None, "op", StartWish(), soon()).ending is Ending.REFUSED


@real
def test_a_run_of_another_naming_is_refused(slurm: Cluster, submit: Submit) -> None:
    job = submit()
    assert group(slurm, job).terminate("2026-11-30T03:34:00Z", "op", soon()).ending is Ending.REFUSED
    assert state(slurm, job) == "RUNNING"


# -- a Slurm that is none ----------------------------------------------------------------------------------------------

JOB = """JobId=7 JobName=llm
   Priority={priority} Nice=0
   JobState={state} Reason=None Dependency=(null)
   Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0 ExitCode=0:0
   StartTime=2026-11-30T13:36:35 EndTime=Unknown Deadline=N/A
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
"""


def fake(folder: Path, body: str) -> str:
    path = folder / "scontrol"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def stuck(folder: Path, kill_wait: int) -> str:
    running = JOB.format(state="RUNNING", restarts=0, priority=1)
    ending = JOB.format(state="COMPLETING", restarts=1, priority=0)
    return fake(
        folder,
        f"""case "$1 $2" in
"requeuehold 7") touch {folder}/told;;
"show config") echo "KillWait                = {kill_wait} sec";;
"show hostnames") echo n1; echo n2;;
"show job") if [ -e {folder}/told ]; then cat <<'X'
{ending}X
else cat <<'X'
{running}X
fi;; esac""",
    )


def test_what_cannot_be_killed_is_the_node_s(tmp_path: Path) -> None:
    ours = SlurmRequeue("7", scontrol=stuck(tmp_path, 0))
    answer = ours.terminate("slurm-7.0", "op", Deadline.after(4.5))
    assert answer.ending is Ending.NODE, answer
    assert answer.data == {"node": "n1", "nodes": ["n1", "n2"], "pids": []}
    ending = ours.look(soon())
    assert (ending.state, ending.incarnation) == (GroupState.ENDING, "slurm-7.0")
    assert ours.start("slurm-7.0", "op", StartWish(), soon()).ending is Ending.FAILED


def test_what_slurm_has_not_killed_yet_is_only_late(tmp_path: Path) -> None:
    answer = SlurmRequeue("7", scontrol=stuck(tmp_path, 60)).terminate("slurm-7.0", "op", Deadline.after(2.0))
    assert answer.ending is Ending.TIMED_OUT
    assert "KillWait, 60 s" in answer.note


@pytest.mark.parametrize(
    "body",
    ["trap '' TERM; sleep 60", "echo broken >&2; exit 1", "exit 0", "head -c 4000000 /dev/zero", "echo JobId=8"],
    ids=["it hangs", "it fails", "it says nothing", "it says megabytes", "it speaks of another job"],
)
def test_an_answer_that_is_none_changes_nothing(tmp_path: Path, body: str) -> None:
    log = tmp_path / "log"
    ours = SlurmRequeue("7", scontrol=fake(tmp_path, f'echo "$*" >> {log}\n{body}'))
    assert ours.look(Deadline.after(0.6)).state is GroupState.UNKNOWN
    assert ours.terminate("slurm-7.0", "op", Deadline.after(0.6)).ending in (Ending.FAILED, Ending.TIMED_OUT)
    assert ours.start("slurm-7.0", "op", StartWish(), Deadline.after(0.6)).ending in (Ending.FAILED, Ending.TIMED_OUT)
    assert set(log.read_text().split("\n")) == {"show job 7", ""}


def test_a_release_that_does_nothing_is_not_believed(tmp_path: Path) -> None:
    held = JOB.format(state="PENDING", restarts=1, priority=0)
    ours = SlurmRequeue("7", scontrol=fake(tmp_path, f"cat <<'X'\n{held}X"))
    answer = ours.start("slurm-7.0", "op", StartWish(), soon())
    assert answer.ending is Ending.FAILED
    assert "scontrol said yes" in answer.note


def test_notes_that_cannot_be_kept_start_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    held = JOB.format(state="PENDING", restarts=1, priority=0)
    ours = SlurmRequeue("7", scontrol=fake(tmp_path, f"cat <<'X'\n{held}X"), notes=tmp_path / "file" / "notes")
    assert "cannot be noted" in ours.start("slurm-7.0", "op", StartWish(avoid=("n1",)), soon()).note


def test_what_would_be_run_is_said_word_for_word() -> None:
    ours = SlurmRequeue("7")
    assert ours.would("terminate", incarnation="slurm-7.0") == ("scontrol requeuehold 7  # if slurm-7.0 is what runs",)
    lines = ours.would("start", wish=StartWish(avoid=("n1",)))
    assert lines == ("scontrol update JobId=7 StartTime=now ExcNodeList=<its own>,n1", "scontrol release 7")
