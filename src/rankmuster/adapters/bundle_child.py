"""What is done with evidence once it is here: bundles are merged, diagnosed and put on the disk.

Merging and diagnosing are processes of their own: what a failing node has sent must not be done to the runbook. Nothing
is said to be done before it is on the disk.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from rankmuster.adapters.admit_record import OWN
from rankmuster.adapters.child import Ran, run_child
from rankmuster.adapters.into_file import ROOT, last_words, read_most
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending
from rankmuster.model.plain_json import NotPlain
from rankmuster.model.verdict_json import verdict_from_plain

BUNDLE, NODES, VERDICT = "bundle", "nodes", "verdict.json"
"""In the folder of a collection: the bundle, those that it was made of, and what was found in it."""

MERGE_SECONDS, MERGE_SHARE = 5.0, 0.25
"""For one bundle of several: so many seconds, and no more than this share of the time there is."""

MARGIN = 0.3
"""Of the deadline, kept for the disk and the answer."""

GRACE = 0.3

MOST_VERDICT = 8 << 20
"""Bytes of a verdict: one of 512 ranks takes 300 KiB."""

MOST_MANIFEST = 64 << 20


def merge_bundles(output: Path, bundles: Sequence[Path], deadline: Deadline, *, force: bool = False) -> str:
    """Why they could not be made one; empty where they were. `force`: as far as they can be used."""
    # what was not closed does not verify, and is evidence all the same
    forced = ["--force"] if force or any(one.name.endswith(".part") for one in bundles) else []
    ran = _own(["bundle", "merge", str(output), *map(str, bundles), *forced], deadline)
    if output.exists():
        return ""
    return "it took too long" if ran.late else ran.problem or last_words(ran)


def objection(bundle: Path, deadline: Deadline) -> str:
    """What is wrong with a bundle, by `rankmuster bundle verify`; empty where nothing is, or where no time was left."""
    ran = _own(["bundle", "verify", str(bundle)], deadline)
    return "" if ran.status == 0 or ran.late else ran.problem or last_words(ran)


def diagnose_bundle(bundle: str, folder: str, deadline: Deadline) -> Answer:
    """Data: `verdict`, its path; `class`, `subclass`, `confidence`, `progress`, `seconds`."""
    begun, place = deadline.clock(), Path(folder).absolute()
    verdict = place / VERDICT
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        verdict.unlink(missing_ok=True)
    except OSError as error:
        return Answer(ending=Ending.FAILED, note=f"no verdict can be kept in {place} ({error.strerror or error})")
    ran = _own(
        ["diagnose", str(Path(bundle).absolute()), "--format", "json", "--output", str(verdict)], deadline, MARGIN
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
    sync(place)
    data = {key: found.get(key) for key in ("class", "subclass", "confidence", "progress")}
    data |= {"verdict": str(verdict), "seconds": round(deadline.clock() - begun, 3)}
    return Answer(ending=Ending.DONE, note=f"{read.class_.value}: see {verdict}", data=data)


def answer_with(bundle: Path, notes: list[str], said: str, deadline: Deadline, begun: float) -> Answer:
    """Of a collection that has left `bundle`, which is on the disk then. `notes`: what is missing.

    Data: `bundle`, `sha256` of its manifest (None where it was not closed), `seconds`, `missing`.
    """
    whole = not bundle.name.endswith(".part")
    if not whole:
        _sync_below(bundle, deadline)
    elif bundle.is_file():
        sync(bundle)
    sync(bundle.parent)
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


def no_evidence(notes: Sequence[str], late: bool) -> Answer:
    """Of a collection that has left nothing."""
    words = "; ".join(notes) or "nothing came"
    return Answer(ending=Ending.TIMED_OUT if late else Ending.FAILED, note=f"no evidence was saved: {words}")


def sync(path: Path) -> None:
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


def _own(words: Sequence[str], deadline: Deadline, kept: float = 0.0) -> Ran:
    """Our own program, on what a failing node has sent. `kept`: seconds of the deadline that are not its."""
    return run_child(
        [*OWN, *words],
        seconds=max(deadline.remaining() - GRACE - kept, 0.1),
        grace=GRACE,
        clock=deadline.clock,
        cwd=ROOT,
        step_back=False,
        whole_group=True,
    )


def _sync_below(folder: Path, deadline: Deadline) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            if deadline.passed:
                return
            sync(Path(place) / name)
        sync(Path(place))
