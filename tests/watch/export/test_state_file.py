"""The state file holds what the watch knew, whole at any time, and a reader is told what is wrong with any other."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rankmuster.model.fault import Confidence, Progress
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.watch.export.folders import default_bundle_folder, default_state_folder, state_folders
from rankmuster.watch.export.state_file import (
    MAX_BYTES,
    NoState,
    NotWritten,
    StateFile,
    StateRefused,
    encode,
    freshness,
    read_state,
)
from rankmuster.watch.snapshot import (
    GroupView,
    InstanceView,
    PlaneView,
    RankView,
    Snapshot,
    StopView,
    WatcherView,
)


def snapshot(**changes: Any) -> Snapshot:
    instance = InstanceView(
        name="llm-0",
        state=Progress.STOPPED,
        since=1795986500.0,
        reason="4 requests run and no token came for 13 s",
        deployment="r7",
        incarnation="2026-11-30T03:00:00Z",
        engine="vllm",
        world_size=4,
        event="stopped",
        confidence=Confidence.LIKELY,
        class_="transport_stall",
        suspects=("rank 2",),
        ranks=(RankView(0, 10, 0, "spinning", 100.0, 310.5, 0.0, "R"), RankView(2, 12, 2, "idle", role="culprit")),
        planes=(PlaneView(Plane.ENGINE, PlaneState.SPOKE, 1.5), PlaneView(Plane.RAS, PlaneState.BLIND, None, "why")),
        groups=(GroupView("engine", "0", Progress.STOPPED, "no token", (0, 1)),),
        tokens_per_s=0.0,
        running=4.0,
        last_stop=StopView(1795986513.0, "2026-11-30T03:00:00Z", "no token", class_="transport_stall", culprits=("a",)),
    )
    watcher = WatcherView("0.1.0", 1795980000.0, 5.0, 12.5, 60 << 20, ("a note",))
    return replace(Snapshot("node-7", 1795986515.0, watcher, (instance,)), **changes)


def test_what_is_written_is_read_and_others_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        file = StateFile(tmp_path / "deep" / "folder")
        file.write(snapshot())
    finally:
        os.umask(before)
    assert read_state(tmp_path / "deep" / "folder") == read_state(file.path) == snapshot()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o644
    raw = json.loads(file.path.read_text())
    assert raw["schema"] == "rankmuster.watch/1"
    assert raw["instances"][0]["class"] == "transport_stall"
    assert raw["instances"][0]["planes"][0] == {"plane": "engine", "state": "spoke", "age": 1.5, "note": ""}
    file.remove()
    assert list((tmp_path / "deep" / "folder").iterdir()) == []
    file.remove()


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    file = StateFile(tmp_path)
    file.write(snapshot())
    done = threading.Event()

    def write() -> None:
        for number in range(200):
            file.write(snapshot(time=float(number), host="x" * (number * 10)))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.is_set():
        read_state(tmp_path)
    thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_numbers_that_are_none_and_texts_of_any_kind(tmp_path: Path) -> None:
    odd = replace(
        snapshot().instances[0],
        tokens_per_s=math.nan,
        since=math.inf,
        speed_now=-math.inf,
        reason="\udcff\x1b\n" * 5000,
    )
    StateFile(tmp_path).write(snapshot(instances=(odd,)))
    found = read_state(tmp_path).instances[0]
    assert (found.tokens_per_s, found.since, found.speed_now) == (None, 0.0, None)
    assert len(found.reason) == 2000


def test_a_state_that_is_too_large_leaves_ranks_out() -> None:
    ranks = tuple(RankView(rank, rank, rank) for rank in range(1000))
    many = tuple(replace(snapshot().instances[0], name=str(number), ranks=ranks) for number in range(200))
    data = encode(snapshot(instances=many))
    assert len(data) <= MAX_BYTES
    document = json.loads(data)
    assert len(document["instances"]) == 200
    assert document["instances"][0]["ranks"] == []
    assert "left out" in document["watcher"]["notes"][0]


@pytest.mark.parametrize("how", ["file", "folder", "dangling"])
def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "state"
    if how == "file":
        folder.write_text("")
    elif how == "folder":
        (folder / "state.json" / "x").mkdir(parents=True)
    else:
        folder.symlink_to(tmp_path / "nowhere" / "deep")
    with pytest.raises(NotWritten, match=r"state\.json"):
        StateFile(folder).write(snapshot())
    assert not folder.is_dir() or [path.name for path in folder.iterdir()] == ["state.json"]


def test_no_file_asks_whether_a_watch_runs(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none", tmp_path / "none" / "state.json"):
        with pytest.raises(NoState, match="is `rankmuster watch` running"):
            read_state(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"<html>", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "holds a list"),
        (b"{}", "its schema is 'None'"),
        (b'{"schema": "rankmuster.watch/2"}', "this version reads 'rankmuster.watch/1'"),
        (b'{"schema": "rankmuster.watch/1"}', "it has no host"),
        (b" " * (MAX_BYTES + 1), "more than 4 MiB"),
    ],
)
def test_another_file_is_refused_with_the_reason(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "state.json").write_bytes(content)
    with pytest.raises(StateRefused) as refused:
        read_state(tmp_path)
    assert words in str(refused.value)


def test_a_pipe_or_a_folder_in_its_place_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "state.json")
    with pytest.raises(StateRefused, match="no regular file"):
        read_state(tmp_path)
    os.unlink(tmp_path / "state.json")
    (tmp_path / "state.json").mkdir()
    with pytest.raises(StateRefused):
        read_state(tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("time",), "now", "time is 'now', not a number"),
        (("time",), 10**400, "not a number"),
        (("instances",), {}, "instances is dict, not a list"),
        (("instances",), [None] * 2000, "instances is list, not a list of at most 1024"),
        (("instances", 0, "state"), "asleep", "instances[0].state is 'asleep', not one of advancing, slow"),
        (("instances", 0, "ranks", 1, "gpu"), "x", "instances[0].ranks[1].gpu is 'x', not a whole number"),
        (("instances", 0, "ranks", 1, "pid"), True, "instances[0].ranks[1].pid is True"),
        (("instances", 0, "last_stop"), [], "instances[0].last_stop is list, not an object"),
        (("watcher", "notes"), [7], "watcher.notes[0] is 7, not a text"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(tmp_path: Path, place: tuple[Any, ...], value: Any, words: str) -> None:
    raw = json.loads(encode(snapshot()))
    inner = raw
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    (tmp_path / "state.json").write_text(json.dumps(raw))
    with pytest.raises(StateRefused) as refused:
        read_state(tmp_path)
    assert words in str(refused.value)


def test_fields_of_other_versions_do_no_harm(tmp_path: Path) -> None:
    raw = json.loads(encode(snapshot()))
    raw["new"] = raw["instances"][0]["new"] = {"x": 1}
    del raw["instances"][0]["planes"], raw["watcher"]["rss_bytes"]
    (tmp_path / "state.json").write_text(json.dumps(raw))
    found = read_state(tmp_path)
    assert (found.instances[0].planes, found.watcher.rss_bytes) == ((), 0)


def test_damaged_bytes_are_read_or_refused_and_nothing_else(tmp_path: Path) -> None:
    rng = random.Random(11)
    good = encode(snapshot())
    for _ in range(300):
        damaged = bytearray(good)
        for _ in range(rng.randrange(1, 5)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        (tmp_path / "state.json").write_bytes(damaged[: rng.randrange(1, len(damaged) + 1)])
        with contextlib.suppress(StateRefused):
            read_state(tmp_path)


def test_what_is_old_or_of_the_future_is_stale() -> None:
    at = snapshot().time
    assert not freshness(snapshot(), at + 14.9).stale
    old = freshness(snapshot(), at + 75.0)
    assert old.stale
    assert old.words.startswith("the last look was 75 s ago, and one is due every 5 s")
    assert not freshness(snapshot(), at - 5.0).stale
    assert "a clock was set" in freshness(snapshot(), at - 500.0).words
    quick = replace(snapshot(), watcher=replace(snapshot().watcher, period=1.0))
    assert not freshness(quick, at + 9.0).stale
    absurd = replace(snapshot(), watcher=replace(snapshot().watcher, period=1e300))
    assert freshness(absurd, at + 20_000.0).stale


def test_folders_by_default(tmp_path: Path) -> None:
    run, none = tmp_path / "run", tmp_path / "none"
    run.mkdir()
    home = {"HOME": "/home/a"}
    assert default_state_folder(home, run) == run / "rankmuster"
    assert default_state_folder({**home, "XDG_RUNTIME_DIR": "/run/user/7"}, none) == Path("/run/user/7/rankmuster")
    assert default_state_folder({**home, "XDG_RUNTIME_DIR": "relative"}, none) == Path(
        "/home/a/.local/state/rankmuster"
    )
    assert default_state_folder({**home, "XDG_STATE_HOME": "/s"}, none) == Path("/s/rankmuster")
    assert default_bundle_folder(home, run) == run / "rankmuster" / "stops"
    assert default_bundle_folder(home, none) == Path("/home/a/.local/state/rankmuster/stops")
    assert state_folders(home, none) == (none / "rankmuster", Path("/home/a/.local/state/rankmuster"))
