"""Parts of an instance that can be told apart: one engine that stops is a stop, and which one is said."""

from __future__ import annotations

import pytest
from build_looks import Watched, sample

from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.model.ras import RasCommunicator, RasPoll, RasRank
from rankmuster.model.stamp import unix
from rankmuster.watch.progress.model import Event, Judgement
from rankmuster.watch.progress.settings import DEFAULTS
from rankmuster.watch.snapshot import GroupView

ENGINE_ONLY = frozenset({Plane.ENGINE})


def stream(key: str, steps: float, running: float = 2.0) -> EngineStream:
    return EngineStream(key, running, 0.0, {"vllm:generation_tokens_total": steps}, {}, {"kv": running / 100})


def one_page(at: float, *streams: EngineStream) -> tuple[EnginePage, ...]:
    """Data-parallel engines behind one server."""
    return (EnginePage("http://h:8000/metrics", unix(at), "vllm", streams),)


def two_servers(at: float, *streams: EngineStream) -> tuple[EnginePage, ...]:
    return tuple(
        EnginePage(f"http://h:800{one.key}/metrics", unix(at), "vllm", (stream("0", *_of(one)),)) for one in streams
    )


def _of(one: EngineStream) -> tuple[float, float]:
    return one.steps["vllm:generation_tokens_total"], one.running or 0.0


def engines(judged: Judgement) -> dict[str, Progress]:
    return {group.name: group.state for group in judged.groups if group.kind == "engine"}


@pytest.mark.parametrize("pages", [one_page, two_servers])
def test_one_engine_of_two_that_stops_is_a_stop_and_is_named(pages) -> None:  # type: ignore[no-untyped-def]
    watched = Watched(ENGINE_ONLY)
    for number in range(8):
        before = watched(*pages(watched.wall, stream("0", 100.0 * number), stream("1", 100.0 * number)))
    assert set(engines(before).values()) == {Progress.ADVANCING}
    for number in range(8, 12):
        judged = watched(*pages(watched.wall, stream("0", 100.0 * number), stream("1", 700.0)))
    assert judged.state is Progress.STOPPED
    (stopped,) = [name for name, state in engines(judged).items() if state is Progress.STOPPED]
    assert "1" in stopped
    assert judged.reason.startswith(f"{stopped}: ")
    (other,) = set(engines(judged)) - {stopped}
    assert f"meanwhile {other} advances" in judged.reason
    assert engines(judged)[other] is Progress.ADVANCING


def test_an_engine_that_stopped_and_is_not_seen_any_more_goes_not_on_because_another_does() -> None:
    """A server whose page hangs once it has stopped. One that is gone for good is forgotten with the window."""
    watched = Watched(ENGINE_ONLY)
    for number in range(10):
        watched(*two_servers(watched.wall, stream("0", 100.0 * number), stream("1", 100.0 * min(number, 6))))
    assert watched.events == ["stopped"]
    for number in range(10, 32):
        judged = watched(*two_servers(watched.wall, stream("0", 100.0 * number)))
    assert judged.state is Progress.STOPPED
    for number in range(32, 50):
        judged = watched(*two_servers(watched.wall, stream("0", 100.0 * number)))
    assert judged.state is Progress.ADVANCING
    assert watched.events == ["stopped", "resumed"]


def test_an_engine_without_requests_beside_one_that_works_is_idle_and_nothing_has_stopped() -> None:
    watched = Watched(ENGINE_ONLY)
    for number in range(12):
        judged = watched(*one_page(watched.wall, stream("0", 100.0 * number), stream("1", 700.0, running=0)))
    assert judged.state is Progress.ADVANCING
    assert engines(judged) == {"vllm engine 0": Progress.ADVANCING, "vllm engine 1": Progress.IDLE}


def test_a_stopped_engine_is_back_after_two_looks_that_show_it() -> None:
    watched = Watched(ENGINE_ONLY)
    states = []
    steps = [0, 100, 200, 300, 300, 300, 300, 400, 500, 600]
    for number, own in enumerate(steps):
        judged = watched(*one_page(watched.wall, stream("0", 100.0 * number), stream("1", float(own))))
        states.append(engines(judged)["vllm engine 1"])
    assert states[3:] == [Progress.ADVANCING] * 2 + [Progress.STOPPED] * 3 + [Progress.ADVANCING] * 2


