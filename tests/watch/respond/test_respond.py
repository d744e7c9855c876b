"""A stop is answered once an incarnation: with evidence, a verdict and the operator's hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stops import Server, answered, lines, notes_down, notice, only_hooks, responder, says, sleeper, wait_for

from rankmuster.watch.config import OnStop, WatchConfig, WebhookHook
from rankmuster.watch.respond.journal import Journal
from rankmuster.watch.respond.outcome import StepEnding
from rankmuster.watch.respond.past import STOP, Entry, Key, Phase


def whole(tmp_path: Path, *hooks: object) -> WatchConfig:
    return WatchConfig(on_stop=OnStop(deadline=3.0, stacks=False, hooks=(notes_down(tmp_path / "told"), *hooks)))


def test_a_stop_is_collected_diagnosed_and_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "stops"
    with sleeper() as pid, Server([200]) as server:
        config = whole(tmp_path, WebhookHook(url=server.url))
        one = responder(config, folder)
        outcome = answered(one, notice(pids=(pid,)))
        assert outcome.collect.ending is StepEnding.DONE, outcome
        assert outcome.collect.status == 0
        assert "platform" in outcome.collectors
        assert outcome.diagnose.ending is StepEnding.DONE, outcome
        assert outcome.diagnose.status in (1, 2)  # of a process that does nothing; a machine's kernel log may tell more
        assert outcome.verdict is not None
        assert outcome.verdict["schema"] == "rankmuster.verdict/1"
        assert [hook.ended.ending for hook in outcome.hooks] == [StepEnding.DONE, StepEnding.DONE], outcome.hooks
        assert outcome.folder is not None
        assert {path.name for path in outcome.folder.iterdir()} == {
            *("bundle", "verdict.json", "report.txt", "stop.json", "steps.log", "lock")
        }
        assert "progress" in (outcome.folder / "report.txt").read_text()
        [told] = lines(tmp_path / "told")
        assert told["schema"] == "rankmuster.stop/1"
        assert told["verdict"] == json.loads((outcome.folder / "verdict.json").read_text())
        assert told["watch"]["reason"] == "4 requests run and no token came for 13 s"
        assert told["bundle"] == str(outcome.folder / "bundle")
        [(path, headers, body)] = server.seen
        assert (path, headers["Content-Type"]) == ("/hook/s3cr3tpath", "application/json")
        assert json.loads(body)["incarnation"] == "2026-11-30T03:00:00Z"
        view = one.view("llm-0")
        assert view is not None
        assert (view.collect, view.diagnose, view.hook, view.class_) == (
            "done",
            "done",
            "done",
            outcome.verdict["class"],
        )

        again = answered(one, notice(pids=(pid,), detected_at=1795986600.0))
        assert again.repeated
        another = responder(config, folder)
        assert another.remember("node-7") is None
        assert another.view("llm-0") == view
        third = answered(another, notice(pids=(pid,), detected_at=1795986700.0))
        assert third.repeated
        assert (third.bundle, third.verdict) == (outcome.bundle, outcome.verdict)
        assert third.collect.text == "done"
        assert len(lines(tmp_path / "told")) == len(server.seen) == 1
    assert len(list(folder.glob("llm-0-*"))) == 1
    kept = (folder / "journal.jsonl").read_text() + (outcome.folder / "steps.log").read_text()
    assert "s3cr3tpath" not in kept


def test_no_process_of_it_is_left_is_said(tmp_path: Path) -> None:
    outcome = answered(responder(whole(tmp_path), tmp_path / "stops"), notice(pids=(1 << 22,)))
    assert outcome.collect.ending is StepEnding.PARTIAL, outcome.collect
    assert outcome.collect.text.startswith("failed: no process of the instance was found")
    assert outcome.diagnose.ending is StepEnding.DONE
    assert lines(tmp_path / "told")[0]["collect"]["ending"] == "partial"


def test_another_incarnation_is_told_again(tmp_path: Path) -> None:
    one = responder(only_hooks(notes_down(tmp_path / "told")), tmp_path / "stops")
    assert not answered(one, notice()).repeated
    assert not answered(one, notice(incarnation="2026-11-30T04:00:00Z")).repeated
    assert not answered(one, notice(host="node-8")).repeated
    assert answered(one, notice()).repeated
    assert len(lines(tmp_path / "told")) == 3


def test_a_later_stop_of_the_same_incarnation_counts_where_that_is_configured(tmp_path: Path) -> None:
    times = [1000.0]
    config = only_hooks(notes_down(tmp_path / "told"), again_seconds=600.0)
    one = responder(config, tmp_path / "stops", lambda: times[0])
    assert answered(one, notice()).number == 1
    times[0] = 1599.0
    assert answered(one, notice()).repeated
    times[0] = 400.0  # a clock that was set back
    assert answered(one, notice()).repeated
    times[0] = 1600.0
    outcome = answered(one, notice())
    assert (outcome.number, outcome.repeated) == (2, False)
    assert [told["number"] for told in lines(tmp_path / "told")] == [1, 2]


def begun(folder: Path, step: str, name: str = "llm-0-then") -> Key:
    """A watch has begun this step, and nobody has seen its end."""
    key = Key("node-7", "llm-0", "2026-11-30T03:00:00Z")
    journal = Journal(folder)
    journal.claim(key, 500.0, None, lambda number: name)
    journal.write(Entry(key, 1, step, Phase.BEGUN, 501.0, name))
    return key


def test_a_collection_that_was_begun_is_not_begun_again_and_its_bundle_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "stops"
    begun(folder, "collect")
    bundle = folder / "llm-0-then" / "bundle"
    bundle.mkdir(parents=True)
    (bundle / "log.txt").write_text("nothing\n")
    outcome = answered(responder(whole(tmp_path), folder), notice(pids=(os.getpid(),)))
    assert outcome.collect.ending is StepEnding.DONE
    assert "did not see its end" in outcome.collect.note
    assert outcome.diagnose.ending is StepEnding.DONE, outcome.diagnose
    assert len(lines(tmp_path / "told")) == 1
    assert sorted(path.name for path in bundle.iterdir()) == ["log.txt"]


def test_a_collection_that_left_nothing_is_said_and_the_hooks_are_called(tmp_path: Path) -> None:
    begun(tmp_path / "stops", "collect")
    outcome = answered(responder(whole(tmp_path), tmp_path / "stops"), notice(pids=(os.getpid(),)))
    assert outcome.collect.text.startswith("failed: a watch began it at 1970-01-01 00:08:21Z")
    assert outcome.diagnose.text == "not done: there is no bundle"
    assert lines(tmp_path / "told")[0]["diagnose"]["note"] == "there is no bundle"


CRASHES = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from stops import notice, notes_down, only_hooks, responder, says
told, folder = Path(sys.argv[2]), Path(sys.argv[3])
waits = says("import sys, time; open(sys.argv[1], 'w').write('x'); time.sleep(60)", 60.0, str(folder) + ".begun")
one = responder(only_hooks(notes_down(told), waits), folder)
one.start(notice())
time.sleep(60)
"""


