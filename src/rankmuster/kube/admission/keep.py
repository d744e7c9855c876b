"""The history of the fleet, as admission in a cluster asks it and fills it.

Raises store.errors.HistoryError from every method: what cannot be compared with the history is not decided yet, and
what cannot be kept there is not acted on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_record import record_of
from rankmuster.adapters.kube.job_words import NotSaid
from rankmuster.admission.past import NoPast, Past
from rankmuster.bench.profile_choice import NoProfile, chosen
from rankmuster.kube.admission.judge import judged, measured_as
from rankmuster.kube.admission.result import Result
from rankmuster.model.admission import AdmissionRecord, Decision, Kinship
from rankmuster.model.benchmark import Profile
from rankmuster.report.admission_json import render
from rankmuster.report.fingerprint_yaml import as_json
from rankmuster.report.inert import plain

if TYPE_CHECKING:
    from rankmuster.store.history import History

MOST_RECORDS = 20
"""Of a node, looked through for one that is known."""

_PAIRS = "pairs"


class CannotJudge(Exception):
    """Nothing can be decided now; the message says what is missing."""


class Keeper:
    """`history` None: there is none, so nobody is compared with anything but the limits of its hardware."""

    def __init__(self, history: History | None) -> None:
        self._history = history

    def result(self, payload: Payload, node: str, profiles: Sequence[str], known_node: str | None) -> Result:
        """The Job's record, judged; the one that is stored already where this is a second look. `profiles`: that were
        asked for, by name or file.

        Raises NotSaid, CannotJudge."""
        document = record_of(payload, node)
        for found in () if self._history is None else self._history.admissions(node=node, limit=MOST_RECORDS):
            if measured_as(found.document) == document["hash"]:
                return Result(_stored(found.document, found.hash), known=True)
        return judged(payload, node, _profile(profiles, document.get("profile")), self._past(), known_node=known_node)

    def keep(self, result: Result) -> None:
        """Record, fingerprint and runs; what is there already stays."""
        if self._history is None or result.known:
            return
        if result.fingerprint is not None:
            self._history.put_fingerprint(result.fingerprint, as_json(result.fingerprint).encode())
        self._history.put_many(result.runs)
        self._history.put_admission(result.record, render(result.record).encode())

    def passed(self, node: str) -> tuple[str, str] | None:
        """(seal, in words) where the newest record of the node alone says that it passed."""
        for found in () if self._history is None else self._history.admissions(node=node, limit=MOST_RECORDS):
            if found.profile == _PAIRS:
                continue
            if found.decision != Decision.PASS.value:
                return None
            return found.hash, f"its newest record says so ({found.hash[:19]}...)"
        return None

    def _past(self) -> Past:
        if self._history is None:
            return NoPast()
        from rankmuster.admission.past_store import StorePast

        return StorePast(self._history)


def _profile(names: Sequence[str], key: object) -> Profile:
    """The one that was measured."""
    try:
        known = [chosen(name) for name in names]
    except NoProfile as error:
        raise CannotJudge(f"what was measured cannot be compared: {error}") from error
    found = next((one for one in known if one.key == key), None)
    if found is None:
        keys = ", ".join(one.key for one in known)
        raise NotSaid(f"it measured the profile {plain(key, 100)}, and {keys} was asked for: are the versions alike?")
    return found


def _stored(document: bytes, seal: str) -> AdmissionRecord:
    """What a decision needs of a stored record."""
    values: dict[str, Any] = json.loads(document)
    hashes = values.get("fingerprint")
    return AdmissionRecord(
        decision=Decision(values["decision"]),
        reasons=tuple(plain(one) for one in values.get("reasons", ())),
        nodes=tuple(str(one) for one in values.get("nodes", ())),
        started_at=float(values["started_at"]),
        ended_at=float(values["ended_at"]),
        fingerprint={str(key): str(value) for key, value in hashes.items()} if isinstance(hashes, dict) else {},
        profile=str(values.get("profile", "")),
        compared_with=None,
        kinship=Kinship.NONE,
        history_runs=0,
        history_nodes=0,
        checks=(),
        judgements=(),
        hash=seal,
    )
