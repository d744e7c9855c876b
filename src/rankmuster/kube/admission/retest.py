"""How re-tests of an incident are judged: by the same history and the same rules as an admission, and kept there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_retest import JudgeAlone, Judged, JudgePair
from rankmuster.adapters.kube.job_words import NotSaid
from rankmuster.admission.nodes import admit_nodes
from rankmuster.kube.admission.keep import CannotJudge, Keeper
from rankmuster.kube.admission.pair_output import pair_results
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.store.errors import HistoryError

if TYPE_CHECKING:
    from rankmuster.store.history import History


def judge_alone(history: History | None, settings: AdmissionSettings) -> JudgeAlone:
    """Raises NotSaid where the record cannot be judged: a re-test without a judgement is an error."""
    keeper = Keeper(history)
    profiles = (settings.job.profile, settings.job.short_profile)

    def judge(payload: Payload, node: str) -> Judged:
        try:
            result = keeper.result(payload, node, profiles, None)
            keeper.keep(result)
        except (CannotJudge, HistoryError) as error:
            raise NotSaid(str(error)) from error
        reasons = result.record.reasons
        return Judged(result.decision.value, reasons[0] if reasons else "", result.record.hash)

    return judge


def judge_pair(settings: AdmissionSettings) -> JudgePair | None:
    """None where no floor is set: without one no pair could pass."""
    floor = settings.pair_floor
    if settings.pairs == "off" or floor is None:
        return None

    def judge(said: Mapping[str, Payload], node: str, good: str) -> Judged:
        results = pair_results(said, node, good, settings.job.pair_seconds)
        record = admit_nodes(results, started_at=0.0, ended_at=0.0, floor=floor, nodes=(node, good), trusted=(good,))
        return Judged(record.decision.value, f"with {good}: {record.reasons[0] if record.reasons else ''}")

    return judge
