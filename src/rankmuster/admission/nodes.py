"""Several nodes at once: their links came up without retries, and pairs or rails of them show no weak one.

Single nodes are admitted by themselves before. What pairs say is evidence against a node only where proven partners
accuse it (`baseline.pairs_decode`); a node that cannot be told apart from its partner is provisional, not refused. A
pair that hung or had wrong values refuses the set, whichever of its nodes it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.admission.decide import decide_checks
from rankmuster.admission.nccl_log_checks import log_checks
from rankmuster.baseline.pairs import PairResult
from rankmuster.baseline.pairs_decode import Decoded, NodeStanding
from rankmuster.baseline.pairs_rails import by_rail
from rankmuster.model.admission import AdmissionRecord, Check, CheckGroup, CheckState, Kinship
from rankmuster.model.benchmark import RunState
from rankmuster.report.admission_json import seal

_STATES = {
    NodeStanding.GOOD: CheckState.PASS,
    NodeStanding.BAD: CheckState.FAIL,
    NodeStanding.UNDECIDED: CheckState.UNKNOWN,
    NodeStanding.UNTESTED: CheckState.UNKNOWN,
}
_ENDS = {RunState.HUNG: CheckState.HUNG, RunState.WRONG: CheckState.FAIL}


def admit_nodes(
    results: Sequence[PairResult],
    *,
    started_at: float,
    ended_at: float,
    floor: float | None = None,
    nodes: Sequence[str] = (),
    trusted: Sequence[str] = (),
    log: Sequence[object] = (),
) -> AdmissionRecord:
    """The sealed record. `floor`: GB/s that a pair must reach, beside being as fast as the others; without one pairs
    are compared with each other alone, and what slows all of them alike is not seen: provisional. `nodes`: all that
    are to be admitted, those that no pair names among them. `trusted`: known to be good from elsewhere. `log`:
    observations of NCCL's logs of all ranks."""
    named = list(dict.fromkeys([*nodes, *(node for result in results for node in (result.first, result.second))]))
    decoded = by_rail(named, results, floor=floor, trusted=trusted)
    checks = [*log_checks(log), *pair_checks(decoded)]
    if results and floor is None:
        words = "pairs were compared with each other alone: what slows all of them alike is not seen without a floor"
        advice = "give --floor GB/S: what such pairs reach elsewhere, or half of their NICs' rate"
        checks.append(_check("pair-floor", CheckState.UNKNOWN, "all pairs", words, advice))
    if not results:
        words = "no pair was measured"
        checks.append(_check("pairs", CheckState.ERROR, "all nodes", words, "measure them: rankmuster bench pairs"))
    decided = decide_checks(checks)
    return seal(
        AdmissionRecord(
            decision=decided.decision,
            reasons=decided.reasons,
            nodes=tuple(named),
            started_at=started_at,
            ended_at=ended_at,
            fingerprint={},
            profile="pairs",
            compared_with=None,
            kinship=Kinship.FLOOR if floor is not None else Kinship.NONE,
            history_runs=0,
            history_nodes=0,
            checks=tuple(checks),
            judgements=(),
            notes=tuple(dict.fromkeys(note for one in decoded.values() for note in one.notes)),
            settings={} if floor is None else {"floor": f"{floor:g} GB/s"},
        )
    )


def pair_checks(decoded: Mapping[int | None, Decoded]) -> list[Check]:
    """One check per node and rail that is not good, one for all that are, one per path that was slow, and one per pair
    that hung or had wrong values."""
    checks = []
    for rail, one in decoded.items():
        where = "" if rail is None else f", rail {rail}"
        good = one.of(NodeStanding.GOOD)
        if good:
            words = "fast with a proven partner"
            checks.append(_check("pairs", CheckState.PASS, f"{len(good)} node(s){where}", words))
        for verdict in one.nodes:
            if verdict.standing is NodeStanding.GOOD:
                continue
            bad = verdict.standing is NodeStanding.BAD
            advice = "admit it alone, then look at its NIC, cable and switch port" if bad else ""
            subject = f"{verdict.node}{where}"
            checks.append(_check("pairs", _STATES[verdict.standing], subject, verdict.reason, advice))
        for end in one.ends:
            result = end.result
            subject = f"{result.first} - {result.second}{where}"
            advice = "measure each of the two with other nodes, to find which it is"
            checks.append(_check("pair-ended", _ENDS[result.ended], subject, end.reason, advice))
        for path in one.paths:
            state = CheckState.FAIL if path.certain else CheckState.UNKNOWN
            subject = f"{path.first} - {path.second}{where}"
            advice = "look at the switches and cables between the two" if path.certain else ""
            checks.append(_check("paths", state, subject, path.reason, advice))
    return checks


def _check(name: str, state: CheckState, subject: str, statement: str, advice: str = "") -> Check:
    return Check(name, CheckGroup.NETWORK, state, subject, statement, advice, required=True)
