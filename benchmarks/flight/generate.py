"""Writes a synthetic job's dumps into a folder.

    python -m benchmarks.flight.generate OUT --tp 8 --pp 4 --dp 32 --ep 8 --fault dead

OUT/input is the bundle (flight/, manifest.json), OUT/truth.json says what is wrong. The same options give the same
bytes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from benchmarks.flight import world
from benchmarks.flight.settings import Backend, Fault, FaultKind, Form, Look, Settings, Style, Where

_ENUMS: dict[str, type[Enum]] = {"style": Style, "form": Form, "backend": Backend, "look": Look}


def write(made: world.World, out: Path, ranks: Iterable[int] | None = None, processes: int = 1) -> int:
    """Writes the bundle and the truth (or the dumps of `ranks` only); bytes of dumps written."""
    flight = out / "input" / "flight"
    flight.mkdir(parents=True, exist_ok=True)
    manifest = made.manifest()
    if manifest is not None:
        (out / "input" / "manifest.json").write_text(json.dumps(manifest))
    (out / "truth.json").write_text(json.dumps(made.truth.plain(), indent=1))
    wanted = set(made.ranks_with_dump) & set(ranks if ranks is not None else range(made.job.ranks))
    listed = sorted(wanted)
    if processes <= 1 or len(listed) < 64:
        return _write_some(made, flight, listed)
    # A fork shares the played job; the dumps are written to disk by whoever made them.
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=_write_some, args=(made, flight, listed[number::processes]))
        for number in range(processes)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    if any(child.exitcode for child in children):
        raise RuntimeError(f"a writer failed: exit codes {[child.exitcode for child in children]}")
    return sum((flight / f"nccl_trace_rank_{rank}").stat().st_size for rank in listed)


def _write_some(made: world.World, flight: Path, ranks: list[int]) -> int:
    total = 0
    for rank in ranks:
        data = made.dump(rank)
        (flight / f"nccl_trace_rank_{rank}").write_bytes(data)
        total += len(data)
    return total


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    defaults = Settings()
    for name in ("tp", "pp", "dp", "ep", "layers", "entries", "frames", "ahead", "timeout_ms", "ranks_per_host"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(defaults, name))
    for name in ("missing", "stale", "damaged", "older", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--version", default=defaults.version)
    for name in ("clock_offset_s", "look_spread_s"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(defaults, name))
    for name in ("wrapped", "timing", "only_active", "hashed", "gaps", "look_times", "ahead_differs", "world_messages"):
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=getattr(defaults, name))
    for name, kinds in _ENUMS.items():
        default = None if name == "look" else getattr(defaults, name)
        parser.add_argument(f"--{name}", choices=[kind.value for kind in kinds], default=default and default.value)
    parser.add_argument("--fault", choices=[kind.value for kind in FaultKind], default="none")
    parser.add_argument("--fault-rank", type=int, default=None)
    parser.add_argument("--fault-where", choices=[where.value for where in Where], default="any")
    parser.add_argument("--fault-since", type=float, default=0.0)
    parser.add_argument("--fault-tolerated", type=int, default=0)
    parser.add_argument("--fault-slow-us", type=int, default=Fault().slow_us)
    parser.add_argument("--only-ranks", default=None, help="e.g. 0-7: write these dumps only (one node's)")
    return parser


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that options name. A job without a stopping fault is looked at live unless told otherwise."""
    given: dict[str, Any] = {
        name: value
        for name, value in vars(options).items()
        if name in Settings.__dataclass_fields__ and name != "fault"
    }
    for name, kinds in _ENUMS.items():
        if given[name] is not None:
            given[name] = kinds(given[name])
    fault = Fault(
        FaultKind(options.fault),
        options.fault_rank,
        Where(options.fault_where),
        options.fault_since,
        options.fault_tolerated,
        options.fault_slow_us,
    )
    if given["look"] is None:
        moving = fault.kind in (FaultKind.NONE, FaultKind.SLOW, FaultKind.SLOW_TAIL)
        given["look"] = Look.LIVE if moving else Look.HUNG
    return Settings(**given, fault=fault)


def command_of(job: Settings) -> str:
    """The options that make `job`, to be run again by hand."""
    plain, words = Settings(), []
    for name in Settings.__dataclass_fields__:
        value, default = getattr(job, name), getattr(plain, name)
        if name == "fault" or (value == default and name != "look"):
            continue
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{flag}")
        else:
            words.append(f"--{flag} {value.value if isinstance(value, Enum) else value}")
    fault, usual = job.fault, Fault()
    words.append(f"--fault {fault.kind.value}")
    words += [
        f"--fault-{name.replace('_', '-')} {value.value if isinstance(value, Enum) else value}"
        for name in ("rank", "where", "since", "tolerated", "slow_us")
        if (value := getattr(fault, name)) != getattr(usual, name)
    ]
    return "python -m benchmarks.flight.generate OUT " + " ".join(words)


def main() -> None:
    options = _parser().parse_args()
    job = settings_of(options)
    start = time.perf_counter()
    made = world.make(job)
    ranks = None
    if options.only_ranks:
        first, _, last = options.only_ranks.partition("-")
        ranks = range(int(first), int(last or first) + 1)
    total = write(made, options.out, ranks, processes=os.cpu_count() or 1)
    seconds = time.perf_counter() - start
    print(f"{options.out}: {job.ranks} ranks, {total / 1e6:.1f} MB of dumps, {seconds:.1f} s; {made.truth}")


if __name__ == "__main__":
    main()