def test_an_engine_that_is_taken_out_is_unknown_and_then_forgotten() -> None:
    watched = Watched(ENGINE_ONLY)
    for number in range(8):
        watched(*one_page(watched.wall, stream("0", 100.0 * number), stream("1", 100.0 * number)))
    found = []
    for number in range(8, 50):
        found.append(engines(watched(*one_page(watched.wall, stream("0", 100.0 * number)))))
    gone = [one["vllm engine 1"] for one in found if "vllm engine 1" in one]
    assert (gone[0], gone[-1]) == (Progress.ADVANCING, Progress.UNKNOWN)
    assert found[-1] == {"vllm": Progress.ADVANCING}


def test_a_long_prefill_of_one_engine_while_the_other_rests_is_none() -> None:
    watched = Watched(ENGINE_ONLY | {Plane.HARDWARE})
    events = []
    for number in range(40):
        flat = number >= 10
        pages = one_page(watched.wall, stream("0", 0, running=0), stream("1", 100.0 * min(number, 10)))
        busy = [sample(watched.wall, gpu, 100.0, 1e6 * number * (2 if flat else 1)) for gpu in (2, 3)]
        resting = [sample(watched.wall, gpu, 0.0, 0.0) for gpu in (0, 1)]
        events.append(watched(*pages, *busy, *resting))
    assert {one.event for one in events} == {None}
    assert events[-1].state is Progress.ADVANCING


def test_the_engine_that_stops_beside_one_that_works_has_its_idle_rank_named() -> None:
    watched = Watched(ENGINE_ONLY | {Plane.HARDWARE})
    for number in range(10):
        watched(
            *one_page(watched.wall, stream("0", 100.0 * number), stream("1", 100.0 * number)),
            *(sample(watched.wall, gpu, 90.0, 1e6 * number) for gpu in range(4)),
        )
    for number in range(10, 14):
        judged = watched(
            *one_page(watched.wall, stream("0", 100.0 * number), stream("1", 900.0)),
            *(sample(watched.wall, gpu, 90.0, 1e6 * number) for gpu in (0, 1)),
            sample(watched.wall, 2, 100.0, 9e6),
            sample(watched.wall, 3, 0.0, 9e6),
        )
    assert judged.state is Progress.STOPPED
    assert judged.stops == 1
    assert "vllm engine 1" in judged.reason
    assert [(one.rank, one.role.value) for one in judged.suspects] == [(3, "culprit"), (2, "victim")]


def poll(at: float, counts: tuple[int, ...]) -> RasPoll:
    ranks = tuple(RasRank(rank, "h", 100 + rank, counts={"AllReduce": count}) for rank, count in enumerate(counts))
    return RasPoll("ras/poll", unix(at), None, "json", communicators=(RasCommunicator(0xAB, len(counts), ranks),))


def comms(judged: Judgement) -> list[GroupView]:
    return [group for group in judged.groups if group.kind == "communicator"]


def test_communicators_move_stand_or_are_not_known() -> None:
    watched = Watched(frozenset({Plane.RAS}), ranks=2)
    (first,) = comms(watched(poll(watched.wall, (5, 5)), seconds=60))
    assert (first.name, first.state, first.ranks) == ("00000000000000ab", Progress.UNKNOWN, (0, 1))
    (moved,) = comms(watched(poll(watched.wall, (9, 9)), seconds=60))
    assert moved.state is Progress.ADVANCING
    (alike,) = comms(watched(poll(watched.wall, (9, 9)), seconds=60))
    assert alike.state is Progress.UNKNOWN  # a decode that is replayed from a graph launches nothing
    assert "no launched count moved within 60 s" in alike.reason


def test_a_communicator_whose_ranks_stand_apart_in_a_stop_is_of_it() -> None:
    watched = Watched(ENGINE_ONLY | {Plane.RAS}, ranks=2)
    for number in range(8):
        watched(*one_page(watched.wall, stream("0", 100.0 * number)))
    for _ in range(4):
        judged = watched(*one_page(watched.wall, stream("0", 700.0)), poll(watched.wall, (7, 8)))
    assert judged.state is Progress.STOPPED
    (group,) = comms(judged)
    assert group.state is Progress.STOPPED
    assert "rank 0 at 7, others up to 8" in group.reason


def test_no_more_groups_are_kept_than_servers() -> None:
    watched = Watched(ENGINE_ONLY)
    for number in range(10):
        many = [stream(f"{number}-{key}", 1.0 * number) for key in range(100)]
        judged = watched(*one_page(watched.wall, *many))
    assert len(judged.groups) <= DEFAULTS.most_servers
    assert judged.event is not Event.STOPPED
