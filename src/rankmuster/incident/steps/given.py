"""A verdict that is there: of the opening, or of the diagnosis. One that cannot be about this stop is not used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankmuster.incident.given_verdict import objection
from rankmuster.incident.steps.scene import Scene
from rankmuster.model.incident import Step
from rankmuster.model.plain_json import NotPlain
from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_json import verdict_from_plain

MOST_BYTES = 64 << 20
"""Of a verdict's file: one of 4,096 ranks takes a few MiB."""


class NoVerdict(Exception):
    """It cannot be used; the message says why."""


def opened_with(scene: Scene) -> Verdict | None:
    """The opening's own, None where it brought none. Raises NoVerdict."""
    given = scene.opening.verdict
    return None if given is None else _about_this(scene, _made(given))


def diagnosed(scene: Scene) -> Verdict:
    """That of DIAGNOSE. Raises NoVerdict."""
    path = scene.past.text(Step.DIAGNOSE, "verdict")
    if path is None:
        ended = scene.past.ended(Step.DIAGNOSE)
        raise NoVerdict(ended.note if ended is not None and ended.note else "there was no diagnosis")
    verdict = _made(_read(Path(path)))
    bundle = scene.past.text(Step.EVIDENCE, "bundle")
    # what was collected in this incident is about it, whatever it calls things
    return _about_this(scene, verdict) if bundle is not None and bundle == scene.opening.bundle else verdict


def _about_this(scene: Scene, verdict: Verdict) -> Verdict:
    why = objection(verdict, scene.opening, scene.past.bound)
    if why is not None:
        raise NoVerdict(why)
    return verdict


def _made(raw: Mapping[str, Any]) -> Verdict:
    try:
        return verdict_from_plain(dict(raw))
    except (NotPlain, ValueError) as error:
        raise NoVerdict(f"it is no verdict: {error}") from error


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise NoVerdict(f"{path} is larger than {MOST_BYTES} bytes")
        found = json.loads(raw)
    except OSError as error:
        raise NoVerdict(f"{path} cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise NoVerdict(f"{path} is no JSON") from error
    if not isinstance(found, dict):
        raise NoVerdict(f"{path} holds a {type(found).__name__}")
    return found
