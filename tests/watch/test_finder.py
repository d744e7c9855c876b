"""Instances are kept in sight for months: who died is seen at once, who comes is found, a quiet node costs nothing."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from finding_node import Node, fake_proc

from rankmuster.collect import bounded
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.node.nvml_session import Listed
from rankmuster.watch.finding import Finder
from rankmuster.watch.finding_known import alive, over
from rankmuster.watch.finding_pace import MOST_SECONDS, SearchPace
from rankmuster.watch.finding_search import MAX_LEFT_BEHIND, left_behind


def names(targets):
    return [target.name for target in targets]


def states(target):
    return {process.pid: process.state for process in target.workers}


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_an_instance_is_found_at_the_first_look_and_said_once(node):
    node.serve(100)
    finder = node.finder()
    first = node.look(finder)
    assert names(first.appeared) == names(first.current) == ["vllm-8000"]
    assert [process.rank for process in first.current[0].workers] == [0, 1]
    again = node.look(finder, 5)
    assert not again.any
    assert again.current == first.current


def test_a_quiet_node_is_searched_rarely(node):
    node.serve(100)
    finder = node.finder()
    for _ in range(12 * 60):
        node.look(finder, 5)
    assert 12 <= finder.searches <= 18  # in an hour: a few at first, then one in five minutes


def test_an_empty_node_is_searched_every_find_seconds(node):
    finder = node.finder(find_seconds=15)
    for _ in range(12):
        node.look(finder, 5)
    assert finder.searches == 4
    node.serve(100)
    assert any(node.look(finder, 5).appeared for _ in range(4))


def test_a_rank_that_died_stays_in_sight_in_the_same_incarnation(node):
    pids = node.serve(100, ranks=3)
    finder = node.finder()
    (before,) = node.look(finder).current
    node.kill(pids[-1])
    changes = node.look(finder, 5)
    (target,) = changes.changed
    assert states(target) == {103: "S", 104: "S", 105: "X"}
    assert target.incarnation == before.incarnation
    for _ in range(200):  # searches come between that do not list it
        (current,) = node.look(finder, 5).current
        assert states(current)[105] == "X"
        assert [process.rank for process in current.workers] == [0, 1, 2]
    assert finder.searches > 2


def test_a_zombie_says_how_it_ended_and_keeps_saying_so_when_it_is_reaped(node):
    node.serve(100)
    finder = node.finder()
    node.look(finder)
    node.kill(104)
    node.fake.add(104, 102, comm="VLLM::Worker_TP", state="Z", exit_status=int(signal.SIGKILL))
    (target,) = node.look(finder, 5).changed
    (dead,) = [process for process in target.workers if not alive(process)]
    assert (dead.rank, dead.state, dead.exit_status) == (1, "Z", -9)
    node.kill(104)
    for _ in range(10):
        (target,) = node.look(finder, 5).current
    (dead,) = [process for process in target.workers if not alive(process)]
    assert (dead.rank, dead.state, dead.exit_status) == (1, "X", -9)


def test_a_number_that_is_another_processs_by_now_is_no_life(node):
    node.serve(100)
    finder = node.finder()
    node.look(finder)
    node.kill(104)
    node.fake.add(104, 1, ["/usr/bin/other"], start=999_999)
    (target,) = node.look(finder, 5).changed
    assert states(target)[104] == "X"


def test_a_restart_is_the_same_instance_in_another_incarnation(node):
    pids = node.serve(100)
    finder = node.finder()
    (before,) = node.look(finder).current
    node.kill(*pids)
    gone = node.look(finder, 5)
    assert names(gone.changed) == ["vllm-8000"]
    assert over(gone.current[0])
    assert not node.look(finder, 5).any
    node.serve(500)
    found = [changes for _ in range(8) if (changes := node.look(finder, 5)).any]
    (target,) = found[0].changed
    assert target.name == before.name
    assert target.incarnation != before.incarnation
    assert [process.pid for process in target.workers] == [503, 504]
    assert all(alive(process) for process in target.processes)


def test_ranks_replaced_below_a_launcher_that_lives_on_are_another_incarnation(node):
    environ = {"WORLD_SIZE": "2", "MASTER_PORT": "29500", "MASTER_ADDR": "127.0.0.1"}
    node.fake.add(200, 1, ["/opt/venv/bin/torchrun", "--nproc-per-node", "2", "serve.py"])
    for rank in range(2):
        node.fake.add(201 + rank, 200, ["python", "serve.py"], {**environ, "RANK": str(rank)})
    finder = node.finder()
    (before,) = node.look(finder).current
    assert len(before.workers) == 2
    node.kill(201, 202)
    (gone,) = node.look(finder, 5).changed
    assert not [process for process in gone.workers if alive(process)]
    for rank in range(2):
        node.fake.add(301 + rank, 200, ["python", "serve.py"], {**environ, "RANK": str(rank)})
    for _ in range(8):
        (target,) = node.look(finder, 5).current
    assert target.name == before.name
    assert [process.pid for process in target.workers] == [301, 302]
    assert target.incarnation != before.incarnation
    (later,) = node.look(finder, 400).current
    assert later.incarnation == target.incarnation


def test_an_instance_that_ended_is_kept_a_while_and_then_forgotten(node):
    pids = node.serve(100)
    finder = node.finder(keep_seconds=60)
    node.look(finder)
    node.kill(*pids)
    assert node.look(finder, 5).ended == ()
    assert names(node.look(finder, 50).current) == ["vllm-8000"]
    last = node.look(finder, 15)
    assert last.ended == ("vllm-8000",)
    assert last.current == ()


def test_a_second_instance_is_found_soon_and_renames_nobody(node):
    node.serve(100)
    finder = node.finder()
    for _ in range(200):
        node.look(finder, 5)
    searches = finder.searches
    node.serve(500)  # the same port: another container
    found = [node.look(finder, 5) for _ in range(4)]
    assert finder.searches - searches in (1, 2)
    (appeared,) = [changes for changes in found if changes.appeared]
    assert names(appeared.current) == ["vllm-8000", "vllm-8000-pid500"]
    assert appeared.changed == ()
    node.serve(700, port=9000)
    for _ in range(8):
        last = node.look(finder, 5)
    assert names(last.current) == ["vllm-8000", "vllm-8000-pid500", "vllm-9000"]


def test_only_those_that_are_named_are_watched(node):
    node.serve(100)
    node.serve(500, port=9000)
    assert names(node.look(node.finder(names=("vllm-9000",))).current) == ["vllm-9000"]
    assert node.look(node.finder(names=("other",))).current == ()


def test_a_name_that_nobody_has_is_said_with_those_that_there_are(node):
    node.serve(100)
    finder = node.finder(names=("vlm-8000",))
    changes = node.look(finder)
    assert changes.current == ()
    (note,) = changes.notes
    assert "vlm-8000" in note
    assert "vllm-8000" in note
    assert node.look(node.finder(names=("vllm-8000",))).notes == ()


def test_a_pid_stands_for_its_instance_after_the_restart_too(node):
    pids = node.serve(100)
    node.serve(500, port=9000)
    finder = node.finder(pids=(104,))
    assert names(node.look(finder).current) == ["vllm-8000"]
    node.kill(*pids)
    node.look(finder, 5)
    node.serve(700)
    for _ in range(8):
        last = node.look(finder, 5)
    assert names(last.current) == ["vllm-8000"]
    assert not over(last.current[0])


def test_helpers_that_come_and_go_change_nothing_and_start_no_search(node):
    node.serve(100)
    finder = node.finder()
    for _ in range(100):
        node.look(finder, 5)
    searches = finder.searches
    for number in range(20):
        node.fake.add(1000 + number, 102, ["/opt/venv/bin/python3", "-c", "compile"])
        node.fake.add(2000 + number, 1, ["/usr/bin/curl", "x"])
        assert not node.look(finder, 5).any
        node.kill(1000 + number, 2000 + number)
    assert finder.searches <= searches + 1


def test_the_watchs_own_children_are_no_instance(node):
    """In a pod they have the instance's variables, and are there before the engine is."""
    environ = {"RANKMUSTER_INSTANCE": "llm-7"}
    node.fake.add(50, 1, ["/v/bin/python", "/v/bin/rankmuster", "watch"], environ)
    node.fake.add(51, 50, ["/v/bin/python", "-I", "-c", "from rankmuster.collect.node.nvml_child import main"], environ)
    node.fake.add(52, 50, ["/v/bin/python", "-m", "rankmuster.cli.main", "collect", "--pid", "103"], environ)
    finder = node.finder()
    assert node.look(finder).current == ()
    node.serve(100, RANKMUSTER_INSTANCE="llm-7")
    for _ in range(8):
        last = node.look(finder, 5)
    (current,) = last.current
    assert current.name == "llm-7"
    assert not {50, 51, 52} & {one.pid for one in current.processes}


