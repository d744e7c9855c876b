"""Each look is on the page, what happened between looks is counted once, and who has gone leaves nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from build_snapshots import VIEW, shown, snapshot

from rankmuster.metrics.declared import INSTANCE
from rankmuster.metrics.registry import Registry
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.watch.export.fill_looks import KEEP_SECONDS, LookMetrics
from rankmuster.watch.progress.model import Event
from rankmuster.watch.snapshot import GroupView, PlaneView, RankView, StopView

STOPPED = replace(
    VIEW,
    state=Progress.STOPPED,
    event="stopped",
    class_="collective_desync",
    subclass="missing_enter",
    stops=1,
    last_stop=StopView(1005.0, "i", "nothing moves"),
)


def filled(*looks: object) -> Registry:
    registry = Registry()
    metrics = LookMetrics(registry)
    for one in looks:
        metrics.take(one)  # type: ignore[arg-type]
    return registry


def test_a_look_is_shown_as_it_is() -> None:
    registry = filled(snapshot(1000.0, VIEW))
    states = shown(registry, "rankmuster_instance_state", llm_instance="llm-0")
    assert states == {state.value: float(state is Progress.ADVANCING) for state in Progress}
    assert shown(registry, "rankmuster_tokens_per_second") == {"llm-0": 640}
    assert shown(registry, "rankmuster_requests_running") == {"llm-0": 8}
    assert shown(registry, "rankmuster_requests_waiting") == {"llm-0": 0}
    assert shown(registry, "rankmuster_speed_ratio") == {"llm-0": 0.8}
    assert shown(registry, "rankmuster_ranks", llm_instance="llm-0")["moving"] == 4
    assert shown(registry, "rankmuster_ranks", llm_instance="llm-0")["spinning"] == 0
    planes = shown(registry, "rankmuster_plane_state", llm_instance="llm-0")
    assert {name for name, value in planes.items() if value} == {"engine spoke", "ras blind"}
    assert shown(registry, "rankmuster_plane_age_seconds", llm_instance="llm-0") == {"engine": 1}  # ras never spoke
    assert shown(registry, "rankmuster_last_look_timestamp_seconds") == {"": 1000}
    assert shown(registry, "rankmuster_build_info") == {"0.1.0": 1}
    assert shown(registry, "rankmuster_watch_resident_memory_bytes") == {"": 60 << 20}
    assert shown(registry, "rankmuster_instances") == {"": 1}


def test_what_is_not_known_is_absent() -> None:
    bare = replace(VIEW, tokens_per_s=None, running=math.nan, speed_now=None, speed_usual=0.0, ranks=())
    registry = filled(snapshot(1000.0, VIEW), snapshot(1005.0, bare))
    for name in ("tokens_per_second", "requests_running", "speed_ratio", "ranks", "unresponsive_processes"):
        assert shown(registry, f"rankmuster_{name}") == {}, name
    assert shown(registry, "rankmuster_instance_state", llm_instance="llm-0")["advancing"] == 1


def test_a_stop_is_counted_once_with_its_class() -> None:
    again = replace(STOPPED, event=None)
    registry = filled(
        snapshot(1000.0, VIEW), snapshot(1005.0, STOPPED), snapshot(1010.0, again), snapshot(1010.0, again)
    )
    stops = shown(registry, "rankmuster_stops_total", llm_instance="llm-0")
    assert stops == {"collective_desync missing_enter": 1}
    assert shown(registry, "rankmuster_events_total", llm_instance="llm-0")["stopped"] == 1
    assert shown(registry, "rankmuster_instance_fault", llm_instance="llm-0") == {"collective_desync missing_enter": 1}
    assert shown(registry, "rankmuster_last_stop_timestamp_seconds") == {"llm-0": 1005}


def test_a_stop_that_nothing_decided_and_words_nobody_knows_stay_bounded() -> None:
    strange = replace(STOPPED, class_="brand_new", subclass=None, stops=2, event="teleported", speed_kind="odd")
    registry = filled(snapshot(1000.0, replace(STOPPED, class_=None, subclass=None)), snapshot(1005.0, strange))
    assert shown(registry, "rankmuster_stops_total", llm_instance="llm-0") == {"inconclusive none": 1, "other none": 1}
    assert shown(registry, "rankmuster_events_total", llm_instance="llm-0")["other"] == 1
    assert shown(registry, "rankmuster_speed_kind", llm_instance="llm-0")["other"] == 1


def test_every_event_of_the_model_is_there_from_the_start_at_zero() -> None:
    events = shown(filled(snapshot(1000.0, VIEW)), "rankmuster_events_total", llm_instance="llm-0")
    assert events == dict.fromkeys((event.value.replace(" ", "_") for event in Event), 0.0)


def test_time_in_states_is_time_that_was_watched() -> None:
    idle = replace(VIEW, state=Progress.IDLE)
    looks = [
        snapshot(1000.0, VIEW),
        snapshot(1005.0, VIEW),
        snapshot(1010.0, idle),
        snapshot(5000.0, idle),  # the watch slept
        snapshot(4000.0, idle),  # the clock was set back
        snapshot(4005.0, idle),
    ]
    spent = shown(filled(*looks), "rankmuster_state_seconds_total", llm_instance="llm-0")
    assert spent == {"advancing": 10, "idle": 3 * 5.0 + 0 + 5}


def test_a_process_is_unresponsive_when_two_looks_say_so() -> None:
    def look(*states: str) -> object:
        return replace(VIEW, ranks=tuple(RankView(rank, 100 + rank, rank, state=s) for rank, s in enumerate(states)))

    registry = Registry()
    metrics = LookMetrics(registry)
    counts = []
    looks = [look("S", "T", "S", "R"), look("S", "T", "D", "R"), look("D", "t", "D", "Z"), look("S", "S", "S", "S")]
    for index, one in enumerate(looks):
        metrics.take(snapshot(1000.0 + index, one))  # type: ignore[arg-type]
        counts.append(shown(registry, "rankmuster_unresponsive_processes")["llm-0"])
    assert counts == [0, 1, 2, 0]


def test_an_instance_has_ended_until_something_else_is_seen_of_it() -> None:
    unknown = replace(VIEW, state=Progress.UNKNOWN)
    registry = Registry()
    metrics = LookMetrics(registry)
    ended = []
    looks = [unknown, replace(unknown, event="gone"), unknown, replace(unknown, event="restarted"), unknown, VIEW]
    looks += [replace(unknown, event="gone"), VIEW, unknown]
    for index, view in enumerate(looks):
        metrics.take(snapshot(1000.0 + 5 * index, view))
        ended.append(shown(registry, "rankmuster_instance_ended")["llm-0"])
    assert ended == [0, 1, 1, 0, 0, 0, 1, 0, 0]


def test_groups_are_counted_by_state_and_not_by_name() -> None:
    groups = tuple(GroupView("communicator", f"comm-{n}", Progress.STOPPED, "waits") for n in range(50))
    registry = filled(snapshot(1000.0, replace(VIEW, groups=groups)))
    assert shown(registry, "rankmuster_groups", llm_instance="llm-0") == {"communicator stopped": 50}


def test_who_has_gone_leaves_no_gauge_and_later_no_count() -> None:
    other = replace(VIEW, name="llm-1")
    registry = Registry()
    metrics = LookMetrics(registry)
    metrics.take(snapshot(1000.0, VIEW, other))
    metrics.take(snapshot(1005.0, other))
    assert shown(registry, "rankmuster_instance_state", llm_instance="llm-0") == {}
    assert shown(registry, "rankmuster_looks_total") == {"llm-0": 1, "llm-1": 2}
    metrics.take(snapshot(1005.0 + KEEP_SECONDS, other))
    assert shown(registry, "rankmuster_looks_total", llm_instance="llm-0") == {}
    metrics.take(snapshot(2100.0, VIEW, other))
    assert shown(registry, "rankmuster_looks_total", llm_instance="llm-0") == {"": 1}


def test_ten_thousand_names_do_not_grow_the_page() -> None:
    registry = Registry()
    metrics = LookMetrics(registry)
    for index in range(300):
        views = [replace(VIEW, name=f"pod-{index}-{n}") for n in range(3)]
        metrics.take(snapshot(1000.0 + 5 * index, *views))
    assert len(shown(registry, "rankmuster_looks_total")) <= 65
    assert len(shown(registry, "rankmuster_instance_state", state="advancing")) == 3
    assert shown(registry, "rankmuster_labels_folded_total")["rankmuster_looks_total"] > 0


def test_planes_that_change_show_one_state_each() -> None:
    silent = replace(VIEW, planes=(PlaneView(Plane.ENGINE, PlaneState.SILENT, 40.0, "it hangs"),))
    registry = filled(snapshot(1000.0, VIEW), snapshot(1005.0, silent))
    states = shown(registry, "rankmuster_plane_state", llm_instance="llm-0", plane="engine")
    assert states == {"spoke": 0, "silent": 1, "blind": 0}
    assert shown(registry, "rankmuster_plane_state", plane="ras") == {}


@pytest.mark.parametrize("cpu", [(2.0, 3.0, 1.0), (2.0, math.nan, 4.0)])
def test_the_processor_time_of_the_watch_never_falls(cpu: tuple[float, ...]) -> None:
    registry = Registry()
    metrics = LookMetrics(registry)
    before = 0.0
    for index, seconds in enumerate(cpu):
        metrics.take(snapshot(1000.0 + index, cpu_seconds=seconds))
        now = shown(registry, "rankmuster_watch_cpu_seconds_total")[""]
        assert now >= before
        before = now


def test_of_more_instances_than_there_are_labels_the_stopped_one_is_shown() -> None:
    """A stop must not be hidden by whoever comes after it in the alphabet."""
    views = [replace(VIEW, name=f"llm-{number:03}") for number in range(INSTANCE.most + 30)]
    registry = filled(
        snapshot(1000.0, *views), snapshot(1005.0, *views[:-20], replace(STOPPED, name=views[-20].name), *views[-19:])
    )
    others = shown(registry, "rankmuster_instance_state", llm_instance="other")
    assert {state for state, value in others.items() if value} == {"stopped"}
