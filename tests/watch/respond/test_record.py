"""What is written of stops can be read back, and what was damaged or made up is left out."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import json

import pytest
from stops import notice

from rankmuster.adapters.child import Ran
from rankmuster.watch.config import OnStop, WatchConfig
from rankmuster.watch.respond.outcome import OFF, Ended, StepEnding, StopOutcome
from rankmuster.watch.respond.past import STOP, Entry, Key, Phase, line, parse, past_of
from rankmuster.watch.respond.places import collector_endings, find_bundle, folder_name
from rankmuster.watch.respond.steps import collect_command, collect_ended, diagnose_ended
from rankmuster.watch.respond.told import MAX_BYTES, body
from rankmuster.watch.respond.views import as_json, from_json, view_of

KEY = Key("node-7", "llm-0", "2026-11-30T03:00:00Z+ü\udcff")


def entry(number: int, step: str, phase: Phase, time: float = 1.0) -> Entry:
    return Entry(KEY, number, step, phase, time, f"folder-{number}")


def test_an_entry_is_read_as_it_was_written() -> None:
    whole = replace(
        entry(3, "collect", Phase.ENDED),
        ending=StepEnding.FAILED,
        note="why\nso",
        status=-9,
        seconds=1.5,
        view={"a": 1},
    )
    assert parse(line(whole)) == whole
    assert line(whole).count(b"\n") == 1


def test_what_is_no_entry_is_left_out() -> None:
    good = line(entry(1, STOP, Phase.BEGUN))
    document = json.loads(good)
    for name, wrong in (
        *(("schema", "rankmuster.stops/2"), ("number", 0), ("number", True), ("number", "1"), ("phase", "x")),
        *(("folder", "../etc"), ("folder", ".."), ("time", "now"), ("instance", 7), ("ending", "x")),
    ):
        assert parse(json.dumps({**document, name: wrong}).encode()) is None, name
    assert parse(b"[" * 100_000) is None
    rng = random.Random(4)
    for _ in range(300):
        damaged = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        parse(bytes(damaged[: rng.randrange(len(damaged))]))


def test_the_newest_response_counts_and_an_end_outlasts_a_beginning() -> None:
    entries = [
        entry(1, STOP, Phase.BEGUN),
        entry(1, "collect", Phase.BEGUN),
        entry(2, STOP, Phase.BEGUN, 9.0),
        entry(2, "collect", Phase.BEGUN),
        entry(2, "collect", Phase.ENDED),
        entry(2, "collect", Phase.BEGUN),
        entry(1, STOP, Phase.ENDED),
    ]
    past = past_of(entries, KEY)
    assert past is not None
    assert (past.number, past.at, past.folder, past.ended) == (2, 9.0, "folder-2", False)
    assert past.steps["collect"].phase is Phase.ENDED
    left = replace(entry(2, "diagnose", Phase.ENDED), ending=StepEnding.NOT_DONE)
    past = past_of((*entries, left, entry(2, "diagnose", Phase.BEGUN)), KEY)
    assert past is not None
    assert past.steps["diagnose"].phase is Phase.BEGUN
    assert past_of(entries, replace(KEY, host="another")) is None


def test_names_of_folders_are_harmless_and_apart() -> None:
    odd = replace(KEY, instance="../../etc/" + "x" * 300)
    names = {
        folder_name(odd, 1, 0.0),
        folder_name(odd, 2, 0.0),
        folder_name(KEY, 1, math.nan),
        folder_name(KEY, 1, 1e300),
    }
    assert len(names) == 3 + (folder_name(KEY, 1, math.nan) != folder_name(KEY, 1, 1e300))
    assert all("/" not in name and len(name) < 150 and not name.startswith(".") for name in names)


@pytest.mark.parametrize("letter", ["a", "é", "服", "\U00020000"])
def test_a_folder_of_a_long_name_can_be_made_in_any_script(tmp_path: Path, letter: str) -> None:
    name = folder_name(Key("host", letter * 100, "run"), 1, 1_796_000_000.0)
    (tmp_path / name).mkdir()
    assert letter * 40 in name


def test_what_the_end_of_collect_means(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    said = b"rankmuster: several instances run here\n"
    assert collect_ended(Ran(0, 1.0), bundle, 30).text == "done"
    assert collect_ended(Ran(4, 1.0), bundle, 30).text == "done"
    assert collect_ended(Ran(2, 1.0), bundle, 30).ending is StepEnding.PARTIAL
    assert collect_ended(Ran(2, 1.0), bundle, 30, seen=False).ending is StepEnding.DONE  # its pages are all there is
    assert collect_ended(Ran(2, 1.0), None, 30, seen=False).ending is StepEnding.FAILED
    assert "several instances run here" in collect_ended(Ran(3, 1.0, said), None, 30).text
    assert collect_ended(Ran(3, 1.0, said), None, 30).ending is StepEnding.FAILED
    assert collect_ended(Ran(0, 1.0), None, 30).ending is StepEnding.FAILED
    assert collect_ended(Ran(0, 31.0, late=True), bundle, 30).note == "it was told to finish after 30 s"
    killed = collect_ended(Ran(-9, 36.0, late=True), bundle, 30)
    assert killed.ending is StepEnding.TIMED_OUT
    assert f"{bundle} holds what it had taken" in killed.text
    left = collect_ended(Ran(-15, 0.2, late=True, hurried=True), None, 30)
    assert left.text == "not done: the watch is ending; the next one does it, if the instance has still stopped by then"
    assert collect_ended(Ran(-11, 1.0), None, 30).text.startswith("failed: rankmuster collect ended with signal 11")


def test_what_the_end_of_diagnose_means(tmp_path: Path) -> None:
    verdict = tmp_path / "verdict.json"
    assert "cannot be read" in diagnose_ended(Ran(1, 1.0), verdict, 60).text
    for wrong in (b"", b"[]", b'{"schema": "x"}', b"\xff" * 10, b"[" * 100_000, b" " * (9 << 20)):
        verdict.write_bytes(wrong)
        assert diagnose_ended(Ran(0, 1.0), verdict, 60).ending is StepEnding.FAILED
    verdict.write_text('{"schema": "rankmuster.verdict/1", "class": "healthy", "of_a_later_version": 1}')
    for status in (0, 1, 2):
        assert diagnose_ended(Ran(status, 1.0), verdict, 60).ending is StepEnding.DONE
    assert "no such" in diagnose_ended(Ran(3, 1.0, b"rankmuster: no such folder\n"), verdict, 60).text
    assert diagnose_ended(Ran(-9, 62.0, late=True), verdict, 60).ending is StepEnding.TIMED_OUT


def test_a_collection_is_asked_for_as_configured(tmp_path: Path) -> None:
    command = collect_command(
        WatchConfig(on_stop=OnStop(deadline=7.0, stacks=False)),
        notice(pids=(5, 6), metrics_url="http://user:s3cr3t@h:8000/metrics"),
        tmp_path / "b",
    )
    assert "--stop-confirmed" in command
    assert command[command.index("--deadline") + 1] == "7.0"
    assert command[command.index("--ras-risk") + 1] == "after_stop_confirmed"
    assert [command[i + 1] for i, word in enumerate(command) if word == "--pid"] == ["5", "6"]
    assert "http://h:8000/metrics" in command
    assert "--no-stacks" in command
    assert collect_command(WatchConfig(), notice(), tmp_path)[-2:] == ["--instance", "llm-0"]


def test_a_bundle_that_was_never_closed_is_found_and_its_manifest_is_not_needed(tmp_path: Path) -> None:
    assert find_bundle(tmp_path) is None
    (tmp_path / "bundle.1234.part").mkdir()
    assert find_bundle(tmp_path) is None
    (tmp_path / "bundle.1234.part" / "instance.json").write_text("{}")
    assert find_bundle(tmp_path) == tmp_path / "bundle.1234.part"
    assert collector_endings(tmp_path / "bundle.1234.part") == {}
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "manifest.json").write_text("{")
    assert find_bundle(tmp_path) == tmp_path / "bundle"
    assert collector_endings(tmp_path / "bundle") == {}


def stop(**changes: object) -> StopOutcome:
    return replace(StopOutcome(notice(), 1, None, OFF, OFF), **changes)  # type: ignore[arg-type]


def test_what_is_told_is_bounded_and_json_whatever_is_in_it() -> None:
    odd = stop(notice=notice(reason="\udcff \x1b[31m", since=math.nan, detected_at=math.inf))
    told = json.loads(body(odd))
    assert (told["since"], told["detected_at"]) == (None, None)
    large = {"schema": "rankmuster.verdict/1", "class": "healthy", "summary": "s", "findings": ["x" * 1000] * 2000}
    told = json.loads(body(stop(verdict=large)))
    assert told["verdict"]["class"] == "healthy"
    assert "findings" not in told["verdict"]
    assert len(body(stop(verdict={"summary": "x" * 3_000_000}))) <= MAX_BYTES


def test_a_view_is_read_back_from_the_record_and_a_made_up_one_is_not() -> None:
    verdict = {
        "class": "collective_desync",
        "subclass": "missing_enter",
        "summary": "rank 2 never entered",
        "suspects": [{"kind": "rank", "rank": 2, "host": "h", "pid": 7, "role": "culprit", "why": "never entered"}],
    }
    view = view_of(stop(verdict=verdict, collect=Ended(StepEnding.TIMED_OUT, "late"), bundle=Path("/b")))
    assert view.culprits == ("rank 2 (host h, pid 7)",)
    assert (view.collect, view.hook) == ("failed: late", "off")
    assert from_json(json.loads(json.dumps(as_json(view))), view.incarnation) == view
    assert from_json({}, "i") is None
    assert from_json({**as_json(view), "at": "x"}, "i") is None
    assert from_json({**as_json(view), "bundle": 7}, "i") is None
