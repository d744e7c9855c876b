"""Runners and services of a file of settings, for the commands that act; errors are the command's."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.incident.config import IncidentConfig
    from rankmuster.incident.follow import Follower
    from rankmuster.incident.journal import Journal
    from rankmuster.incident.runner import Runner
    from rankmuster.incident.seen import Seen
    from rankmuster.incident.tools import Tools
    from rankmuster.model.incident import Event


def host() -> str:
    """This host's name, as evidence of this node has it."""
    return socket.gethostname()


def holder(service: str = "run") -> str:
    """This process's name in the journal, never that of another: a lease is given to the same name again at once, and
    two services of one host, or two containers in which each is process 1, must not take it from each other."""
    return f"{host()}:{service}:{os.getpid()}-{secrets.token_hex(2)}"


@contextmanager
def refusals() -> Iterator[None]:
    """What settings and runners refuse, as the command's errors."""
    from rankmuster.incident.config_read import ConfigRefused
    from rankmuster.incident.runner import Refused

    try:
        yield
    except (ConfigRefused, Refused) as error:
        raise CommandError(f"{error}; nothing was done") from error


def tools_for(config: IncidentConfig, instance: str) -> Tools:
    """All that acts for one instance. Raises CommandError."""
    from rankmuster.incident.build import tools_of

    with refusals():
        return tools_of(config, instance)


def follower_of(config: IncidentConfig, tools: dict[str, Tools], journal: Journal) -> Follower:
    """Follows the instances of `tools`."""
    from rankmuster.incident.follow import Followed, Follower
    from rankmuster.incident.serve import newest_of

    instances = {
        name: Followed(one.group, config.instances[name].metrics_url if name in config.instances else None)
        for name, one in tools.items()
    }
    return Follower(config.watch, instances, newest_of(journal), clock=time.monotonic, unix_now=time.time, host=host())


def runner_of(
    config: IncidentConfig,
    instance: str,
    tools: Tools,
    journal: Journal,
    *,
    holder: str,
    seen: Callable[[], Seen | None],
    told: Callable[[Event], None] = lambda _: None,
) -> Runner:
    """The runner of one instance. Raises CommandError."""
    from rankmuster.incident.facts import facts_of
    from rankmuster.incident.places import folder_of
    from rankmuster.incident.runner import Runner

    with refusals():
        return Runner(
            config,
            instance,
            tools,
            journal,
            holder=holder,
            facts=facts_of(config, instance, journal, time.time),
            seen=seen,
            folder=folder_of(config),
            host=host(),
            told=told,
        )
