"""Evidence of an instance before anything is killed: `rankmuster collect` here and on its other hosts at once, one
bundle of all of them, and the verdict on it.

Each is a process of its own: what a failing node does to whoever looks at it must not be done to the runbook. Nothing
is said to be done before it is on the disk.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rankmuster.adapters.admit_record import OWN
from rankmuster.adapters.child import run_child
from rankmuster.adapters.collect_here import Taken, collect_here, collect_there, find_bundle
from rankmuster.adapters.into_file import ROOT, last_words, read_most
from rankmuster.adapters.own_words import node_objection
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending
from rankmuster.model.plain_json import NotPlain
from rankmuster.model.verdict_json import verdict_from_plain

BUNDLE, NODES, VERDICT = "bundle", "nodes", "verdict.json"

MERGE_SECONDS, MERGE_SHARE = 5.0, 0.25
"""For one bundle of several: so many seconds, and no more than this share of the time there is."""

MARGIN = 0.3
"""Of the deadline, kept for the disk and the answer."""

GRACE = 0.3

MOST_VERDICT = 8 << 20
"""Bytes of a verdict: one of 512 ranks takes 300 KiB."""

MOST_MANIFEST = 64 << 20


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
            return self._answer(there, [], f"a bundle is there already: {there}", deadline, begun)
        within = deadline.before(MARGIN)
        if not self._hosts:
            taken = collect_here(instance, pids, stopped, self._options, there, within)
            notes = [taken.note] if taken.note else []
            if taken.bundle is None:
                return _nothing(notes, taken.late)
            return self._answer(taken.bundle, notes, f"saved in {taken.bundle}", deadline, begun)
        merging = min(MERGE_SECONDS, within.remaining() * MERGE_SHARE)
        all_taken = self._everywhere(instance, pids, stopped, place / NODES, within.before(merging))
        notes = [one.note for one in all_taken if one.note]
        bundles = [one.bundle for one in all_taken if one.bundle is not None]
        if not bundles:
            return _nothing(notes, any(one.late for one in all_taken))
        bundle = bundles[0]
        if len(bundles) > 1:
            why = self._merge(there, bundles, within)
            bundle = there if not why else bundle
            notes += [f"{len(bundles)} bundles are in {place / NODES} and were not merged: {why}"] if why else []
        said = f"{len(bundles)} of {len(all_taken)} hosts' evidence is saved in {bundle}"
        return self._answer(bundle, notes, said, deadline, begun)

    def diagnose(self, bundle: str, folder: str, deadline: Deadline) -> Answer:
        """Data: `verdict`, its path; `class`, `subclass`, `confidence`, `progress`, `seconds`."""
        begun, place = deadline.clock(), Path(folder).absolute()
        verdict = place / VERDICT
        try:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            verdict.unlink(missing_ok=True)
        except OSError as error:
            return Answer(ending=Ending.FAILED, note=f"no verdict can be kept in {place} ({error.strerror or error})")
        ran = run_child(
            [*OWN, "diagnose", str(Path(bundle).absolute()), "--format", "json", "--output", str(verdict)],
            seconds=max(deadline.remaining() - GRACE - MARGIN, 0.1),
            grace=GRACE,
            clock=deadline.clock,
            cwd=ROOT,
            step_back=False,
            whole_group=True,
        )
        if ran.late:
            note = f"diagnosing {bundle} had not ended after {ran.seconds:.1f} s, and was ended"
            return Answer(ending=Ending.TIMED_OUT, note=note)
        if ran.problem or ran.status not in (0, 1, 2):
            return Answer(ending=Ending.FAILED, note=f"diagnosing {bundle}: {ran.problem or last_words(ran)}")
        try:
            found = json.loads(read_most(verdict, MOST_VERDICT) or b"")
            read = verdict_from_plain(found)
        except (ValueError, TypeError, NotPlain, RecursionError) as error:
            why = " ".join(str(error).split())[:200]
            return Answer(ending=Ending.FAILED, note=f"diagnosing {bundle} ended well, and left no verdict ({why})")
        _sync(place)
        data = {key: found.get(key) for key in ("class", "subclass", "confidence", "progress")}
        data |= {"verdict": str(verdict), "seconds": round(deadline.clock() - begun, 3)}
        return Answer(ending=Ending.DONE, note=f"{read.class_.value}: see {verdict}", data=data)

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

    def _merge(self, output: Path, bundles: Sequence[Path], deadline: Deadline) -> str:
        """Why they could not be made one; empty where they were."""
        # what was not closed does not verify, and is evidence all the same
        force = ["--force"] if any(one.name.endswith(".part") for one in bundles) else []
        ran = run_child(
            [*OWN, "bundle", "merge", str(output), *map(str, bundles), *force],
            seconds=max(deadline.remaining() - GRACE, 0.1),
            grace=GRACE,
            clock=deadline.clock,
            cwd=ROOT,
            step_back=False,
            whole_group=True,
        )
        if output.is_dir():
            return ""
        return "it took too long" if ran.late else ran.problem or last_words(ran)

    def _answer(self, bundle: Path, notes: list[str], said: str, deadline: Deadline, begun: float) -> Answer:
        whole = not bundle.name.endswith(".part")
        if not whole:
            _sync_below(bundle, deadline)
        elif bundle.is_file():
            _sync(bundle)
        _sync(bundle.parent)
        manifest = read_most(bundle / "manifest.json", MOST_MANIFEST) if bundle.is_dir() else None
        return Answer(
            ending=Ending.PARTIAL if notes or not whole else Ending.DONE,
            note="; ".join([said, *notes]),
            data={
                "bundle": str(bundle),
                "sha256": hashlib.sha256(manifest).hexdigest() if manifest is not None else None,
                "seconds": round(deadline.clock() - begun, 3),
                "missing": notes,
            },
        )


def existing_bundle(folder: str) -> str | None:
    """What a collection into `folder` has left, by a runner that is gone."""
    place = Path(folder)
    found = find_bundle(place / BUNDLE) or find_bundle(place / NODES / "here")
    return str(found) if found is not None else None


def _nothing(notes: Sequence[str], late: bool) -> Answer:
    words = "; ".join(notes) or "nothing came"
    return Answer(ending=Ending.TIMED_OUT if late else Ending.FAILED, note=f"no evidence was saved: {words}")


def _sync(path: Path) -> None:
    """On the disk as far as the file system can say; one that cannot is no reason to call evidence lost."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _sync_below(folder: Path, deadline: Deadline) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            if deadline.passed:
                return
            _sync(Path(place) / name)
        _sync(Path(place))
