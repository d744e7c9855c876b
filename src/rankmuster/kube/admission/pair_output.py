"""What the ranks of a pair said, put together from both pods: the results of its rails. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_record import OUTPUT, PAIR
from rankmuster.adapters.kube.job_words import NotSaid
from rankmuster.baseline.pairs import PairResult
from rankmuster.bench.builtin.conclude import Ended, Run, conclude
from rankmuster.bench.builtin.frames import Listener
from rankmuster.bench.builtin.heard import Heard
from rankmuster.bench.launch.pairs import result_of
from rankmuster.model.benchmark import RunState
from rankmuster.report.inert import plain

LATE = ".late"
"""Ends the name of a part that says that this output was cut by the time limit."""


def part_of(rail: int | None) -> str:
    """The name of the part that holds the output of this rail."""
    return OUTPUT if rail is None else f"{OUTPUT}:{rail}"


def pair_results(said: Mapping[str, Payload], node: str, good: str, limit_seconds: float) -> tuple[PairResult, ...]:
    """One a rail. Raises NotSaid where the two pods measured different things, or nothing at all."""
    payloads = [said[one] for one in (node, good)]
    if any(one.kind != PAIR for one in payloads):
        raise NotSaid("what the pods said is no measurement of a pair")
    names = [{name for name in one.parts if not name.endswith(LATE)} for one in payloads]
    if names[0] != names[1] or not names[0]:
        raise NotSaid("the two pods did not measure the same rails")
    results = tuple(_result(name, payloads, node, good, limit_seconds) for name in sorted(names[0]))
    if all(one.ended is RunState.ERROR for one in results):
        raise NotSaid(f"nothing was measured: {plain(results[0].reason, 400)}")
    return results


def _result(name: str, payloads: list[Payload], node: str, good: str, limit_seconds: float) -> PairResult:
    rail = _rail(name)
    heard = Heard()
    for one in payloads:
        heard.take(Listener().feed(one.parts[name], ended=True))
    if heard.expected is None:
        return PairResult(node, good, None, "error: no rank of the benchmark said anything", rail)
    late = any(f"{name}{LATE}" in one.parts for one in payloads)
    run = Run(
        source=f"the pair {node}, {good}",
        ranks=heard.expected,
        started_at=heard.started_at,
        environment=(),
        command=(),
    )
    return result_of(conclude(heard, Ended(limit_s=limit_seconds if late else None), run), node, good, rail)


def _rail(name: str) -> int | None:
    word = name.partition(":")[2]
    if not word:
        return None
    if not word.isdecimal() or len(word) > 4:
        raise NotSaid(f"{plain(name, 60)} names no rail")
    return int(word)
