"""What `scontrol show node NAME` says of one node, and whose the drain is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankmuster.adapters.own_words import OURS, unmark
from rankmuster.model.incident import Fenced
from rankmuster.report.inert import plain

COMES_BACK = ("Not responding", "Node unexpectedly rebooted", "Low ")
"""Reasons that slurmctld gives a node that is DOWN, and takes back by itself once the node registers well again
(slurm.conf, ReturnToService). Such a node is not kept from work by anybody."""

_NAME = re.compile(r"^NodeName=(\S+)", re.MULTILINE)
_STATE = re.compile(r"^\s+State=(\S+)", re.MULTILINE)
_REASON = re.compile(r"^\s+Reason=(.*)$", re.MULTILINE)
_BY = re.compile(r"\s*\[[^\[\]]*@[^\[\]]*\]\s*$")
_WAS = re.compile(r" \(was: (.+)\)")


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """`states`: as Slurm names them, without the signs behind them. `reason`: without who set it and when."""

    name: str
    states: frozenset[str]
    reason: str

    @property
    def drained(self) -> bool:
        return bool(self.states & {"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"})

    @property
    def down(self) -> bool:
        return "DOWN" in self.states

    @property
    def incident(self) -> str | None:
        """The incident of ours whose reason stands there as it was written."""
        words = unmark(self.reason)
        parts = (words or "").split(":", 2)
        return parts[1] if len(parts) == 3 and parts[0] == OURS else None

    @property
    def was(self) -> str:
        """The reason that slurmctld had given before ours took its place."""
        found = _WAS.search(self.reason) if self.incident is not None else None
        return found[1] if found is not None else ""

    @property
    def comes_back(self) -> bool:
        """Whether it is down for what slurmctld itself takes back."""
        return self.down and (not self.reason or self.reason.startswith(COMES_BACK) or self.incident is not None)

    @property
    def fenced(self) -> Fenced:
        if self.drained:
            return Fenced.OURS if self.incident is not None else Fenced.OTHERS
        return Fenced.OTHERS if self.down and not self.comes_back else Fenced.NO

    @property
    def words(self) -> str:
        """For people."""
        return f"{'+'.join(sorted(self.states))}{f', Reason={plain(self.reason, 200)}' if self.reason else ''}"


def read_node(text: str, asked: str) -> SlurmNode | str:
    """The node that was asked for, or why that is not what was answered."""
    names = _NAME.findall(text)
    if names != [asked]:
        said = f"{len(names)} nodes" if len(names) > 1 else plain(names[0], 80) if names else "no node"
        return f"scontrol was asked for node {asked}, and answered with {said}"
    state = _STATE.search(text)
    if state is None:
        return f"scontrol's answer on node {asked} has no state"
    states = frozenset(re.sub(r"[^A-Z_]", "", part.upper()) for part in state[1].split("+")) - {""}
    if not states:
        return f"scontrol's answer on node {asked} has no state"
    reason = _REASON.search(text)
    return SlurmNode(asked, states, _BY.sub("", reason[1]).strip() if reason is not None else "")
