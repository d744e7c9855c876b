"""A watch in miniature for the drill's own tests: it looks at the page, says what moves, and collects next to nothing.

STUB: honest; deaf: never tells a stop; hasty: tells one at its third look; wordless: writes nothing; ends: ends at
once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

STILL = 2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stub", default="honest")
    parser.add_argument("--look", type=float, default=0.1)
    for name in ("--instance", "--metrics-url", "--period", "--state", "--bundles"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    if options.stub == "ends":
        sys.exit("no permission")
    still = looks = 0
    before = -1.0
    stop: dict[str, Any] | None = None
    while True:
        time.sleep(options.look)
        looks += 1
        try:
            with urllib.request.urlopen(options.metrics_url, timeout=1) as page:
                text = page.read().decode()
        except OSError:
            write(options, {"state": "starting", "reason": "the page does not answer", "event": None})
            continue
        running = number(text, "num_requests_running")
        tokens = number(text, "generation_tokens_total")
        still = still + 1 if tokens == before and running else 0
        before = tokens
        stopped = (still >= STILL and options.stub != "deaf") or (options.stub == "hasty" and looks > STILL)
        event = "stopped" if stopped and stop is None else None
        if event:
            stop = {"collect": "done", "diagnose": "done"}
            collect(Path(options.bundles))
        state = "stopped" if stopped else "advancing" if running else "idle"
        suspects = ["culprit: rank 1 (its pid), which stands still"] if stopped else []
        said = {"state": state, "reason": "so it seems", "event": event, "suspects": suspects, "last_stop": stop}
        if options.stub != "wordless":
            write(options, said)


def number(text: str, name: str) -> float:
    found = re.search(rf"^vllm:{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def write(options: argparse.Namespace, view: dict[str, Any]) -> None:
    path = Path(options.state) / "state.json"
    other = {"name": "somebody-else", "state": "stopped", "event": "stopped"}
    snapshot = {"schema": "rankmuster.watch/1", "instances": [other, {"name": options.instance, **view}]}
    path.with_suffix(".part").write_text(json.dumps(snapshot))
    os.replace(path.with_suffix(".part"), path)


def collect(bundles: Path) -> None:
    place = bundles / "a-stop"
    (place / "bundle").mkdir(parents=True)
    verdict = {
        "class": "collective_desync",
        "subclass": "missing_enter",
        "suspects": [{"rank": 1, "role": "culprit"}],
    }
    (place / "verdict.json").write_text(json.dumps(verdict))


main()