def test_a_probe_in_python_every_ten_seconds_is_no_reason_for_a_search_each_time(node):
    node.serve(100)
    finder = node.finder()
    node.look(finder)
    for number in range(180):
        node.fake.add(1000 + number, 1, ["/usr/bin/python3", "healthy.py"])
        assert not node.look(finder, 5).appeared
        node.kill(1000 + number)
        node.look(finder, 5)
    assert finder.searches < 30  # in half an hour
    node.serve(500, port=9000)
    assert any(node.look(finder, 5).appeared for _ in range(25))


def test_what_a_young_instance_does_late_is_seen_within_a_minute(node):
    node.serve(100)
    finder = node.finder()
    for process in (103, 104):
        (node.fake.root / str(process) / "maps").write_text("")
    node.kill(1)
    node.fake.root.joinpath("stat").write_text(f"cpu 1\nbtime {int(fake_proc.NOW) - 520}\n")
    for _ in range(60):
        (current,) = node.look(finder, 5).current
    assert current.nccl_loaded is False
    mapped = "7f0000000000-7f0000001000 r-xp 00000000 08:01 42    /opt/libnccl.so.2\n"
    for process in (103, 104):
        (node.fake.root / str(process) / "maps").write_text(mapped)
    assert any(changes.changed for _ in range(13) for changes in [node.look(finder, 5)])


