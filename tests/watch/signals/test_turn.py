"""Closing from another thread: nobody waits for a poll that hangs, and what it uses is closed when it is done."""

from __future__ import annotations

import threading

from rankmuster.watch.signals.turn import Turn


def test_where_no_poll_runs_it_is_closed_at_once() -> None:
    shut: list[str] = []
    turn = Turn(lambda: shut.append(threading.current_thread().name))
    with turn as still_open:
        assert still_open
    assert not shut
    turn.close()
    assert shut == [threading.current_thread().name]
    with turn as still_open:
        assert not still_open


def test_a_poll_that_hangs_is_not_waited_for_and_closes_what_it_used() -> None:
    shut: list[str] = []
    turn = Turn(lambda: shut.append(threading.current_thread().name))
    polling, free = threading.Event(), threading.Event()

    def poll() -> None:
        with turn:
            polling.set()
            free.wait(30)

    thread = threading.Thread(target=poll, name="poll")
    thread.start()
    assert polling.wait(30)
    turn.close()
    assert not shut
    free.set()
    thread.join(30)
    assert shut == ["poll"]
