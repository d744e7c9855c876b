"""torch's own analyser, in an environment of its own: nothing of torch comes near the measured program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from benchmarks.flight.score import Answer

TORCH = "2.13.0"


def cache_folder() -> Path:
    """Where environments and large dumps lie between runs; RANKMUSTER_BENCH_CACHE moves it."""
    told = os.environ.get("RANKMUSTER_BENCH_CACHE")
    root = Path(told) if told else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rankmuster-bench"
    root.mkdir(parents=True, exist_ok=True)
    return root


def environment() -> Path:
    """The environment's bin folder, made on the first call with the usual pip.

    Raises subprocess.CalledProcessError where torch cannot be installed.
    """
    place = cache_folder() / f"torch-{TORCH}"
    if not (place / "installed").exists():
        print(f"installing torch {TORCH} into {place} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        command = [
            str(place / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            f"torch=={TORCH}",
            "numpy",
            "tabulate",
        ]
        subprocess.run(command, check=True)
        (place / "installed").touch()
    return place / "bin"


class Runner:
    """One process with torch that analyses folder after folder."""

    def __init__(self, binaries: Path) -> None:
        script = Path(__file__).with_name("torchfrtrace_runner.py")
        self._process = subprocess.Popen(
            [binaries / "python", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self, folder: Path) -> Answer:
        """What it says of a folder of dumps: the set of ranks that most of its findings name."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return Answer(None, fault=False, said="its process ended")
        said = json.loads(line)
        if "crash" in said:
            return Answer(None, fault=False, said=said["crash"])
        sets = Counter(map(frozenset, said["sets"]))
        named = sets.most_common(1)[0][0] if sets else frozenset()
        return Answer(
            named, fault=bool(said["findings"]), said=f"{said['findings']} findings", suspects=frozenset(said["absent"])
        )

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
