"""The live view: whoever looks at it sees what is wrong first, in words, in 80 columns, whatever the state holds."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from rankmuster.model.fault import Confidence, Progress
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.watch.export.state_file import Freshness
from rankmuster.watch.snapshot import (
    GroupView,
    InstanceView,
    PlaneView,
    RankView,
    Snapshot,
    StopView,
    WatcherView,
)
from rankmuster.watch.view.frame import render
from rankmuster.watch.view.judge import TopStatus, judge
from rankmuster.watch.view.ranks import doing_words, split
from rankmuster.watch.view.words import STATES, URGENCY, cut, cut_left, length, number

NOW = 1795986515.0
RANKS = tuple(
    RankView(
        rank,
        21000 + rank,
        rank,
        "idle" if rank == 2 else "spinning",
        0.0 if rank == 2 else 100.0,
        312.4,
        0.0,
        "T" if rank == 2 else "R",
        "culprit" if rank == 2 else "victim",
    )
    for rank in range(8)
)
STOP = StopView(
    NOW - 14,
    "i",
    "no token",
    collect="done",
    diagnose="done",
    hook="failed: page: it ended with exit status 3",
    bundle="/var/lib/rankmuster/stops/llm-0-20261130T033400Z-1f2e3d4c/bundle",
    class_="collective_desync",
    subclass="missing_enter",
    summary="rank 2 never entered all_reduce #751",
    culprits=("rank 2 (host 10.0.0.7, pid 21002, GPU 2)",),
)
STOPPED = InstanceView(
    name="llm-0",
    state=Progress.STOPPED,
    since=NOW - 13,
    reason="4 requests run and no token came for 13 s",
    engine="vllm",
    world_size=8,
    confidence=Confidence.LIKELY,
    class_="process_or_device_lost",
    subclass="gpu_stalled",
    suspects=("culprit rank 2",),
    ranks=RANKS,
    planes=(
        PlaneView(Plane.ENGINE, PlaneState.SPOKE, 1.0),
        PlaneView(Plane.RAS, PlaneState.BLIND, None, "its release is not polled"),
        PlaneView(Plane.FRAMEWORK_LOG, PlaneState.SILENT, 400.0, "the log is gone"),
    ),
    groups=(GroupView("engine", "0", Progress.STOPPED, "no token"),),
    tokens_per_s=0.0,
    running=4.0,
    waiting=2.0,
    stops=1,
    last_stop=STOP,
)
BUSY = InstanceView("llm-1", Progress.ADVANCING, NOW - 7300, "tokens rose by 512 in 5 s", tokens_per_s=23456.7)
WATCHER = WatcherView("0.1.0", NOW - 1000, 5.0, 4.2, 61 << 20)


def shown(
    *instances: InstanceView, width: int = 80, fresh: Freshness | None = None, color: bool = False, **changes: Any
) -> str:
    snapshot = replace(Snapshot("node-7", NOW, WATCHER, instances), **changes)
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=color, no_color=not color, highlight=False, emoji=False)
    console.print(render(snapshot, fresh or Freshness(1.0, False), width))
    return text.getvalue()


def test_a_stop_is_told_with_who_spins_and_what_was_done() -> None:
    text = shown(STOPPED)
    for words in (
        *("llm-0", "STOPPED", "for 14 s", "4 requests run and no token came for 13 s"),
        *("process_or_device_lost/gpu_stalled (likely): culprit rank 2", "running 4   waiting 2"),
        *("+ engine 1 s", "x ras blind", "ras: its release is not polled", "- framework-log silent 7 min"),
        *("last stop 2026-11-29 21:08:21Z, 15 s ago", "collective_desync/missing_enter", "rank 2 (host 10.0.0.7"),
        *(
            "collect done   diagnose done",
            "hook failed: page",
            "-20261130T033400Z-1f2e3d4c/bundle",
            "0.42 % of a core, 61 MiB",
        ),
    ):
        assert words in text, text
    [culprit] = [line for line in text.splitlines() if "21002" in line and "culprit" in line and "idle" in line]
    assert culprit.split() == ["*", "2", "2", "21002", "idle", "0%", "312", "0", "KiB/s", "stopped", "culprit"]
    assert "\x1b" not in text


def test_the_most_urgent_comes_first() -> None:
    states = [replace(BUSY, name=state.value, state=state) for state in Progress]
    lines = shown(*states).splitlines()
    table = [line.split()[1] for line in lines[3 : 3 + len(states)]]
    assert table == [state.value for state in URGENCY]
    assert set(STATES) == set(URGENCY) == set(Progress)


@pytest.mark.parametrize("width", [40, 44, 60, 80, 132, 250])
def test_every_line_fits(width: int) -> None:
    long = replace(STOPPED, name="deepseek-" + "x" * 200, engine="y" * 300, deployment="z" * 90, incarnation="w" * 200)
    text = shown(STOPPED, BUSY, long, replace(BUSY, name="模型" * 60), width=width)
    for line in text.splitlines():
        assert cut(line, 10_000).cell_len <= width, line
    if width >= 44:
        assert "culprit" in text


def test_many_ranks_show_the_odd_ones_first() -> None:
    many = tuple(RankView(r, 100 + r, r % 8, "idle" if r == 37 else "moving", state="R") for r in range(64))
    rows, others = split(many)
    assert rows[0].rank == 37
    assert len(rows) + len(others) == 64
    assert len(others) > 48
    text = shown(replace(BUSY, ranks=many))
    assert "and 60 more: moving 3-36, 38-63" in text
    assert len(text.splitlines()) < 24
    accused = replace(many[50], role="culprit")
    assert split((*many[:50], accused, *many[51:]))[0][0] == accused
    assert doing_words((RankView(None, 1, None, "idle"), RankView(3, 2, None, "idle"))) == "idle 3, 1 without a rank"


def test_many_instances_show_a_line_each_and_a_few_in_full() -> None:
    many = [replace(BUSY, name=f"llm-{number:03}") for number in range(300)]
    text = shown(*many, STOPPED)
    assert "and 201 more instances" in text
    assert text.count("tokens rose by 512") == 5
    assert "295 more in full: name one with --instance" in text
    assert text.index("llm-0 ") < text.index("llm-000")


def test_a_stale_state_is_said_loudly_and_ages_go_on() -> None:
    text = shown(BUSY, fresh=Freshness(75.0, True, "the last look was 75 s ago"))
    assert "STALE: the last look was 75 s ago" in text
    assert "look 75 s ago" in text
    assert "\x1b[1;37;41mSTALE" in shown(BUSY, fresh=Freshness(75.0, True, "old"), color=True)


def test_no_instance_is_said() -> None:
    assert "no instance is known on this node" in shown()


def test_what_the_state_holds_cannot_act_on_the_terminal() -> None:
    evil = "\x1b[31m\x1b]0;owned\x07[bold]x[/bold]\r\n\u202e\udcff"
    nasty = replace(
        STOPPED,
        name=evil,
        reason=evil,
        engine=evil,
        deployment=evil,
        incarnation=evil,
        class_=evil,
        suspects=(evil,),
        speed_kind=evil,
        ranks=(RankView(0, 1, 0, evil, state=evil, role=evil),),
        planes=(PlaneView(Plane.RAS, PlaneState.BLIND, None, evil),),
        groups=(GroupView(evil, evil, Progress.IDLE, evil),),
        last_stop=replace(STOP, summary=evil, reason=evil, bundle=evil, collect=evil, culprits=(evil,), class_=evil),
    )
    text = shown(nasty, nasty, host=evil, watcher=replace(WATCHER, notes=(evil,), version=evil))
    assert not any(sign in text for sign in "\x1b\x07\r\u202e\udcff")
    assert "[bold]x[/bold]" in text


def test_numbers_beyond_all_measure_do_no_harm() -> None:
    for value in (math.nan, math.inf, -math.inf, 1e300, -1e300, 0.0):
        wild = replace(
            STOPPED,
            since=value,
            tokens_per_s=value,
            running=value,
            speed_now=value,
            ranks=(RankView(-5, -1, 1 << 40, "idle", value, value, value),),
            planes=(PlaneView(Plane.RAS, PlaneState.SPOKE, value),),
            last_stop=replace(STOP, at=value, resumed_at=value),
        )
        watcher = replace(WATCHER, started_at=value, cpu_seconds=value, period=value)
        assert "llm-0" in shown(wild, BUSY, watcher=watcher)


def test_how_lengths_and_numbers_are_written() -> None:
    assert [length(one) for one in (None, -5.0, 0.4, 119.0, 125.0, 7300.0, 200_000.0)] == (
        ["-", "0 s", "0 s", "119 s", "2 min", "2 h 1 min", "2 d"]
    )
    assert [number(one, 1) for one in (None, 3.14, 99_999.0, 123_456.0, 1.2e7)] == [
        "-",
        "3.1",
        "99999.0",
        "123k",
        "12M",
    ]
    assert cut("abcdefgh", 6).plain == "abcd.."
    assert cut_left("/a/b/c/bundle", 9).plain == "../bundle"
    assert cut_left("/a/b", 9).plain == "/a/b"


@pytest.mark.parametrize(
    ("states", "stale", "status"),
    [
        ((Progress.ADVANCING, Progress.IDLE, Progress.STARTING, Progress.DRAINING), False, TopStatus.FINE),
        ((Progress.ADVANCING, Progress.STOPPED, Progress.UNKNOWN), False, TopStatus.STOPPED_OR_SLOW),
        ((Progress.SLOW,), False, TopStatus.STOPPED_OR_SLOW),
        ((Progress.ADVANCING, Progress.UNKNOWN), False, TopStatus.UNTOLD),
        ((Progress.ADVANCING,), True, TopStatus.UNTOLD),
        ((Progress.STOPPED,), True, TopStatus.UNTOLD),
        ((), False, TopStatus.UNTOLD),
    ],
)
def test_what_it_comes_to(states: tuple[Progress, ...], stale: bool, status: TopStatus) -> None:
    seen = replace(BUSY, planes=(PlaneView(Plane.PLATFORM, PlaneState.SPOKE, 1.0, ""),))
    assert judge([replace(seen, state=state) for state in states], stale=stale) is status


def test_a_start_that_no_plane_shows_is_no_answer() -> None:
    unseen = replace(
        BUSY, state=Progress.STARTING, planes=(PlaneView(Plane.ENGINE, PlaneState.SILENT, None, "no page"),)
    )
    assert judge([unseen], stale=False) is TopStatus.UNTOLD
