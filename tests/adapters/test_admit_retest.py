"""Re-tests by a real `rankmuster admit` over recorded captures; checks that hang, never begin, lie or are of others."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from admitted import HEALTHY, PROFILE, SAMPLES, fill, taken
from rankmuster.adapters.admit_alone import Alone
from rankmuster.adapters.admit_pair import Paired, judge_command
from rankmuster.adapters.admit_retest import AdmitRetest, _result
from rankmuster.adapters.reach import BEGUN, on_node, same_host
from rankmuster.baseline.pairs import PairResult
from rankmuster.baseline.pairs_file import as_line
from rankmuster.bench.profile_file import as_yaml as profile_yaml
from rankmuster.collect.deadline import Deadline
from rankmuster.model.benchmark import Operation, Profile, Step
from rankmuster.model.incident import RetestEnding
from rankmuster.report.fingerprint_yaml import as_yaml
from rankmuster.store.history import History

PASS, FAIL, PROVISIONAL, ERROR = RetestEnding.PASS, RetestEnding.FAIL, RetestEnding.PROVISIONAL, RetestEnding.ERROR

FAST = ("/bin/sh", "-c", "exit 0", "sh")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of node7's class, its fingerprint, a quiet kernel log, the profile, and a run of each node."""
    folder = tmp_path_factory.mktemp("known")
    (folder / "node7.yaml").write_text(as_yaml(taken().fingerprint))
    (folder / "dmesg.txt").write_text("2026-11-30T09:00:00.000000+00:00 node7 kernel: Linux version 6.8.0\n")
    (folder / "profile.yaml").write_text(profile_yaml(PROFILE))
    fill(folder / "history.db", HEALTHY)
    return folder


def recorded(known: Path, folder: Path, sample: str, *more: str, **settings: object) -> AdmitRetest:
    options = ["--from", str(known / "{node}.yaml"), "--kernel-log", str(known / "dmesg.txt"), "--no-store"]
    options += ["--from", str(SAMPLES / sample), *more]
    profile = str(known / "profile.yaml")
    return AdmitRetest(
        folder,
        profile=profile,
        short_profile=profile,
        history=str(known / "history.db"),
        options=options,
        here=("node7",),
        **settings,  # type: ignore[arg-type]
    )


def soon(seconds: float = 60.0) -> Deadline:
    return Deadline.after(seconds)


@pytest.mark.parametrize(
    ("sample", "more", "ending", "words"),
    [
        ("nt_ar_1.txt", (), PASS, "alone pass"),
        ("ar_ll.txt", ("--env", "NCCL_PROTO=LL"), FAIL, "NCCL_PROTO=LL"),
        ("ar_toomany.txt", (), ERROR, "alone error"),
    ],
)
def test_a_real_admission_decides(
    known: Path, tmp_path: Path, sample: str, more: tuple[str, ...], ending: RetestEnding, words: str
) -> None:
    retest = recorded(known, tmp_path, sample, *more)
    (result,) = retest.test(("node7",), None, "20261130-llm-0/retest/admit", soon(), short=True)
    assert (result.node, result.ending, result.alone, result.paired) == ("node7", ending, ending, None), result
    assert words in result.note
    assert result.record == str(tmp_path / "20261130-llm-0-retest-admit" / "alone-node7.json")
    assert json.loads(Path(result.record).read_text())["decision"] == ending.value


def test_too_little_history_is_provisional(known: Path, tmp_path: Path) -> None:
    with History.open(str(tmp_path / "empty.db")):
        pass
    retest = recorded(known, tmp_path, "nt_ar_1.txt", "--history", str(tmp_path / "empty.db"))
    (result,) = retest.test(("node7",), None, "op", soon(), short=False)
    assert result.ending is PROVISIONAL


def test_a_record_of_another_node_is_no_pass(known: Path, tmp_path: Path) -> None:
    (known / "node9.yaml").write_bytes((known / "node7.yaml").read_bytes())
    there = ("/usr/bin/env",)
    retest = recorded(known, tmp_path, "nt_ar_1.txt", reach=there)
    (result,) = retest.test(("node9",), None, "op", soon(), short=True)
    assert result.ending is ERROR
    assert "the record is of node7" in result.note
    alias = recorded(known, tmp_path, "nt_ar_1.txt", reach=there, aliases={"node7": "node9"})
    assert alias.test(("node9",), None, "op", soon(), short=True)[0].ending is PASS


