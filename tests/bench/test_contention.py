"""Foreign work on GPUs: by what NVML lists, through the real binding and a driver of a few lines of C."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_nvml import compiled
from rankmuster.bench.contention import ContentionWatch, Seen, judge, normal

ONE = frozenset({"gpu-1"})


def test_a_process_that_was_there_before_is_foreign() -> None:
    found = judge({0: Seen(ONE, {77}, [{77, 5}], {77})}, [5], None)
    assert found.foreign == ((0, 77),)
    assert "process 77" in found.reason


def test_one_that_came_and_went_meanwhile_is_foreign() -> None:
    found = judge({0: Seen(ONE, set(), [{5}, {5, 88}, {5}], set())}, [5], None)
    assert found.foreign == ((0, 88),)


def test_own_processes_are_not_foreign_even_while_they_vanish() -> None:
    assert not judge({0: Seen(ONE, set(), [{5}], {5})}, [5], None).found


def test_in_a_container_one_unknown_process_a_gpu_is_the_rank_itself() -> None:
    seen = {gpu: Seen(frozenset({f"gpu-{gpu}"}), set(), [{4000 + gpu}], set()) for gpu in range(4)}
    assert not judge(seen, [5, 6, 7, 8], None).found
    seen[2].during.append({4002, 9000})
    found = judge(seen, [5, 6, 7, 8], None)
    assert {pid for _, pid in found.foreign} == {4002, 9000}
    assert "one per GPU is its own" in found.reason


def test_in_a_container_a_rank_that_is_slow_to_go_is_not_foreign() -> None:
    assert not judge({0: Seen(ONE, set(), [{4000}], {4000})}, [5], None).found
    assert judge({0: Seen(ONE, set(), [{4000}, {4000, 4001}], {4001})}, [5], None).found


def test_where_nvml_shows_no_process_this_is_said_and_utilisation_counts() -> None:
    idle = judge({0: Seen(ONE, set(), [set(), set()], set())}, [5], None)
    assert not idle.found
    assert "shows no processes" in idle.reason
    busy = judge({0: Seen(ONE, set(), [set()], set(), load_after=100.0)}, [5], None)
    assert busy.found
    assert "GPU 0 was 100 % busy while the benchmark did not run" in busy.reason


def test_other_gpus_of_the_node_do_not_matter() -> None:
    seen = {0: Seen(ONE, set(), [{5}], set()), 1: Seen(frozenset({"0000:9b:00"}), {77}, [{77}], {77})}
    assert not judge(seen, [5], ["GPU-1"]).found
    assert judge(seen, [5], ["00000000:9B:00.0"]).foreign == ((1, 77),)
    assert "unknown" in judge(seen, [5], ["GPU-9"]).reason


@pytest.mark.parametrize("text", ["0000:9a:00", "00000000:9A:00.0", "0000:9A:00.0"])
def test_bus_ids_of_nvml_and_cuda_are_the_same(text: str) -> None:
    assert normal(text) == "0000:9a:00"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("normal", "foreign work: GPU 0 also has process 4242"),
        ("hidden", "foreign work: GPU 0 was 100 % busy while the benchmark did not run"),
        ("no-driver", "unknown"),
    ],
)
def test_a_driver_is_asked(driver: Path, monkeypatch: pytest.MonkeyPatch, mode: str, expected: str) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    monkeypatch.setenv("FAKE_NVML", mode)
    monkeypatch.setenv("FAKE_NVML_PID", "4242")
    watch = ContentionWatch()
    watch.begin()
    watch.own((4243, 4244, 4245))  # of GPUs 1 to 3
    watch.poll()
    found = watch.finish(("GPU-00000000-0000-0000-0000-000000000000",))
    assert expected in found.reason
    assert found.found is (mode != "no-driver")
