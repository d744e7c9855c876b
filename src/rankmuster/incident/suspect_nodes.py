"""Suspects of a verdict as nodes of the scheduler: whom it names, and whom fencing would be right for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.model.fault import Role, SuspectKind
from rankmuster.model.verdict import Suspect, Verdict


@dataclass(frozen=True, slots=True)
class SuspectNodes:
    """`named`: of all culprits and suspects. `culprits`: of those that evidence separates from their victims.

    `lost`: suspects whose node nobody knows, in words; `hidden`: whether one of them is on a node (a link is on two).
    """

    named: tuple[str, ...] = ()
    culprits: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    hidden: bool = False

    @property
    def certain(self) -> tuple[str, ...]:
        """Those that may be fenced on one look: culprits, or all suspects where they are on one node.

        Being the only one whose node is known convicts nobody.
        """
        if self.culprits:
            return self.culprits
        return self.named if len(self.named) == 1 and not self.hidden else ()


def suspect_nodes(verdict: Verdict, nodes: Mapping[str, str], rank_hosts: Mapping[int, str]) -> SuspectNodes:
    """`nodes`: host -> node, where they differ. `rank_hosts`: rank -> host, for suspects without one. Victims are never
    named."""
    known = {one.rank: one.host for one in verdict.suspects if one.rank is not None and one.host}
    hosts = {**rank_hosts, **known}
    named: dict[str, None] = {}
    culprits: dict[str, None] = {}
    lost: dict[str, None] = {}
    hidden = False
    for suspect in verdict.suspects:
        if suspect.role is Role.VICTIM:
            continue
        host = suspect.host or (None if suspect.rank is None else hosts.get(suspect.rank))
        if host is None:
            lost[_words(suspect)] = None
            hidden = hidden or suspect.kind is not SuspectKind.LINK
            continue
        node = nodes.get(host, host)
        named[node] = None
        if suspect.role is Role.CULPRIT:
            culprits[node] = None
    if not named:
        # the verdict's own list of all of them
        named, hidden = {nodes.get(host, host): None for host in verdict.suspect_hosts}, False
    return SuspectNodes(tuple(named), tuple(culprits), tuple(lost), hidden)


def _words(suspect: Suspect) -> str:
    if suspect.rank is not None:
        return f"rank {suspect.rank}"
    return f"{suspect.kind.value} {suspect.link or suspect.gpu or suspect.pod or '?'}"
