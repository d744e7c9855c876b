"""One pair of nodes: started by a launcher, with either benchmark, on all GPUs or on one rail; or only said how."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rankmuster.baseline.pairs import PairResult
from rankmuster.bench.builtin.nodes import job_over_nodes, run_over_nodes
from rankmuster.bench.builtin.orders import Backend
from rankmuster.bench.launch.job import CannotLaunch, Job, Launcher
from rankmuster.bench.launch.nccl_tests import nccl_tests_over_nodes
from rankmuster.bench.launch.pairs import Rules
from rankmuster.bench.rails import Rail
from rankmuster.model.benchmark import BenchmarkRun, Profile


@dataclass(frozen=True, slots=True)
class PairStarter:
    """`gpus`: ranks on each node; `given`: variables for the ranks; `port`: the first of as many as a round has pairs.
    `nccl_tests`: measure with those, else with the built-in benchmark. `limit_s`: of one pair."""

    launcher: Launcher
    profile: Profile
    gpus: int
    limit_s: float
    rails: Mapping[int, Rail] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    nccl_tests: bool = False
    python: str = "python3"
    backend: Backend = Backend.NCCL
    address: str | None = None
    port: int = 29_500

    def run(self, first: str, second: str, rail: int | None, place: int) -> BenchmarkRun:
        """`place`: the pair's in its round. Raises CannotLaunch, NcclTestsMissing."""
        if self.nccl_tests:
            return nccl_tests_over_nodes(
                self.profile,
                (first, second),
                self.launcher,
                ranks_per_node=self.gpus,
                environment=self._environment(rail),
                time_limit_s=self.limit_s,
            )
        return run_over_nodes(
            self.profile,
            (first, second),
            self.launcher,
            ranks_per_node=self.gpus,
            environment=self._environment(rail),
            time_limit_s=self.limit_s,
            python=self.python,
            backend=self.backend,
            address=self.address,
            port=self.port + place,
        )

    def plan(
        self,
        nodes: Sequence[str],
        rails: Sequence[int | None],
        known: Sequence[PairResult],
        rules: Rules,
    ) -> str:
        """The next round of each rail, as commands of a shell. Raises CannotLaunch."""
        if self.nccl_tests:
            raise CannotLaunch("a plan is of the built-in benchmark's commands; nccl-tests are several for each pair")
        lines = []
        for rail in rails:
            found = rules.next(nodes, known, rail)
            what = "" if rail is None else f" of rail {rail}"
            if not found:
                lines.append(f"# nothing more to measure{what}")
                continue
            count = "1 pair" if len(found) == 1 else f"{len(found)} pairs at the same time"
            lines.append(f"# the next round{what}: {count}; what follows depends on the results")
            for place, (first, second) in enumerate(found):
                job = self._job(first, second, rail, place)
                lines += [f"{shlex.join(command.argv)} &" for command in self.launcher.commands(job)]
            lines.append("wait")
        return "\n".join(lines) + "\n"

    def _job(self, first: str, second: str, rail: int | None, place: int) -> Job:
        return job_over_nodes(
            self.profile,
            (first, second),
            ranks_per_node=self.gpus,
            environment=self._environment(rail),
            time_limit_s=self.limit_s,
            python=self.python,
            backend=self.backend,
            address=self.address,
            port=self.port + place,
        )

    def _environment(self, rail: int | None) -> dict[str, str]:
        own = self.rails.get(rail) if rail is not None else None
        return {**(own.environment if own is not None else {}), **self.given}
