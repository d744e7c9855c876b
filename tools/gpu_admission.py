"""What `rankmuster admit` says on real GPUs: a history, healthy runs, and five faults, each of which has to be refused.

    python tools/gpu_admission.py --out FOLDER --history 24 --healthy 20

It runs the command itself, as an operator would, in fresh processes: `bench run` until the history is long enough,
then `admit` on the untouched node, then `admit` with one thing wrong at a time - peer-to-peer off, two channels, LL
forced, another job on the same GPUs, a kernel that keeps one GPU busy. `FOLDER/summary.json` holds what came back; the
raw records lie beside it. Needs torch with CUDA and at least two GPUs. Nothing about the GPUs is set.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

COMMAND = [sys.executable, "-c", "from rankmuster.cli.main import run; run()"]

CONTENDER = """
import os, sys, time
import torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["RANK"]))
dist.init_process_group("nccl")
x = torch.ones(16 << 20, device="cuda")
while True:
    for _ in range(20):
        dist.all_reduce(x); x.fill_(1.0)
    torch.cuda.synchronize()
"""

BUSY = """
import torch
x = torch.randn(8192, 8192, device="cuda:%d", dtype=torch.bfloat16)
while True:
    for _ in range(50):
        y = x @ x
    torch.cuda.synchronize()
"""

FAULTS: dict[str, list[str]] = {
    "peer-to-peer-off": ["--env", "NCCL_P2P_DISABLE=1"],
    "two-channels": ["--env", "NCCL_MAX_NCHANNELS=2"],
    "ll-forced": ["--env", "NCCL_PROTO=LL"],
    "contending-job": [],
    "busy-kernel": [],
}


@contextmanager
def beside(name: str, gpus: int):
    """The foreign work of a fault, ended when the block ends."""
    started: list[subprocess.Popen[bytes]] = []
    if name == "contending-job":
        import os

        for rank in range(gpus):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(gpus)}
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611"}
            started.append(subprocess.Popen([sys.executable, "-c", CONTENDER], env=env))
    elif name == "busy-kernel":
        started.append(subprocess.Popen([sys.executable, "-c", BUSY % (gpus - 1)]))
    if started:
        time.sleep(20)  # until it works: importing torch and the first collective take some seconds
    try:
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def call(arguments: list[str], log: Path, limit_s: float = 240) -> tuple[int, float]:
    """Exit status and seconds of one command; what it says on the way goes to `log`."""
    began = time.monotonic()
    with log.open("ab") as sink:
        sink.write(f"\n$ rankmuster {' '.join(arguments)}\n".encode())
        sink.flush()
        try:
            status = subprocess.run([*COMMAND, *arguments], stdout=sink, stderr=sink, timeout=limit_s).returncode
        except subprocess.TimeoutExpired:
            status = 124
    return status, round(time.monotonic() - began, 1)


def admit(name: str, args: argparse.Namespace, extra: list[str], log: Path) -> dict[str, object]:
    """One admission, its record beside the summary."""
    record = args.out / f"{name}.json"
    arguments = ["admit", "--profile", args.profile, "--tool", "built-in", "--history", str(args.out / "history.db")]
    arguments += ["--no-store", "--format", "json", "--output", str(record), *args.image, *args.always, *extra]
    status, seconds = call(arguments, log)
    said: dict[str, object] = {"name": name, "status": status, "seconds": seconds}
    if record.exists():
        document = json.loads(record.read_text())
        said |= {key: document.get(key) for key in ("decision", "reasons", "retests", "kinship", "notes")}
    print(json.dumps(said), flush=True)
    return said


def main() -> int:
    """Exit status 0 only if every healthy run passed and every fault was refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--history", type=int, default=24, help="runs that make the history")
    parser.add_argument("--healthy", type=int, default=20, help="healthy admissions after it")
    parser.add_argument("--profile", default="links")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for every run; may repeat")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--seconds", type=float, default=1e9, help="start nothing new after these")
    args = parser.parse_args()
    args.image = ["--image-digest", "none"]
    args.always = [word for pair in args.env for word in ("--env", pair)]
    args.out.mkdir(parents=True, exist_ok=True)
    log = args.out / "log.txt"
    ends = time.monotonic() + args.seconds
    fingerprint = args.out / "fingerprint.yaml"
    status, seconds = call(["fingerprint", "--profile", args.profile, *args.image, "--output", str(fingerprint)], log)
    print(json.dumps({"name": "fingerprint", "status": status, "seconds": seconds}), flush=True)
    said: list[dict[str, object]] = []
    for number in range(args.history):
        if time.monotonic() > ends:
            break
        run = args.out / f"run-{number:02d}.json"
        arguments = ["bench", "run", "--profile", args.profile, "--tool", "built-in"]
        status, seconds = call([*arguments, *args.always, "--format", "json", "--output", str(run)], log)
        database = ["--history", str(args.out / "history.db")]
        added, _ = call(
            ["history", "add", str(run), "--profile", args.profile, "--fingerprint", str(fingerprint), *database], log
        )
        said.append({"name": f"run-{number:02d}", "status": status, "added": added, "seconds": seconds})
        print(json.dumps(said[-1]), flush=True)
    refused = []
    for name in [fault for fault in args.faults.split(",") if fault]:
        with beside(name, args.gpus):
            refused.append(admit(name, args, FAULTS[name], log))
    passed = []
    for number in range(args.healthy):
        if time.monotonic() > ends:
            break
        passed.append(admit(f"healthy-{number:02d}", args, [], log))
    (args.out / "summary.json").write_text(json.dumps({"runs": said, "faults": refused, "healthy": passed}, indent=1))
    right = all(one["status"] == 1 for one in refused) and all(one["status"] == 0 for one in passed)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