def test_a_watch_that_is_killed_in_a_hook_calls_none_twice(tmp_path: Path) -> None:
    told, folder = tmp_path / "told", tmp_path / "stops"
    watch = subprocess.Popen([sys.executable, "-c", CRASHES, str(Path(__file__).parent), str(told), str(folder)])
    try:
        wait_for(Path(f"{folder}.begun").exists)
    finally:
        watch.kill()
        watch.wait()
    waits = says("import sys, time; open(sys.argv[1], 'w').write('x'); time.sleep(60)", 60.0, f"{folder}.begun")
    Path(f"{folder}.begun").unlink()
    last = tmp_path / "last"
    outcome = answered(responder(only_hooks(notes_down(told), waits, notes_down(last)), folder), notice())
    assert [hook.ended.ending for hook in outcome.hooks] == [StepEnding.DONE, StepEnding.FAILED, StepEnding.DONE]
    assert "not begun again" in outcome.hooks[1].ended.note
    assert not Path(f"{folder}.begun").exists()
    assert (len(lines(told)), len(lines(last))) == (1, 1)


def test_two_watches_with_one_folder_tell_it_once(tmp_path: Path) -> None:
    config = only_hooks(notes_down(tmp_path / "told"), says("import time; time.sleep(0.3)"))
    both = [responder(config, tmp_path / "stops") for _ in range(2)]
    for one in both:
        one.start(notice())
    outcomes = [wait_for(one.finished)[0] for one in both]
    assert sorted(outcome.repeated for outcome in outcomes) == [False, True]
    assert len(lines(tmp_path / "told")) == 1


