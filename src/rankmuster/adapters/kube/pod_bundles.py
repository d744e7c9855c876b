"""Bundles of an instance's pods and nodes -> one, where anything makes them one: a copy counts once, one that does not
verify is left out and kept beside it, and where they cannot be merged a pod's own stands for all.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rankmuster.adapters.bundle_child import NODES, merge_bundles, objection
from rankmuster.adapters.kube.at_once import at_once
from rankmuster.collect.bundle.digest import digest_of
from rankmuster.collect.deadline import Deadline


def bundles_in(nodes: Path) -> list[Path]:
    """What lies in a collection's folder, without copies, pods first; of a run that was killed too."""
    return _each_once(sorted(nodes.glob("*.tar.zst"), key=_rank))


def one_of(there: Path, bundles: Sequence[Path], deadline: Deadline) -> tuple[Path, list[str]]:
    """The bundle, and what could not be put into it. One that does not verify must not cost the others."""
    why = merge_bundles(there, bundles, deadline)
    if not why:
        return there, []
    wrong = at_once([partial(objection, one, deadline) for one in bundles], deadline, most=4)
    sound = [one for one, what in zip(bundles, wrong, strict=True) if not what]
    notes = [f"{one.name} is left out: {what}" for one, what in zip(bundles, wrong, strict=True) if what]
    if sound and len(sound) < len(bundles):
        why = merge_bundles(there, sound, deadline)
        if not why:
            return there, notes
    best = _as_bundle((sound or list(bundles))[0], there)
    return best, [*notes, f"{len(bundles)} bundles are in {there.with_name(NODES)} and were not merged: {why}"]


def _as_bundle(one: Path, there: Path) -> Path:
    """One of several under the name of the whole, where whoever looks for bundles finds it."""
    named = there.with_name(f"{there.name}.tar.zst")
    with contextlib.suppress(OSError):
        named.unlink(missing_ok=True)
        os.link(one, named)
        return named
    return one


def _each_once(bundles: Sequence[Path]) -> list[Path]:
    """Without copies: a sidecar leaves with the agent what it has handed out, and a merge refuses the same one
    twice."""
    seen: dict[tuple[int, bytes], Path] = {}
    sizes = [one.stat().st_size for one in bundles]
    for one, size in zip(bundles, sizes, strict=True):
        digest = b""
        if sizes.count(size) > 1:
            with one.open("rb") as file:
                digest = digest_of(file)[1].encode()
        seen.setdefault((size, digest), one)
    return list(seen.values())


def _rank(path: Path) -> tuple[int, str]:
    """Pods first: where one bundle has to stand for all, it is one that has ranks in it."""
    order = ("pod-", "left-", "node-")
    return next((n for n, start in enumerate(order) if path.name.startswith(start)), len(order)), path.name
