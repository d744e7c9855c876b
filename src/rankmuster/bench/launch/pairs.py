"""Measures pairs of nodes, all disjoint pairs of a round at once, until no further pair would tell more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rankmuster.baseline.pairs import TOLERANCE, PairResult, judged, next_round
from rankmuster.model.benchmark import BenchmarkRun, Operation, Profile, RunState, Step

PROFILE = Profile(
    "pairs",
    "two nodes: the largest sizes, where the network is all that counts",
    (Step(Operation.ALL_REDUCE, (256 << 20, 1 << 30), iterations=20, warmup=5),),
)
"""1 GiB as in vendors' checks of pairs (Google's average 2 to 8 GiB); 256 MiB for the connections."""

MOST_ROUNDS = 4_096
"""Of one measurement: every path between as many nodes takes one round less."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How pairs are judged and chosen: `judged` and `next_round` say what each of these does."""

    floor: float | None = None
    tolerance: float = TOLERANCE
    trusted: tuple[str, ...] = ()
    rounds: int = 1

    def next(
        self, nodes: Sequence[str], results: Sequence[PairResult], rail: int | None
    ) -> tuple[tuple[str, str], ...]:
        """Pairs of a rail to measure now."""
        own = judged([one for one in results if one.rail == rail], floor=self.floor, tolerance=self.tolerance)
        return next_round(nodes, own, trusted=self.trusted, rounds=self.rounds)


Measure = Callable[[str, str, int | None, int], BenchmarkRun]
"""(first node, second node, rail, place in the round) -> the run; called from several threads at once."""


def result_of(run: BenchmarkRun, first: str, second: str, rail: int | None) -> PairResult:
    """busbw of the largest size of the first operation; a run that is not complete is evidence against both."""
    if run.state is not RunState.COMPLETE or not run.measurements:
        return PairResult(first, second, None, f"{run.state.value}: {run.reason}", rail)
    operation = run.measurements[0].cell.operation
    rows = [row for row in run.measurements if row.cell.operation is operation]
    largest = max(rows, key=lambda row: row.cell.size_bytes)
    return PairResult(first, second, largest.busbw, "", rail)


def measure_pairs(
    nodes: Sequence[str],
    rails: Sequence[int | None],
    measure: Measure,
    told: Callable[[PairResult], None],
    rules: Rules,
    *,
    known: Sequence[PairResult] = (),
) -> tuple[PairResult, ...]:
    """All results, those that were `known` first. Rails one after the other: together they would share what one of
    them is to be measured on. `told` gets each result as it comes, in this thread."""
    found = list(known)
    for rail in rails:
        for _ in range(MOST_ROUNDS):
            pairs = rules.next(nodes, found, rail)
            if not pairs:
                break
            with ThreadPoolExecutor(len(pairs)) as pool:
                runs = [pool.submit(measure, first, second, rail, place) for place, (first, second) in enumerate(pairs)]
                for (first, second), run in zip(pairs, runs, strict=True):
                    found.append(result_of(run.result(), first, second, rail))
                    told(found[-1])
    return tuple(found)
