"""What settings ask for that can never work, said before anything is begun; and what would fail as things are now.

No URL is repeated: it may be a secret.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from rankmuster.incident.config import (
    CommandGroup,
    IncidentConfig,
    InstanceConfig,
    SglangTraffic,
    VllmTraffic,
    WebhookNode,
    WebhookTraffic,
)
from rankmuster.model.fault import CLASS_OF
from rankmuster.watch.config import CommandHook


def objections(config: IncidentConfig) -> list[str]:
    """One sentence each: where it is wrong and what would be right."""
    found = [text for place, url in _urls(config) if (text := _url(place, url))]
    for name, one in config.instances.items():
        if one.retest is not None and _password(one.retest.history):
            found.append(
                f"instances.{name}.retest.history holds a password, which the command line on each node would show; "
                "put it into a .pgpass file there"
            )
    for number, row in enumerate(config.recovery):
        belongs = None if row.subclass is None else CLASS_OF.get(row.subclass)
        if row.subclass is not None and row.class_ is not None and belongs is not row.class_:
            right = f"; that is one of {belongs.value}" if belongs is not None else ""
            found.append(
                f"recovery.{number}: {row.class_.value} has no sub-kind {row.subclass.value}{right}: it would never fit"
            )
    for role in config.enable:
        if "/" not in role and config.instances and not any(_has(one, role) for one in config.instances.values()):
            found.append(f"enable: {role}: no instance has such an actuator, so that nothing would act")
    return found


def doubts(config: IncidentConfig) -> list[str]:
    """What would fail in an incident if it stayed as it is now. Looks at files; asks nobody."""
    found = []
    for place, path in _header_files(config):
        if path is not None and not os.access(path, os.R_OK):
            found.append(f"{place}: {path} is not there, or may not be read")
    for place, program in _programs(config):
        if shutil.which(program) is None:
            found.append(f"{place}: the program {program} is not there, or may not be run")
    return found


def _has(one: InstanceConfig, role: str) -> bool:
    return bool({"traffic": one.traffic, "group": one.group, "node": one.node, "retest": one.retest}.get(role))


def _urls(config: IncidentConfig) -> Iterator[tuple[str, str | None]]:
    for name, one in config.instances.items():
        here = f"instances.{name}"
        for number, traffic in enumerate(one.traffic):
            if isinstance(traffic, (SglangTraffic, VllmTraffic)):
                yield f"{here}.traffic.{number}.url", traffic.url
                yield f"{here}.traffic.{number}.worker", traffic.worker
            elif isinstance(traffic, WebhookTraffic):
                yield f"{here}.traffic.{number}.url", traffic.url
                yield f"{here}.traffic.{number}.look_url", traffic.look_url
        for number, node in enumerate(one.node):
            if isinstance(node, WebhookNode):
                yield f"{here}.node.{number}.url", node.url
                yield f"{here}.node.{number}.look_url", node.look_url
        if one.probe is not None:
            yield f"{here}.probe.url", one.probe.url
        yield f"{here}.metrics_url", one.metrics_url
    for number, hook in enumerate(config.hooks):
        if not isinstance(hook, CommandHook):
            yield f"hooks.{number}.url", hook.url


def _url(place: str, url: str | None) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        secret = "@" in parts.netloc
    except ValueError:
        fine, secret = False, False
    if not fine or not url.isprintable() or " " in url:
        return f"{place} is no address; wanted is http://HOST:PORT/... or https://HOST/..."
    if secret and place.endswith(".metrics_url"):
        return f"{place} holds a user or a password; leave them out, they are not sent"
    if secret:
        return (
            f"{place} holds a user or a password, which command lines, logs and the journal would show; put an "
            "Authorization header into header_file"
        )
    return None


def _password(url: str | None) -> bool:
    try:
        return url is not None and urlsplit(url).password is not None
    except ValueError:
        return False


def _header_files(config: IncidentConfig) -> Iterator[tuple[str, Path | None]]:
    for name, one in config.instances.items():
        for role, kinds in (("traffic", one.traffic), ("node", one.node)):
            for number, kind in enumerate(kinds):
                yield f"instances.{name}.{role}.{number}.header_file", getattr(kind, "header_file", None)
        yield f"instances.{name}.probe.header_file", getattr(one.probe, "header_file", None)
    for number, hook in enumerate(config.hooks):
        yield f"hooks.{number}.header_file", getattr(hook, "header_file", None)


def _programs(config: IncidentConfig) -> Iterator[tuple[str, str]]:
    for name, one in config.instances.items():
        if isinstance(one.group, CommandGroup):
            for verb in ("terminate", "start", "look"):
                words = getattr(one.group, verb)
                if words:
                    yield f"instances.{name}.group.{verb}", words[0]
        for place, kind in (("group", one.group), *((f"node.{n}", node) for n, node in enumerate(one.node))):
            program = getattr(kind, "scontrol", None)
            if program is not None:
                yield f"instances.{name}.{place}.scontrol", program
    for number, hook in enumerate(config.hooks):
        if isinstance(hook, CommandHook):
            yield f"hooks.{number}", hook.command[0]
