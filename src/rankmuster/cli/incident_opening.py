"""What `incident run` begins with: a stop as a hook gets it, a verdict, a bundle, or only a name; each is checked."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.incident.config import IncidentConfig
    from rankmuster.incident.seen import Seen
    from rankmuster.model.incident import Opening
    from rankmuster.model.verdict import Verdict

MOST_STOP = 4 << 20
"""Bytes of a stop on standard input: a hook gets 1 MiB at most."""

MOST_VERDICT = 64 << 20


def opening_of(
    settings: IncidentConfig,
    instance: str | None,
    stop: Path | None,
    verdict: Path | None,
    bundle: Path | None,
    reason: str,
) -> Opening:
    """What the incident is opened with. Raises CommandError for what it cannot be opened with."""
    from rankmuster.cli import incident_runners as runners
    from rankmuster.incident.openings import NoOpening, by_hand, from_stop

    said = None if verdict is None else plain_json(verdict, MOST_VERDICT, "verdict")
    try:
        if stop is not None:
            if verdict is not None or bundle is not None:
                raise CommandError("--stop brings its own verdict and bundle; leave --verdict and --bundle out")
            opening = from_stop(plain_json(stop, MOST_STOP, "stop"), runners.host(), time.time())
            if instance is not None and instance != opening.instance:
                raise CommandError(f"the stop is of {opening.instance}, and --instance says {instance}")
            return _usable(opening)
        if instance is None:
            if len(settings.instances) != 1:
                there = ", ".join(sorted(settings.instances)[:10]) or "none"
                raise CommandError(f"which instance? name one with --instance; the settings have {there}")
            [instance] = settings.instances
        if instance not in settings.instances:
            runners.tools_for(settings, instance)
        if bundle is not None and not bundle.exists():
            raise CommandError(f"--bundle {bundle}: there is no such file or folder")
        if said is not None:
            must_be_verdict(said, str(verdict))
        return by_hand(
            instance,
            now=time.time(),
            host=runners.host(),
            seen=_seen(settings, instance),
            reason=reason,
            bundle=None if bundle is None else str(bundle.absolute()),
            verdict=said,
            metrics_url=settings.instances[instance].metrics_url,
        )
    except NoOpening as error:
        raise CommandError(f"{_called(stop or verdict)}: {error}; nothing was done") from error


def _usable(opening: Opening) -> Opening:
    """Of a hook's stop what can be used here: without a verdict or a bundle, both are made by the runbook."""
    if opening.verdict is not None:
        try:
            must_be_verdict(opening.verdict, "the stop's verdict")
        except CommandError as error:
            say(f"rankmuster: {error}; the evidence is diagnosed anew")
            opening = replace(opening, verdict=None)
    if opening.bundle is not None and not Path(opening.bundle).exists():
        say(f"rankmuster: the stop's bundle {opening.bundle!a} is not on this host; evidence is collected anew")
        opening = replace(opening, bundle=None)
    return opening


def _seen(settings: IncidentConfig, instance: str) -> Seen | None:
    from rankmuster.incident.follow import Follower

    follower = Follower(settings.watch, {}, lambda _: None, clock=time.monotonic, unix_now=time.time, host="")
    follower.refresh()
    return follower.seen(instance)


def must_be_verdict(raw: Any, what: str) -> Verdict:
    """`what`: it is called. Raises CommandError."""
    from rankmuster.model.plain_json import NotPlain
    from rankmuster.model.verdict_json import verdict_from_plain

    try:
        return verdict_from_plain(raw)
    except NotPlain as error:
        raise CommandError(f"{what} is no verdict as `diagnose --format json` writes it: {error}") from error


def plain_json(path: Path, most: int, what: str) -> Any:
    """JSON of a file, or of standard input."""
    from rankmuster.cli.given import bytes_of

    if str(path) == "-":
        data = sys.stdin.buffer.read(most + 1)
        if len(data) > most:
            raise CommandError(f"the {what} on standard input has more than {most >> 20} MiB")
    else:
        data = bytes_of(path, most, what)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        what = "holds no JSON" if data.strip() else "is empty"
        raise CommandError(f"{_called(path)} {what}: {error}; nothing was done") from error


def _called(path: Path | None) -> str:
    return "standard input" if str(path) == "-" else str(path)
