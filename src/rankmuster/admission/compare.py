"""Whom a node is compared with: its own class, else kin (other settings), else the limits of its hardware.

The own class is taken as soon as it suffices for one regime; kin only where it suffices for none, and a floor where
neither does: a result must not be judged by the more lenient of two histories. Beside kin the floor counts too: kin
with a setting that ruins the links (peer-to-peer off) would make what is plainly broken look usual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rankmuster.admission.past import Past
from rankmuster.admission.plan import Plan
from rankmuster.baseline.floors import FloorInput
from rankmuster.baseline.judge import judge
from rankmuster.model.admission import Kinship
from rankmuster.model.benchmark import AlgorithmChoice, BenchmarkRun, series_key
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.history import ClassHistory
from rankmuster.model.judgement import RegimeJudgement, Standing
from rankmuster.model.unknown import Unknown

MOST_KIN = 4
"""Kin classes asked, those with most runs first: each costs one question to the history."""


@dataclass(frozen=True, slots=True)
class Compared:
    """`settings`: of the kin class that was compared with, {} otherwise. `why`: notes for the record."""

    judgements: tuple[RegimeJudgement, ...]
    kinship: Kinship
    class_hash: str | None = None
    history: ClassHistory | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    why: tuple[str, ...] = ()

    @property
    def choices(self) -> Sequence[Sequence[AlgorithmChoice]]:
        """What NCCL chose in the runs compared with, run by run."""
        return self.history.choices if self.history is not None else ()

    def of_one_node(self, node_hash: str | Unknown) -> str:
        """In words, where everything compared with is of the node itself; else nothing."""
        known = set(self.history.nodes) if self.history is not None else set()
        if known != {node_hash}:
            return ""
        assert self.history is not None
        return f"compared with nothing but itself: {len(self.history.records)} earlier runs of this node"

    @property
    def against(self) -> str:
        """In words, for messages."""
        if self.kinship is Kinship.FLOOR:
            return "the limits of its hardware"
        if self.history is None or self.kinship is Kinship.NONE:
            return "nothing"
        nodes = len(set(self.history.nodes))
        whose = "its class" if self.kinship is Kinship.CLASS else "kin (other settings)"
        return f"{whose}, {len(self.history.records)} runs of {nodes} node(s)"


def compare(
    runs: Sequence[BenchmarkRun], fingerprint: Fingerprint, plan: Plan, past: Past, floor: FloorInput | None
) -> Compared:
    """Judges the runs. Raises what the history raises."""
    tools = {run.tool for run in runs}
    if len(tools) > 1:
        raise ValueError(f"runs of {' and '.join(sorted(tools))} together: results of two tools have no common history")
    used = {run.members for run in runs}
    if len(used) != 1 or 0 in used:
        return _by_limits(runs, plan, floor, ["no history applies: the runs do not say the same number of GPUs"])
    profile = series_key(plan.profile, tools.pop(), used.pop())
    why: list[str] = []
    own = fingerprint.class_hash
    if isinstance(own, Unknown):
        why.append(f"no history applies: the node's class is not known ({own.reason})")
    else:
        history = past.history(own, profile)
        if history is not None and history.total:
            judged = judge(runs, history, settings=plan.judging, floor=floor)
            if _says_something(judged):
                return Compared(judged, Kinship.CLASS, own, history, {}, tuple(why))
            why.append(f"its class has {history.total} run(s) of this profile, too few to judge by")
        else:
            why.append("its class has no run of this profile")
    kin = fingerprint.kin_hash
    if not isinstance(kin, Unknown):
        for candidate in list(past.kin(kin, profile))[:MOST_KIN]:
            if candidate.class_hash == own:
                continue
            history = past.history(candidate.class_hash, profile)
            judged = judge(runs, history, settings=plan.judging, floor=floor) if history is not None else ()
            if _says_something(judged):
                judged = _with_floor(judged, judge(runs, None, settings=plan.judging, floor=floor))
                return Compared(judged, Kinship.KIN, candidate.class_hash, history, candidate.settings, tuple(why))
    return _by_limits(runs, plan, floor, why)


def _by_limits(runs: Sequence[BenchmarkRun], plan: Plan, floor: FloorInput | None, why: Sequence[str]) -> Compared:
    judged = judge(runs, None, settings=plan.judging, floor=floor)
    floors = any(judgement.floor for judgement in judged)
    return Compared(judged, Kinship.FLOOR if floors else Kinship.NONE, None, None, {}, tuple(why))


def _with_floor(judged: Sequence[RegimeJudgement], by_floor: Sequence[RegimeJudgement]) -> tuple[RegimeJudgement, ...]:
    """Judged by kin, and by the floor instead where that refuses and kin do not."""
    refused = {_group(one): one for one in by_floor if one.standing is Standing.BELOW}
    return tuple(one if one.standing is Standing.BELOW else refused.get(_group(one), one) for one in judged)


def _group(judged: RegimeJudgement) -> tuple[object, ...]:
    return judged.operation, judged.regime, judged.graph, judged.in_place


def _says_something(judged: Sequence[RegimeJudgement]) -> bool:
    """Whether a history decided any regime that may refuse (any regime, where none may)."""
    refusing = [judgement for judgement in judged if judgement.can_refuse] or list(judged)
    return any(judgement.standing is not Standing.TOO_LITTLE and not judgement.floor for judgement in refusing)


def differing_settings(fingerprint: Fingerprint, other: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Setting -> (here, there) of those known to differ; None is unset."""
    mine = {name: None if isinstance(value, Unknown) else str(value) for name, value in fingerprint.settings.items()}
    unknown = {name for name, value in fingerprint.settings.items() if isinstance(value, Unknown)}
    return {
        name: (mine.get(name), other.get(name))
        for name in sorted(mine.keys() | other.keys())
        if name not in unknown and mine.get(name) != other.get(name)
    }
