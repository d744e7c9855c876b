"""Slow collectives on a terminal: the first line is the answer, times have units, and nothing foreign acts."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from build_slow import SlowWorld, context_of, stepped, tensor_parallel
from rankmuster.diagnose.slow.baseline import add
from rankmuster.diagnose.slow.baseline_compare import compare
from rankmuster.diagnose.slow.measure import measure
from rankmuster.model.slow import SlowReport
from rankmuster.model.slow_baseline import Comparison
from rankmuster.report.slow_text import render
from rankmuster.report.slow_words import bytes_text, time_text

STEPS = 300


def report_of(**fields: object) -> SlowReport:
    return measure(context_of(tensor_parallel(16, 4, steps=STEPS, **fields)))


def shown(report: SlowReport, comparison: Comparison | None = None, width: int = 150) -> str:
    file = io.StringIO()
    render(report, Console(file=file, width=width), comparison)
    return file.getvalue()


def test_the_first_line_is_the_answer() -> None:
    text = shown(report_of(late={5: stepped(STEPS, [(0.5, 0.0), (0.5, 12.0)])}))
    assert text.splitlines()[0].startswith("slow: rank 5 comes late (persistent, ")
    assert "rank 5 in tp1 (ranks 4-7): waiting for it takes" in text
    assert "persistently, since 19:20:0" in text
    assert text.index("LATE RANKS") < text.index("TRANSFER") < text.index("WAITING") < text.index("RANKS BY HOW LONG")


def test_health_is_said_without_a_list_of_ranks() -> None:
    text = shown(report_of())
    assert text.splitlines()[0] == "no late rank, no slow group, no lasting change"
    assert "NOT CALLED SLOW" not in text
    assert "LATE RANKS" not in text


def test_kinds_that_many_groups_run_are_one_row() -> None:
    text = shown(report_of())
    assert text.count("tp, 4 groups") == 4
    assert "128 KiB" in text


def test_what_grew_and_which_group_is_slow_are_told() -> None:
    grown = shown(report_of(grown={(0, None): stepped(STEPS, [(0.6, 1.0), (0.4, 20.0)])}))
    assert "transfers grew at 19:20:0" in grown.splitlines()[0]
    slow = shown(report_of(grown={(0, 2): 20.0}))
    assert slow.splitlines()[0] == "slow: tp2 slower than its equals"
    assert "tp2 (ranks 8-11)" in slow


def test_without_durations_the_first_line_says_so() -> None:
    text = shown(report_of(timing=False, late={5: 8.0}))
    assert text.splitlines()[0] == "no durations in the dumps: enqueue times alone, which convict nobody"
    assert "ENQUEUED LATE" in text
    assert "TORCH_NCCL_ENABLE_TIMING=1" in " ".join(text.split())


def test_a_comparison_is_told_with_its_surroundings() -> None:
    report = report_of()
    baseline = add(None, report)
    other = measure(context_of(tensor_parallel(16, 4, steps=STEPS, seed=5, grown={(0, None): 3.0})))
    text = shown(other, compare(baseline, other))
    assert "AGAINST THE BASELINE" in text
    assert "provisional, of too little history: 2 of 3 kinds transfer slower" in " ".join(text.split())
    assert "!x3.0" in text or "!x2.9" in text
    assert "taken to be the same, not known: instance, GPUs, hosts" in text
    different = replace(report, surroundings=replace(report.surroundings, world_size=32))
    assert "not compared: world size: 16 then, 32 now" in shown(report, compare(baseline, different))


@pytest.mark.parametrize("width", [40, 80, 118, 200])
def test_words_stay_words_at_any_width(width: int) -> None:
    report = report_of(late={5: 12.0})
    text = shown(report, compare(add(None, report_of()), report), width=width)
    assert max(map(len, text.splitlines()[1:])) <= width
    if width >= 80:
        assert "all_reduce" in text


def test_foreign_names_do_not_act() -> None:
    layouts = (("tp\x1b[31m[bold]\u202e", ((0, 1, 2, 3), (4, 5, 6, 7))),)
    world = replace(tensor_parallel(8, 4, steps=STEPS, late={1: 12.0}), layouts=layouts)
    world = replace(world, kinds=tuple(kind for kind in world.kinds if kind.layout == 0))
    text = shown(measure(context_of(SlowWorld(**{name: getattr(world, name) for name in world.__dataclass_fields__}))))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]" in text


def test_no_dump_is_no_health() -> None:
    text = shown(measure(context_of({})))
    assert text.splitlines()[0].startswith("nothing to measure")
    assert "no dump of the Flight Recorder was readable" in text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.0, "0"),
        (0.0031, "3.1 us"),
        (0.035, "35 us"),
        (1.34, "1.3 ms"),
        (20.3, "20 ms"),
        (2400.0, "2.4 s"),
        (None, ""),
    ],
)
def test_times_have_units(milliseconds: float | None, text: str) -> None:
    assert time_text(milliseconds) == text


@pytest.mark.parametrize(("size", "text"), [(None, ""), (4, "4 B"), (131072, "128 KiB"), (1 << 34, "16 GiB")])
def test_sizes_have_units(size: int | None, text: str) -> None:
    assert bytes_text(size) == text
