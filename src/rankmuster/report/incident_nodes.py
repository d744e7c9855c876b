"""What became of each node that an incident touched: fenced, tested again, kept out, let in, or only looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from rankmuster.model.incident import Ending, RetestEnding, Step
from rankmuster.report.incident_account import Account, Did, Stage

FENCES = ("fence", "quarantine")
LIFT = "lift"
"""Verbs in the names of actions, before the node's name."""


class NodeState(str, Enum):
    """QUARANTINED: fenced and failed its re-test. LET_IN: fenced by us and lifted. OTHERS: fenced by somebody else.

    OBSERVED: it is only said that it would have been fenced. OPEN: it was tried, and nobody knows how it stands.
    """

    FENCED = "fenced"
    QUARANTINED = "quarantined"
    LET_IN = "let in"
    OTHERS = "fenced by others"
    OBSERVED = "not fenced: only observed"
    NOT_FENCED = "not fenced"
    OPEN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeAccount:
    """`retest`: None where it was not tested. `note`: of what was done last. `record`: of its admission."""

    node: str
    state: NodeState
    retest: RetestEnding | None = None
    note: str = ""
    record: str | None = None


def node_accounts(incident: Account) -> tuple[NodeAccount, ...]:
    """By name. Those that the decision names and nothing was done about are among them."""
    decision = incident.decision
    touched = {*decision.fence, *decision.retest} if decision else set()
    found = {node: NodeAccount(node, NodeState.NOT_FENCED) for node in touched}
    for stage in incident.stages:
        for node, did in _of_nodes(stage):
            before = found.get(node, NodeAccount(node, NodeState.NOT_FENCED))
            found[node] = _fenced(before, did)
        for node, ending, note, record in _tested(stage):
            before = found.get(node, NodeAccount(node, NodeState.NOT_FENCED))
            found[node] = replace(before, retest=ending, note=note or before.note, record=record or before.record)
    return tuple(_settled(found[node]) for node in sorted(found))


def _of_nodes(stage: Stage) -> Iterator[tuple[str, Did]]:
    """The fences and lifts of a step with their node: in the action's data, or at the end of its name."""
    for did in stage.actions:
        if verb(did.name) in (*FENCES, LIFT):
            node = did.data.get("node")
            yield (node if isinstance(node, str) and node else did.name.rpartition(":")[2]), did


def verb(action: str) -> str:
    """`llm-0/node/0:fence:h-2` -> `fence`."""
    return action.split(":")[-2] if action.count(":") >= 2 else ""


def _fenced(before: NodeAccount, did: Did) -> NodeAccount:
    note = did.note or before.note
    if verb(did.name) == LIFT:
        return replace(before, state=NodeState.LET_IN if did.ending is Ending.DONE else before.state, note=note)
    if did.ending is Ending.DONE:
        others = did.data.get("others") is True
        return replace(before, state=NodeState.OTHERS if others else NodeState.FENCED, note=note)
    if did.ending is Ending.OBSERVED:
        return replace(before, state=NodeState.OBSERVED, note="")
    if did.ending in (None, Ending.UNKNOWN, Ending.TIMED_OUT, Ending.PARTIAL):
        return replace(before, state=NodeState.OPEN, note=note)
    return replace(before, note=note)


def _settled(node: NodeAccount) -> NodeAccount:
    bad = node.retest is RetestEnding.FAIL and node.state is NodeState.FENCED
    return replace(node, state=NodeState.QUARANTINED) if bad else node


def _tested(stage: Stage) -> Iterator[tuple[str, RetestEnding, str, str | None]]:
    if stage.step not in (Step.RETEST, Step.SHORT_RETEST):
        return
    for data in (*(did.data for did in stage.actions), stage.data):
        yield from retests_in(data)


def retests_in(data: Mapping[str, Any]) -> Iterator[tuple[str, RetestEnding, str, str | None]]:
    """(node, how it ended, note, record) of the re-tests in an answer's data, whatever the list is called."""
    for value in data.values():
        for one in value if isinstance(value, (list, tuple)) else ():
            if not isinstance(one, Mapping) or not isinstance(one.get("node"), str):
                continue
            try:
                ending = RetestEnding(str(one.get("ending")))
            except ValueError:
                continue
            record = one.get("record")
            yield one["node"], ending, str(one.get("note") or ""), record if isinstance(record, str) else None
