"""Nodes with their fingerprints and results out of the history, as drift is computed from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rankmuster.baseline.drift.fleet import Fleet, NodePast, known
from rankmuster.evidence.fingerprint_file import FingerprintRefused, read_fingerprint
from rankmuster.model.benchmark import RunState
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.history import ClassHistory

if TYPE_CHECKING:
    from rankmuster.store.history import History
    from rankmuster.store.stored import StoredFingerprint

MOST_RUNS = 200_000
"""Runs of one class that are read: half a year of a run a day of 1,000 nodes. They take some 150 MB."""

RUNS_PER_NODE = 400
"""Of them, of one node: a year of a run a day. What a node did before says nothing of now."""

MOST_ASKED = 200
"""Nodes without results that the history is asked about one by one, for why they have none."""


def fleet_of(
    history: History, *, host: str | None, live: Fingerprint | None, since: float | None, now: float
) -> tuple[Fleet, tuple[str, ...]]:
    """The node `host`, or all that the history has for None; `live`: its fingerprint now, where it is not the newest
    stored one. Also sentences on stored fingerprints that could not be used. Raises HistoryError."""
    stored: dict[str, list[StoredFingerprint]] = {}
    for one in history.fingerprints(node=host):
        stored.setdefault(one.host or one.node_hash or "", []).append(one)
    if host is not None and len(stored) > 1:  # asked for by a hash, or renamed since
        stored = {host: sorted((one for some in stored.values() for one in some), key=lambda one: one.taken_at)}
    stored.pop("", None)
    refused: list[str] = []
    nodes = []
    for name, documents in sorted(stored.items()):
        prints = _read(name, _worth_reading(documents, since), refused)
        hashes = [one.node_hash for one in documents if one.node_hash is not None]
        nodes.append(_node(name, prints, hashes, live))
    if live is not None and not nodes:
        nodes.append(_node(host or live.host or "this node", [], [], live))
    histories = _histories(history, nodes, whole=host is None)
    measured = {node for one in histories for node in one.nodes}
    asked = 0
    for place, node in enumerate(nodes):
        if node.node_hash in measured or asked >= MOST_ASKED:
            continue
        asked += 1
        runs = history.runs(node=node.node_hash or node.name, limit=1000)
        nodes[place] = NodePast(
            node.name,
            node.node_hash,
            node.fingerprints,
            node.now_is_live,
            dict(Counter(run.state.value for run in runs)),
            node.earlier_hashes,
        )
    return Fleet(tuple(nodes), histories, now), tuple(refused)


def _node(name: str, prints: Sequence[Fingerprint], hashes: Iterable[str], live: Fingerprint | None) -> NodePast:
    every = [*prints, *([live] if live is not None else [])]
    newest = known(every[-1].node_hash) if every else None
    own = newest or next(iter(reversed(list(hashes))), None)
    return NodePast(
        name=name,
        node_hash=own,
        fingerprints=tuple(every),
        now_is_live=live is not None,
        earlier_hashes=tuple(dict.fromkeys(one for one in hashes if one != own)),
    )


def _worth_reading(documents: Sequence[StoredFingerprint], since: float | None) -> list[StoredFingerprint]:
    """The one in force at `since`, the first of each class after it, and the newest: the others say what these say."""
    begin = 0
    if since is not None:
        begin = max((place for place, one in enumerate(documents) if one.taken_at <= since), default=0)
    found = [documents[begin]]
    for one in documents[begin + 1 :]:
        last = found[-1]
        if (one.class_hash, one.node_hash, one.topology_hash) != (last.class_hash, last.node_hash, last.topology_hash):
            found.append(one)
    if documents[-1] is not found[-1]:
        found.append(documents[-1])
    return found


def _read(name: str, documents: Iterable[StoredFingerprint], refused: list[str]) -> list[Fingerprint]:
    found = []
    for one in documents:
        try:
            found.append(read_fingerprint(one.document))
        except FingerprintRefused as error:
            refused.append(f"{name}: a stored fingerprint cannot be used: {error}")
    return found


def _histories(history: History, nodes: Sequence[NodePast], whole: bool) -> tuple[ClassHistory, ...]:
    """Of all classes, or of those that these nodes are or were in."""
    complete = RunState.COMPLETE.value
    wanted = {(one.class_hash, one.profile) for one in history.classes() if one.states.get(complete, 0)}
    if not whole:
        own = {known(one.class_hash) for node in nodes for one in node.fingerprints}
        mine = {
            (run.class_hash, run.profile) for node in nodes for run in history.runs(node=node.node_hash or node.name)
        }
        wanted = {one for one in wanted if one[0] in own or one in mine}
    found = []
    for class_hash, profile in sorted(wanted):
        one = history.class_history(
            class_hash, profile, limit=MOST_RUNS, include_after_open=True, runs_per_node=RUNS_PER_NODE
        )
        if one.nodes:
            found.append(one)
    return tuple(found)