def test_a_proc_that_lists_nothing_is_no_death(node, tmp_path):
    node.serve(100)
    finder = node.finder()
    node.look(finder)
    (tmp_path / "proc").rename(tmp_path / "away")
    blind = node.look(finder, 5)
    assert not blind.any
    assert names(blind.current) == ["vllm-8000"]
    assert "lists no process" in blind.notes[0]
    (tmp_path / "away").rename(tmp_path / "proc")
    assert not node.look(finder, 5).any


def test_nvml_is_asked_once_for_the_same_ranks_and_its_answer_used_again(node):
    node.serve(100)
    node.contain(103, 104)
    node.nvml = Listed(((0, "GPU-a"), (1, "GPU-b")), {103: ((0, "GPU-a"),), 104: ((1, "GPU-b"),)})
    finder = node.finder()
    (target,) = node.look(finder).current
    assert [process.gpus for process in target.workers] == [(0,), (1,)]
    for _ in range(300):
        changes = node.look(finder, 5)
        assert not changes.any
    assert node.asked == 1
    node.kill(104)
    node.look(finder, 5)
    for _ in range(300):
        (target,) = node.look(finder, 5).current
    assert [process.gpus for process in target.workers] == [(0,), (1,)]


def test_nvml_that_cannot_say_is_not_asked_again_and_again(node):
    finder = node.finder()
    for _ in range(12 * 10):
        node.look(finder, 5)
    assert node.asked <= 3


