"""What people write into the spec of a CommunicationIncident, brought into the journal once. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from rankmuster.kube.crd.incident import Abort, Approval
from rankmuster.model.incident import Event, EventKind, Step
from rankmuster.report.incident_account import Account
from rankmuster.report.inert import plain

FROM = "spec_of"
"""Key of an event's data: the resource's generation that it was written in."""


def words_of(
    spec: object, generation: int, account: Account, now: float, asked: int | None
) -> tuple[tuple[Event, ...], str]:
    """(events that are still to be told, what is wrong with the spec; empty where nothing is).

    An approval counts only while one is waited for: written earlier it would approve what nobody has seen. So it has to
    be of a later generation than the spec had when the resource said that it waits (`asked`; None: it does not yet).
    """
    if not isinstance(spec, Mapping):
        return (), ""
    try:
        approve = Approval.model_validate(spec["approve"]) if spec.get("approve") is not None else None
        abort = Abort.model_validate(spec["abort"]) if spec.get("abort") is not None else None
    except ValidationError as error:
        first = error.errors()[0]
        return (), f"spec.{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    if account.closed is not None:
        return (), ""
    found: list[Event] = []
    data: dict[str, Any] = {FROM: generation}
    if abort is not None and not _told(account.events, EventKind.ABORTED, 0.0):
        found.append(Event(kind=EventKind.ABORTED, at=now, note=plain(abort.reason, 1_000), by=abort.by, data=data))
    waits = account.of(Step.APPROVE)
    if approve is None or waits is None or waits.begun_at is None or waits.ending is not None:
        return tuple(found), ""
    told = [one for one in account.events if one.kind is EventKind.APPROVED and FROM in one.data]
    if any(one.data[FROM] == generation for one in told) or _told(account.events, EventKind.APPROVED, waits.begun_at):
        return tuple(found), ""  # said already; a second wait needs a second word, which is another generation
    if told and _same(told[-1], approve):
        return tuple(found), "spec.approve is of an earlier wait: write it anew (another reason, for instance)"
    if asked is None or generation <= asked:
        return tuple(found), "spec.approve was there before the resource said what it waits for: write it anew"
    data = {**data, "boundary": approve.boundary.value}
    found.append(Event(kind=EventKind.APPROVED, at=now, note=plain(approve.reason, 1_000), by=approve.by, data=data))
    return tuple(found), ""


def _told(events: Sequence[Event], kind: EventKind, since: float) -> bool:
    return any(one.kind is kind and one.at >= since for one in events)


def _same(event: Event, approve: Approval) -> bool:
    return (event.data.get("boundary"), event.by, event.note) == (approve.boundary.value, approve.by, approve.reason)