def test_nodes_that_nobody_can_reach_are_errors(known: Path, tmp_path: Path) -> None:
    retest = recorded(known, tmp_path, "nt_ar_1.txt")
    results = retest.test(("node8", "n[1-2]", "node7"), None, "op", soon(), short=True)
    assert [one.ending for one in results] == [ERROR, ERROR, PASS]
    assert "no `reach` is configured" in results[0].note
    assert retest.test((), None, "op", soon(), short=True) == ()


def test_a_hung_check_is_a_failed_check_and_one_that_never_began_an_error(tmp_path: Path) -> None:
    began = tmp_path / "reach"
    began.write_text('#!/bin/sh\nnode=$1; shift\n[ "$node" = away ] && exec sleep 60\nexec "$@"\n')
    began.chmod(0o755)
    hangs = ("/bin/sh", "-c", "sleep 60; :", "sh")
    retest = AdmitRetest(tmp_path / "records", reach=(str(began), "{node}"), program=hangs)
    begun = time.monotonic()
    here, away = retest.test(("there", "away"), None, "op", soon(8.0), short=True)
    assert time.monotonic() - begun < 16.0
    assert (here.ending, away.ending) == (FAIL, ERROR)
    assert "hung" in here.note
    assert "nothing had begun on away" in away.note


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("exit 0", "no record"),
        ("echo boom >&2; exit 3", "boom"),
        ("echo garbage", "not believed"),
        ("echo '{}'", "not believed"),
        ("head -c 1000000 /dev/zero", "not believed"),
    ],
)
def test_what_is_no_record_is_an_error(tmp_path: Path, body: str, words: str) -> None:
    retest = AdmitRetest(tmp_path, here=("n1",), program=("/bin/sh", "-c", body, "sh"))
    (result,) = retest.test(("n1",), None, "op", soon(), short=True)
    assert result.ending is ERROR
    assert words in result.note


def test_a_changed_record_is_not_believed(known: Path, tmp_path: Path) -> None:
    failed = recorded(known, tmp_path, "ar_ll.txt", "--env", "NCCL_PROTO=LL")
    (result,) = failed.test(("node7",), None, "op", soon(), short=True)
    assert result.record is not None
    forged = tmp_path / "forged.json"
    forged.write_text(Path(result.record).read_text().replace('"decision": "fail"', '"decision": "pass"'))
    retest = AdmitRetest(tmp_path, here=("node7",), program=("/bin/sh", "-c", f"cat {forged}", "sh"))
    (result,) = retest.test(("node7",), None, "op", soon(), short=True)
    assert result.ending is ERROR
    assert "not as it was written" in result.note


def test_records_that_cannot_be_kept_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    retest = AdmitRetest(tmp_path / "file", here=("n1",), program=FAST)
    assert retest.test(("n1",), None, "op", soon(), short=True)[0].ending is ERROR


def test_without_time_nothing_is_tested(tmp_path: Path) -> None:
    retest = AdmitRetest(tmp_path, here=("n1",), program=FAST)
    (result,) = retest.test(("n1",), None, "op", soon(1.0), short=True)
    assert (result.ending, result.record) == (ERROR, None)
    assert "no time was left" in result.note


# -- pairs -------------------------------------------------------------------------------------------------------------


def launched(python: Path) -> tuple[str, ...]:
    """Options with which `bench pairs` starts both ranks on this machine by that interpreter."""
    return ("--launcher", "torchrun", "--remote", "", "--python", str(python), "--backend", "gloo")


def hanging(folder: Path) -> tuple[str, ...]:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'import time; time.sleep(120)'\n")
    python.chmod(0o755)
    return (*launched(python), "--time-limit", "2")


def test_a_pair_that_cannot_be_started_is_no_pass(known: Path, tmp_path: Path) -> None:
    retest = recorded(known, tmp_path, "nt_ar_1.txt", pairs=launched(tmp_path / "python"))
    (result,) = retest.test(("node7",), "node8", "op", soon(90.0), short=True)
    assert (result.alone, result.paired) == (PASS, ERROR), result
    assert result.ending is ERROR


def test_a_pair_that_hangs_is_a_fail(known: Path, tmp_path: Path) -> None:
    retest = recorded(known, tmp_path, "nt_ar_1.txt", pairs=hanging(tmp_path))
    (result,) = retest.test(("node7",), "node8", "op", soon(90.0), short=True)
    assert (result.alone, result.paired, result.ending) == (PASS, FAIL, FAIL), result


