"""Programs that stand in for nccl-tests': small scripts that print, write, hang and die as the real ones do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv")

SCRIPT = """#!{python} -SE
import json, os, signal, subprocess, sys, time
sys.path.insert(0, {tests!r})
from nccl_tests_sample import NEW, MIDDLE, average, count_of, factor, output, redop_of, root_of

operation = os.path.basename(__file__).removesuffix("_perf")
behaviour = json.load(open(__file__ + ".json"))
given = sys.argv[1:]
with open(os.path.join(os.path.dirname(__file__), "starts.jsonl"), "a") as log:
    log.write(json.dumps([operation, given, dict(os.environ)]) + "\\n")
known = behaviour["options"]
OPTIONAL = {{"-J": "output_file <file>", "-I": "per_iter_timing <0/1>", "-T": "timeout <time>", "-G": "cudagraph <n>"}}


def usage():
    print("USAGE: %s \\n\\t[-t,--nthreads <num threads>] \\n\\t[-b,--minbytes <min size in bytes>] " % operation)
    for option in known:
        print("\\t[%s,--%s] " % (option, OPTIONAL[option]))
    sys.exit(0)


if "-h" in given or any(option in given for option in OPTIONAL if option not in known):
    usage()
option = dict(zip(given[0::2], given[1::2]))
if int(option["-g"]) > behaviour["gpus"]:
    print("# Using devices")
    print("Invalid number of GPUs: %s requested but only %d were found." % (option["-g"], behaviour["gpus"]))
    sys.exit(6)
kind = behaviour.get(operation, behaviour["kind"])
if kind == "hang":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("# Collective test starting: %s_perf" % operation, "child", child.pid, flush=True)
    time.sleep(600)
if kind == "flood":
    while True:
        sys.stdout.write("NCCL INFO again\\n" * 10000)
ranks, least, most = int(option["-g"]), int(option["-b"]), int(option["-e"])
sizes = [least]
while sizes[-1] < most:
    sizes.append(sizes[-1] * int(option["-f"]) if "-f" in option else sizes[-1] + int(option["-i"]))
sizes = [size // (16 * ranks) * 16 * ranks for size in sizes]
reduced = behaviour.get("memory", most)
sizes = [size for size in sizes if size <= reduced]
option["-d"] = behaviour.get("dtype", option["-d"])
step = "%s(factor)" % option["-f"] if "-f" in option else "%s(bytes)" % option["-i"]
settings = "# nThread 1 nGpus %d minBytes %d maxBytes %d step: %s warmup iters: %s iters: %s agg iters: 1 " % (
    ranks, least, most, step, option["-w"], option["-n"])
settings += "validation: 1 graph: %s" % option.get("-G", 0)
if reduced < most:
    settings += "\\n# Reducing maxBytes to %d due to memory limitation" % reduced
text = output(operation, ranks=ranks, sizes=sizes, dtype=option["-d"], timed="-I" in option, settings=settings,
              wrong=behaviour.get("wrong", "0"), inside="N/A" if operation in ("alltoall", "sendrecv") else None)
if "NCCL_DEBUG_FILE" in os.environ:
    host = "node01:%d:%d [0] NCCL INFO " % (os.getpid(), os.getpid())
    lines = ["NCCL version 2.28.9+cuda12.9", host + "Channel 00/24 : 0[0] -> 1[1] via P2P/CUMEM",
             host + "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels",
             host + "Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1"]
    if "TUNING" in os.environ["NCCL_DEBUG_SUBSYS"]:
        name = {{"all_reduce": "AllReduce", "all_gather": "AllGather"}}.get(operation, "SendRecv")
        lines += [host + "%s: %d Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..15}}" % (name, size)
                  for size in sizes]
    path = os.environ["NCCL_DEBUG_FILE"].replace("%h", "node01").replace("%p", str(os.getpid()))
    open(path, "w").write("\\n".join(lines) + "\\n")
if "-J" in option and kind != "ignores -J":
    half = lambda size: {{"time": 10 + size / 300000, "alg_bw": size / (10 + size / 300000) / 1000, "nwrong": 0.0,
                         "bus_bw": size / (10 + size / 300000) / 1000 * factor(operation, ranks)}}
    timing = {{"min_us": 9.0, "max_us": 15.0, "p50_us": 10.0, "p99_us": 14.0, "cv_pct": 5.25,
              "times_us": [9.0, 10.0, 15.0]}}
    document = {{"version": 3, "args": sys.argv, "env": ["%s=%s" % pair for pair in os.environ.items()],
                "nccl_version": 22809, "config": {{"nthreads": 1, "ngpus": ranks, "minimum_bytes": least,
                "maximum_bytes": reduced if reduced < most else most,
                "step_factor" if "-f" in option else "step_bytes": int(option.get("-f") or option["-i"]),
                "devices": [{{"rank": 0, "group": 0, "pid": os.getpid(), "hostname": "node01", "device": 0}}],
                "validation": 1, "graph": int(option.get("-G", 0))}},
                "results": [{{"size": size, "count": count_of(operation, size, ranks, option["-d"]),
                             "type": option["-d"],
                             "redop": redop_of(operation), "root": str(root_of(operation)),
                             "out_of_place": half(size), "out_of_place_per_iter": timing, "in_place": half(size)}}
                            for size in sizes],
                "out_of_bounds": {{"count": 0, "okay": "true"}},
                "average_bus_bandwidth": {{"bandwidth": average(operation, ranks, sizes), "okay": "unchecked"}},
                "errors": [""], "end_time": ""}}
    written = json.dumps(document, indent=1)
    open(option["-J"], "w").write(written[: len(written) // 2] if kind == "cut json" else written)
if kind == "cut mid-row":
    sys.stdout.write(text[: text.rindex("     float") + 60 if "     float" in text else text.rindex("bfloat16") + 50])
elif kind == "dies":
    sys.stdout.write(text[: text.index("# Out of bounds")])
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGSEGV)
else:
    sys.stdout.write(text)
    sys.stdout.flush()
    if kind == "dies after":
        os.kill(os.getpid(), signal.SIGABRT)
    sys.exit(behaviour.get("status", 0))
"""


def install(folder: Path, **behaviour: Any) -> Path:
    """All programs in a new folder, with one behaviour; of `kind`, or by an operation's name its own kind."""
    folder.mkdir(parents=True)
    told = {"kind": "well", "gpus": 4, "options": ["-J", "-I", "-T", "-G"]} | behaviour
    for name in NAMES:
        program = folder / f"{name}_perf"
        program.write_text(SCRIPT.format(python=sys.executable, tests=str(Path(__file__).parent)))
        program.chmod(0o755)
        (folder / f"{name}_perf.json").write_text(json.dumps(told))
    return folder


def starts(folder: Path) -> list[tuple[str, list[str], dict[str, str]]]:
    """Every start of a program in the folder: operation, arguments, environment; without `-h` and counting of GPUs."""
    lines = [json.loads(line) for line in (folder / "starts.jsonl").read_text().splitlines()]
    return [(name, given, environ) for name, given, environ in lines if "-c" in given]
