"""Where an engine's metrics page may be asked for: addresses of the serving process alone, never what it merely names.

A command line is the process's own words; `--host evil.example` must not make this program speak to that host.
TensorRT-LLM's JSON page at `/metrics` is emptied by reading it, so only its Prometheus page is ever named.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from rankmuster.collect.find import options, titles
from rankmuster.collect.proc import NotAllowed, Proc

MAX_ADDRESSES = 4
"""Addresses tried of one server: a pod has one or two, a node with many rails answers on its first."""

_LOCAL = re.compile(rb"\|-- (\d{1,3}(?:\.\d{1,3}){3})\s+/32 host LOCAL")
_PATHS = {titles.TRTLLM: "/prometheus/metrics"}


def own_addresses(proc: Proc, pid: int) -> tuple[str, ...]:
    """The addresses of the process's network namespace that others can reach, IPv4 first; empty when unknown."""
    try:
        four = proc.read(pid, "net/fib_trie", 4 << 20) or b""
        six = proc.read(pid, "net/if_inet6", 1 << 20) or b""
    except (NotAllowed, OSError):
        return ()
    found = [match.decode() for match in _LOCAL.findall(four)]
    for line in six.decode("ascii", "replace").splitlines():
        fields = line.split()
        if len(fields) == 6 and len(fields[0]) == 32:
            try:
                found.append(str(ipaddress.IPv6Address(int(fields[0], 16))))
            except ValueError:
                continue
    return tuple(dict.fromkeys(one for one in found if _usable(one)))


def _usable(text: str) -> bool:
    try:
        one = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (one.is_loopback or one.is_link_local or one.is_unspecified)


def urls(command: tuple[str, ...], engine: str, *, addresses: Sequence[str], here: bool) -> tuple[str, ...]:
    """The pages of one server, likeliest first. `addresses`: its own; `here`: whether our loopback is its loopback."""
    served = options.address(command, engine)
    if served is None:
        return ()
    return at_port(command, served[1], _PATHS.get(engine, "/metrics"), addresses=addresses, here=here)


def at_port(command: tuple[str, ...], port: int, path: str, *, addresses: Sequence[str], here: bool) -> tuple[str, ...]:
    """The same where port and path are known."""
    host = options.host(command)
    scheme = "https" if options.secure(command) else "http"
    hosts: list[str] = []
    if host is not None and host.strip("[]") in addresses:
        hosts.append(host.strip("[]"))
    if here:
        hosts.append("::1" if host in ("::1", "[::1]") else "127.0.0.1")
    elif host is None:
        hosts.extend(addresses[:MAX_ADDRESSES])
    return tuple(f"{scheme}://{f'[{one}]' if ':' in one else one}:{port}{path}" for one in dict.fromkeys(hosts))
