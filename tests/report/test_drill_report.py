"""A drill's score card in its forms: the answer first, each number beside its bar, and every run."""

from __future__ import annotations

import io

from rich.console import Console

from drill_cards import card, control, fault, quiet_controls, row
from rankmuster.model.drill_card import ScoreCard
from rankmuster.report import drill_markdown, drill_text, drill_words


def shown(made: ScoreCard, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False, emoji=False)
    drill_text.render(made, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_the_first_line_is_the_answer_with_of_what_and_where() -> None:
    first = shown(card()).splitlines()[0]
    assert first.startswith("PASSED: a drill of the built-in instance (gloo, 4 ranks) on node-7, 2026-11-30")
    assert shown(card(target="llm-0", runs=())).startswith("NOT ENOUGH: a drill of instance llm-0")


def test_every_number_stands_beside_its_bar() -> None:
    bars = {bar.name: bar for bar in drill_words.bars(card())}
    assert (bars["detected"].value, bars["detected"].wanted) == ("1 of 1 (100%)", "95% within 15 s")
    assert bars["class and culprit right"].wanted == "90% within 20 s"
    assert all(bar.held for bar in bars.values())
    nothing = {bar.name: bar.held for bar in drill_words.bars(card(row("left_out", "memlock", why="no RDMA")))}
    assert nothing["detected"] is nothing["controls quiet"] is nothing["service back"] is None


def test_what_is_wrong_with_a_run_stands_below_it_and_why_above_all() -> None:
    bad = fault("skip", culprits=(1,), culprit_wrong=True, wrongs=("named was [1], not 2",))
    loud = control("idle", alarms=("slow after 3 s",), wrongs=("told of an engine that is well: slow after 3 s",))
    text = shown(card(fault(), bad, loud))
    assert text.startswith("FAILED")
    assert text.index("a wrong culprit was named: skip") < text.index("NUMBERS")
    assert "named was [1], not 2" in text
    assert "told of an engine that is well: slow after 3 s" in text


def test_what_was_left_out_says_why() -> None:
    left = row("left_out", "link_cut", why="it needs root")
    assert "link_cut           it needs root" in shown(card(left))
    assert "- link\\_cut: it needs root" in drill_markdown.render(card(left))


def test_markdown_is_a_document_of_tables() -> None:
    text = drill_markdown.render(card(fault(wrongs=("a | b",)), *quiet_controls()))
    assert text.startswith("# Drill: passed\n")
    assert "a \\| b" in text
    lengths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| freeze")}
    assert lengths == {len(drill_words.HEAD) + 1}


def test_a_narrow_terminal_has_all_of_it() -> None:
    text = shown(card(), width=80)
    assert "unresponsive" in text
    assert max(map(len, text.splitlines()[1:])) <= 80
