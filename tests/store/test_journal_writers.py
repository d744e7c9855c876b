"""Several runners at one journal, as processes: one wins, limits hold, and one that is killed leaves nothing half."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from journal_made import begun, held, noted
from rankmuster.model.incident import UseKind
from rankmuster.store.errors import LeaseLost
from rankmuster.store.journal import Journal

WRITER = Path(__file__).with_name("journal_writer.py")
RUNNERS = 6


@contextmanager
def runner(url: str, how: str, name: str) -> Iterator[subprocess.Popen[str]]:
    """One that is ready, and has not begun."""
    paths = os.pathsep.join([str(WRITER.parents[1]), *sys.path])
    command = [sys.executable, WRITER, url, how, name]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ | {"PYTHONPATH": paths}) as one:
        try:
            yield one
        finally:
            one.kill()


def said(one: subprocess.Popen[str]) -> str:
    assert one.stdout is not None
    return one.stdout.readline().strip()


def begin(one: subprocess.Popen[str]) -> None:
    assert one.stdin is not None
    one.stdin.write("\n")
    one.stdin.flush()


def race(url: str, how: str) -> list[str]:
    """What each of the runners says that begin at once. They make the tables at once, too."""
    with ExitStack() as stack:
        runners = [stack.enter_context(runner(url, how, f"llm-{number}")) for number in range(RUNNERS)]
        assert [said(one) for one in runners] == ["ready"] * RUNNERS
        for one in runners:
            begin(one)
        return [said(one) for one in runners]


def test_one_runner_gets_a_lease(url: str) -> None:
    assert sorted(race(url, "lease")) == ["1", *["None"] * (RUNNERS - 1)]


def test_one_incident_of_an_instance_is_opened(url: str) -> None:
    answers = [one.split() for one in race(url, "open")]
    assert len({name for name, _ in answers}) == 1
    assert sorted(new for _, new in answers) == ["False"] * (RUNNERS - 1) + ["True"]
    with Journal.open(url) as journal:
        (head,) = journal.incidents()
        assert len(journal.events(head.id)) == 1


def test_a_limit_holds_whoever_asks_at_once(url: str) -> None:
    assert sorted(race(url, "reserve")) == ["False"] * (RUNNERS - 2) + ["True"] * 2
    with Journal.open(url) as journal:
        assert len([one for one in journal.fleet(3600, 2e9).uses if one.kind is UseKind.REBUILD]) == 2


def test_many_writers_lose_nothing(url: str) -> None:
    assert race(url, "append") == ["41"] * RUNNERS
    with Journal.open(url) as journal:
        for head in journal.incidents():
            assert [one.sequence for one in journal.events(head.id)] == list(range(1, 42))


@pytest.mark.parametrize("how", ["endless", "half"])
def test_what_a_killed_runner_said_it_wrote_is_there_and_the_next_goes_on(url: str, how: str) -> None:
    with runner(url, how, "runner-a") as one:
        assert said(one) == "ready"
        begin(one)
        for _ in range(30 if how == "endless" else 1):
            last = said(one)
        one.kill()
        one.wait()
        assert one.stdout is not None
        last = [last, *one.stdout.read().split("\n")[:-1]][-1]
    with Journal.open(url) as journal:
        (head,) = journal.incidents(open_only=True)
        events = journal.events(head.id)
        # it may have been killed between writing one and saying so
        assert len(events) in ([1] if how == "half" else [int(last), int(last) + 1])
        assert journal.take_lease("llm-0", "runner-b", 60) is None
        lease = held(journal)
        assert journal.append(head.id, lease, noted("going on")).sequence == len(events) + 1


def test_a_runner_that_was_frozen_writes_nothing_when_another_has_taken_over(url: str) -> None:
    now = [1000.0]
    with Journal.open(url, clock=lambda: now[0]) as journal:
        name, old = begun(journal)
        now[0] += 61
        new = held(journal, holder="runner-b")
        for clock in (-500.0, 0.0, 500.0):
            now[0] += clock
            with pytest.raises(LeaseLost, match=r"runner-b has had it since \(token 2\)"):
                journal.append(name, old, noted())
        now[0] = 1062.0
        assert journal.append(name, new, noted()).sequence == 2
