"""Kills the runner of an incident at every point where it writes or acts, and sees what the next one makes of it.

    python tools/crash_incidents.py --output docs/measured/incident-crashes.json     # some 10 minutes on two cores
    python tools/crash_incidents.py --most 15                                        # a look, printed only

Each run is a world in a file, a journal in SQLite, and real processes. The first runner is killed (SIGKILL) right after
the n-th event was on disk, or right after the n-th call came back and before its result was written; then others take
the incident up, some of them killed as well, until one closes it. Asserted of every run: nothing that may not be done
twice was, nothing was forgotten, evidence came before the kill, and the incident was closed once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from incident_world import (  # noqa: E402  # it stands beside the tests that share it
    ALL,
    DESYNC,
    GPU_LOST,
    INSTANCE,
    STALL,
    File,
    WorldEvidence,
    WorldGroup,
    WorldNode,
    WorldProbe,
    WorldRetest,
    WorldTraffic,
    opening,
)
from rankmuster.incident.config import IncidentConfig  # noqa: E402
from rankmuster.incident.facts import facts_of  # noqa: E402
from rankmuster.incident.runner import Runner, Taken  # noqa: E402
from rankmuster.incident.tools import Tools  # noqa: E402
from rankmuster.model.incident import EventKind, Outcome, RetestEnding  # noqa: E402
from rankmuster.store.journal import Journal  # noqa: E402

SCENARIOS = {
    "in_place": (DESYNC, False),
    "elsewhere_and_fenced": (GPU_LOST, True),
    "tested_between": (STALL, False),
}
"""Name -> (what the evidence says, whether the group can be started on other nodes)."""

LEASE_SECONDS = 2.0
"""Of the runners here: another one waits no longer for a dead one's."""

MOST_RUNNERS = 12
"""Of one run; each kill costs one."""

RUNNER_SECONDS = 60.0
"""Of one runner: then it is stuck, and the run has failed."""


MAKING = threading.Lock()

# -- the child: one runner


def child(folder: Path, scenario: str, holder: str, kill_at: int) -> int:
    """Runs the incident, and dies at the `kill_at`-th point; 0: at none. Prints the points it passed as it goes."""
    found, elsewhere = SCENARIOS[scenario]
    store = File(folder / "world.json")
    passed = [0]

    def reached(point: str) -> None:
        passed[0] += 1
        with open(folder / "points.log", "a") as log:
            log.write(f"{os.getpid()} {passed[0]} {point}\n")
        if passed[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    tools = Tools(
        traffic=(WorldTraffic(store),),
        group=WorldGroup(store, elsewhere=elsewhere),
        nodes=(WorldNode(store),),
        retest=WorldRetest(store, {"n2": RetestEnding.PASS}),
        evidence=WorldEvidence(store, found),
        probe=WorldProbe(store),
        enabled=ALL,
    )
    config = IncidentConfig(folder=folder / "evidence")
    with Journal.open(str(folder / "journal.db")) as journal:
        runner = Runner(
            config,
            INSTANCE,
            tools,
            journal,
            holder=holder,
            facts=facts_of(config, INSTANCE, journal, time.time),
            lease_seconds=LEASE_SECONDS,
            reached=reached,
        )
        open_ones = journal.incidents(instance=INSTANCE, open_only=True)
        name = open_ones[0].id if open_ones else (folder / "incident").read_text()
        until = time.monotonic() + 3 * LEASE_SECONDS
        while True:
            try:
                return 0 if runner.run(name).closed is Outcome.RECOVERED else 3
            except Taken:
                if time.monotonic() > until:
                    return 4
                time.sleep(0.1)


# -- one run


@dataclass
class Run:
    """What came of one run. `wrong`: what must never be, in words."""

    scenario: str
    kills: list[int]
    runners: int = 0
    killed: int = 0
    died_after: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)
    found_done: int = 0
    seconds: float = 0.0


def prepare(folder: Path) -> None:
    """The world and an open incident, which no runner has touched. One at a time: making a journal's tables is not made
    for several threads of a process."""
    File(folder / "world.json")
    with MAKING, Journal.open(str(folder / "journal.db")) as journal:
        name, _ = journal.open_incident(opening(), "crash")
    (folder / "incident").write_text(name)


def command(folder: Path, scenario: str, holder: str, kill_at: int) -> list[str]:
    return [sys.executable, __file__, "--child", str(folder), scenario, holder, str(kill_at)]


def one_run(scenario: str, kills: list[int], *, same_holder: bool, pair: bool = False) -> Run:
    """`kills`: of the runners one after the other; those after the last are left alone. `pair`: two runners at once."""
    run = Run(scenario, kills)
    begun = time.monotonic()
    killed: list[int] = []
    with tempfile.TemporaryDirectory(prefix="incident-crash-") as name:
        folder = Path(name)
        prepare(folder)
        for number in range(MOST_RUNNERS):
            kill_at = kills[number] if number < len(kills) else 0
            holders = ["a" if same_holder else f"runner-{number}"]
            if pair:
                holders.append(f"other-{number}")
            processes = [subprocess.Popen(command(folder, scenario, one, kill_at)) for one in holders]
            statuses = [_wait(one) for one in processes]
            killed += [one.pid for one in processes if one.returncode == -signal.SIGKILL]
            run.runners += len(processes)
            run.killed += statuses.count(-signal.SIGKILL)
            if any(one not in (0, -signal.SIGKILL, 4) for one in statuses):
                run.wrong.append(f"a runner ended with status {statuses}")
                break
            if 0 in statuses:
                break
        else:
            run.wrong.append(f"it was not closed by {MOST_RUNNERS} runners")
        _judge(run, folder, killed)
    run.seconds = round(time.monotonic() - begun, 2)
    return run


