"""The decision rule as a table: which checks and standings make which answer, and which reason comes first."""

from __future__ import annotations

import pytest

from admitted import check
from rankmuster.admission.decide import decide, decide_checks
from rankmuster.model.admission import Check, CheckGroup, CheckState, Decision, Kinship
from rankmuster.model.benchmark import Operation
from rankmuster.model.judgement import Regime, RegimeJudgement, Standing

PASSED = check("xid", CheckState.PASS, required=True)


def regime(standing: Standing, *, can_refuse: bool = True, kind: Regime = Regime.PLATEAU) -> RegimeJudgement:
    return RegimeJudgement(
        operation=Operation.ALL_REDUCE,
        regime=kind,
        graph=False,
        in_place=False,
        standing=standing,
        statistic=None,
        refuse_below=None,
        retest_below=None,
        samples=40,
        nodes=12,
        method="",
        false_alarm=None,
        floor=None,
        can_refuse=can_refuse,
        reason=f"it is {standing.value}",
        cells=(),
    )


WITHIN = regime(Standing.WITHIN)
LATENCY_BELOW = regime(Standing.BELOW, can_refuse=False, kind=Regime.LATENCY)


@pytest.mark.parametrize(
    ("checks", "judgements", "kinship", "decision"),
    [
        ([PASSED], [WITHIN], Kinship.CLASS, Decision.PASS),
        ([PASSED, check("clocks", CheckState.WARN, required=True)], [WITHIN], Kinship.CLASS, Decision.PASS),
        ([PASSED, check("choices", CheckState.UNKNOWN)], [WITHIN], Kinship.CLASS, Decision.PASS),
        ([PASSED], [WITHIN, LATENCY_BELOW], Kinship.CLASS, Decision.PASS),
        ([PASSED, check("xid", CheckState.UNKNOWN, required=True)], [WITHIN], Kinship.CLASS, Decision.PROVISIONAL),
        ([PASSED], [WITHIN], Kinship.KIN, Decision.PROVISIONAL),
        ([PASSED], [WITHIN], Kinship.FLOOR, Decision.PROVISIONAL),
        ([PASSED], [WITHIN], Kinship.NONE, Decision.PROVISIONAL),
        ([PASSED], [WITHIN, regime(Standing.TOO_LITTLE)], Kinship.CLASS, Decision.PROVISIONAL),
        ([PASSED], [WITHIN, regime(Standing.BORDERLINE)], Kinship.CLASS, Decision.PROVISIONAL),
        ([PASSED], [WITHIN, regime(Standing.ABOVE)], Kinship.CLASS, Decision.PROVISIONAL),
        ([PASSED], [LATENCY_BELOW], Kinship.CLASS, Decision.PROVISIONAL),
        ([PASSED], [regime(Standing.WITHIN, can_refuse=False)], Kinship.CLASS, Decision.PROVISIONAL),
        ([PASSED], [WITHIN, regime(Standing.BELOW)], Kinship.CLASS, Decision.FAIL),
        ([PASSED], [regime(Standing.BELOW)], Kinship.KIN, Decision.FAIL),
        ([PASSED], [regime(Standing.BELOW)], Kinship.FLOOR, Decision.FAIL),
        ([check("xid", CheckState.FAIL)], [WITHIN], Kinship.CLASS, Decision.FAIL),
        ([check("dcgm", CheckState.HUNG)], [WITHIN], Kinship.CLASS, Decision.FAIL),
        ([check("benchmark", CheckState.HUNG)], [], Kinship.NONE, Decision.FAIL),
        ([check("gpus", CheckState.ERROR, required=True)], [], Kinship.NONE, Decision.ERROR),
        ([check("dcgm", CheckState.ERROR)], [WITHIN], Kinship.CLASS, Decision.ERROR),
        ([PASSED], [], Kinship.NONE, Decision.ERROR),
        ([check("same-node", CheckState.ERROR), check("xid", CheckState.FAIL)], [], Kinship.NONE, Decision.FAIL),
    ],
)
def test_the_answer(
    checks: list[Check], judgements: list[RegimeJudgement], kinship: Kinship, decision: Decision
) -> None:
    found = decide(checks, judgements, kinship)
    assert found.decision is decision
    assert found.reasons, "every answer says what it rests on"


@pytest.mark.parametrize("state", [state for state in CheckState if state not in (CheckState.PASS, CheckState.WARN)])
def test_nothing_but_a_pass_or_a_warning_of_a_required_check_lets_a_node_pass(state: CheckState) -> None:
    assert decide([check("any", state, required=True)], [WITHIN], Kinship.CLASS).decision is not Decision.PASS


def test_what_explains_a_low_bandwidth_comes_before_the_low_bandwidth() -> None:
    checks = [
        check("regime", CheckState.FAIL, CheckGroup.PROFILE, statement="slow"),
        check("slow-rank", CheckState.FAIL, CheckGroup.PROFILE, statement="rank 2"),
        check("choices", CheckState.FAIL, CheckGroup.NCCL, statement="protocol"),
        check("p2p-read", CheckState.FAIL, CheckGroup.PEER_TO_PEER, statement="no P2P"),
        check("setting-differs", CheckState.FAIL, CheckGroup.ENVIRONMENT, statement="NCCL_PROTO"),
        check("contention", CheckState.FAIL, CheckGroup.PROFILE, statement="foreign"),
        check("values", CheckState.FAIL, CheckGroup.CORRECTNESS, statement="wrong"),
        check("xid", CheckState.FAIL, CheckGroup.HARDWARE, statement="Xid 79"),
        check("dcgm", CheckState.HUNG, CheckGroup.HARDWARE, statement="hung"),
    ]
    reasons = decide(checks, [regime(Standing.BELOW)], Kinship.CLASS).reasons
    assert reasons[:9] == ("hung", "Xid 79", "wrong", "foreign", "NCCL_PROTO", "no P2P", "protocol", "rank 2", "slow")


def test_an_unanswered_required_check_is_named_with_its_reason() -> None:
    asked = check("xid", CheckState.UNKNOWN, required=True, statement="the kernel log could not be read (EPERM)")
    assert decide([asked], [WITHIN], Kinship.CLASS).reasons == ("xid: the kernel log could not be read (EPERM)",)


def test_too_little_history_is_said_once_with_what_is_missing() -> None:
    found = decide([PASSED], [regime(Standing.TOO_LITTLE)] * 4, Kinship.FLOOR, ["its class has no run of this profile"])
    assert len(found.reasons) == 1
    assert "floor" in found.reasons[0]
    assert "no run of this profile" in found.reasons[0]


def test_a_check_of_another_part_names_it() -> None:
    gpu = check("nvlinks", CheckState.FAIL, subject="GPU 2", statement="NVLink 7 down")
    assert decide([gpu], [WITHIN], Kinship.CLASS).reasons == ("GPU 2: NVLink 7 down",)


@pytest.mark.parametrize(
    ("states", "decision"),
    [
        ([CheckState.PASS], Decision.PASS),
        ([CheckState.PASS, CheckState.WARN], Decision.PASS),
        ([CheckState.PASS, CheckState.UNKNOWN], Decision.PROVISIONAL),
        ([CheckState.PASS, CheckState.UNKNOWN, CheckState.ERROR], Decision.ERROR),
        ([CheckState.ERROR, CheckState.FAIL], Decision.FAIL),
        ([CheckState.HUNG], Decision.FAIL),
        ([], Decision.ERROR),
    ],
)
def test_the_same_rule_without_a_history(states: list[CheckState], decision: Decision) -> None:
    assert decide_checks([check("pairs", state, required=True) for state in states]).decision is decision
