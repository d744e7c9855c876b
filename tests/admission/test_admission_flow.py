"""One admission from look to record: re-tests, nodes that change, runs that hang, and what the history is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from admitted import HEALTHY, PROFILE, QUIET, admission, fill, node_path, run_of, taken
from rankmuster.admission.dcgm import DcgmReport
from rankmuster.admission.past_store import StorePast
from rankmuster.admission.plan import Outcome, Plan, Taken
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.model.admission import CheckState, Decision
from rankmuster.model.benchmark import BenchmarkRun, RunState
from rankmuster.model.judgement import Standing
from rankmuster.model.unknown import Unknown
from rankmuster.store.history import History


@pytest.fixture
def past(tmp_path: Path) -> Callable[..., StorePast]:
    """A history of the healthy runs, open for the test."""
    opened: list[History] = []

    def make(names: tuple[str, ...] = HEALTHY) -> StorePast:
        fill(tmp_path / "history.db", names)
        opened.append(History.open(str(tmp_path / "history.db")))
        return StorePast(opened[-1])

    yield make  # type: ignore[misc]
    for history in opened:
        history.close()


def scaled(name: str, factor: float) -> BenchmarkRun:
    """The run, slower by `factor` at every size of the plateau."""
    run = run_of(name)
    rows = [
        replace(row, time_us=row.time_us / by, algbw=row.algbw * by, busbw=row.busbw * by)
        for row in run.measurements
        for by in [factor if row.cell.size_bytes >= 1 << 24 else 1.0]
    ]
    return replace(run, measurements=tuple(rows))


def borderline(past: StorePast) -> float:
    """A factor at which one run is borderline, whatever the thresholds are today."""
    for step in range(1, 40):
        factor = 1 - step / 200
        judged = admission([scaled("ar_3.txt", factor)], past, plan=Plan(PROFILE, retests=0)).record.judgements
        if any(each.can_refuse and each.standing is Standing.BORDERLINE for each in judged):
            assert not any(each.can_refuse and each.standing is Standing.BELOW for each in judged)
            return factor
    raise AssertionError("no factor is borderline")


def test_borderline_is_measured_again_in_fresh_processes_and_all_runs_are_kept(
    past: Callable[..., StorePast],
) -> None:
    known = past()
    factor = borderline(known)
    runs = [scaled("ar_3.txt", factor), run_of("ar_5.txt"), run_of("ar_6.txt"), run_of("ar_7.txt")]
    record = admission(runs, known, plan=Plan(PROFILE, retests=3)).record
    assert record.decision is Decision.PASS, record.reasons
    assert 1 <= record.retests <= 3
    assert len(record.runs) == 1 + record.retests


def test_a_node_that_stays_low_is_not_rounded_to_a_pass(past: Callable[..., StorePast]) -> None:
    known = past()
    factor = borderline(known)
    record = admission([scaled("ar_3.txt", factor)] * 3, known, plan=Plan(PROFILE, retests=2)).record
    assert record.decision is not Decision.PASS
    assert record.retests == 2
    assert len(record.runs) == 3


def test_an_undecided_node_does_not_enter_the_baseline(past: Callable[..., StorePast]) -> None:
    known = past()
    outcome = admission([scaled("ar_3.txt", borderline(known))], known, plan=Plan(PROFILE, retests=0))
    assert outcome.record.decision is Decision.PROVISIONAL
    assert "between the thresholds" in outcome.record.reasons[0]
    assert [run.state for run in outcome.runs] == [RunState.REFUSED]


def test_a_healthy_first_run_is_not_measured_again(past: Callable[..., StorePast]) -> None:
    runs = [run_of("nt_ar_1.txt"), run_of("ar_4.txt")]
    record = admission(runs, past(), plan=Plan(PROFILE, retests=5)).record
    assert (record.retests, len(record.runs)) == (0, 1)


def test_several_first_runs_are_judged_together(past: Callable[..., StorePast]) -> None:
    runs = [run_of(f"nt_ar_{n}.txt") for n in (1, 2, 3)]
    outcome = admission(runs, past(), plan=Plan(PROFILE, runs=3, retests=0))
    assert outcome.record.decision is Decision.PASS
    assert (len(outcome.record.runs), len(outcome.runs)) == (3, 3)


@pytest.mark.parametrize(
    ("state", "decision", "words"),
    [
        (RunState.HUNG, Decision.FAIL, "it did not end in its time"),
        (RunState.ERROR, Decision.ERROR, "it failed"),
        (RunState.INCOMPLETE, Decision.ERROR, "it ended before its last size"),
    ],
)
def test_a_benchmark_that_does_not_end_well(
    state: RunState, decision: Decision, words: str, past: Callable[..., StorePast]
) -> None:
    run = run_of("ar_1.txt", state=state, reason="as the tool says")
    outcome = admission([run], past())
    assert outcome.record.decision is decision
    assert words in outcome.record.reasons[0]
    assert "as the tool says" in outcome.record.reasons[0]
    assert [each.state for each in outcome.runs] == [state], "kept apart, under its own state"


def test_a_benchmark_that_hung_once_is_not_asked_again(past: Callable[..., StorePast]) -> None:
    runs = [run_of("ar_1.txt", state=RunState.HUNG), run_of("ar_2.txt")]
    assert len(admission(runs, past(), plan=Plan(PROFILE, runs=2)).record.runs) == 1


def test_wrong_values_refuse_however_fast_they_came(past: Callable[..., StorePast]) -> None:
    run = run_of("ar_1.txt", state=RunState.WRONG, reason="9 wrong values")
    rows = (*run.measurements[:-1], replace(run.measurements[-1], wrong=9))
    outcome = admission([replace(run, measurements=rows)], past())
    assert outcome.record.decision is Decision.FAIL
    assert "9 wrong values of all_reduce at 256 MiB" in outcome.record.reasons[0]


def test_values_that_were_not_checked_are_no_pass(past: Callable[..., StorePast]) -> None:
    run = run_of("ar_1.txt")
    rows = tuple(replace(row, wrong=None) for row in run.measurements)
    record = admission([replace(run, measurements=rows)], past()).record
    assert record.decision is Decision.PROVISIONAL
    assert "were not checked" in record.reasons[0]


def changing(after: Taken) -> Callable[[], Taken]:
    looks = iter([taken(), after])
    return lambda: next(looks)


def test_a_node_that_changed_on_the_way_is_an_error_that_names_what(past: Callable[..., StorePast]) -> None:
    path = replace(node_path(), driver="580.200.01")
    outcome = admission([run_of("ar_1.txt")], past(), look=changing(Taken(path, fingerprint_of(path))))
    assert outcome.record.decision is Decision.ERROR
    assert "580.159.04 -> 580.200.01" in outcome.record.reasons[0]
    assert outcome.record.judgements == ()
    assert [run.state for run in outcome.runs] == [RunState.REFUSED]


def test_another_machine_under_the_same_name_is_an_error(past: Callable[..., StorePast]) -> None:
    path = node_path()
    assert isinstance(path.gpus, tuple)
    swapped = replace(path, gpus=(replace(path.gpus[0], uuid="GPU-other"), *path.gpus[1:]))
    record = admission([run_of("ar_1.txt")], past(), look=changing(Taken(swapped, fingerprint_of(swapped)))).record
    assert record.decision is Decision.ERROR
    assert "changed between fingerprint and benchmark" in record.reasons[0]


def test_an_unknown_part_means_no_history_and_says_which(past: Callable[..., StorePast]) -> None:
    path = node_path()
    unread = replace(path, driver=Unknown("NVML did not tell it"))
    outcome = admission([run_of("ar_1.txt")], past(), look=lambda: Taken(unread, fingerprint_of(unread)))
    assert outcome.record.decision is Decision.PROVISIONAL
    assert "NVML did not tell it" in outcome.record.reasons[0]
    assert outcome.record.fingerprint["class_hash"].startswith("unknown: ")
    assert outcome.runs == (), "a run of no class is kept nowhere"
    assert any("not kept in the history" in note for note in outcome.record.notes)


def test_nothing_is_measured_on_a_machine_without_gpus() -> None:
    bare = replace(node_path(), gpus=())
    outcome = admission([], look=lambda: Taken(bare, fingerprint_of(bare)), plan=Plan(PROFILE))
    assert outcome.record.decision is Decision.ERROR
    assert "no NVIDIA GPU" in outcome.record.reasons[0]
    assert outcome.record.runs == ()


def test_a_driver_that_blocks_is_a_hung_check_and_refuses() -> None:
    blocked = replace(node_path(), gpus=Unknown("NVML was asked to start and gave no answer; the driver blocks"))
    outcome = admission([], look=lambda: Taken(blocked, fingerprint_of(blocked)), plan=Plan(PROFILE))
    assert outcome.record.decision is Decision.FAIL
    assert outcome.record.checks[0].state is CheckState.HUNG


def test_a_hung_diagnosis_refuses_a_fast_node(past: Callable[..., StorePast]) -> None:
    facts = replace(QUIET, dcgm=DcgmReport(None, 1, (), "ended after 180 s", hung=True))
    record = admission([run_of("ar_1.txt")], past(), facts=facts).record
    assert record.decision is Decision.FAIL
    assert "did not end in its time" in record.reasons[0]


def test_a_kernel_log_that_cannot_be_read_leaves_a_node_without_recovery_action_provisional(
    past: Callable[..., StorePast],
) -> None:
    facts = replace(QUIET, kernel=Unknown("denied"))
    assert admission([run_of("ar_1.txt")], past(), facts=facts).record.decision is Decision.PASS
    path = node_path()
    assert isinstance(path.gpus, tuple)
    silent = tuple(
        replace(gpu, facts={k: v for k, v in gpu.facts.items() if k != "GPU Recovery Action"}) for gpu in path.gpus
    )
    look = Taken(replace(path, gpus=silent), taken().fingerprint)
    record = admission([run_of("ar_1.txt")], past(), facts=facts, look=lambda: look).record
    assert record.decision is Decision.PROVISIONAL
    assert "xid" in record.reasons[0]


def test_a_refusing_check_keeps_a_fast_run_out_of_the_baseline(past: Callable[..., StorePast]) -> None:
    path = node_path()
    assert isinstance(path.gpus, tuple)
    worn = replace(path.gpus[1], facts={**path.gpus[1].facts, "Remapped Rows / Pending": "Yes"})
    look = Taken(replace(path, gpus=(path.gpus[0], worn, *path.gpus[2:])), taken().fingerprint)
    outcome: Outcome = admission([run_of("ar_1.txt")], past(), look=lambda: look)
    assert outcome.record.decision is Decision.FAIL
    assert "GPU 1 (0000:00:07.0): a row waits for a reset" in outcome.record.reasons[0]
    assert [run.state for run in outcome.runs] == [RunState.REFUSED]
    assert "not admitted (fail)" in outcome.runs[0].reason
