"""The sentence an operator reads first: the class, whom or what it is about, and why."""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Accusation, quoted
from rankmuster.diagnose.progress import ProgressView
from rankmuster.diagnose.weigh import Outcome
from rankmuster.model.fault import FaultClass, Progress, Subkind
from rankmuster.model.ranks_text import ranks_text

MAX_HOSTS = 4
"""Hosts named in the sentence; all of them are in `suspect_hosts`."""

CLAUSE_END = re.compile(r";\s|\.\s+(?=[A-Z])")
"""Where a detector's statement goes on to its next clause."""


def summary(
    context: Context,
    fault: FaultClass,
    subkind: Subkind | None,
    outcome: Outcome,
    view: ProgressView,
    progress: Progress,
) -> str:
    """`class/sub-kind: rank 2 on 10.0.0.7 (pid 1519, GPU 2) did not enter ...`; of nobody, what the lead found."""
    accusation = outcome.accusation
    if accusation is None or outcome.lead is None:
        if progress is Progress.DRAINING:
            return f"{fault.value}: all processes ended with exit code 0: shut down, or finished"
        return f"{fault.value}: {view.reason}"
    name = f"{fault.value}/{subkind.value}" if subkind is not None else fault.value
    return f"{name}: {_about(context, accusation, outcome.lead.statement)}"


def _about(context: Context, accusation: Accusation, statement: str) -> str:
    if accusation.culprits:
        return _convicted(context, accusation)
    if accusation.gpus:
        gpu = accusation.gpus[0]
        who = f"GPU {gpu.name}" if gpu.pid is None else f"process {gpu.pid} on GPU {gpu.name}"
        return who + (f" on {gpu.host}" if gpu.host else "") + f": {gpu.why}"
    clause = quoted(CLAUSE_END.split(statement, maxsplit=1)[0])
    if accusation.suspects:
        return f"{ranks_text(accusation.suspects)} under suspicion, nobody convicted: {clause}"
    links = [link for link in accusation.links if link not in clause]
    if links:
        return f"link {', '.join(links)}: {clause}"
    hosts = [host for host in accusation.hosts if host not in clause]
    more = ", ..." if len(hosts) > MAX_HOSTS else ""
    return f"on {', '.join(hosts[:MAX_HOSTS])}{more}: {clause}" if hosts else clause


def _convicted(context: Context, accusation: Accusation) -> str:
    who = ranks_text(accusation.culprits)
    rank = context.job.rank(accusation.culprits[0])
    if len(accusation.culprits) == 1 and rank.host is not None:
        who += f" on {rank.host}"
        who += f" (pid {rank.pid}, GPU {rank.gpu})" if rank.pid is not None and rank.gpu is not None else ""
    reasons = [accusation.why.get(number, "") for number in accusation.culprits]
    if len(reasons) > 1 and reasons[0]:
        first = "each" if len(set(reasons)) == 1 else f"rank {accusation.culprits[0]}"
        return f"{who}: {first} {reasons[0]}"
    return f"{who} {reasons[0]}".strip()
