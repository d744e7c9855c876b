"""Looks at processes over time: what ended stays known as the one that ended, and when."""

from __future__ import annotations

from rankmuster.model.node import NodeState, NodeTask, TaskLook, TaskState
from rankmuster.watch.progress.processes import merged


def state(at: float, seen: TaskState) -> NodeState:
    return NodeState("n", "h", (at,), (NodeTask(7, 1, "worker", "python", (TaskLook(at, seen),)),))


def looks(*seen: TaskState, most: int = 3) -> list[tuple[float, TaskState]]:
    kept: NodeState | None = None
    for at, one in enumerate(seen):
        kept = merged(kept, state(float(at), one), 0.0, most)
    assert kept is not None
    return [(look.time, look.state) for look in kept.tasks[0].looks]


def test_the_newest_looks_count() -> None:
    assert looks(*[TaskState.SLEEPING] * 5) == [
        (2.0, TaskState.SLEEPING),
        (3.0, TaskState.SLEEPING),
        (4.0, TaskState.SLEEPING),
    ]


def test_when_a_process_ended_stays_known_however_long_ago_it_was() -> None:
    found = looks(TaskState.SLEEPING, TaskState.RUNNING, *[TaskState.GONE] * 40)
    assert found == [(1.0, TaskState.RUNNING), (2.0, TaskState.GONE), (41.0, TaskState.GONE)]


def test_of_a_process_that_was_never_seen_alive_nothing_is_made_up() -> None:
    assert looks(*[TaskState.GONE] * 5) == [(2.0, TaskState.GONE), (3.0, TaskState.GONE), (4.0, TaskState.GONE)]


def test_a_stopped_process_is_not_an_ended_one() -> None:
    assert [one for _, one in looks(TaskState.RUNNING, *[TaskState.STOPPED] * 6)] == [TaskState.STOPPED] * 3
