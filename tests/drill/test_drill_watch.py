"""Jobs without torch beside a watch in miniature: what the drill makes of what a watch says."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from drill_helpers import FAKE_RANK, PATIENCE, MakeJob, ended, until

from rankmuster.drill.__main__ import main
from rankmuster.drill.controls import QUIET, Disturbance, Quiet, quiet_named
from rankmuster.drill.faults import FAULTS, When, fault_named
from rankmuster.drill.plan import Backend, Serving
from rankmuster.drill.run import Order
from rankmuster.drill.usage import usage_of
from rankmuster.drill.watch_control import run_control
from rankmuster.drill.watch_fault import run_fault
from rankmuster.drill.watch_result import WatchResult, summary, summary_text, table
from rankmuster.drill.watched import WatchOrder, alarms_of
from rankmuster.drill.watcher import Look, Watcher
from rankmuster.model.fault import Progress

STUB = (sys.executable, str(Path(__file__).with_name("stub_watch.py")))


def order(how: str = "honest", fake: str = "serve", **more: Any) -> WatchOrder:
    job = Order(fault_named("none"), Backend.GLOO, 3, extra={"FAKE": fake}, worker=FAKE_RANK, start_seconds=PATIENCE)
    return WatchOrder(job, period=0.2, command=(*STUB, "--stub", how), **more)


def quiet(disturbance: Disturbance = Disturbance.NONE, *states: Progress) -> Quiet:
    return Quiet("small", "for tests", Serving(), 1.0, states or (Progress.ADVANCING,), disturbance)


def test_a_stop_is_measured_from_the_last_step_and_its_evidence_is_judged(tmp_path: Path) -> None:
    result = run_fault(order(), fault_named("stop"), 0, tmp_path)
    assert result.right, result.wrongs
    assert (result.told, result.naming, result.named, result.collects) == ("stopped", "right", (1,), 1)
    assert result.verdict == "collective_desync: missing_enter"
    assert result.seconds is not None
    assert 0.1 < result.seconds < PATIENCE
    assert result.alarms == ()
    assert result.states["advancing"] >= 3
    assert json.loads(result.to_json())["right"] is True


def test_who_is_named_wrongly_and_what_the_verdict_says_wrongly_is_told(tmp_path: Path) -> None:
    result = run_fault(order(), fault_named("freeze"), 0, tmp_path)
    assert result.told == "stopped"
    assert any(wrong.startswith("verdict: class collective_desync, not") for wrong in result.wrongs)
    elsewhere = run_fault(
        WatchOrder(Order(fault_named("none"), Backend.GLOO, 4, extra={"FAKE": "serve"}, worker=FAKE_RANK), 0.2, STUB),
        fault_named("stop"),
        0,
        tmp_path / "four",
    )
    assert elsewhere.naming == "wrong"
    assert "culprits [1] and suspects [], not 2" in elsewhere.wrongs


def test_a_stop_that_is_never_told_is_no_result(tmp_path: Path) -> None:
    result = run_fault(order("deaf", told_seconds=0.6), fault_named("stop"), 0, tmp_path)
    assert (result.told, result.seconds) == (None, None)
    assert "not told within 1 s; it said advancing: so it seems" in result.wrongs


def test_an_alarm_before_the_fault_is_a_false_one(tmp_path: Path) -> None:
    result = run_fault(order("hasty", verdicts=False, warm_seconds=1.0), fault_named("stop"), 0, tmp_path)
    assert len(result.alarms) == 1
    assert any(wrong.startswith("told before the fault: stopped after") for wrong in result.wrongs)


@pytest.mark.parametrize("how", ["ends", "wordless"])
def test_a_watch_that_says_nothing_is_told_with_its_last_words(how: str, tmp_path: Path) -> None:
    result = run_fault(order(how, warm_seconds=0.5, told_seconds=0.5), fault_named("kill"), 0, tmp_path)
    told = "the watch ended with status 1 and said last: no permission" if how == "ends" else "the watch saw no work"
    assert any(told in wrong for wrong in result.wrongs), result.wrongs


def test_a_job_that_does_not_start_is_a_wrong_result(tmp_path: Path) -> None:
    for result in (
        run_fault(order(fake="exit"), fault_named("stop"), 0, tmp_path / "fault"),
        run_control(order(fake="exit"), quiet(), 0, tmp_path / "control"),
    ):
        assert "ended with status 7" in result.wrongs[0]


@pytest.mark.parametrize("disturbance", [Disturbance.NONE, Disturbance.RESTART, Disturbance.COUNTERS])
def test_a_job_that_is_well_raises_no_alarm(disturbance: Disturbance, tmp_path: Path) -> None:
    result = run_control(order(), quiet(disturbance), 0, tmp_path)
    assert result.right, result.wrongs
    assert result.states["advancing"] >= 3
    assert (tmp_path / "job-again").exists() == (disturbance is Disturbance.RESTART)


def test_a_paused_server_is_woken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankmuster.drill.watch_control.PAUSE_SECONDS", 1.5)
    result = run_control(order(), quiet(Disturbance.PAUSED_SERVER), 0, tmp_path)
    assert result.right, result.wrongs
    assert result.states["starting"] >= 1  # the page did not answer


def test_an_alarm_of_a_job_that_is_well_is_wrong_and_so_is_a_bundle_of_it(tmp_path: Path) -> None:
    result = run_control(order("hasty"), quiet(), 0, tmp_path)
    assert not result.right
    assert result.wrongs[0].startswith("stopped after")
    assert "1 bundle(s) were made of a job that was well" in result.wrongs
    assert any("said stopped in the end, not advancing" in wrong for wrong in result.wrongs)


def test_a_state_that_is_not_the_jobs_is_wrong_in_the_end(tmp_path: Path) -> None:
    result = run_control(order(), quiet(Disturbance.NONE, Progress.IDLE), 0, tmp_path)
    assert result.wrongs == ("it said advancing in the end, not idle (so it seems)",)


def test_counters_of_a_new_front_end_begin_at_zero_at_the_same_address(make_job: MakeJob) -> None:
    def tokens() -> float:
        with urllib.request.urlopen(job.metrics_url or "", timeout=PATIENCE) as page:
            found = re.search(r"^vllm:generation_tokens_total\S* (\S+)$", page.read().decode(), re.MULTILINE)
        assert found
        return float(found.group(1))

    with make_job() as job:
        job.wait_serving(PATIENCE, steps=500)
        before, pid = tokens(), job.server_pid
        job.front.renew()
        until(lambda: job.front.answers, "listening again")
        assert tokens() < before
        assert job.server_pid != pid
        assert pid is not None
        assert ended(pid)


def test_nothing_of_a_watch_outlives_its_block(tmp_path: Path, make_job: MakeJob) -> None:
    with make_job() as job:
        watcher = Watcher(STUB, job.plan.instance, job.metrics_url or "", 1.0, tmp_path / "watch")
        begun = time.monotonic()
        with watcher:
            assert watcher.until(lambda look: look.state == "advancing", PATIENCE) is not None
            assert watcher._process is not None
            pid = watcher._process.pid
            until(lambda: watcher.rss(begun, time.monotonic()) > 0, "measured")
            usage = usage_of(pid)
            assert usage.rss > 1 << 20
            assert usage.cpu > 0
        assert ended(pid)
        assert all(look.view["name"] == job.plan.instance for look in watcher.looks)
        assert usage_of(pid).rss == 0


def test_names_are_read_by_their_roles() -> None:
    look = Look(
        0.0, {"suspects": ["culprit: rank 3 on 192.0.2.7, waits for rank 1", "suspect: gpu 2", "victim: rank 0"]}
    )
    assert look.ranks("culprit") == (3,)
    assert look.ranks("suspect") == ()
    assert Look(0.0, {"suspects": None, "event": 3, "last_stop": []}).last_stop == {}


def test_what_is_true_once_is_an_alarm_the_second_time() -> None:
    looks = [Look(float(at), {"event": event, "reason": "x"}) for at, event in enumerate(("gone", None, "gone"))]
    assert alarms_of(looks, 0.0, once=frozenset({"gone"})) == ("gone after 2 s: x",)
    assert len(alarms_of(looks, 0.0)) == 2
    assert alarms_of(looks, 0.0, until=0.0) == ()


def test_all_runs_of_a_day_in_a_few_numbers() -> None:
    def fault(seconds: float | None, naming: str, alarms: tuple[str, ...] = ()) -> WatchResult:
        return WatchResult(
            "stop", False, "gloo", 4, False, 0, seconds=seconds, naming=naming, alarms=alarms, collects=1
        )

    control = WatchResult("idle", True, "gloo", 4, False, 0, watched_seconds=60.0, states={"idle": 12})
    results = [fault(6.0, "right"), fault(20.0, "none"), fault(None, "wrong", ("stopped after 3 s: x",)), control]
    numbers = summary(results)
    assert numbers["faults"] | {"p95": 0} == {
        "runs": 3,
        "told": 2,
        "within_15_s": 1,
        "share_within_15_s": pytest.approx(1 / 3),
        "p50": 13.0,
        "p95": 0,
        "max": 20.0,
        "suspects": {"right": 1, "wrong": 1, "none": 1},
        "collected_once": 3,
        "verdict_right": 0,
    }
    assert numbers["controls"] == {"runs": 1, "seconds": 60.0, "right": 1}
    assert numbers["false_alarms"] == 1
    assert "1 of 3 stops told within 15 s" in summary_text(numbers)
    assert "idle 12" in table(results)
    assert summary([])["faults"]["share_within_15_s"] is None
    assert "0 false alarm(s)" in summary_text(summary([]))


def test_the_command_runs_faults_and_controls_and_keeps_what_it_saw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["watch", "stop", "--control", "busy", "--ranks", "3", "--period", "1", "--control-seconds", "1"]
    arguments += ["--env", "FAKE=serve", "--output", str(tmp_path / "out")]
    assert main(arguments, worker=FAKE_RANK, watch=STUB) == 0
    lines = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert [(line["name"], line["control"], line["right"]) for line in lines] == [
        ("stop", False, True),
        ("busy", True, True),
    ]
    numbers = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert numbers["faults"]["share_within_15_s"] == 1.0
    assert numbers["not_begun"] == 0
    assert "1 of 1 stops told within 15 s" in capsys.readouterr().out


def test_no_run_is_begun_when_the_time_is_over_and_that_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["watch", "stop", "--times", "3", "--ranks", "3", "--most-seconds", "0.1", "--period", "1"]
    arguments += ["--no-verdict", "--env", "FAKE=serve", "--output", str(tmp_path / "out")]
    assert main(arguments, worker=FAKE_RANK, watch=STUB) == 1
    assert "2 run(s) were not begun" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "nothing to run"),
        (["gremlin"], "no fault named 'gremlin'"),
        (["--control", "gremlin"], "no control named 'gremlin'; there are busy, steady"),
        (["slow"], "slow stops no job"),
        (["graph_stop"], "cannot be made with gloo"),
        (["stop", "--times", "0"], "at least 1"),
        (["stop", "--period", "0"], "1 to 60"),
        (["stop", "--ranks", "1"], "rank 0 is not|nobody to wait for"),
        (["--control", "busy", "--graph"], "CUDA graph"),
        (["stop", "--layers", "0"], "at least 1"),
    ],
)
def test_bad_usage_of_watch_starts_nothing(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", *arguments, "--output", str(tmp_path / "out")]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert re.search(told, said.err)


def test_controls_are_of_every_kind_that_must_be_quiet() -> None:
    assert set(QUIET) >= {
        "busy",
        "bursty",
        "idle",
        "hourly",
        "long-prefill",
        "start-up",
        "restart",
        "scrape-failure",
        "counter-reset",
    }
    with pytest.raises(ValueError, match="no control named"):
        quiet_named("noise")
    starts = {name for name, fault in FAULTS.items() if fault.when is When.START}
    assert {name for name, fault in FAULTS.items() if not fault.stops} == starts | {"none", "idle", "slow", "tail"}


@pytest.mark.parametrize("name", sorted(QUIET))
def test_every_control_is_documented(name: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "drill.md").read_text(encoding="utf-8")
    assert f"| `{name}` |" in text
