"""A drill's score card in its forms: the answer first, each number beside its bar, and every run."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from drill_cards import card, control, fault, quiet_controls, row
from rankmuster.cli.drill_card import DrillStatus, given_card
from rankmuster.cli.drill_verify import verify
from rankmuster.cli.status import CommandError
from rankmuster.model import drill_card
from rankmuster.model.digest import ascii_digest
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
    assert drill_markdown.render(card()).startswith("# Drill: passed\n")
    text = drill_markdown.render(card(fault(wrongs=("a | b",)), *quiet_controls()))
    assert text.startswith("# Drill: failed\n")
    assert "a \\| b" in text
    lengths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| freeze")}
    assert lengths == {len(drill_words.HEAD) + 1}


def test_what_a_ci_system_would_obey_is_broken_in_every_place() -> None:
    acts = "::error::x ##[error]y ##vso[task.complete]"
    bad = fault(acts, said_class=acts, detected_by=acts, wrongs=(acts,))
    made = card(bad, control(acts, wrongs=(acts,)), row("left_out", acts, why=acts), target=acts, artefact=acts)
    for width in (80, 160):
        text = shown(made, width)
        assert not any(one in text for one in ("::error", "##[", "##vso"))


def test_what_no_other_number_counts_stands_beside_its_bar() -> None:
    bars = {bar.name: bar for bar in drill_words.bars(card(fault(), fault("kill", incidents=2), *quiet_controls()))}
    assert (bars["otherwise wrong"].value, bars["otherwise wrong"].held) == ("1 of 2", False)


def test_a_narrow_terminal_has_all_of_it() -> None:
    text = shown(card(), width=80)
    assert "unresponsive" in text
    assert max(map(len, text.splitlines()[1:])) <= 80


# -- as it was read


def test_what_a_later_version_added_and_its_seal_are_written_as_they_were_read(tmp_path: Path) -> None:
    plain = {key: value for key, value in json.loads(card().to_json()).items() if key != "seal"} | {"weather": "rain"}
    text = json.dumps({**plain, "seal": ascii_digest(plain)}, indent=1)
    (tmp_path / "card.json").write_text(text)
    given = given_card(tmp_path)
    assert given.text == text
    assert drill_card.read(given.text) == given.card == card()


def test_letters_that_act_on_a_terminal_are_escaped_and_keep_their_seal(tmp_path: Path) -> None:
    made = card(target="x\u202e\x9b31m")
    (tmp_path / "card.json").write_text(json.dumps(json.loads(made.to_json()), ensure_ascii=False), encoding="utf-8")
    assert given_card(tmp_path).text == made.to_json()


def test_a_named_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "card.json")
    for place, says in (
        (tmp_path / "pipe", "a named pipe"),
        (tmp_path, "a named pipe"),
        (Path("/dev/zero"), "a device"),
    ):
        with pytest.raises(CommandError, match=says):
            given_card(place)
    with pytest.raises(CommandError, match="drill run --output"):
        given_card(tmp_path / "nowhere")
    (tmp_path / "large").write_bytes(b" " * (drill_card.MOST_BYTES + 1))
    with pytest.raises(CommandError, match="no score card is that large"):
        given_card(tmp_path / "large")


def test_bundles_at_places_that_cannot_be_differ_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    runs = [fault(bundle=path) for path in ("a\0b", "surrogate", "loop/b", "::error::x")]
    plain = json.loads(card(*runs).to_json().replace('"surrogate"', '"a\\ud800b"'))
    del plain["seal"]
    (tmp_path / "card.json").write_text(json.dumps({**plain, "seal": ascii_digest(plain)}))
    assert verify(tmp_path) == DrillStatus.FAILED
    said = capsys.readouterr().out
    assert said.count("NOT THE SAME") == len(runs)
    assert said.count("leads nowhere") == 3
    assert "::error" not in said
