"""The flight report as people read it: any width, no codes in a pipe, hostile names inert, many groups readable."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[2] / "diagnose"))
import build_flight as fr

from rankmuster.diagnose.flight_report.build import flight_report
from rankmuster.diagnose.flight_report.entries import chosen, entries
from rankmuster.diagnose.run import Examination, examine
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.flight_entry import EntryKind
from rankmuster.report.flight import json_form, terminal
from rankmuster.report.flight.entries import print_entries
from rankmuster.report.paper import Paper


def examined(source: fr.World | Mapping[int, Any], *more: Blob, earlier: fr.World | None = None) -> Examination:
    tops = fr.dumps(source) if isinstance(source, fr.World) else source
    old = gather(fr.blobs(fr.dumps(earlier))) if earlier is not None else None
    return examine(gather([*fr.blobs(tops), *more]), earlier=old)


def shown(found: Examination, width: int = 100, most: int = 8, color: bool = False, **fields: Any) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=color, no_color=not color, highlight=False)
    verdict = found.diagnosis.verdict
    selected = fields.pop("selected", None)
    report = flight_report(found, **fields)
    terminal.render(verdict, report, console, most_groups=most, selected=selected)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def flat(text: str) -> str:
    """Without the line breaks that a narrow terminal needs."""
    return " ".join(text.split())


def test_the_missing_rank_and_what_the_others_stand_at() -> None:
    text = flat(shown(examined(fr.one_group(4, stops={2: 30}))))
    assert "#31 all_reduce of [16, 4096] Float: ranks 0, 1, 3 entered, rank 2 has not" in text
    assert "* rank 2 entered #30, finished #30, nothing outstanding" in text
    assert "ranks 0, 1, 3 entered #38, finished #30, stand at #31 all_reduce" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_any_terminal(width: int) -> None:
    text = shown(examined(fr.parallel(2, 2, 2, steps=6, stops={3: 20})), width=width, stacks=True)
    # The first line is whole, so that `head -1` has all of it.
    assert max(map(len, text.splitlines()[1:])) <= width
    assert "\x1b" not in text


def test_colours_are_for_screens_alone() -> None:
    assert "\x1b[" in shown(examined(fr.one_group(4, stops={2: 30})), color=True)


def test_a_healthy_job_has_no_sign_of_a_fault() -> None:
    text = shown(examined(fr.one_group(4, rounds=400, look=2.0)))
    assert not any(line.lstrip().startswith(("!", "*", "?")) for line in text.splitlines())
    assert "has not" not in text
    assert "tail" in text


def test_one_look_at_a_job_of_which_nothing_shows_a_stop_says_so() -> None:
    found = examined(fr.one_group(4, rounds=2000, backend="gloo", look=8.0))
    assert found.diagnosis.verdict.exit_status == 2
    text = shown(found)
    assert "at this look" in flat(text)
    assert not any(line.lstrip().startswith(("!", "*")) for line in text.splitlines())


def test_hostile_names_do_nothing() -> None:
    tops = fr.dumps(fr.one_group(4, stops={2: 30}))
    for top in tops.values():
        for entry in top["entries"]:
            entry["process_group"] = ("[bold red]0\x1b[2J", "[link=x]\x1b]0;owned\x07\u202e\n\n[/bold]")
            entry["profiling_name"] = "nccl:[blink]all\x1b[31m_reduce\r"
            entry["frames"] = [{"name": "[b]\x1b[1m", "filename": "/srv/\x9b31m.py", "line": 3}]
        top["pg_config"] = {}
    text = shown(examined(tops), stacks=True)
    assert not any(sign in text for sign in ("\x1b", "\x07", "\u202e", "\x9b", "\r"))
    assert "[blink]" in text


def many(groups: int, **fields: Any) -> fr.World:
    pairs = [fr.Group(str(key + 1), (2 * key, 2 * key + 1), "TP") for key in range(groups)]
    programs = {rank: [fr.Call(str(rank // 2 + 1))] * 6 for rank in range(2 * groups)}
    return fr.World(tuple(pairs), programs, **fields)


def test_a_thousand_healthy_groups_are_one_line() -> None:
    text = shown(examined(many(1000, stops={7: 3})))
    assert len(text.splitlines()) < 40
    assert "999 groups TP of 2 ranks, at #6 - nothing outstanding" in flat(text)
    assert "rank 7 has not" in flat(text)


def test_a_thousand_groups_that_wait_stay_readable() -> None:
    text = shown(examined(many(500, stops=dict.fromkeys(range(0, 1000, 2), 3))))
    assert len(text.splitlines()) < 84
    assert "492 groups TP of 2 ranks" in flat(text)


def test_groups_without_descriptions_are_counted_together() -> None:
    world = fr.World(
        tuple(fr.Group(f"{key:040x}", (2 * key, 2 * key + 1)) for key in range(200)),
        {rank: [fr.Call(f"{rank // 2:040x}")] * 4 for rank in range(400)},
    )
    assert "200 groups without a description of 2 ranks" in flat(shown(examined(world)))


def test_an_earlier_set_is_told_first() -> None:
    def gloo(**fields: Any) -> fr.World:
        return fr.one_group(4, rounds=2000, backend="gloo", **fields)

    moving = flat(shown(examined(gloo(look=8.0), earlier=gloo(look=4.0))))
    assert "Earlier set: the job moved between the two sets" in moving
    swapped = flat(shown(examined(gloo(look=4.0), earlier=gloo(look=8.0))))
    assert "Earlier set left out: the earlier set is not earlier" in swapped


def test_damaged_files_are_a_line_each() -> None:
    blobs = fr.blobs(fr.dumps(fr.one_group(40, stops={2: 30})))
    damaged = [Blob(blob.path, blob.data[:-9]) for blob in blobs[3:]]
    found = examine(gather([*blobs[:3], *damaged]))
    text = shown(found)
    assert text.count("Flight Recorder dump:") == terminal.MAX_FILES
    assert "and 17 more damaged files" in flat(text)


def test_a_difference_without_a_majority_blames_nobody() -> None:
    world = fr.instead(fr.one_group(2, rounds=10), 1, 5, fr.Call("0", ins=((9,),)))
    text = flat(shown(examined(world)))
    assert "(odd)" not in text
    assert "no majority" in text


def printed(found: Examination, width: int, ranks: frozenset[int], newest: int | None) -> str:
    console = Console(file=io.StringIO(), width=width, no_color=True, highlight=False)
    for rank, (rows, count) in chosen(found.context, ranks, None, newest).items():
        print_entries(Paper(console), rank, entries(found.context, rank, rows, stacks=True), count, count)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


@pytest.mark.parametrize("width", [40, 120])
def test_records_are_a_table_per_rank(width: int) -> None:
    text = printed(examined(fr.one_group(4, stops={2: 30})), width, frozenset({0, 2}), 5)
    assert text.count("RECORDS rank") == 2
    assert max(map(len, text.splitlines())) <= width
    assert "scheduled" in text.replace("\n", "") or width == 40


def test_records_say_what_they_are() -> None:
    parts = tuple(fr.Call("0", "all_gather", ((8,),)) for _ in range(2))
    calls = [fr.Call("0"), fr.Call("0", "ALLGATHER_coalesced", (), parts=parts)] * 3
    program = {
        0: [*calls, fr.send("0", 1), fr.batch("0", fr.send("0", 1), fr.recv("0", 1))],
        1: [*calls, fr.recv("0", 0), fr.batch("0", fr.recv("0", 0), fr.send("0", 0))],
    }
    found = examined(fr.World((fr.Group("0", (0, 1), "default_pg"),), program))
    rows, _ = chosen(found.context, None, None, None)[0]
    kinds = [entry.kind for entry in entries(found.context, 0, rows)]
    assert kinds[:4] == [EntryKind.COLLECTIVE, EntryKind.PART, EntryKind.PART, EntryKind.COALESCED]
    assert kinds[-4:] == [EntryKind.SEND, EntryKind.SEND, EntryKind.RECEIVE, EntryKind.BATCH]


def test_json_has_everything_and_its_schema() -> None:
    found = examined(fr.parallel(2, 2, 2, steps=6, stops={3: 20}))
    report = flight_report(found, stacks=True)
    rows, _ = chosen(found.context, frozenset({3}), None, 2)[3]
    text = json_form.render(found.diagnosis.verdict, report, entries=entries(found.context, 3, rows))
    value = json.loads(text)
    assert value["schema"] == "rankmuster.flight/1"
    assert text.isascii()
    assert len(value["groups"]) == len(report.groups) == 13
    assert value["groups"][0]["divergence"]["missing"] == [3]
    assert [entry["rank"] for entry in value["entries"]] == [3, 3]
    assert value["stacks"]["without"]
    assert value["previous"] is None


def test_json_of_every_kind_of_finding_can_be_written() -> None:
    for world in (
        fr.instead(fr.one_group(4), 1, 30, fr.Call("0", ins=((9,),))),
        fr.one_group(300, rounds=3, absent=frozenset({5})),
        fr.one_group(4, rounds=300, ring=50, stops={1: 250}),
    ):
        found = examined(world)
        json.loads(json_form.render(found.diagnosis.verdict, flight_report(found, examples=2)))


def test_a_filter_shows_its_groups_alone() -> None:
    found = examined(many(50, stops={7: 3}))
    text = shown(found, selected=frozenset({10}))
    assert "1 of 50 groups in full" in flat(text)
    assert "ranks 20, 21" in text


def test_it_ends_with_what_to_do_next() -> None:
    text = flat(shown(examined(fr.one_group(4, stops={2: 30}))))
    assert "rankmuster diagnose on the same folder says what to save and to rebuild" in text
    assert "rankmuster explain missing_enter" in text
    assert "WHAT WOULD DECIDE" not in text


def test_where_nobody_is_named_it_says_what_would_decide() -> None:
    text = flat(shown(examined(fr.one_group(4, rounds=2000, backend="gloo", look=8.0))))
    assert "WHAT WOULD DECIDE" in text
    assert "second set of dumps" in text


def test_a_healthy_job_needs_no_next_step() -> None:
    assert "rankmuster diagnose" not in shown(examined(fr.one_group(4, rounds=2000, look=8.0)))