def test_two_real_ranks_are_a_pair(known: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    profile = tmp_path / "tiny.yaml"
    small = Step(Operation.ALL_REDUCE, (4096, 65536), dtype="float", iterations=5, warmup=1)
    profile.write_text(profile_yaml(Profile("tiny", "two sizes", (small,))))
    more = ("--floor", "0.001", "--address", "127.0.0.1", "--profile", str(profile))
    retest = recorded(known, tmp_path, "nt_ar_1.txt", pairs=(*launched(Path(sys.executable)), *more))
    (result,) = retest.test(("node7",), "node8", "op", soon(120.0), short=True)
    assert (result.alone, result.paired, result.ending) == (PASS, PASS, PASS), result
    assert (tmp_path / "op" / "pair-node7-node8.json").is_file()


def test_the_good_node_that_fails_with_all_is_suspect_itself(known: Path, tmp_path: Path) -> None:
    (known / "node9.yaml").write_bytes((known / "node7.yaml").read_bytes())
    there = {"reach": ("/usr/bin/env",), "aliases": {"node7": "node9"}}
    retest = recorded(known, tmp_path, "nt_ar_1.txt", pairs=hanging(tmp_path), **there)
    results = retest.test(("node7", "node9"), "node8", "op", soon(90.0), short=True)
    assert [(one.alone, one.paired, one.ending) for one in results] == [(PASS, ERROR, ERROR)] * 2, results
    assert "node8 failed with every one of them" in results[0].note


def test_how_a_pair_is_judged(tmp_path: Path) -> None:
    def judged(result: PairResult, *options: str) -> str:
        (tmp_path / "results").write_text(as_line(result))
        record = tmp_path / "record.json"
        command = judge_command("n1", "n2", options, tmp_path / "results", record)
        subprocess.run(command, capture_output=True)
        return str(json.loads(record.read_text())["decision"])

    assert judged(PairResult("n1", "n2", 48.0), "--launcher", "slurm", "--floor", "45") == "pass"
    assert judged(PairResult("n1", "n2", 48.0), "--floor=45") == "pass"
    assert judged(PairResult("n1", "n2", 48.0)) == "provisional"
    assert judged(PairResult("n1", "n2", 20.0), "--floor", "45") == "provisional"
    assert judged(PairResult("n1", "n2", None, "hung: rank 1 did not come"), "--floor", "45") == "fail"


def test_what_follows_from_both() -> None:
    def of(alone: RetestEnding, paired: RetestEnding | None) -> RetestEnding:
        return _result("n1", Alone(alone, "a"), None if paired is None else Paired(paired, "p")).ending

    assert of(PASS, PASS) is PASS
    assert of(PASS, None) is PASS
    assert of(PASS, FAIL) is FAIL
    assert of(FAIL, None) is FAIL
    assert of(PASS, PROVISIONAL) is PROVISIONAL
    assert of(PROVISIONAL, PASS) is PROVISIONAL
    assert of(PROVISIONAL, ERROR) is ERROR


def test_what_would_be_run_is_said(tmp_path: Path) -> None:
    retest = AdmitRetest(
        tmp_path, reach=("ssh", "{node}"), pairs=("--launcher", "slurm"), options=("--keep", "/x/{node}")
    )
    alone, pair = retest.would(("n1",), "n2", short=True)
    assert alone.startswith("ssh n1 ")
    assert "--retests 0" in alone
    assert "--keep /x/n1" in alone
    assert "bench pairs --nodes n1,n2 --trusted n2" in pair


def test_a_command_reaches_a_node_as_it_is() -> None:
    words = ["echo", "a b", "$HOME"]
    assert on_node((), "n1", words)[-3:] == words
    assert on_node(("srun", "-w", "{node}"), "n1", words)[:3] == ["srun", "-w", "n1"]
    assert on_node(("ssh", "{node}"), "n1", words)[-1].endswith("echo 'a b' '$HOME'")
    assert BEGUN in on_node(("ssh", "{node}"), "n1", words)[-1]


def test_names_of_one_host() -> None:
    assert same_host("n1", "N1.cluster.local")
    assert not same_host("n1.a", "n1.b")
    assert not same_host("n1", "n10")
