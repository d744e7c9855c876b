"""Whole incidents on real GPUs: a served engine over NCCL, each fault once, eager and as a CUDA graph.

    tools/pack_haproxy.sh FOLDER                                      # where haproxy is; carry FOLDER to the machine
    python tools/gpu_incident.py --out OUT --gpus 4 --haproxy FOLDER/haproxy --seconds 580 --modes eager
    python tools/gpu_incident.py --out OUT --gpus 4 --haproxy FOLDER/haproxy --seconds 580 --modes graph

It runs `python -m rankmuster.drill incident` in a process of its own for each mode. OUT gets few and small files, which
come back from a machine that is given back: `results.jsonl` and `summary.json` of all modes together, what was printed
(`log.txt`), and the files of each mode's runs (`MODE.tar.gz`: journals, records, logs, verdicts; of each bundle what
stands in its first folder, and no file above a mebibyte). Needs torch with CUDA, and the extra `history`.

Exit status: 0 all right, 1 not all, 3 nothing could be begun.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FAULTS = {
    "eager": ("skip", "stop", "kill", "freeze", "wrong_size", "loop"),
    "graph": ("graph_stop", "kill", "freeze", "loop", "skip", "wrong_size"),
}
ONE_SECONDS = 130.0
"""Of the longest run: two starts, some looks before the fault, 15 s to tell it, 20 s of evidence."""
MOST_BYTES = 1 << 20
BAD_USAGE = 3


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gpus", type=int, default=4, help="ranks of the engine")
    parser.add_argument("--modes", default="eager,graph", help="by commas")
    parser.add_argument("--faults", default="", help="by commas; else each mode's own")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--haproxy", type=Path, help="its program, where it is not on the path")
    parser.add_argument("--backend", default="nccl", help="gloo, to try this out without a GPU")
    parser.add_argument(
        "--seconds", type=float, default=580.0, help="for all of it; begins no run that could take longer"
    )
    parser.add_argument("--work", type=Path, help="for all files of the runs; else a new folder below /tmp")
    parser.add_argument("--option", action="append", default=[], help="more for the drill (--option=--ras-port=29000)")
    options = parser.parse_args(arguments)
    ends = time.monotonic() + options.seconds
    modes = options.modes.split(",")
    if strange := set(modes) - set(FAULTS):
        parser.error(f"--modes {', '.join(sorted(strange))}: there are {', '.join(FAULTS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    work = options.work or Path(tempfile.mkdtemp(prefix="gpu-incident-"))
    environment = dict(os.environ)
    if options.haproxy is not None:
        environment["RANKMUSTER_DRILL_HAPROXY"] = str(options.haproxy.resolve())
    summaries: dict[str, Any] = {}
    statuses = []
    for number, mode in enumerate(modes):
        share = (ends - time.monotonic()) / (len(modes) - number)
        folder = work / mode
        statuses.append(_drill(options, mode, number, folder, share, environment))
        _keep(folder, options.out, mode, summaries)
    (options.out / "summary.json").write_text(json.dumps(summaries, indent=1) + "\n")
    return max(statuses, default=BAD_USAGE)


def _drill(
    options: argparse.Namespace, mode: str, number: int, folder: Path, seconds: float, environment: dict[str, str]
) -> int:
    """One mode's runs; its exit status, 1 where it had to be ended."""
    faults = [fault for fault in options.faults.split(",") if fault] or FAULTS[mode]
    line = [sys.executable, "-m", "rankmuster.drill", "incident", *faults, "--backend", options.backend]
    line += ["--ranks", str(options.gpus), "--times", str(options.times), "--output", str(folder)]
    line += ["--most-seconds", f"{max(seconds - ONE_SECONDS, 1.0):.0f}", "--ras-port", str(28200 + 100 * number)]
    line += [*(["--graph"] if mode == "graph" else []), *options.option]
    with (options.out / "log.txt").open("ab") as log:
        log.write(f"\n$ {' '.join(line)}\n".encode())
        log.flush()
        process = subprocess.Popen(line, env=environment, stdout=log, stderr=log)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it ends all that it started
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.write(f"{mode} was ended: its {seconds:.0f} s were over\n".encode())
            status = 1
    print(f"{mode}: exit status {status}", flush=True)
    return status


def _keep(folder: Path, out: Path, mode: str, summaries: dict[str, Any]) -> None:
    """What is worth bringing home of one mode."""
    results, numbers = folder / "results.jsonl", folder / "summary.json"
    if results.exists():
        with (out / "results.jsonl").open("a") as all_of_them:
            all_of_them.write(results.read_text())
    if numbers.exists():
        summaries[mode] = json.loads(numbers.read_text())
    with tarfile.open(out / f"{mode}.tar.gz", "w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            try:
                if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES or _deep(path):
                    continue
                tar.add(path, path.relative_to(folder))
            except OSError as error:
                print(f"{path} is left out: {error}", flush=True)


def _deep(path: Path) -> bool:
    """Within a folder of a bundle: raw evidence, megabytes of it."""
    return any((parent / "manifest.json").exists() for parent in list(path.parents)[1:6])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
