"""What the first looks say decides what may be asked of the job: held against captures of real faults."""

from __future__ import annotations

import tarfile
import threading
from pathlib import Path

import pytest
import zstandard

from rankmuster.collect.assess import Assess, assess
from rankmuster.collect.collector import Assessment, Board, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending
from rankmuster.collect.sink import Store
from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.collect.wishes import Wishes
from rankmuster.model.fault import Phase, Progress

CASES = Path(__file__).parents[1] / "cases"
COLLECTORS = {
    "engine": "engine",
    "gpu-counters.jsonl": "hardware",
    "logs": "framework-log",
    "nccl": "nccl-log",
    "instance.json": "instance",
}
TARGET = Target("llm-0", "n0", (ProcessOfInstance(1, 1, 1, 1, 0.0, Role.WORKER, "python", rank=0),), world_size=1)


def looked_at(case: str, folder: Path) -> Store:
    """A sink with what the first looks at the case would have brought: everything but dumps and RAS."""
    store = Store(folder / "staging")
    packed = (CASES / case / "input.tar.zst").read_bytes()
    data = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    (folder / "case.tar").write_bytes(data)
    with tarfile.open(folder / "case.tar") as tar:
        for member in tar:
            parts = Path(member.name).parts
            collector = next((COLLECTORS[part] for part in parts if part in COLLECTORS), None)
            source = tar.extractfile(member)
            if member.isfile() and collector is not None and source is not None:
                store.sink(collector).put(member.name, source.read())
    return store


def judged(case: str, folder: Path, *, confirmed: bool = False) -> Assessment:
    store = looked_at(case, folder)
    return assess(store.folder, store.pieces(), confirmed=confirmed)


@pytest.mark.parametrize("case", ["healthy-tp4", "healthy-graph", "idle", "prefill"])
def test_a_healthy_instance_is_seen_to_be(case: str, tmp_path: Path) -> None:
    found = judged(case, tmp_path)
    assert found.healthy
    assert not found.stop_confirmed
    assert found.progress in (Progress.ADVANCING, Progress.IDLE)


@pytest.mark.parametrize("case", ["rank-stops-calling", "graph-replay-stops", "rank-frozen", "tp2-kill", "python-loop"])
def test_a_stop_is_confirmed_without_asking_the_job(case: str, tmp_path: Path) -> None:
    found = judged(case, tmp_path)
    assert found.stop_confirmed
    assert not found.healthy
    assert found.progress is Progress.STOPPED
    assert found.reason


@pytest.mark.parametrize("case", ["init-one-rank-never-joins", "tp2-init-late"])
def test_an_init_is_known_as_one(case: str, tmp_path: Path) -> None:
    found = judged(case, tmp_path)
    assert found.phase is Phase.INIT
    assert not found.healthy


def test_the_callers_word_stands_where_little_was_seen(tmp_path: Path) -> None:
    found = assess(tmp_path, (), confirmed=True)
    assert (found.progress, found.stop_confirmed, found.healthy) == (Progress.STOPPED, True, False)
    unseen = assess(tmp_path, ())
    assert (unseen.progress, unseen.stop_confirmed, unseen.healthy) == (Progress.UNKNOWN, False, False)


def test_garbage_decides_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "staging")
    store.sink("engine").put("engine/1.prom", bytes(range(256)) * 40)
    store.sink("instance").put("instance.json", b'{"processes": [[[')
    found = assess(store.folder, store.pieces())
    assert not found.healthy
    assert not found.stop_confirmed


def run(scene: Scene, store: Store, seconds: float) -> Ending:
    return Assess(store).collect(scene, store.sink("assessment"), Deadline.after(seconds)).ending


def test_an_answer_is_posted_by_half_of_the_deadline_whatever_was_seen(tmp_path: Path) -> None:
    store = Store(tmp_path / "staging")
    scene = Scene(TARGET, Machine(), Wishes(look_seconds=0.1))
    assert run(scene, store, 1.0) is Ending.DONE
    found = scene.board.assessment(Deadline.after(0))
    assert found is not None
    assert (found.healthy, found.stop_confirmed) == (False, False)


def test_it_is_posted_as_soon_as_it_is_decided(tmp_path: Path) -> None:
    store = looked_at("rank-stops-calling", tmp_path)
    scene = Scene(TARGET, Machine(), Wishes(look_seconds=0.1))
    seen: list[Assessment | None] = []
    waiting = threading.Thread(target=lambda: seen.append(scene.board.assessment(Deadline.after(30))))
    waiting.start()
    assert run(scene, store, 60.0) is Ending.DONE
    waiting.join(30)
    assert [found.stop_confirmed for found in seen if found is not None] == [True]


def test_without_an_instance_there_is_nothing_to_judge(tmp_path: Path) -> None:
    board = Board()
    scene = Scene(None, Machine(), Wishes(), board)
    assert run(scene, Store(tmp_path / "staging"), 30.0) is Ending.NOTHING
    assert board.assessment(Deadline.after(0)) is not None
