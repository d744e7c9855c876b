"""The built-in benchmark over several nodes: started by a launcher, heard on the launcher's own output."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from rankmuster.bench.builtin.conclude import Ended, Run, conclude
from rankmuster.bench.builtin.environment import FIXED, NEEDED, safeguards
from rankmuster.bench.builtin.frames import Listener
from rankmuster.bench.builtin.heard import Heard
from rankmuster.bench.builtin.orders import Backend, Orders
from rankmuster.bench.launch import start
from rankmuster.bench.launch.job import CannotLaunch, Job, Launcher
from rankmuster.collect.deadline import Deadline
from rankmuster.evidence.nccl_tests_environment import kept
from rankmuster.model.benchmark import BenchmarkRun, Profile

MARGIN = 10.0
"""Seconds beyond the time limit after which a rank ends itself, and the launcher its ranks: nobody may be left here who
could."""

LAUNCHERS_OWN = ("SLURM_", "OMPI_", "PMIX_", "PRTE_", "MUNGE_", "SSH_", "KUBE")
"""Prefixes of what launchers need of this process's environment, besides what any program does."""


def run_over_nodes(
    profile: Profile,
    nodes: tuple[str, ...],
    launcher: Launcher,
    *,
    ranks_per_node: int,
    environment: Mapping[str, str],
    time_limit_s: float,
    python: str = "python3",
    backend: Backend = Backend.NCCL,
    address: str | None = None,
    port: int = 29_500,
    choices: bool = False,
    now: Callable[[], float] = time.time,
    here: Mapping[str, str] | None = None,
) -> BenchmarkRun:
    """As `run_builtin`, with `ranks_per_node` ranks on each of `nodes`. `python`: the interpreter on the nodes, which
    has torch and this package. `address`, `port`: see `Job`. Foreign work on the nodes' GPUs is not seen from here.

    Raises CannotLaunch for what the launcher cannot do.
    """
    base = os.environ if here is None else here
    environment = {**safeguards(base), **environment}
    deadline = Deadline.after(time_limit_s)
    started_at = now()

    def play(port: int, chosen: bool) -> tuple[Heard, tuple[start.Outcome, ...], Job]:
        job = job_over_nodes(
            profile,
            nodes,
            ranks_per_node=ranks_per_node,
            environment=environment,
            time_limit_s=time_limit_s,
            python=python,
            backend=backend,
            address=address,
            port=port,
            choices=chosen,
        )
        heard = Heard()
        listeners: dict[int, Listener] = {}

        def hear(place: int, data: bytes) -> None:
            heard.take(listeners.setdefault(place, Listener()).feed(data, ended=not data))

        outcomes = start.run(
            launcher.commands(job), environment=launching(base, environment), deadline=deadline, hear=hear
        )
        return heard, outcomes, job

    heard, outcomes, job = play(port, False)
    for outcome in outcomes:
        if outcome.problem:
            raise CannotLaunch(f"{outcome.story}: is {launcher.name} installed on this machine?")
    limit = time_limit_s if any(outcome.timed_out for outcome in outcomes) else None
    chosen = None
    if choices and limit is None and not heard.failures:
        chosen, _, _ = play(port + 1, True)
    story = "; ".join(outcome.story for outcome in outcomes if outcome.story)
    run = Run(
        source=f"the built-in benchmark of {profile.name} over {', '.join(nodes)} by {launcher.name}",
        ranks=job.ranks,
        started_at=started_at,
        environment=kept(environment.items()),
        command=launcher.commands(job)[0].argv,
    )
    whole = sum(rank.done for rank in heard.ranks.values()) == job.ranks
    ended = Ended(
        limit_s=None if whole else limit,
        launcher="" if whole else story,
        silent_nodes=() if whole else not_started(heard, job, outcomes),
    )
    return conclude(heard, ended, run, chosen=chosen)


def job_over_nodes(
    profile: Profile,
    nodes: tuple[str, ...],
    *,
    ranks_per_node: int,
    environment: Mapping[str, str],
    time_limit_s: float,
    python: str = "python3",
    backend: Backend = Backend.NCCL,
    address: str | None = None,
    port: int = 29_500,
    choices: bool = False,
) -> Job:
    """What `run_over_nodes` has started. Raises CannotLaunch."""
    orders = Orders(
        profile,
        seconds=time_limit_s + MARGIN,
        backend=backend,
        choices=choices,
        environment=tuple(sorted(environment.items())),
    )
    program = (python, "-m", "rankmuster.bench.builtin", *orders.arguments())
    return Job(program, nodes, ranks_per_node, time_limit_s + MARGIN, tuple(FIXED.items()), address, port)


def launching(here: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    """The environment of the launcher itself. What was asked for goes to the ranks, PATH and HOME to the launcher."""
    own = {name: value for name, value in here.items() if name in NEEDED or name.startswith(LAUNCHERS_OWN)}
    own.pop("CUDA_VISIBLE_DEVICES", None)
    return {**own, **{name: asked[name] for name in ("PATH", "HOME") if name in asked}}


def not_started(heard: Heard, job: Job, outcomes: Sequence[start.Outcome]) -> tuple[str, ...]:
    """Silent nodes; where some could not be reached, these alone, since the others only wait for them."""
    mute = silent(heard, job)
    failed = {outcome.command.node for outcome in outcomes if outcome.code}
    return tuple(node for node in mute if node in failed) or mute


def silent(heard: Heard, job: Job) -> tuple[str, ...]:
    """Nodes of which no rank has started; by the hosts' names where they are the nodes', by rank numbers otherwise."""
    hosts = {rank.host for rank in heard.ranks.values() if rank.host is not None}
    short = {host.partition(".")[0] for host in hosts}
    named = [node for node in job.nodes if node in hosts or node.partition(".")[0] in short]
    if len(named) >= len(hosts):
        return tuple(node for node in job.nodes if node not in named)
    started = {number // job.ranks_per_node for number, rank in heard.ranks.items() if rank.host is not None}
    return tuple(node for place, node in enumerate(job.nodes) if place not in started)
