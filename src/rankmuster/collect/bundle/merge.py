"""Bundles of several nodes of one instance -> one bundle that `diagnose` reads as a whole.

Each node's files stand below `nodes/<host>/`, its collectors are `ras@<host>`, and one `instance.json` at the root
describes all ranks. A dump that several nodes took from a shared file system is kept once. A second look at a node is
kept beside the first one (`nodes/<host>-look-2/`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rankmuster import __version__
from rankmuster.collect.bundle import combine
from rankmuster.collect.bundle.contents import BundleUnreadable
from rankmuster.collect.bundle.manifest import SCHEMA, Listed, finite
from rankmuster.collect.bundle.node import INSTANCE, MergeRefused, Node, Unpacked, look, unpack_node
from rankmuster.collect.bundle.write import NotWritten, OutputRefused, Sealed, open_staging

MAX_NODES = 4096
"""Of one merge: more nodes than any one instance has."""


@dataclass(frozen=True, slots=True)
class Merged:
    """`sealed`: the new bundle. `nodes`: labels of the nodes in it. `shared`: files kept once that several nodes took.
    `notes`: what could not be used, and what the nodes disagree on."""

    sealed: Sealed
    nodes: tuple[str, ...]
    shared: int
    notes: tuple[str, ...]


def merge(bundles: Sequence[Path], output: Path, *, force: bool = False) -> Merged:
    """Writes one bundle of all these.

    Raises MergeRefused, contents.BundleUnreadable, write.OutputRefused, write.NotWritten; then nothing is written, or
    what was is removed. `force`: bundles that do not verify are taken as far as they can be, and different incarnations
    are not refused (`diagnose` will say so).
    """
    if not bundles:
        raise MergeRefused("there is nothing to merge; name the bundles of the nodes")
    if len(bundles) > MAX_NODES:
        raise MergeRefused(f"{len(bundles)} bundles are more than the {MAX_NODES} nodes that an instance may have")
    nodes = _labelled([look(path, force=force) for path in bundles])
    notes = [note for node in nodes for note in node.notes]
    try:
        combine.check(nodes)
    except MergeRefused as refusal:
        if not force:
            raise
        notes.append(f"merged all the same: {refusal}")
    staging = open_staging(output)
    try:
        combined = combine.instance(nodes)
        unpacked = {}
        for node in nodes:
            unpacked[node.label] = unpack_node(node, staging.folder / "nodes" / node.label, force=force)
            notes += unpacked[node.label].notes
        if combined:
            text = json.dumps(combined, indent=1, ensure_ascii=True, default=str) + "\n"
            (staging.folder / INSTANCE).write_text(text, encoding="ascii")
            notes += combined.get("contradictions") or ()
        files, shared = _files(nodes, unpacked, combined, staging.folder)
        sealed = staging.seal(_document(nodes, files, combined, notes))
    except NotWritten:
        staging.abandon()
        raise
    except OSError as error:
        staging.abandon()
        raise OutputRefused(f"cannot write {output}: {error.strerror or error}; nothing is left of it") from error
    except BaseException:
        staging.abandon()
        raise
    return Merged(sealed, tuple(node.label for node in nodes), shared, tuple(notes))


def _labelled(nodes: Sequence[Node]) -> list[Node]:
    """Nodes by host and time, with a label of their own each."""
    ordered = sorted(nodes, key=lambda node: (node.label, node.finished, str(node.source)))
    taken: set[str] = set()
    labelled: list[Node] = []
    for node in ordered:
        if any(_same_bundle(node, other) for other in labelled):
            raise MergeRefused(f"{node.source} is given twice, or a copy of it is: every bundle counts once")
        labels = (node.label, *(f"{node.label}-look-{number}" for number in range(2, MAX_NODES + 2)))
        label = next(label for label in labels if label.casefold() not in taken)
        taken.add(label.casefold())
        labelled.append(replace(node, label=label))
    return labelled


def _same_bundle(one: Node, other: Node) -> bool:
    return one.document.get("seal") is not None and one.document.get("seal") == other.document.get("seal")


def _files(
    nodes: Sequence[Node], unpacked: Mapping[str, Unpacked], combined: Mapping[str, Any], folder: Path
) -> tuple[dict[str, dict[str, Any]], int]:
    """(entries of the manifest, how many files were kept once instead of several times)."""
    files: dict[str, dict[str, Any]] = {}
    dumps: dict[tuple[int | None, str], str] = {}
    shared = 0
    for node in nodes:
        for name, (size, digest) in sorted(unpacked[node.label].files.items()):
            path = f"nodes/{node.label}/{name}"
            listed = node.manifest.files.get(name)
            entry = _entry(node, listed, size, digest)
            key = (entry.get("rank"), digest)
            if size and name.startswith("flight/"):
                first = dumps.setdefault(key, path)
                if first != path:
                    (folder / path).unlink()
                    _share(files[first], node, path, combined)
                    shared += 1
                    continue
            files[path] = entry
    return files, shared


def _entry(node: Node, listed: Listed | None, size: int, digest: str) -> dict[str, Any]:
    told = listed or Listed(size, digest)
    entry: dict[str, Any] = {"size": size, "sha256": digest, "collector": f"{told.collector or 'unknown'}@{node.label}"}
    look_time = told.look_time if told.look_time is not None else None
    for key, value in (("look_time", look_time), ("rank", told.rank), ("host", told.host or node.host)):
        if value is not None:
            entry[key] = value
    return entry


def _share(entry: dict[str, Any], node: Node, path: str, combined: Mapping[str, Any]) -> None:
    """The file lay on a file system that several nodes see: it is of the host that its rank runs on."""
    entry.setdefault("also", []).append(path)
    host = combine.host_of_rank(combined, entry.get("rank"))
    if host is not None:
        entry["host"] = host
    elif entry.get("host") != node.host:
        entry.pop("host", None)


def _document(
    nodes: Sequence[Node], files: Mapping[str, Mapping[str, Any]], combined: Mapping[str, Any], notes: Sequence[str]
) -> dict[str, Any]:
    identities = [combine.identity(node) for node in nodes]
    told = {
        key: next((one[key] for one in identities if one[key] is not None), None)
        for key in ("instance", "incarnation", "world_size")
    }
    started = [time for node in nodes if (time := finite(node.document.get("started"))) is not None]
    return {
        "schema": SCHEMA,
        "collectors": {
            f"{name}@{node.label}": outcome
            for node in nodes
            for name, outcome in _mapping(node.document.get("collectors")).items()
        },
        "tool": {"name": "rankmuster", "version": __version__},
        "host": None,
        "instance": {
            "name": told["instance"],
            "deployment": combined.get("deployment"),
            "incarnation": told["incarnation"],
            "world_size": told["world_size"],
        },
        "started": min(started, default=None),
        "finished": max((node.finished for node in nodes), default=None),
        "clock_offsets": _offsets(nodes),
        "notes": list(notes),
        "left_out": [f"{node.label}: {text}" for node in nodes for text in _texts(node.document.get("left_out"))],
        "nodes": {node.label: _node(node) for node in nodes},
        "files": dict(files),
    }


def _node(node: Node) -> dict[str, Any]:
    """What of the node's manifest is not in its files' and collectors' entries."""
    kept = ("host", "tool", "started", "finished", "deadline_seconds", "wishes", "notes", "clock_offsets", "seal")
    return {
        "bundle": node.source.name,
        "verified": node.sound,
        **{key: node.document[key] for key in kept if key in node.document},
        "described": node.instance,
    }


def _offsets(nodes: Sequence[Node]) -> dict[str, float]:
    """Per host; a node's word on its own clock counts more than another's."""
    offsets: dict[str, float] = {}
    for node in nodes:
        for host, value in _mapping(node.document.get("clock_offsets")).items():
            number = finite(value)
            if number is not None and (host == node.host or host not in offsets):
                offsets[host] = number
    return dict(sorted(offsets.items()))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> list[str]:
    return [str(text)[:500] for text in value] if isinstance(value, list) else []


__all__ = ["BundleUnreadable", "MergeRefused", "Merged", "NotWritten", "OutputRefused", "merge"]
