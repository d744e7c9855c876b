"""Which processes serve, and where their metrics pages may be asked for: by command line and by the kernel's word."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from rankmuster.collect.find import endpoints, options
from rankmuster.collect.find.seen import INSTANCE, Seen
from rankmuster.collect.find.surroundings import Surroundings
from rankmuster.collect.listening import listening_of
from rankmuster.collect.target import ProcessOfInstance, Role


def as_server(around: Surroundings, process: ProcessOfInstance, starters: Set[int]) -> ProcessOfInstance:
    """A program of one's own that says a port of its and listens there serves: it is no mere helper."""
    helps = process.role is Role.HELPER and process.pid not in starters
    return replace(process, role=Role.SERVER) if helps and _served_port(around, process) is not None else process


def _served_port(around: Surroundings, process: ProcessOfInstance) -> int | None:
    """Where it serves by its own words, and by the kernel's: whoever only names a port may mean another's."""
    port = options.port(process.command)
    unknown = around.table[process.pid].known is None and process.rank is None
    listens = unknown and port is not None and port in listening_of(around.proc.root, process.pid).ports
    return port if listens else None


def urls_of_engine(around: Surroundings, seen: list[Seen], engine: str | None) -> tuple[str, ...]:
    found: list[str] = []
    here = around.link("self", "ns/net")
    for one in seen:
        if one.known is None or one.known.role is not Role.SERVER or "::" in one.known.name:
            continue
        if options.shape(one.command, one.known.engine).node_rank > 0:
            continue  # SGLang's other nodes answer for their health only
        same = one.network is None or here is None or one.network == here
        addresses = endpoints.own_addresses(around.proc, one.pid)
        found.extend(endpoints.urls(one.command, engine or one.known.engine, addresses=addresses, here=same))
    return tuple(dict.fromkeys(found))


def urls_said(around: Surroundings, processes: list[ProcessOfInstance]) -> tuple[str, ...]:
    """The pages of such programs, where they say by our marker that they belong here and it is no rendezvous' port."""
    stores = {process.environ.get("MASTER_PORT") for process in processes}
    found: list[str] = []
    here = around.link("self", "ns/net")
    for process in processes:
        if process.role not in (Role.SERVER, Role.LAUNCHER) or INSTANCE not in process.environ:
            continue
        port = _served_port(around, process)
        if port is not None and str(port) not in stores:
            network = around.table[process.pid].network
            addresses = endpoints.own_addresses(around.proc, process.pid)
            same = network is None or here is None or network == here
            found.extend(endpoints.at_port(process.command, port, "/metrics", addresses=addresses, here=same))
    return tuple(dict.fromkeys(found))
