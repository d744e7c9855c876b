"""Evidence of an instance before anything is killed: `rankmuster collect` here and on its other hosts at once, one
bundle of all of them, and the verdict on it.

Each is a process of its own: what a failing node does to whoever looks at it must not be done to the runbook. Nothing
is said to be done before it is on the disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rankmuster.adapters.admit_record import OWN
from rankmuster.adapters.bundle_child import (
    BUNDLE,
    MARGIN,
    MERGE_SECONDS,
    MERGE_SHARE,
    NODES,
    answer_with,
    diagnose_bundle,
    merge_bundles,
    no_evidence,
)
from rankmuster.adapters.collect_here import Taken, collect_here, collect_there, find_bundle
from rankmuster.adapters.own_words import node_objection
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending


class CollectEvidence:
    """An `Evidence` of `incident.actuators`. `reach`, `hosts`, `options`: as in `incident.config.CollectEvidence`.

    `program`: rankmuster on other hosts.
    """

    def __init__(
        self,
        *,
        name: str = "collect",
        reach: Sequence[str] = (),
        hosts: Sequence[str] = (),
        options: Sequence[str] = (),
        program: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self._reach, self._hosts, self._options = tuple(reach), tuple(hosts) if reach else (), tuple(options)
        self._program = tuple(program or OWN)

    def collect(
        self,
        instance: str,
        incarnation: str | None,  # noqa: ARG002  # `collect` reads which one it is from the processes
        pids: tuple[int, ...],
        folder: str,
        deadline: Deadline,
        *,
        stopped: bool,
    ) -> Answer:
        """Data: `bundle`, `sha256` of its manifest (None where it was not closed), `seconds`, `missing`.

        Of one that has `stopped` dumps are asked for at once, and RAS after them; else `collect` finds out first.
        """
        begun, place = deadline.clock(), Path(folder).absolute()
        try:
            (place / NODES if self._hosts else place).mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            note = f"no evidence can be kept in {place} ({error.strerror or error})"
            return Answer(ending=Ending.FAILED, note=note)
        there = place / BUNDLE
        if there.is_dir():
            return answer_with(there, [], f"a bundle is there already: {there}", deadline, begun)
        within = deadline.before(MARGIN)
        if not self._hosts:
            taken = collect_here(instance, pids, stopped, self._options, there, within)
            notes = [taken.note] if taken.note else []
            if taken.bundle is None:
                return no_evidence(notes, taken.late)
            return answer_with(taken.bundle, notes, f"saved in {taken.bundle}", deadline, begun)
        merging = min(MERGE_SECONDS, within.remaining() * MERGE_SHARE)
        all_taken = self._everywhere(instance, pids, stopped, place / NODES, within.before(merging))
        notes = [one.note for one in all_taken if one.note]
        bundles = [one.bundle for one in all_taken if one.bundle is not None]
        if not bundles:
            return no_evidence(notes, any(one.late for one in all_taken))
        bundle = bundles[0]
        if len(bundles) > 1:
            why = merge_bundles(there, bundles, within)
            bundle = there if not why else bundle
            notes += [f"{len(bundles)} bundles are in {place / NODES} and were not merged: {why}"] if why else []
        said = f"{len(bundles)} of {len(all_taken)} hosts' evidence is saved in {bundle}"
        return answer_with(bundle, notes, said, deadline, begun)

    def diagnose(self, bundle: str, folder: str, deadline: Deadline) -> Answer:
        """Data: `verdict`, its path; `class`, `subclass`, `confidence`, `progress`, `seconds`."""
        return diagnose_bundle(bundle, folder, deadline)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _everywhere(
        self, instance: str, pids: Sequence[int], stopped: bool, nodes: Path, deadline: Deadline
    ) -> list[Taken]:
        """Here first, then the others in their order."""

        def there(host: str) -> Taken:
            objection = node_objection(host)
            if objection:
                return Taken(None, objection)
            output = nodes / f"{host}.tar.zst"
            return collect_there(self._reach, self._program, host, instance, stopped, self._options, output, deadline)

        with ThreadPoolExecutor(max_workers=len(self._hosts) + 1) as threads:
            here = threads.submit(collect_here, instance, pids, stopped, self._options, nodes / "here", deadline)
            others = list(threads.map(there, self._hosts))
            return [here.result(), *others]


def existing_bundle(folder: str) -> str | None:
    """What a collection into `folder` has left, by a runner that is gone."""
    place = Path(folder)
    found = find_bundle(place / BUNDLE) or find_bundle(place / NODES / "here")
    return str(found) if found is not None else None
