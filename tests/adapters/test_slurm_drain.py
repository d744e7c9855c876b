"""Draining nodes of a real Slurm: only our own drains are ever lifted; a Slurm that hangs, lies or is away."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankmuster.adapters.admit_retest import AdmitRetest
from rankmuster.adapters.collect_evidence import CollectEvidence
from rankmuster.adapters.deny_file import DenyFile
from rankmuster.adapters.slurm_drain import SlurmDrain
from rankmuster.adapters.slurm_node import read_node
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, Fenced, RetestEnding
from slurm_cluster import Cluster, cluster, eventually, missing

real = pytest.mark.skipif(bool(missing()), reason=missing() or "there is one")

INCIDENT = "20261130T033400Z-llm-0"


@pytest.fixture(scope="module")
def slurm() -> Iterator[Cluster]:
    with cluster(["n1", "n2"]) as made:
        yield made


@pytest.fixture
def drain(slurm: Cluster) -> Iterator[SlurmDrain]:
    yield SlurmDrain(environ=slurm.environment)
    for node in ("n1", "n2"):
        for state in ("UNDRAIN", "RESUME"):
            slurm.ask("scontrol", "update", f"NodeName={node}", f"State={state}")
    eventually(lambda: slurm.ask("sinfo", "--noheader", "--format=%D %t").split() == ["2", "idle"], "idle nodes")


def soon() -> Deadline:
    return Deadline.after(10.0)


def admin(slurm: Cluster, node: str, **wanted: str) -> None:
    done = subprocess.run(
        ["scontrol", "update", f"NodeName={node}", *(f"{key}={value}" for key, value in wanted.items())],
        env=slurm.environment,
        capture_output=True,
    )
    assert done.returncode == 0, done


@real
def test_a_node_is_drained_and_let_in_again(slurm: Cluster, drain: SlurmDrain) -> None:
    assert drain.look("n1", soon()).fenced is Fenced.NO
    fenced = drain.fence("n1", INCIDENT, 'rank 3: "mlx5_0", down\n State=IDLE é' + "x" * 900, soon())
    assert fenced.ending is Ending.DONE, fenced
    assert fenced.data == {}
    seen = drain.look("n1", soon())
    assert (seen.fenced, seen.incident) == (Fenced.OURS, INCIDENT)
    reason = slurm.ask("sinfo", "--noheader", "--nodes=n1", "--format=%300E").strip()
    assert reason.startswith(f"rankmuster:{INCIDENT}:rank 3: mlx5_0 down State IDLE x")
    assert len(reason) < 250
    assert drain.look("n2", soon()).fenced is Fenced.NO
    assert "already" in drain.fence("n1", INCIDENT, "again", soon()).note
    lifted = drain.lift("n1", INCIDENT, soon())
    assert lifted.ending is Ending.DONE, lifted
    assert drain.look("n1", soon()).fenced is Fenced.NO
    again = drain.lift("n1", INCIDENT, soon())
    assert again.ending is Ending.DONE
    assert "nothing to lift" in again.note


@real
@pytest.mark.parametrize("reason", ["bad fan, ticket 17", "Kill task failed", f"rankmuster:{INCIDENT}:path_lost"])
def test_a_drain_of_others_stays(slurm: Cluster, drain: SlurmDrain, reason: str) -> None:
    admin(slurm, "n1", State="DRAIN", Reason=reason)
    fenced = drain.fence("n1", INCIDENT, "path_lost", soon())
    assert fenced.ending is Ending.DONE
    assert fenced.data == {"others": True}
    refused = drain.lift("n1", INCIDENT, soon())
    assert refused.ending is Ending.REFUSED
    assert reason[:20] in refused.note
    seen = drain.look("n1", soon())
    assert (seen.fenced, seen.reason) == (Fenced.OTHERS, reason)


@real
def test_a_node_that_an_admin_drained_after_us_is_the_admins(slurm: Cluster, drain: SlurmDrain) -> None:
    assert drain.fence("n1", INCIDENT, "path_lost", soon()).ending is Ending.DONE
    ours = drain.look("n1", soon()).reason
    admin(slurm, "n1", State="DRAIN", Reason=f"{ours} - keep it, bob")
    assert drain.look("n1", soon()).fenced is Fenced.OTHERS
    assert drain.lift("n1", INCIDENT, soon()).ending is Ending.REFUSED
    assert drain.look("n1", soon()).reason.endswith("bob")


@real
def test_another_incident_s_drain_is_known_and_left(drain: SlurmDrain) -> None:
    assert drain.fence("n1", "first", "path_lost", soon()).ending is Ending.DONE
    assert drain.fence("n1", "second", "path_lost", soon()).data == {"others": True}
    assert drain.lift("n1", "second", soon()).ending is Ending.REFUSED
    assert drain.look("n1", soon()).incident == "first"


@real
def test_a_node_that_is_down_stays_down_when_our_drain_is_lifted(slurm: Cluster, drain: SlurmDrain) -> None:
    admin(slurm, "n2", State="DOWN", Reason="Not responding")
    assert drain.look("n2", soon()).fenced is Fenced.NO
    assert drain.fence("n2", INCIDENT, "host_lost", soon()).data == {}
    assert drain.look("n2", soon()).fenced is Fenced.OURS
    assert drain.lift("n2", INCIDENT, soon()).ending is Ending.DONE
    text = slurm.ask("scontrol", "show", "node", "n2")
    node = read_node(text, "n2")
    assert not isinstance(node, str)
    assert (node.down, node.drained, node.reason) == (True, False, "Not responding")


@real
def test_a_node_that_somebody_took_down_is_theirs(slurm: Cluster, drain: SlurmDrain) -> None:
    admin(slurm, "n2", State="DOWN", Reason="rma 4711")
    assert drain.fence("n2", INCIDENT, "host_lost", soon()).data == {"others": True}
    assert drain.lift("n2", INCIDENT, soon()).ending is Ending.DONE
    assert drain.look("n2", soon()).reason == "rma 4711"


@real
@pytest.mark.parametrize("node", ["nobody", "ALL", "n[1-2]", "n1,n2", "", "-n1", "n1 State=DOWN"])
def test_what_is_no_node_is_refused(slurm: Cluster, drain: SlurmDrain, node: str) -> None:
    answer = drain.fence(node, INCIDENT, "x", soon())
    assert answer.ending in (Ending.REFUSED, Ending.FAILED)
    assert drain.look(node, soon()).fenced is Fenced.UNKNOWN
    assert "drain" not in slurm.ask("sinfo", "--noheader", "--format=%t")


@real
def test_without_permission_it_is_said(slurm: Cluster, tmp_path: Path) -> None:
    if subprocess.run(["su", "nobody", "-s", "/bin/true"], capture_output=True).returncode != 0:
        pytest.skip("nobody may not run anything here")
    script = fake(tmp_path, """exec su nobody -s /bin/sh -c 'exec scontrol "$@"' sh "$@" """)
    answer = SlurmDrain(scontrol=script, environ=slurm.environment).fence("n1", INCIDENT, "x", soon())
    assert answer.ending is Ending.FAILED
    assert "Invalid user id" in answer.note or "denied" in answer.note


@real
def test_without_a_controller_nobody_knows(slurm: Cluster, tmp_path: Path) -> None:
    text = Path(slurm.environment["SLURM_CONF"]).read_text()
    away = tmp_path / "slurm.conf"
    away.write_text("\n".join("SlurmctldPort=1" if "SlurmctldPort" in line else line for line in text.splitlines()))
    gone = SlurmDrain(environ={**slurm.environment, "SLURM_CONF": str(away)})
    begun = time.monotonic()
    assert gone.look("n1", Deadline.after(1.0)).fenced is Fenced.UNKNOWN
    answer = gone.fence("n1", INCIDENT, "x", Deadline.after(1.0))
    assert answer.ending in (Ending.TIMED_OUT, Ending.FAILED)
    assert "nothing was changed" in answer.note
    assert time.monotonic() - begun < 4.0  # two deadlines and what a busy machine adds


def fake(folder: Path, body: str) -> str:
    path = folder / "scontrol"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


GARBAGE = {
    "it hangs": "trap '' TERM; sleep 60",
    "it fails": "echo 'slurm_load_node error: Socket timed out' >&2; exit 1",
    "it says nothing": "exit 0",
    "it says megabytes": "head -c 4000000 /dev/zero",
    "it speaks of another node": "echo 'NodeName=n7 Arch=x86'; echo '   State=IDLE'",
    "it speaks of two nodes": "for n in n1 n2; do echo NodeName=$n; echo '   State=IDLE'; done",
    "it says no state": "echo 'NodeName=n1 Arch=x86'",
    "it is binary": r"printf 'NodeName=n1\n   State=\377\376\n'",
}


@pytest.mark.parametrize("body", GARBAGE.values(), ids=GARBAGE)
def test_an_answer_that_is_none_changes_nothing(tmp_path: Path, body: str) -> None:
    log = tmp_path / "log"
    drain = SlurmDrain(scontrol=fake(tmp_path, f'echo "$*" >> {log}\n{body}'))
    assert drain.look("n1", Deadline.after(0.6)).fenced is Fenced.UNKNOWN
    assert drain.fence("n1", INCIDENT, "x", Deadline.after(1.0)).ending in (Ending.FAILED, Ending.TIMED_OUT)
    assert drain.lift("n1", INCIDENT, Deadline.after(1.0)).ending in (Ending.FAILED, Ending.TIMED_OUT)
    assert "update" not in log.read_text()


def test_a_slurm_that_lies_is_not_believed(tmp_path: Path) -> None:
    drain = SlurmDrain(scontrol=fake(tmp_path, "echo 'NodeName=n1 Arch=x86'; echo '   State=IDLE'"))
    answer = drain.fence("n1", INCIDENT, "x", soon())
    assert answer.ending is Ending.FAILED
    assert "scontrol said that it did it; it is IDLE" in answer.note


def test_an_update_that_hangs_is_timed_out(tmp_path: Path) -> None:
    hangs = 'case $1 in update) sleep 60;; esac; echo "NodeName=n1"; echo "   State=IDLE"'
    answer = SlurmDrain(scontrol=fake(tmp_path, hangs)).fence("n1", INCIDENT, "x", Deadline.after(2.0))
    assert answer.ending is Ending.TIMED_OUT


def test_no_program_is_said() -> None:
    drain = SlurmDrain(scontrol="/nowhere/scontrol")
    assert "could not be started" in drain.look("n1", soon()).note
    assert drain.fence("n1", INCIDENT, "x", soon()).ending is Ending.FAILED


def test_what_would_be_run_is_said_word_for_word() -> None:
    drain = SlurmDrain(scontrol="/opt/slurm/bin/scontrol")
    line = drain.would("fence", "n1", INCIDENT, "path_lost")[0]
    assert line.startswith(f"/opt/slurm/bin/scontrol update NodeName=n1 State=DRAIN 'Reason=rankmuster:{INCIDENT}:path")
    assert "State=UNDRAIN" in drain.would("lift", "n1", INCIDENT)[0]


@real
def test_srun_reads_a_deny_file_and_the_documented_line_reads_an_empty_one(slurm: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "deny"
    path.write_text("# people\n")
    deny = DenyFile(path)

    def placed(exclude: str) -> str:
        line = f"srun --exclude={exclude} printenv SLURMD_NODENAME"
        return subprocess.run(["sh", "-c", line], env=slurm.environment, capture_output=True, text=True).stdout.strip()

    listed = f"""\"$(sed 's/#.*//' {path} | xargs | tr ' ' ,)\""""
    assert placed(str(path)) == ""  # srun fails where no node is named
    assert placed(listed) in ("n1", "n2")
    assert deny.fence("n1", INCIDENT, "path_lost, n2", soon()).ending is Ending.DONE
    assert placed(str(path)) == placed(listed) == "n2"


