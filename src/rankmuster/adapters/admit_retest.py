"""Suspect nodes are tested again by `rankmuster admit`: all of them alone at once, then each with a good node, one
after the other, since the good one has its GPUs once.

A node fails where it failed alone or in its pair. Where the good node failed with every one of several suspects it is
suspect itself, and nothing is said of them.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rankmuster.adapters.admit_alone import Admission, Alone, admit_alone
from rankmuster.adapters.admit_pair import Paired, admit_pair, measure_command
from rankmuster.adapters.admit_record import OWN
from rankmuster.adapters.own_words import node_objection
from rankmuster.adapters.reach import same_host
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import NodeRetest, RetestEnding

AT_ONCE = 32
"""Nodes that are tested at the same time: each takes a process here that waits."""

ALONE_SHARE = 0.6
"""Of the time there is, where pairs are measured after it."""

MARGIN = 0.5
"""Of the deadline, kept for the answer."""


class AdmitRetest:
    """A `Retest` of `incident.actuators`. `folder`: for records, one below it an operation.

    `reach`, `pairs`, `options`...: as in `incident.config.AdmitRetest`. `here`: names of this host, which alone can be
    tested where `reach` is empty. `aliases`: what a host calls itself -> its name here, where they differ. `program`:
    rankmuster on the nodes; None for the same interpreter at the same path.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "admit",
        reach: Sequence[str] = (),
        pairs: Sequence[str] = (),
        profile: str = "links",
        short_profile: str = "links",
        history: str | None = None,
        options: Sequence[str] = (),
        here: Sequence[str] | None = None,
        aliases: Mapping[str, str] | None = None,
        program: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self._folder = folder
        self._reach, self._pairs = tuple(reach), tuple(pairs)
        self._admission = Admission(self._reach, tuple(program or OWN), profile, short_profile, history, tuple(options))
        self._here = tuple(here) if here is not None else (socket.gethostname(),)
        self._aliases = dict(aliases or {})

    def test(
        self, nodes: tuple[str, ...], good: str | None, operation: str, deadline: Deadline, *, short: bool
    ) -> tuple[NodeRetest, ...]:
        """One result a node, in order."""
        within = deadline.before(MARGIN)
        folder = self._folder / (re.sub(r"[^A-Za-z0-9._-]+", "-", operation).strip(".-")[-120:] or "retest")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            note = f"records cannot be kept in {folder} ({error.strerror or error})"
            return tuple(NodeRetest(node=node, ending=RetestEnding.ERROR, note=note) for node in nodes)
        pairing = bool(self._pairs) and good is not None and good not in nodes
        until = within.before(within.remaining() * (1 - ALONE_SHARE)) if pairing else within
        with ThreadPoolExecutor(max_workers=max(min(len(nodes), AT_ONCE), 1)) as threads:
            alone = list(threads.map(lambda node: self._alone(node, folder, until, short=short), nodes))
        paired: dict[str, Paired] = {}
        if pairing and good is not None:
            paired = self._paired(dict(zip(nodes, alone, strict=True)), good, folder, within)
        return tuple(_result(node, one, paired.get(node)) for node, one in zip(nodes, alone, strict=True))

    def would(self, nodes: tuple[str, ...], good: str | None, *, short: bool) -> tuple[str, ...]:
        """The command lines; limits of time are made when it is begun."""
        lines = [shlex.join(self._admission.command(node, 600.0, short=short)) for node in nodes]
        if self._pairs and good is not None:
            for node in nodes:
                results = self._folder / f"pair-{node}-{good}.jsonl"
                lines.append(shlex.join(measure_command(node, good, self._pairs, results, 300.0)))
        return tuple(lines)

    def _alone(self, node: str, folder: Path, until: Deadline, *, short: bool) -> Alone:
        objection = node_objection(node)
        if objection:
            return Alone(RetestEnding.ERROR, objection)
        if not self._reach and not any(same_host(node, name) for name in self._here):
            note = f"{node} is not this host ({', '.join(self._here)}), and no `reach` is configured to get there"
            return Alone(RetestEnding.ERROR, note)
        names = (node, *(host for host, known in self._aliases.items() if known == node))
        return admit_alone(self._admission, node, names, folder / f"alone-{node}.json", until, short=short)

    def _paired(self, alone: Mapping[str, Alone], good: str, folder: Path, until: Deadline) -> dict[str, Paired]:
        """Of those that may have a fault that only a second node shows: who failed alone has one already."""
        wanted = [one for one, said in alone.items() if said.ending in (RetestEnding.PASS, RetestEnding.PROVISIONAL)]
        found: dict[str, Paired] = {}
        for place, node in enumerate(wanted):
            share = until.remaining() / (len(wanted) - place)
            found[node] = admit_pair(node, good, self._pairs, folder, until.within(share))
        if len(found) > 1 and all(one.ending is RetestEnding.FAIL for one in found.values()):
            words = f"{good} failed with every one of them, and is suspect itself: measure them with another node"
            return {
                node: Paired(RetestEnding.ERROR, f"{words} ({one.note})", one.record) for node, one in found.items()
            }
        return found


def _result(node: str, alone: Alone, paired: Paired | None) -> NodeRetest:
    both = (alone.ending, *(() if paired is None else (paired.ending,)))
    ending = next(
        (one for one in (RetestEnding.FAIL, RetestEnding.ERROR, RetestEnding.PROVISIONAL) if one in both),
        RetestEnding.PASS,
    )
    decisive = paired if paired is not None and paired.ending is ending and alone.ending is not ending else alone
    return NodeRetest(
        node=node,
        ending=ending,
        note="; ".join([alone.note, *(() if paired is None else (paired.note,))]),
        alone=alone.ending,
        paired=None if paired is None else paired.ending,
        record=str(decisive.record) if decisive.record is not None else None,
    )
