"""Two recorders of one rank do not mix, and two looks at one recorder tell a moving job from one that stands."""

from __future__ import annotations

from dataclasses import replace

import build_flight as fr
import pytest
from build_evidence import instance

from rankmuster.diagnose.run import Diagnosis, diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import FaultClass, Progress, Subkind

RANKS = 4


def device(**fields: object) -> fr.World:
    return fr.one_group(RANKS, rounds=40, **fields)


def host(rounds: int = 60, **fields: object) -> fr.World:
    return fr.one_group(RANKS, calls=[fr.Call("0", "all_reduce")] * rounds, backend="gloo", **fields)


def host_files(world: fr.World, look: str = "", only: tuple[int, ...] = tuple(range(RANKS))) -> list[Blob]:
    tops = fr.dumps(world)
    return [Blob(f"flight/fr_trace_rank_{rank}{look}.json", fr.as_json(tops[rank])) for rank in only if rank in tops]


def noted(files: list[Blob], at: float) -> dict[str, float]:
    return {blob.path: fr.START + at for blob in files}


def judged(files: list[Blob], looks: dict[str, float] | None = None) -> Diagnosis:
    return diagnose(gather([*files, *([fr.manifest(looks)] if looks else []), instance(RANKS, pids=False)]))


def sources(found: Diagnosis) -> set[str]:
    return {facts.source.rpartition("/")[2].partition("_rank")[0] for facts in found.job.dump_facts.values()}


def test_a_stop_on_the_devices_is_judged_on_their_recorder_alone() -> None:
    stopped = fr.blobs(fr.dumps(device(stops={2: 30})))
    # On the host all wait for rank 0, which waits for its GPU; two ranks have newer entries there.
    files = [*stopped, *host_files(host(stops={0: 50, 3: 50}))]
    found = judged(files)
    assert sources(found) == {"nccl_trace"}
    assert fr.culprits(found) == [2]


def test_a_stop_on_the_host_is_judged_on_the_hosts() -> None:
    files = [*fr.blobs(fr.dumps(device())), *host_files(host(rounds=40, stops={2: 30}))]
    found = judged(files)
    assert sources(found) == {"fr_trace"}
    assert (found.verdict.subclass, fr.culprits(found)) == (Subkind.MISSING_ENTER, [2])


def test_a_rank_that_left_a_dump_of_the_other_recorder_alone_is_not_called_silent() -> None:
    stopped = [blob for blob in fr.blobs(fr.dumps(device(stops={2: 30}))) if not blob.path.endswith("_1")]
    found = judged([*stopped, *host_files(host(rounds=20))])
    assert sources(found) == {"nccl_trace"}
    assert 1 not in fr.culprits(found)


def test_dumps_of_an_earlier_run_do_not_decide_for_the_devices() -> None:
    late = fr.dumps(host(rounds=40, stops={2: 30}))
    for top in late.values():
        for entry in top["entries"]:
            entry["time_created_ns"] += 3_600_000_000_000
    files = [Blob(f"flight/fr_trace_rank_{rank}.json", fr.as_json(top)) for rank, top in late.items()]
    found = judged([*fr.blobs(fr.dumps(device(stops={0: 20}))), *files])
    assert sources(found) == {"fr_trace"}
    assert fr.culprits(found) == [2]


def two_looks(first: float, second: float, **fields: object) -> Diagnosis:
    world = host(rounds=2000, **fields)
    one, two = host_files(replace(world, look=first)), host_files(replace(world, look=second), "-2")
    return judged([*one, *two], {**noted(one, first), **noted(two, second)})


def test_a_rank_that_goes_on_between_two_looks_moves() -> None:
    found = two_looks(4.0, 8.0)
    assert (found.verdict.class_, found.verdict.progress) == (FaultClass.HEALTHY, Progress.ADVANCING)
    assert all(facts.went_on for facts in found.job.dump_facts.values())


def test_what_stopped_before_the_second_look_has_stopped() -> None:
    found = two_looks(2.0, 12.0, stops={2: 400})
    assert not any(facts.went_on for facts in found.job.dump_facts.values())
    assert fr.culprits(found) == [2]


@pytest.mark.parametrize("second", [4.2, 400.0])
def test_looks_at_one_moment_or_minutes_apart_tell_no_motion(second: float) -> None:
    assert not any(facts.went_on for facts in two_looks(4.0, second).job.dump_facts.values())


def test_of_two_equal_dumps_the_later_look_counts() -> None:
    world = host(rounds=40, stops={2: 30})
    one, two = host_files(world), host_files(world, "-2")
    found = judged([*one, *two], {**noted(one, 3.0), **noted(two, 6.0)})
    assert {facts.look for facts in found.job.dump_facts.values()} == {fr.START + 6.0}
    assert fr.culprits(found) == [2]