@real
def test_srun_reaches_a_node_until_it_is_drained(
    slurm: Cluster, drain: SlurmDrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    hangs = ("/bin/sh", "-c", "sleep 60; :", "sh")
    retest = AdmitRetest(tmp_path, reach=("srun", "-w", "{node}"), program=hangs)
    assert drain.fence("n2", INCIDENT, "x", soon()).ending is Ending.DONE
    idle, drained = retest.test(("n1", "n2"), None, "op", Deadline.after(9.0), short=True)
    assert (idle.ending, drained.ending) == (RetestEnding.FAIL, RetestEnding.ERROR), (idle, drained)
    assert "takes no work" in drained.note
    slurm.ask("scancel", "--user=root")


@real
def test_a_bundle_comes_whole_through_srun(
    slurm: Cluster, drain: SlurmDrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    options = ("--look", "0.5", "--no-stacks", "--dumps", "never", "--ras-risk", "never")
    evidence = CollectEvidence(reach=("srun", "-w", "{node}"), hosts=("n1",), options=options)
    answer = evidence.collect("nobody-at-all", None, (), str(tmp_path / "e"), Deadline.after(25.0), stopped=False)
    assert answer.data["bundle"] == str(tmp_path / "e" / "bundle"), answer
    assert len(list((tmp_path / "e" / "bundle" / "nodes").iterdir())) == 2
