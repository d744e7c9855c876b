"""Hardware: network ports between two looks, as statements; and as suspect links of a stall that others call transport.

Blind to whose traffic a counter counted, to virtual functions (they have no counters of the physical port), and to
NVLink, which is on no port.
"""

from __future__ import annotations

import re
from dataclasses import replace

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, counted
from rankmuster.diagnose.ports import Port, ports
from rankmuster.diagnose.progress import ProgressView
from rankmuster.diagnose.weigh import Outcome
from rankmuster.model.fault import FaultClass, Progress
from rankmuster.model.network import PortKind
from rankmuster.model.plane import Plane

NAME = "port-counters"

_WORD = re.compile(r"[\w.\-]+")
"""A device's name within a link's: `mlx5_1` is not in `mlx5_10:1`."""

SHOWN = 4
"""Ports and counters that are named; the others are counted."""


def explain(context: Context, view: ProgressView) -> list[Finding]:
    """What the ports did: trouble always, congestion where it is slow, bytes where it has stopped."""
    if context.roster.on_one_host:
        return []
    found = [port for port in ports(context) if port.errors or port.lost]
    findings = []
    if found:
        statement = f"Between two looks, {'; '.join(_trouble(port) for port in found[:SHOWN])}"
        if len(found) > SHOWN:
            statement += f"; and {counted(len(found) - SHOWN, 'more port')} with errors"
        if any(port.used is None for port in found):
            statement += ". Whether the instance uses them is not known"
        findings.append(_finding(statement, found))
    if view.progress is Progress.SLOW:
        findings += _crowded(context)
    if view.progress is Progress.STOPPED:
        findings += _bytes(context)
    return findings


def with_links(context: Context, outcome: Outcome) -> Outcome:
    """The outcome with ports in trouble as suspect links, where the leading accusation is of the transport already."""
    lead, accusation = outcome.lead, outcome.accusation
    if (
        lead is None
        or accusation is None
        or accusation.fault is not FaultClass.TRANSPORT_STALL
        or context.roster.on_one_host
    ):
        return outcome
    known = {word for link in accusation.links for word in _WORD.findall(link)}
    links = [port.label for port in ports(context) if (port.errors or port.lost) and port.track.device not in known]
    if not links:
        return outcome
    named = replace(accusation, links=(*accusation.links, *links[:SHOWN]))
    return replace(outcome, lead=replace(lead, accusation=named))


def _trouble(port: Port) -> str:
    rises = [f"{name} rose by {rise}" for name, rise in list(port.errors.items())[:SHOWN]]
    if port.lost:
        rises.insert(0, f"it is {port.state}")
    return f"{port.label}: {', '.join(rises)}"


def _crowded(context: Context) -> list[Finding]:
    found = [port for port in ports(context) if port.congestion]
    if not found:
        return []
    told = [f"{port.label}: {', '.join(f'{name} +{rise}' for name, rise in port.congestion.items())}" for port in found]
    statement = f"Signs of congestion between two looks, which slows and stops nothing: {'; '.join(told[:SHOWN])}"
    return [_finding(statement, found)]


def _bytes(context: Context) -> list[Finding]:
    """Whether anything moved on RDMA ports; Ethernet carries everything else a node does."""
    rated = [port for port in ports(context) if port.track.kind is PortKind.RDMA and port.rate is not None]
    floor = context.limits.port_bytes_per_s
    moving = sorted((port for port in rated if (port.rate or 0.0) > floor), key=lambda port: -(port.rate or 0.0))
    if not rated:
        return []
    if not moving:
        seconds = min(port.seconds for port in rated)
        what = counted(len(rated), "RDMA port")
        return [_finding(f"No bytes moved on any of {what} for {seconds:.0f} s: everybody waits", rated)]
    told = ", ".join(f"{port.label} ({(port.rate or 0.0) / 1e6:.0f} MB/s)" for port in moving[:SHOWN])
    return [_finding(f"While it stood, bytes moved on {told}", moving)]


def _finding(statement: str, found: list[Port]) -> Finding:
    return Finding(NAME, Plane.HARDWARE, statement, tuple(dict.fromkeys(port.track.source for port in found))[:SHOWN])
