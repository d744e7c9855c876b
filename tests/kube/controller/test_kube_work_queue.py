"""What is asked for often is done once; what fails is tried again later, and later."""

from __future__ import annotations

from rankmuster.kube.controller.work_queue import LONGEST_PAUSE, WorkQueue


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_key_that_is_asked_for_a_thousand_times_is_done_once() -> None:
    queue: WorkQueue[str] = WorkQueue(Time())
    for _ in range(1_000):
        queue.add("a")
    queue.add("b")
    assert [queue.take(), queue.take(), queue.take()] == ["a", "b", None]
    assert queue.deepest == 2


def test_what_is_asked_for_while_it_is_worked_on_is_done_again_afterwards() -> None:
    queue: WorkQueue[str] = WorkQueue(Time())
    queue.add("a")
    assert queue.take() == "a"
    queue.add("a")
    assert queue.take() is None
    queue.done("a")
    assert queue.take() == "a"
    queue.done("a")
    assert len(queue) == 0


def test_a_failure_is_tried_again_after_a_pause_that_grows_to_a_limit() -> None:
    time = Time()
    queue: WorkQueue[str] = WorkQueue(time)
    queue.add("a")
    pauses = []
    for _ in range(12):
        assert queue.take() == "a"
        queue.add("a")  # asked for again: the pause stands
        pauses.append(queue.failed("a"))
        assert queue.take() is None
        time.now += pauses[-1]
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_PAUSE
    assert queue.take() == "a"
    queue.done("a", again=30.0)
    assert queue.take() is None
    time.now += 30.0
    assert queue.take() == "a"


def test_an_earlier_wish_goes_before_a_later_one() -> None:
    time = Time()
    queue: WorkQueue[str] = WorkQueue(time)
    queue.add("a", after=60.0)
    queue.add("a")
    assert queue.take() == "a"
    queue.done("a")
    queue.add("b", after=5.0)
    queue.add("b", after=60.0)
    time.now = 5.0
    assert queue.take() == "b"
    queue.drop("b")
    queue.done("b")
    queue.add("c", after=1.0)
    queue.drop("c")
    time.now = 10.0
    assert queue.take() is None