@pytest.mark.parametrize("how", ["parent", "journal", "pipe"])
def test_a_folder_that_cannot_be_written_keeps_nobody_from_being_told_once(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "stops"
    if how == "parent":
        folder.write_text("a file")
    elif how == "journal":
        (folder / "journal.jsonl").mkdir(parents=True)
    else:
        folder.mkdir()
        os.mkfifo(folder / "journal.jsonl")
    one = responder(whole(tmp_path), folder)
    outcome = answered(one, notice())
    assert outcome.collect.ending is StepEnding.FAILED
    assert "record" in outcome.collect.note
    assert outcome.diagnose.text == "not done: there is no bundle"
    assert outcome.hooks[0].ended.ending is StepEnding.DONE
    assert answered(one, notice()).repeated
    assert len(lines(tmp_path / "told")) == 1


def test_a_record_that_a_crash_has_cut_is_read_on_both_sides_of_the_cut(tmp_path: Path) -> None:
    folder = tmp_path / "stops"
    key = begun(folder, "hook-command-x")
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"schema": "rankmuster.stops/1", "time": 5')
    Journal(folder).write(Entry(key, 1, STOP, Phase.ENDED, 502.0, "llm-0-then"))
    past = Journal(folder).past(key)
    assert past is not None
    assert past.ended
    assert set(past.steps) == {STOP, "hook-command-x"}


def test_above_so_many_bundles_none_is_added_and_none_is_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "stops"
    for number in range(2):
        (folder / f"old-{number}" / "bundle").mkdir(parents=True)
    stop = OnStop(deadline=2.0, most_bundles=2, hooks=(notes_down(tmp_path / "told"),))
    outcome = answered(responder(WatchConfig(on_stop=stop), folder), notice())
    assert outcome.collect.text.startswith(f"not done: {folder} holds 2 bundles")
    assert len(list(folder.glob("*/bundle"))) == 2
    assert len(lines(tmp_path / "told")) == 1


def test_a_watch_that_ends_leaves_to_the_next_what_was_not_begun(tmp_path: Path) -> None:
    told, folder = tmp_path / "told", tmp_path / "stops"
    waits = says("import sys, time; open(sys.argv[1], 'w').write('x'); time.sleep(60)", 60.0, str(tmp_path / "begun"))
    config = only_hooks(waits, notes_down(told))
    one = responder(config, folder)
    one.start(notice())
    wait_for((tmp_path / "begun").exists)
    began = time.monotonic()
    one.close(2.0)
    assert time.monotonic() - began < 10.0
    [outcome] = one.finished()
    assert "the watch ended" in outcome.hooks[0].ended.note
    assert outcome.hooks[1].ended.ending is StepEnding.NOT_DONE
    assert lines(told) == []
    outcome = answered(responder(config, folder), notice())
    assert outcome.hooks[0].ended.repeated
    assert outcome.hooks[1].ended.ending is StepEnding.DONE
    assert len(lines(told)) == 1


def test_a_collection_that_is_told_to_hurry_closes_its_bundle(tmp_path: Path) -> None:
    folder = tmp_path / "stops"
    stop = OnStop(deadline=60.0, stacks=False)
    with sleeper() as pid:
        one = responder(WatchConfig(on_stop=stop), folder)
        one.start(notice(pids=(pid,)))
        wait_for(lambda: list(folder.glob("*/bundle*/instance.json")))
        one.close(3.0)
        [outcome] = one.finished()
        assert outcome.bundle is not None, outcome
        assert outcome.bundle.name == "bundle"
        # The next watch goes on where this one was.
        outcome = answered(responder(whole(tmp_path), folder), notice(pids=(pid,)))
    assert (outcome.collect.ending, outcome.collect.repeated) == (StepEnding.DONE, True)
    assert (outcome.diagnose.ending, outcome.diagnose.repeated) == (StepEnding.DONE, False)
    assert len(lines(tmp_path / "told")) == 1


def test_a_stop_while_an_earlier_one_is_answered_waits_unless_it_is_the_same(tmp_path: Path) -> None:
    go = tmp_path / "go"
    waits = says("import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)", 30.0, str(go))
    one = responder(only_hooks(waits), tmp_path / "stops")
    for number in range(7):
        one.start(notice(instance=f"llm-{number}"))
    for instance in ("llm-0", "llm-6"):
        one.start(notice(instance=instance))  # the same once more
        one.start(notice(instance=instance, incarnation="another"))
    refused = [(outcome.notice.instance, outcome.notice.incarnation[:7]) for outcome in one.finished()]
    assert refused == [("llm-0", "2026-11"), ("llm-6", "2026-11"), ("llm-6", "2026-11")]
    wait_for(lambda: len([n for n in range(7) if (v := one.view(f"llm-{n}")) and v.hook == "running"]) == 4)
    last = one.view("llm-6")
    assert last is not None
    assert last.hook == "not done: its turn has not come"
    one.resumed("llm-6", 1795986700.0)
    go.write_text("")
    ended: list[tuple[str, str]] = []

    def all_ended() -> bool:
        ended.extend((outcome.notice.instance, outcome.notice.incarnation[:7]) for outcome in one.finished())
        return len(ended) == 8

    wait_for(all_ended)
    first = [(f"llm-{number}", "2026-11") for number in range(6)]
    assert sorted(ended) == sorted([*first, ("llm-0", "another"), ("llm-6", "another")])
    assert ended.index(("llm-0", "2026-11")) < ended.index(("llm-0", "another"))
    last = one.view("llm-6")
    assert last is not None
    assert (last.hook, last.resumed_at) == ("done", 1795986700.0)


def test_children_do_not_count_as_processes_of_the_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKMUSTER_INSTANCE", "llm-0")
    monkeypatch.setenv("RANKMUSTER_INCARNATION", "7")
    code = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    outcome = answered(
        responder(only_hooks(says(code, 20.0, str(tmp_path / "env"))), tmp_path / "stops"),
        notice(class_="collective_desync", subclass="missing_enter"),
    )
    assert outcome.hooks[0].ended.ending is StepEnding.DONE
    environ = json.loads((tmp_path / "env").read_text())
    assert "RANKMUSTER_INSTANCE" not in environ
    assert "RANKMUSTER_INCARNATION" not in environ
    assert environ["RANKMUSTER_STOP_INSTANCE"] == "llm-0"
    assert environ["RANKMUSTER_STOP_CLASS"] == "collective_desync"
    assert environ["RANKMUSTER_STOP_BUNDLE"] == ""


def test_the_watch_s_own_child_handling_survives_signals_to_its_group(tmp_path: Path) -> None:
    """Ctrl-C in the watch's terminal goes to its group: a hook is in a session of its own."""
    code = "import os, sys; open(sys.argv[1], 'w').write(str(os.getsid(0) == os.getpid()))"
    outcome = answered(responder(only_hooks(says(code, 20.0, str(tmp_path / "sid"))), tmp_path / "stops"), notice())
    assert outcome.hooks[0].ended.ending is StepEnding.DONE
    assert (tmp_path / "sid").read_text() == "True"
