"""`rankmuster explain`: every word of a verdict has an answer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from rankmuster.diagnose.catalogue import names
from rankmuster.model.fault import SUBKINDS, Boundary, FaultClass

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_without_a_name_everything_is_listed_with_one_line_each(command: Run) -> None:
    done = command("explain", env={"COLUMNS": "100"})
    assert done.returncode == 0
    first_words = [line.split()[0] for line in done.stdout.splitlines() if line]
    for class_, subkinds in SUBKINDS.items():
        for name in (class_.value, *(sub.value for sub in subkinds)):
            assert name in first_words
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_sub_kind_says_all_that_a_person_needs(command: Run) -> None:
    done = command("explain", "missing_enter")
    assert done.returncode == 0
    for title in (
        "How it is told apart",
        "Planes that see it",
        "Planes that are blind to it",
        "Typical causes",
        f"Recovery boundary: {Boundary.PROCESS_GROUP.value}",
        "What to do, in this order",
        "What not to do",
        "May the time-out be raised?",
        "Commands to look further",
    ):
        assert title in done.stdout
    assert "Do not restart one rank into the old communicator" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "name", ["transport_stall", "blind", "stopped", "confirmed", "progress", "boundary", "culprit"]
)
def test_classes_and_words_are_explained_too(command: Run, name: str) -> None:
    done = command("explain", name)
    assert done.returncode == 0
    assert name in done.stdout


def test_a_class_lists_its_sub_kinds(command: Run) -> None:
    done = command("explain", "init_stuck")
    for sub in SUBKINDS[FaultClass.INIT_STUCK]:
        assert sub.value in done.stdout


def test_a_command_is_shown_as_it_is_typed(command: Run) -> None:
    done = command("explain", "all_entered_none_left", env={"COLUMNS": "40"})
    assert "echo 'verbose status' | nc localhost 28028" in done.stdout


def test_an_unknown_name_is_3_with_what_may_have_been_meant(command: Run) -> None:
    done = command("explain", "mising_enter")
    assert (done.returncode, done.stdout) == (3, "")
    assert "missing_enter" in done.stderr


def test_nonsense_is_3_and_points_to_the_list(command: Run) -> None:
    done = command("explain", "qqqqqqqq\x1b[31m")
    assert done.returncode == 3
    assert "rankmuster explain" in done.stderr
    assert "\x1b" not in done.stderr


def test_no_name_is_listed_twice() -> None:
    assert len(names()) == len(set(names()))