def test_reads_that_never_returned_keep_the_node_from_being_searched(node):
    node.serve(100)
    finder = node.finder()
    node.look(finder)
    stuck, done = threading.Event(), []
    while left_behind() <= MAX_LEFT_BEHIND:
        done.append(bounded.each([1], lambda _: stuck.wait(), patience=0.001, total=0.001))
    try:
        searches = finder.searches
        changes = node.look(finder, 1000)
        assert finder.searches == searches
        assert "not searched" in changes.notes[0]
        assert names(changes.current) == ["vllm-8000"]
    finally:
        stuck.set()


def test_a_search_that_takes_longer_than_a_look_is_taken_by_a_later_one(node):
    entered, go = threading.Event(), threading.Event()
    node.serve(100)
    node.contain(103, 104)

    def slow(_seconds):
        entered.set()
        go.wait(20)

    finder = node.finder(ask_nvml=slow)
    assert finder.look(Deadline.after(0.05)).current == ()
    assert finder.busy
    assert entered.wait(20)
    assert finder.look(Deadline.after(0.05)).current == ()  # no second one is begun
    go.set()
    assert names(node.look(finder, 5).current) == ["vllm-8000"]
    assert finder.searches == 1


@pytest.mark.parametrize("damage", [b"", b"x" * 5000, b"104 (a) S", b"104 (\xff\xfe) S x y z"])
def test_a_stat_that_says_nothing_holds_nobody_up(node, damage):
    node.serve(100)
    finder = node.finder()
    node.look(finder)
    (node.fake.root / "104" / "stat").write_bytes(damage)
    node.look(finder, 5)
    node.look(finder, 1000)
    assert names(finder.look(Deadline.after(5)).current) == ["vllm-8000"]


def test_searches_get_rarer_and_never_cost_more_than_their_share():
    pace = SearchPace(15.0)
    now, times = 0.0, []
    while now < 7200:
        if pace.due(now):
            times.append(now)
            pace.searched(now, 0.05, settled=True)
        now += 5
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert gaps[0] == 15
    assert gaps == sorted(gaps)
    assert gaps[-1] == MOST_SECONDS
    pace.changed()
    assert pace.due(now)
    expensive = SearchPace(1.0)
    expensive.searched(0.0, 0.4, settled=False)
    assert not expensive.due(99.0)
    expensive.changed()
    assert not expensive.due(99.0)
    assert expensive.due(100.0)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_real_processes_that_are_killed_and_started_again(tmp_path):
    """Ranks with a launcher's variables, named by our own marker, in this machine's /proc."""

    def started(rank: int) -> subprocess.Popen[bytes]:
        environ = {
            "PATH": os.defpath,
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "RANKMUSTER_INSTANCE": f"finding-{tmp_path.name}-{os.getpid()}",
        }
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=environ)

    mine = f"finding-{tmp_path.name}-{os.getpid()}"[:100]
    finder = Finder(Machine(), (mine,), find_seconds=0.1, share=1.0, ask_nvml=lambda _: None)
    ranks = [started(0), started(1)]

    def until(wanted):
        end = time.monotonic() + 30
        while True:
            changes = finder.look(Deadline.after(10))
            found = [target for target in changes.current if target.name == mine]
            if found and wanted(found[0]):
                return found[0]
            assert time.monotonic() < end, changes
            time.sleep(0.05)

    try:
        first = until(lambda target: len(target.workers) == 2)
        assert {process.pid for process in first.workers} == {one.pid for one in ranks}
        ranks[1].kill()  # not reaped yet: a zombie
        lost = until(lambda target: not all(map(alive, target.workers)))
        (dead,) = [process for process in lost.workers if not alive(process)]
        assert (dead.rank, dead.state, dead.exit_status) == (1, "Z", -9)
        for one in ranks:
            one.kill()
            one.wait()
        until(over)
        ranks = [started(0), started(1)]
        again = until(lambda target: len([one for one in target.workers if alive(one)]) == 2)
        assert {process.pid for process in again.workers} == {one.pid for one in ranks}
        assert again.incarnation != first.incarnation
    finally:
        for one in ranks:
            one.kill()
            one.wait()
