"""Several nodes: pairs and rails as evidence, and links that came up without retries."""

from __future__ import annotations

from rankmuster.admission.nodes import admit_nodes
from rankmuster.baseline.pairs import PairResult
from rankmuster.evidence import nccl_log
from rankmuster.evidence.blob import Blob
from rankmuster.model.admission import AdmissionRecord, CheckState, Decision

FAST = [PairResult("a", "b", 48.0), PairResult("c", "d", 47.5), PairResult("a", "c", 48.1)]
RETRY = (
    "node7:100:201 [0] NCCL INFO socketPollConnect: connect to 10.0.0.9<4791> returned Connection timed out, retrying "
    "(2/34) after sleep for 100 msec\n"
)


def of(results: list[PairResult], **more: object) -> AdmissionRecord:
    return admit_nodes(results, started_at=1.0, ended_at=2.0, **more)  # type: ignore[arg-type]


def test_nodes_whose_pairs_all_reach_the_floor_pass() -> None:
    record = of(FAST, floor=45.0)
    assert (record.decision, record.nodes) == (Decision.PASS, ("a", "b", "c", "d"))
    assert record.hash.startswith("sha256:")


def test_pairs_that_are_compared_with_each_other_alone_are_provisional() -> None:
    record = of(FAST)
    assert record.decision is Decision.PROVISIONAL
    assert "without a floor" in record.reasons[0]


def test_a_node_that_two_proven_ones_accuse_is_refused_by_name() -> None:
    slow = [
        PairResult("a", "b", 48.0),
        PairResult("c", "d", 24.0),
        PairResult("a", "c", 48.1),
        PairResult("b", "d", 24.2),
    ]
    record = of(slow, floor=45.0)
    assert record.decision is Decision.FAIL
    assert record.reasons[0].startswith("d: ")


def test_a_slow_pair_of_two_accuses_nobody() -> None:
    record = of([PairResult("a", "b", 24.0)], floor=45.0)
    assert record.decision is Decision.PROVISIONAL
    assert "cannot be told which is at fault" in record.reasons[0]


def test_a_node_that_no_pair_names_is_no_pass() -> None:
    record = of(FAST, floor=45.0, nodes=("a", "b", "c", "d", "e"))
    assert record.decision is Decision.PROVISIONAL
    assert "e: no pair with it was measured" in record.reasons[0]


def test_a_weak_rail_is_named() -> None:
    rails = [
        PairResult(one, other, 24.0 if rail == 1 and "d" in (one, other) else 48.0, rail=rail)
        for rail in (0, 1)
        for one, other in (("a", "b"), ("c", "d"), ("a", "c"), ("b", "d"), ("a", "d"))
    ]
    record = of(rails, floor=45.0)
    assert record.decision is Decision.FAIL
    assert record.reasons[0].startswith("d, rail 1: ")


def test_a_slow_path_between_good_nodes_is_refused_when_it_stays_slow() -> None:
    path = [PairResult("a", "d", 20.0), PairResult("a", "d", 21.0), PairResult("b", "d", 48.0)]
    record = of([*FAST, *path], floor=45.0)
    assert record.decision is Decision.FAIL
    assert record.reasons[0].startswith("a - d: ")


def test_a_hung_pair_is_evidence_too() -> None:
    hung = [PairResult("c", "d", None, "hung"), PairResult("a", "b", 48.0), PairResult("a", "c", 48.0)]
    record = of([*hung, PairResult("b", "d", None, "hung"), PairResult("a", "d", None, "hung")], floor=45.0)
    assert record.decision is Decision.FAIL
    assert "by the other pairs it is d" in record.reasons[0]
    assert any(reason.startswith("d: failed (hung)") for reason in record.reasons)


def test_one_hung_pair_refuses_the_set_and_convicts_no_node() -> None:
    record = of([PairResult("a", "b", None, "hung: the time limit ended it")], floor=40.0)
    assert record.decision is Decision.FAIL
    assert record.reasons[0].startswith("a - b: hung: the time limit ended it; that does not tell which")
    assert [check.state for check in record.checks if check.name == "pairs"] == [CheckState.UNKNOWN] * 2


def test_a_pair_that_hung_once_refuses_though_it_was_fast_again() -> None:
    for bad in ("hung: the time limit ended it", "wrong: 3 elements of all_reduce"):
        record = of([PairResult("a", "b", None, bad, 1), *FAST, PairResult("a", "b", 48.0, "", 1)], floor=40.0)
        assert record.decision is Decision.FAIL
        assert record.reasons[0].startswith("a - b, rail 1: ")


def test_a_floor_does_not_switch_off_the_comparison_of_pairs_or_rails() -> None:
    for rail in (None, 3):
        slow = [PairResult(*pair, 25.0 if "d" in pair else 48.0, "", rail) for pair in ("ab", "cd", "ac", "bd")]
        record = of(slow, floor=24.0)
        assert record.decision is Decision.FAIL
        assert record.reasons[0].startswith("d")


def test_a_path_clearly_below_the_others_is_no_pass_above_the_floor() -> None:
    slow = [PairResult("b", "d", 25.0), PairResult("a", "d", 25.0)]
    assert of([*FAST, *slow], floor=24.0).decision is Decision.PROVISIONAL


def test_links_that_came_up_after_time_outs_refuse_fast_pairs() -> None:
    log = nccl_log.READER.read(Blob("nccl.log", RETRY.encode())).observations
    record = of(FAST, floor=45.0, log=log)
    assert record.decision is Decision.FAIL
    assert "only after retries" in record.reasons[0]
    assert [check.state for check in record.checks if check.name == "nccl-log"] == [CheckState.FAIL]


def test_nothing_measured_is_an_error() -> None:
    assert of([], floor=45.0).decision is Decision.ERROR
