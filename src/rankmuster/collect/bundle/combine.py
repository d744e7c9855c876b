"""Several nodes' descriptions of one instance -> one, with what they disagree on named. Pure.

Two bundles are of one instance when they agree on its name, incarnation and world size where both say them, and on the
process of every rank that both list: the same rule as `diagnose.run.MixedInstances`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.collect.bundle.manifest import finite
from rankmuster.collect.bundle.node import MergeRefused, Node

_IDENTITY = ("instance", "incarnation", "world_size")

_BY_NODE = ("gpu", "gpu_uuid", "host_pid")
"""Facts of a process that its node knows: a pod counts its GPUs from 0, and sees no number but its own."""

_MOVING = ("state", "started_at")
"""... that two who look at one process at once see differently."""


def identity(node: Node) -> dict[str, Any]:
    """What the node says of whose bundle it is: its `instance.json`, else its manifest.

    An `instance.json` that names no incarnation has only a part of the ranks, and nobody has told it one that all parts
    know: its manifest has this node's own then, which the others cannot have.
    """
    told = node.document.get("instance")
    manifest = told if isinstance(told, dict) else {}
    if "incarnation_here" in node.instance and node.instance.get("incarnation") is None:
        manifest = {**manifest, "incarnation": None}
    return {
        "instance": _first(node.instance.get("instance"), manifest.get("name")),
        "incarnation": _first(node.instance.get("incarnation"), manifest.get("incarnation")),
        "world_size": _first(node.instance.get("world_size"), manifest.get("world_size")),
    }


def _first(*values: object) -> object:
    return next((value for value in values if value is not None), None)


def check(nodes: Sequence[Node]) -> None:
    """Raises MergeRefused where two bundles are of different instances, or of different incarnations of one."""
    for field in _IDENTITY:
        told = [(node, value) for node in nodes if (value := identity(node)[field]) is not None]
        other = next(((node, value) for node, value in told if value != told[0][1]), None)
        if other is not None:
            what = "incarnations of one instance" if field == "incarnation" else "instances"
            raise MergeRefused(
                f"bundles of different {what} are not merged: {field} is {_short(told[0][1])} in "
                f"{told[0][0].source} and {_short(other[1])} in {other[0].source}"
            )
    seen: dict[int, tuple[Node, tuple[Any, Any]]] = {}
    for node in nodes:
        for process in processes(node):
            who = (process.get("host"), process.get("pid"))
            earlier = seen.setdefault(process["rank"], (node, who))
            if earlier[1] != who:
                raise MergeRefused(
                    f"bundles of different incarnations are not merged: rank {process['rank']} is pid {earlier[1][1]} "
                    f"on {earlier[1][0]} in {earlier[0].source}, and pid {who[1]} on {who[0]} in {node.source}"
                )


def _short(value: object) -> str:
    return repr(value)[:80]


def processes(node: Node) -> list[dict[str, Any]]:
    """The processes with a rank that the node lists."""
    listed = node.instance.get("processes")
    entries = listed if isinstance(listed, list) else []
    return [
        entry
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("rank"), int) and not isinstance(entry["rank"], bool)
    ]


def instance(nodes: Sequence[Node]) -> dict[str, Any]:
    """The combined `instance.json`; empty when no node has one. The latest look counts where two differ."""
    told = [node for node in nodes if node.instance]
    if not told:
        return {}
    ordered = sorted(told, key=lambda node: (_time(node, "last_look") or node.finished, node.label))
    contradictions: list[str] = []
    combined: dict[str, Any] = {}
    for node in ordered:
        for key, value in node.instance.items():
            if key in ("processes", "environment", "last_look", "started_at"):
                continue
            if value is not None and combined.get(key) not in (None, value) and not isinstance(value, (dict, list)):
                contradictions.append(f"{key}: {_short(combined[key])} before, {_short(value)} on {node.label}")
            if value is not None or key not in combined:
                combined[key] = value
    combined["last_look"] = max((t for node in ordered if (t := _time(node, "last_look")) is not None), default=None)
    starts = [time for node in ordered if (time := _time(node, "started_at")) is not None]
    if starts:
        combined["started_at"] = min(starts)
    combined["processes"] = _processes(ordered, contradictions)
    if any(_part(node) == "node" for node in nodes):
        combined["gpu_numbers"] = "node"
    combined["environment"], by_node = _environment(ordered, contradictions)
    if by_node:
        combined["environment_by_node"] = by_node
    if contradictions:
        combined["contradictions"] = contradictions
    return combined


def _time(node: Node, key: str) -> float | None:
    return finite(node.instance.get(key))


def _processes(nodes: Sequence[Node], contradictions: list[str]) -> list[dict[str, Any]]:
    """One entry per rank: what a later look says counts, but an exit that was seen once stays seen."""
    by_rank: dict[int, dict[str, Any]] = {}
    shared = any(_part(node) is not None for node in nodes)
    by_node: set[int] = set()
    for node in nodes:
        for process in processes(node):
            rank = process["rank"]
            known = by_rank.setdefault(rank, {})
            takes_gpus = _part(node) == "node" or rank not in by_node
            if _part(node) == "node" and process.get("gpu") is not None:
                by_node.add(rank)
                for key in _BY_NODE:
                    known.pop(key, None)
            for key, value in process.items():
                earlier = known.get(key)
                if (value is None and earlier is not None) or (key in _BY_NODE and not takes_gpus):
                    continue
                if earlier is not None and earlier != value and not (shared and key in _MOVING):
                    contradictions.append(
                        f"rank {process['rank']}: {key} was {_short(earlier)}, and is {_short(value)} on {node.label}"
                    )
                known[key] = value
    if any(_part(node) == "node" for node in nodes):  # a pod's number would be taken for another GPU of the node
        for rank in by_rank.keys() - by_node:
            by_rank[rank].pop("gpu", None)
    return [by_rank[rank] for rank in sorted(by_rank)]


def _part(node: Node) -> str | None:
    """`pod` or `node` for bundles of two that share the work; None for one that has taken everything."""
    wishes = node.document.get("wishes")
    part = wishes.get("part") if isinstance(wishes, Mapping) else None
    return part if part in ("pod", "node") else None


def _environment(nodes: Sequence[Node], contradictions: list[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """(what is set, by node what not all set alike): a setting that differs between nodes is often the fault itself."""
    told = {node.label: env for node in nodes if isinstance(env := node.instance.get("environment"), Mapping)}
    combined: dict[str, Any] = {}
    for env in told.values():
        combined = {**env, **combined}
    differing = [name for name in sorted(combined) if len({repr(env.get(name)) for env in told.values()}) > 1]
    for name in differing:
        if len({repr(env[name]) for env in told.values() if name in env}) > 1:
            contradictions.append(f"environment: {name} is not the same on all nodes")
    by_node = {label: {name: env.get(name) for name in differing} for label, env in told.items()} if differing else {}
    return {name: combined[name] for name in sorted(combined)}, by_node


def host_of_rank(combined: Mapping[str, Any], rank: int | None) -> str | None:
    """The host that a rank runs on."""
    for process in combined.get("processes") or ():
        if process.get("rank") == rank and isinstance(process.get("host"), str):
            return str(process["host"])
    return None