def _wait(process: subprocess.Popen[bytes]) -> int | str:
    try:
        return process.wait(RUNNER_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return "stuck"


def _judge(run: Run, folder: Path, killed: list[int]) -> None:
    """Everything that must hold, whatever was killed."""
    world: dict[str, Any] = json.loads((folder / "world.json").read_text())
    with MAKING, Journal.open(str(folder / "journal.db")) as journal:
        name = (folder / "incident").read_text()
        events = journal.events(name)
        uses = journal.uses(name)
    points = (folder / "points.log").read_text().splitlines() if (folder / "points.log").exists() else []
    last = {line.split(" ", 1)[0]: line.split(" ", 2)[2] for line in points}
    run.died_after = [last[str(pid)] for pid in killed if str(pid) in last]
    run.repeated = Counter(
        str(one.step.value if one.step else "")
        for one in events
        if one.kind is EventKind.RESULT and one.data.get("repeated")
    )
    run.found_done = sum(1 for one in events if one.kind is EventKind.RESULT and one.data.get("found"))
    order = world["order"]
    checks = {
        "the group was started once": world["starts"] == ["inc-2"],
        "the old incarnation was ended once, and no other": world["terminated"] == ["inc-1"],
        "traffic is back": world["gateways"]["front"] == {"state": "ready", "percent": 100.0, "running": 0},
        "it serves": world["works"] and world["group"]["state"] == "running",
        "our fences are settled": world["fences"] == {},
        "each fence was lifted as often as it was set": len(world["fenced"]) == len(world["lifted"]) <= 1,
        "evidence came before the kill": "evidence" in order
        and order.index("evidence") < order.index("terminate:inc-1")
        if "terminate:inc-1" in order
        else False,
        "requests were hit once": world["hit"] == 3,
        "it was closed once, last": [one.kind for one in events].count(EventKind.CLOSED) == 1
        and events[-1].kind is EventKind.CLOSED,
        "what limits counted is over": all(one.ended_at is not None for one in uses),
        "every intent has its result": _settled(events),
        "sequences have no gaps": [one.sequence for one in events] == list(range(1, len(events) + 1)),
    }
    run.wrong += [f"not so: {what}" for what, holds in checks.items() if not holds]
    if run.wrong:
        run.wrong.append(f"order: {order}; endings: {_endings(events)}")


def _settled(events: Any) -> bool:
    intents = {(one.step, one.action) for one in events if one.kind is EventKind.INTENT}
    return intents == {(one.step, one.action) for one in events if one.kind is EventKind.RESULT}


def _endings(events: Any) -> str:
    return ", ".join(
        f"{one.step.value} {one.ending.value}" for one in events if one.kind is EventKind.STEP_ENDED and one.step
    )


# -- all of them


def points_of(scenario: str) -> int:
    """How many points an undisturbed runner passes."""
    with tempfile.TemporaryDirectory(prefix="incident-crash-") as name:
        folder = Path(name)
        prepare(folder)
        subprocess.run(command(folder, scenario, "a", 0), check=True, timeout=RUNNER_SECONDS)
        return len((folder / "points.log").read_text().splitlines())


def plan(most: int | None, seed: int, at_once: int) -> list[tuple[str, list[int], bool, bool]]:
    """Every point of every scenario, by the same and by another runner; then several kills in one incident, and two
    runners at once."""
    chosen = random.Random(seed)
    runs: list[tuple[str, list[int], bool, bool]] = []
    with ThreadPoolExecutor(at_once) as pool:
        points = dict(zip(SCENARIOS, pool.map(points_of, SCENARIOS), strict=True))
    for scenario, total in points.items():
        runs += [(scenario, [at], True, False) for at in range(1, total + 1)]
        runs += [(scenario, [at], False, False) for at in range(1, total + 1, 3)]
        runs += [
            (scenario, [chosen.randint(1, total) for _ in range(chosen.randint(2, 5))], True, False) for _ in range(25)
        ]
        runs += [(scenario, [chosen.randint(1, total)], False, True) for _ in range(10)]
    if most is None or most >= len(runs):
        return runs
    return sorted(chosen.sample(runs, most), key=lambda one: one[0])


def crash(most: int | None, seed: int, at_once: int) -> dict[str, Any]:
    """All runs, and what came of them."""
    runs = plan(most, seed, at_once)
    begun = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        done = list(pool.map(lambda one: one_run(one[0], one[1], same_holder=one[2], pair=one[3]), runs))
    wrong = [one for one in done if one.wrong]
    kinds = Counter(point.split(":")[0] for one in done for point in one.died_after)
    return {
        "runs": len(done),
        "runners_started": sum(one.runners for one in done),
        "runners_killed": sum(one.killed for one in done),
        "two_at_once": sum(1 for one in runs if one[3]),
        "killed_after": dict(sorted(kinds.items())),
        "actions_found_done": sum(one.found_done for one in done),
        "actions_repeated": dict(sorted(sum((one.repeated for one in done), Counter()).items())),
        "wrong": len(wrong),
        "seed": seed,
        "seconds": round(time.monotonic() - begun),
        "what_was_wrong": [
            {"scenario": one.scenario, "kills": one.kills, "died_after": one.died_after, "wrong": one.wrong}
            for one in wrong[:20]
        ],
    }


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        folder, scenario, holder, kill_at = sys.argv[2:]
        return child(Path(folder), scenario, holder, int(kill_at))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, help="so many runs, chosen by the seed; without it all of them")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="runs at the same time")
    parser.add_argument("--output", type=Path, help="where the counts are written")
    options = parser.parse_args()
    found = crash(options.most, options.seed, options.at_once)
    text = json.dumps(found, indent=1) + "\n"
    if options.output is not None:
        options.output.write_text(text)
    print(text, end="")
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
