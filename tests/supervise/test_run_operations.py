"""What callers ask for over the socket: bound to the incarnation, done once, and answered in time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.proc import Proc
from rankmuster.model.incident import Answer, Ending, GroupState, StartWish
from supervised_run import SECONDS, Run, alive, until

Start = Callable[..., Run]


def soon() -> Deadline:
    return Deadline.after(SECONDS)


def test_an_operation_that_is_asked_for_twice_is_done_once(run: Start) -> None:
    made = run("bash", "-c", "echo x >> starts; exec sleep 1000")
    seen = made.running()
    first = made.client.terminate(seen.incarnation, "i/terminate/a", soon())
    again = made.client.terminate(seen.incarnation, "i/terminate/a", soon())
    assert (first.ending, again.ending) == (Ending.DONE, Ending.DONE)
    started = made.client.start(seen.incarnation, "i/start/a", StartWish(), soon())
    repeated = made.client.start(seen.incarnation, "i/start/a", StartWish(), soon())
    assert repeated.data["incarnation"] == started.data["incarnation"]
    assert "already" in repeated.note
    # a late repetition of the termination does not hit the new one
    late = made.client.terminate(seen.incarnation, "i/terminate/a", soon())
    assert late.ending is Ending.DONE
    assert made.look().state is GroupState.RUNNING
    assert made.look().incarnation == started.data["incarnation"]
    until(lambda: (made.work / "starts").read_text(encoding="ascii") == "x\nx\n")


def test_an_operation_without_an_incarnation_stays_with_the_one_it_met(run: Start) -> None:
    made = run("sleep", "1000")
    seen = made.running()
    assert made.client.terminate(None, "i/terminate/a", soon()).data["incarnation"] == seen.incarnation
    made.client.start(None, "i/start/a", StartWish(), soon())
    now = made.running()
    assert made.client.terminate(None, "i/terminate/a", soon()).ending is Ending.DONE
    assert made.look().pids == now.pids


def test_two_that_start_at_once_start_one(run: Start) -> None:
    made = run("bash", "-c", "echo x >> starts; exec sleep 1000")
    seen = made.running()
    made.client.terminate(seen.incarnation, "i/terminate/a", soon())
    answers: list[Answer] = []
    threads = [
        threading.Thread(
            target=lambda n=number: answers.append(
                made.client.start(seen.incarnation, f"i/start/{n}", StartWish(), soon())
            )
        )
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one.ending for one in answers} == {Ending.DONE}
    assert len({one.data["incarnation"] for one in answers}) == 1
    until(lambda: (made.work / "starts").read_text(encoding="ascii") == "x\nx\n")


def test_another_incarnation_is_never_touched(run: Start) -> None:
    made = run("sleep", "1000")
    seen = made.running()
    answer = made.client.terminate("20200101T000000Z-1-1-00000000x", "i/terminate/a", soon())
    assert answer.ending is Ending.REFUSED
    of_before = made.client.terminate("20200101T000000Z-1-1-00000000", "i/terminate/b", soon())
    assert of_before.ending is Ending.DONE
    assert "earlier boot" in of_before.note
    assert made.look().pids == seen.pids


def test_ranks_that_were_replaced_since_are_not_touched(run: Start) -> None:
    """The watch names an incarnation whose launcher has replaced its ranks by when it saw that."""
    made = run("bash", "-c", "sleep 1000 & echo $! > rank; wait; sleep 1000")
    made.pid_of("rank")
    seen = made.running()
    early = made.client.terminate(f"{seen.incarnation}+ranks-2020-01-01T00:00:00Z", "i/terminate/a", soon())
    assert early.ending is Ending.REFUSED
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    now = made.client.terminate(f"{seen.incarnation}+ranks-{stamp}", "i/terminate/b", soon())
    assert now.ending is Ending.DONE, now.note


def test_none_is_started_beside_a_living_one(run: Start) -> None:
    made = run("sleep", "1000")
    seen = made.running()
    refused = made.client.start(seen.incarnation, "i/start/a", StartWish(), soon())
    assert refused.ending is Ending.REFUSED
    there = made.client.start("an earlier one", "i/start/b", StartWish(), soon())
    assert there.ending is Ending.DONE
    assert there.data["incarnation"] == seen.incarnation
    assert made.look().pids == seen.pids


def test_it_can_be_looked_at_while_it_ends(run: Start) -> None:
    made = run("bash", "-c", "trap '' TERM; echo $$ > mine; while :; do sleep 9; done", options=("--grace", "3"))
    mine = made.pid_of("mine")
    seen = made.running()
    answers: list[Answer] = []
    thread = threading.Thread(
        target=lambda: answers.append(made.client.terminate(seen.incarnation, "i/terminate/a", soon()))
    )
    thread.start()
    until(lambda: made.look().state is GroupState.ENDING)
    assert mine in made.look().pids
    busy = made.client.start(seen.incarnation, "i/start/a", StartWish(), Deadline.after(0.8))
    assert busy.ending is Ending.TIMED_OUT
    assert "not begun" in busy.note
    thread.join()
    assert answers[0].ending is Ending.DONE
    assert not alive(mine)
    # what was not begun in time is not done later
    assert made.look().state is GroupState.ENDED
    assert made.look().operation == ""  # by nobody who has asked for it


def test_a_start_has_its_own_variables_and_profile_and_the_next_has_not(run: Start, tmp_path: Path) -> None:
    made = run(
        "bash", "-c", "echo $$ > mine; exec sleep 1000",
        options=("--profile", "steady", "--evidence", str(tmp_path / "e"), "--torch", "2.11", "--nccl", "2.28.9"),
        environ={"NCCL_DEBUG": "VERSION"},
    )  # fmt: skip

    def environ() -> dict[str, str]:
        pid = made.pid_of("mine")
        return dict(Proc(Path("/proc")).environ(pid) or {})

    steady = environ()
    assert steady["NCCL_DEBUG"] == "VERSION"  # the user's own stays
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE" in steady or "TORCH_FR_BUFFER_SIZE" in steady
    first = made.running().incarnation
    made.client.terminate(first, "i/terminate/a", soon())
    (made.work / "mine").unlink()
    wish = StartWish(environment={"ONLY": "once", "RANKMUSTER_INSTANCE": "x"}, suspect="transport_stall")
    answer = made.client.start(first, "i/start/a", wish, soon())
    assert answer.ending is Ending.DONE, answer.note
    once = environ()
    assert once["NCCL_DEBUG"] == "INFO"
    assert once["ONLY"] == "once"
    assert once["RANKMUSTER_INSTANCE"] == made.name
    assert Path(once["NCCL_DEBUG_FILE"]).parent.is_dir()
    made.client.terminate(answer.data["incarnation"], "i/terminate/b", soon())
    (made.work / "mine").unlink()
    made.client.start(answer.data["incarnation"], "i/start/b", StartWish(), soon())
    after = environ()
    assert "ONLY" not in after
    volatile = {name for name, value in steady.items() if first is not None and first in value}
    assert {n: v for n, v in after.items() if n not in volatile} == {
        n: v for n, v in steady.items() if n not in volatile
    }


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (StartWish(suspect="bad luck"), "no class or sub-kind"),
        (StartWish(avoid=(socket.gethostname(),)), "to be avoided"),
    ],
)
def test_a_wish_that_cannot_be_is_refused(run: Start, wish: StartWish, said: str) -> None:
    made = run("bash", "-c", "[ -e first ] && sleep 1000; touch first; exit 1", options=("--on-end", "wait"))
    until(lambda: made.look().state is GroupState.ENDED)
    answer = made.client.start(None, "i/start/a", wish, soon())
    assert answer.ending is Ending.REFUSED
    assert said in answer.note
    assert made.look().state is GroupState.ENDED


def test_a_program_that_has_gone_is_said_and_may_come_back(run: Start) -> None:
    program = "engine"
    made = run(
        "bash", "-c", "echo '#!/bin/sh\nexec sleep 1000' > engine; chmod +x engine", options=("--on-end", "wait")
    )
    until(lambda: made.look().state is GroupState.ENDED)
    (made.work / program).unlink()
    other = run(f"./{program}", name="other")
    assert other.ended() == 127
    (made.work / program).write_text("#!/bin/sh\nexec sleep 1000\n", encoding="ascii")
    (made.work / program).chmod(0o755)
    third = run(f"./{program}", name="third")
    seen = third.running()
    third.client.terminate(seen.incarnation, "i/terminate/a", soon())
    (made.work / program).unlink()
    failed = third.client.start(seen.incarnation, "i/start/a", StartWish(), soon())
    assert failed.ending is Ending.FAILED
    assert "No such file" in failed.note
    (made.work / program).write_text("#!/bin/sh\nexec sleep 1000\n", encoding="ascii")
    (made.work / program).chmod(0o755)
    again = third.client.start(seen.incarnation, "i/start/a", StartWish(), soon())
    assert again.ending is Ending.DONE
    assert third.running().incarnation == again.data["incarnation"]


def test_a_record_says_what_the_next_one_needs(run: Start) -> None:
    made = run("bash", "-c", "(setsid sleep 1000 &); exec sleep 1000")
    made.running()
    text = made.folder / f"{made.name}.json"
    until(lambda: text.read_text(encoding="ascii").count('"ticks"') == 4)  # us, the launcher, and a roster of two
