"""Kills the controller of a cluster at every point of an incident, and sees what the next one makes of it.

    python tools/kube_crashes.py --output docs/measured/kube-crashes.json   # about 15 minutes on two cores
    python tools/kube_crashes.py --most 6                                   # a look, printed only

Each run is a whole cluster of processes (tests/kube_stand.py): three nodes with agents, an instance of two pods with
sidecars, of which one rank is frozen, and the controller. It is killed (SIGKILL) when the n-th event of the incident
is in the journal, or when its n-th change is made in the API server and the answer is not there yet; then it is started
again. Asserted of every run: the gate was closed and the evidence out of the pods before anything was deleted, the
group was made anew once, its node was tested again and let in, the instance serves, and one incident was closed.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from kube_chain_checks import closed, let_in_again, rebuilt_once, until_over  # noqa: E402
from kube_stand import Stand, standing  # noqa: E402

SECONDS = 400.0
"""Of one run; then it is stuck, and has failed."""

MOST_POINTS = 80
"""Of one kind: an incident has fewer."""


def child(kind: str, number: int) -> dict[str, Any]:
    """One run. `point`: None where the incident was over before its `number`-th point came."""
    with tempfile.TemporaryDirectory(prefix="kube-crash-") as folder, standing(Path(folder)) as stand:
        stand.start_controller()
        stand.wait("the instance serves", lambda: stand.serves() and stand.progress() == "advancing")
        before, suspect = stand.uids(), stand.pods()["llm-0-1"]["spec"]["nodeName"]
        if kind == "write":
            stand.kill_at_write(number)
        stand.signal_rank(3, signal.SIGSTOP)
        begun = time.monotonic()
        point = _killed(stand, kind, number)
        until_over(stand, before)
        seconds = time.monotonic() - begun
        rebuilt_once(stand, before, suspect)
        let_in_again(stand, suspect)
        if stand.cluster.problems:
            raise AssertionError(stand.cluster.problems[0])
    return {"kind": kind, "number": number, "point": point, "seconds": round(seconds, 1)}


def _killed(stand: Stand, kind: str, number: int) -> str | None:
    """Waits for the point, and has the controller back; what the point was."""
    if kind == "write":
        stand.wait("the point, or the end", lambda: not stand.controller_runs or closed(stand), 200)
        if stand.controller_runs:
            return None
        stand.start_controller()
        return stand.writes[number - 1]
    stand.wait("the point, or the end", lambda: len(stand.happened()) >= number or closed(stand), 200)
    events = stand.happened()
    if len(events) < number:
        return None
    stand.kill_controller()
    stand.start_controller()
    event = events[number - 1]
    return " ".join(str(one.value) for one in (event.kind, event.step) if one is not None)


def run(kind: str, number: int) -> dict[str, Any]:
    words = [sys.executable, __file__, "--child", kind, str(number)]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"kind": kind, "number": number, "failed": f"it was not over within {SECONDS:.0f} s"}
    if ran.returncode != 0:
        return {"kind": kind, "number": number, "failed": f"{ran.stderr[-2000:]}\n{ran.stdout[-8000:]}"}
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def runs(kind: str, most: int, at_once: int) -> list[dict[str, Any]]:
    """Of all points of one kind, until the incident has no more."""
    found: list[dict[str, Any]] = []
    with ThreadPoolExecutor(at_once) as pool:
        for first in range(1, most + 1, at_once):
            some = list(pool.map(lambda number: run(kind, number), range(first, min(first + at_once, most + 1))))
            for one in some:
                told = one.get("failed", "")[:300] or one["point"] or "the incident was over before"
                print(f"{kind} {one['number']}: {told} ({one.get('seconds', '-')} s)", flush=True)
            found += [one for one in some if one.get("failed") or one["point"] is not None]
            if any("failed" not in one and one["point"] is None for one in some):
                break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=MOST_POINTS, help="points of each kind")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(child(given.child[0], int(given.child[1]))))
        return 0
    found = [one for kind in ("write", "event") for one in runs(kind, given.most, given.at_once)]
    failed = [one for one in found if "failed" in one]
    print(f"{len(found)} runs, {len(failed)} failed")
    if given.output:
        given.output.write_text(json.dumps({"runs": found, "failed": len(failed)}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
