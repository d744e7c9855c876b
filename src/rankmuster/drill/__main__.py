"""`python -m rankmuster.drill run FAULT... | list`: makes faults in real jobs and says whether they are named.

Exit status: 0 all named what happened, 1 not all, 3 bad usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from rankmuster.collect.wishes import RasRisk
from rankmuster.drill.faults import FAULTS, fault_named
from rankmuster.drill.job import WORKER
from rankmuster.drill.plan import Backend
from rankmuster.drill.result import DrillResult, table
from rankmuster.drill.run import RAS_PORT, START_SECONDS, Collect, Order, collect_by_command, run

BAD_USAGE = 3
RESULTS = "results.jsonl"


def main(arguments: list[str], *, collect: Collect | None = None, worker: Sequence[str] = WORKER) -> int:
    """Runs one command line. `collect`, `worker`: another way to take the evidence, another program as each rank."""
    options = _parser().parse_args(arguments)
    if options.command == "list":
        sys.stdout.write(catalogue())
        return 0
    try:
        collects = {"": collect} if collect is not None else _collects(options.ras_risk, options.collect_option)
        orders = [replace(order, worker=worker) for order in _orders(options)]
        for order in orders:
            order.job_plan()
        output: Path = options.output
        output.mkdir(parents=True, exist_ok=True)
        if any(output.iterdir()):
            raise ValueError(f"{output} is not empty; give a new folder, so that nothing earlier is taken for a result")
    except (ValueError, OSError) as error:
        sys.stderr.write(f"rankmuster.drill: {error}\n")
        return BAD_USAGE
    results: list[DrillResult] = []
    for order in orders:
        found = run(order, collects, output / order.fault.name)
        results += found
        with (output / RESULTS).open("a", encoding="utf-8") as lines:
            lines.writelines(result.to_json() + "\n" for result in found)
        sys.stdout.write(table(found))
        sys.stdout.flush()
    if len(orders) > 1:
        sys.stdout.write("\n" + table(results))
    return 0 if all(result.right for result in results) else 1


def catalogue() -> str:
    """All faults, and what is right to say of each."""
    lines = []
    for fault in FAULTS.values():
        lines.append(f"{fault.name}: {fault.summary}\n")
        for backend, truth in fault.truths.items():
            why = f" ({truth.why})" if truth.why else ""
            lines.append(f"    {backend.value}: {truth.in_words}; culprit {truth.naming.value}{why}\n")
    return "".join(lines)


class _Parser(argparse.ArgumentParser):
    """Its own exit status for bad usage would be 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(BAD_USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m rankmuster.drill", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the faults there are")
    one = commands.add_parser("run", help="make faults, one job after the other")
    one.add_argument("faults", nargs="+", metavar="FAULT", help="names, or all")
    backends = "|".join(backend.value for backend in Backend)
    one.add_argument(
        "--backend", type=Backend, default=Backend.GLOO, metavar=backends, help="gloo needs no GPU (default)"
    )
    one.add_argument("--ranks", type=int, default=4, metavar="N", help="one a GPU with nccl; 4 by default")
    one.add_argument("--culprit", type=int, metavar="RANK", help="the rank that has the fault; else the last but one")
    one.add_argument("--graph", action="store_true", help="replay the step as a CUDA graph")
    one.add_argument(
        "--ras-risk",
        default="",
        metavar="SETTINGS",
        help="settings of collect, by commas; each is tried on the same job",
    )
    one.add_argument(
        "--collect-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="more for collect (--collect-option=--x)",
    )
    one.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="more for the ranks")
    one.add_argument(
        "--settle", type=float, metavar="SECONDS", help="seconds from the fault to the first look; else the fault's own"
    )
    one.add_argument("--start-seconds", type=float, default=START_SECONDS, metavar="SECONDS", help="for a job to serve")
    one.add_argument("--ras-port", type=int, default=RAS_PORT, metavar="PORT", help="of the first job")
    one.add_argument(
        "--output", type=Path, required=True, metavar="FOLDER", help="a new folder for jobs, bundles and results"
    )
    return parser


def _orders(options: argparse.Namespace) -> list[Order]:
    backend: Backend = options.backend
    named = [name for name in FAULTS if backend in FAULTS[name].truths] if options.faults == ["all"] else options.faults
    return [
        Order(
            fault_named(name),
            backend,
            options.ranks,
            culprit=options.culprit,
            graph=options.graph,
            ras_port=options.ras_port + index,
            settle_seconds=options.settle,
            start_seconds=options.start_seconds,
            extra=dict(_variable(text) for text in options.env),
        )
        for index, name in enumerate(dict.fromkeys(named))
    ]


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"--env {text!r} is not NAME=VALUE")
    return name, value


def _collects(risks: str, more: list[str]) -> Mapping[str, Collect]:
    named = [risk for risk in risks.split(",") if risk]
    known = [risk.value for risk in RasRisk]
    if strange := set(named) - set(known):
        raise ValueError(f"--ras-risk {', '.join(sorted(strange))}: there are {', '.join(known)}")
    wanted = [RasRisk(risk) for risk in named]
    if not wanted:
        return {"": collect_by_command(*more)}
    return {f"ras_risk={risk.value}": collect_by_command("--ras-risk", risk.value, *more) for risk in wanted}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
