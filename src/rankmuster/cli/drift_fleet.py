"""Nodes with their fingerprints and results out of the history, as drift is computed from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rankmuster.baseline.drift.fleet import Fleet, NodePast, known
from rankmuster.evidence.fingerprint_file import FingerprintRefused, read_fingerprint
from rankmuster.model.benchmark import RunState
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.history import ClassHistory

if TYPE_CHECKING:
    from rankmuster.store.fingerprint_heads import FingerprintHead
    from rankmuster.store.history import History

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
    stored, names = _stored(history, host)
    refused: list[str] = []
    nodes = []
    for name, of_node in sorted(stored.items()):
        wanted = _worth_reading(of_node, since)
        prints = _read(history, name, wanted, refused)
        hashes = [one.node_hash for one in of_node if one.node_hash is not None]
        earlier = [one.class_hash for one in of_node[: of_node.index(wanted[0])] if one.class_hash is not None]
        nodes.append(replace(_node(name, prints, hashes, live), earlier_classes=tuple(dict.fromkeys(earlier))))
    if not nodes and (live is not None or host is not None):
        nodes += _without_stored(history, host or (live.host if live is not None else None), live)
    histories = _histories(history, nodes, whole=host is None)
    measured = {node for one in histories for node in one.nodes}
    known_ones = {one for node in nodes for one in (node.node_hash, *node.earlier_hashes)}
    strangers = sorted(measured - known_ones)
    if host is None:  # measured, and no fingerprint of them is stored: their results say what they say
        nodes += [NodePast(_host_of(history, names, one, place), one, ()) for place, one in enumerate(strangers)]
    peers = {} if host is None else {one: names.get(one, one) for one in strangers}
    nodes = [
        _with_endings(history, node, place) if node.node_hash not in measured else node
        for place, node in enumerate(nodes)
    ]
    return Fleet(tuple(nodes), histories, now, peers), tuple(refused)


def _stored(history: History, host: str | None) -> tuple[dict[str, list[FingerprintHead]], dict[str, str]]:
    """Fingerprints by node, oldest first, of `host` alone or of all; and the name of every node hash."""
    from rankmuster.store.fingerprint_heads import heads

    found: dict[str, list[FingerprintHead]] = {}
    names: dict[str, str] = {}
    for one in heads(history):
        name = one.host or one.node_hash
        if name is None:
            continue
        if one.node_hash is not None:
            names[one.node_hash] = name
        if host is None:
            found.setdefault(name, []).append(one)
        elif host in (one.host, one.node_hash):  # a node that was renamed since is asked for by its hash
            found.setdefault(host, []).append(one)
    return found, names


def _without_stored(history: History, host: str | None, live: Fingerprint | None) -> list[NodePast]:
    """A node that no fingerprint is stored of: as it is now, or by its results alone; none where there is neither."""
    if live is not None:
        return [_node(host or "this node", [], [], live)]
    runs = history.runs(node=host, limit=1)
    return [NodePast(str(host), runs[0].node_hash, ())] if runs else []


def _host_of(history: History, names: dict[str, str], node: str, place: int) -> str:
    if node in names or place >= MOST_ASKED:
        return names.get(node, node)
    runs = history.runs(node=node, limit=1)
    return (runs[0].host if runs else None) or node


def _with_endings(history: History, node: NodePast, place: int) -> NodePast:
    """With how its runs ended, where none of them is complete."""
    if place >= MOST_ASKED:
        return node
    runs = history.runs(node=node.node_hash or node.name, limit=1000)
    return replace(node, runs=dict(Counter(run.state.value for run in runs)))


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


def _worth_reading(heads: Sequence[FingerprintHead], since: float | None) -> list[FingerprintHead]:
    """The one in force at `since`, the first of each class after it, and the newest: the others say what these say."""
    begin = 0
    if since is not None:
        begin = max((place for place, one in enumerate(heads) if one.taken_at <= since), default=0)
    found = [heads[begin]]
    for one in heads[begin + 1 :]:
        last = found[-1]
        if (one.class_hash, one.node_hash, one.topology_hash) != (last.class_hash, last.node_hash, last.topology_hash):
            found.append(one)
    if heads[-1] is not found[-1]:
        found.append(heads[-1])
    return found


def _read(history: History, name: str, wanted: Sequence[FingerprintHead], refused: list[str]) -> list[Fingerprint]:
    from rankmuster.store.fingerprint_heads import documents

    stored = documents(history, [one.number for one in wanted])
    found = []
    for one in wanted:
        try:
            found.append(read_fingerprint(stored.get(one.number, b"")))
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
