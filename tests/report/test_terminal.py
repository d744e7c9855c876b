"""The terminal report answers in its first line, at 80 columns, through a pipe."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

from rich.console import Console

from rankmuster.model.fault import FaultClass, Role
from rankmuster.model.job import Job, Rank
from rankmuster.model.verdict import Verdict
from rankmuster.report.terminal import render


def shown(verdict: Verdict, job: Job, width: int = 80, terminal: bool = False) -> str:
    file = io.StringIO()
    render(verdict, job, Console(file=file, width=width, force_terminal=terminal))
    return file.getvalue()


def test_the_first_line_is_the_answer(verdict: Verdict, job: Job) -> None:
    first = shown(verdict, job).splitlines()[0]
    for word in (
        "collective_desync/missing_enter",
        "culprit rank 2",
        "10.0.0.7",
        "1519",
        "GPU 2",
        "confirmed",
        "stopped",
    ):
        assert word in first


def test_it_tells_who_why_what_to_do_and_what_was_not_seen_in_that_order(verdict: Verdict, job: Job) -> None:
    text = shown(verdict, job)
    headings = ["ROLL CALL", "WHY", "ALSO SEEN", "SAVE NOW", "REBUILD", "DO NOT", "PLANES", "DAMAGED", "UNREAD"]
    places = [text.index(heading) for heading in headings]
    assert places == sorted(places)
    assert text.index("Rank 2 has nothing outstanding") < text.index("GPU 2 idles")
    assert "silent" in text
    assert "no kernel log in the bundle" in text


def test_saving_comes_apart_from_rebuilding(verdict: Verdict, job: Job) -> None:
    text = shown(verdict, job)
    save, rebuild = text.index("SAVE NOW"), text.index("REBUILD")
    assert save < text.index("Save the dumps of every rank") < rebuild
    assert rebuild < text.index("1. End every process of the group.")
    assert text.index("2. Start it anew.") > rebuild


def test_the_roll_call_marks_the_culprit_without_colour(verdict: Verdict, job: Job) -> None:
    rows = [line for line in shown(verdict, job).splitlines() if line.startswith(("* ", ". "))]
    assert [line.split()[:3] for line in rows if line[0] == "*" and "culprit" not in line] == [["*", "2", "1519"]]
    assert "* culprit; . victim" in shown(verdict, job)


def test_piped_it_is_plain_ascii_within_80_columns_but_for_the_first_line(verdict: Verdict, job: Job) -> None:
    text = shown(verdict, job)
    assert text.isascii()
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()[1:]) <= 80


def test_on_a_terminal_it_has_colour(verdict: Verdict, job: Job) -> None:
    assert "\x1b[" in shown(verdict, job, terminal=True)


def test_markup_escapes_and_control_characters_of_a_failing_machine_are_inert(by_hand: SimpleNamespace) -> None:
    word = "[bold red]x[/bold red] :warning: \x1b[2J\x1b]0;owned\x07 \u202e"
    host = "[link=file:///etc]h\x1b[31m\x9b1m"
    text = shown(by_hand.verdict(host, word=word), by_hand.job(host), width=200)
    assert "[bold red]x[/bold red] :warning:" in text
    assert "[link=file:///etc]h" in text
    assert not [char for char in text if char != "\n" and (ord(char) < 32 or 0x7F <= ord(char) < 0xA0)]
    assert "\u202e" not in text


def test_an_ascii_console_gets_no_foreign_letters(verdict: Verdict, job: Job) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", errors="strict", write_through=True)
    render(replace(verdict, summary="Knoten fällt aus — 節点"), job, Console(file=file, width=80))
    assert b"Knoten f\\xe4llt aus" in raw.getvalue()


def test_a_thousand_ranks_are_a_screen_not_a_scroll(verdict: Verdict, job: Job) -> None:
    ranks = tuple(Rank(rank, f"10.0.{rank // 8}.1", 5000 + rank, rank % 8, has_exit_facts=True) for rank in range(1024))
    text = shown(verdict, replace(job, ranks=ranks, world_size=1024, polls=(), tracks={}))
    assert "1024 ranks" in text
    assert "(1020)" in text
    assert len(text.splitlines()) < 70


def test_blind_says_that_nothing_is_known(blind_verdict: Verdict, empty_job: Job) -> None:
    text = shown(blind_verdict, empty_job)
    assert text.splitlines()[0] == "blind: no culprit named; no confidence given; progress unknown"
    assert "no rank is known" in text


def test_healthy_gives_no_orders(job: Job) -> None:
    text = shown(Verdict(class_=FaultClass.HEALTHY), job)
    assert text.startswith("healthy: nobody to name")
    assert "REBUILD" not in text
    assert "SAVE NOW" not in text


def test_a_live_rank_without_a_dump_is_to_be_asked_before_it_is_ended(verdict: Verdict, job: Job) -> None:
    recovery = replace(verdict.recovery, steps=("End every process of the group.",))
    dumps = {rank: dump for rank, dump in job.dumps.items() if rank != 2}
    text = shown(replace(verdict, recovery=recovery), replace(job, dumps=dumps))
    assert "rank 2 left no Flight Recorder dump" in text


def test_two_suspects_are_both_named_in_the_first_line(verdict: Verdict, job: Job) -> None:
    both = tuple(replace(suspect, role=Role.SUSPECT) for suspect in verdict.suspects[:2])
    first = shown(replace(verdict, suspects=both), job).splitlines()[0]
    assert "suspects rank 0" in first
    assert "rank 1" in first
    assert "no culprit" in first


def test_a_narrow_roll_call_leaves_out_columns_rather_than_cutting_cells(verdict: Verdict, job: Job) -> None:
    text = shown(verdict, job, width=40)
    [header] = [line.split() for line in text.splitlines() if line.strip().startswith("rank ")]
    assert header[:4] == ["rank", "gpu", "state", "entered"]
    assert all(len(row) <= 40 for row in text.split("ROLL CALL")[1].split("WHY")[0].splitlines())
    assert "too narrow for" in text.replace("\n", " ")
    assert "too narrow for" not in shown(verdict, job)
    for name in ("links", "dump", "pid", "util"):
        assert name in shown(verdict, job).split("ROLL CALL")[1].split("WHY")[0]
