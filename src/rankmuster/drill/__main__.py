"""`python -m rankmuster.drill run FAULT... | watch FAULT... | incident FAULT... | list`: makes faults in real jobs.

`run` says whether they are named, `watch` whether a watch beside the job tells them in time, and nothing else, and
`incident` whether a served engine is rebuilt in time, its evidence saved and no request lost.
Exit status: 0 all was right, 1 not all, 3 bad usage.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from rankmuster.collect.wishes import RasRisk
from rankmuster.drill.apart import forget
from rankmuster.drill.controls import QUIET
from rankmuster.drill.faults import FAULTS, fault_named
from rankmuster.drill.incident_command import add_incident_options, incidents_of
from rankmuster.drill.job import WORKER
from rankmuster.drill.job_options import add_job_options, variable
from rankmuster.drill.plan import Backend
from rankmuster.drill.result import DrillResult, table
from rankmuster.drill.run import Collect, Order, collect_by_command, run
from rankmuster.drill.watch_command import add_options, runs_of
from rankmuster.drill.watcher import WATCH

BAD_USAGE = 3
RESULTS = "results.jsonl"


def main(
    arguments: list[str],
    *,
    collect: Collect | None = None,
    worker: Sequence[str] = WORKER,
    watch: Sequence[str] = WATCH,
) -> int:
    """Runs one command line. `collect`, `worker`, `watch`: another way to take the evidence, another program as each
    rank, and as the watch."""
    options = _parser().parse_args(arguments)
    forget()
    if options.command == "list":
        sys.stdout.write(catalogue())
        return 0
    if options.command == "watch":
        return _watch(options, worker, watch)
    if options.command == "incident":
        return _incident(options)
    try:
        collects = {"": collect} if collect is not None else _collects(options.ras_risk, options.collect_option)
        orders = [replace(order, worker=worker) for order in _orders(options)]
        for order in orders:
            order.job_plan()
        output = _new(options.output)
    except (ValueError, OSError) as error:
        return _refused(error)
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


def _watch(options: argparse.Namespace, worker: Sequence[str], watch: Sequence[str]) -> int:
    try:
        runs = runs_of(options, worker, watch)
        output = _new(options.output)
    except (ValueError, OSError) as error:
        return _refused(error)
    return 0 if runs.run(output) else 1


def _incident(options: argparse.Namespace) -> int:
    try:
        incidents = incidents_of(options)
        output = _new(options.output)
    except (ValueError, OSError) as error:
        return _refused(error)
    return 0 if incidents.run(output) else 1


def _new(output: Path) -> Path:
    """The folder, made. Raises ValueError when there is something in it, OSError when it cannot be made."""
    output.mkdir(parents=True, exist_ok=True)
    if any(output.iterdir()):
        raise ValueError(f"{output} is not empty; give a new folder, so that nothing earlier is taken for a result")
    return output


def _refused(error: Exception) -> int:
    sys.stderr.write(f"rankmuster.drill: {error}\n")
    return BAD_USAGE


def catalogue() -> str:
    """All faults, and what is right to say of each; then the controls of a watch."""
    lines = []
    for fault in FAULTS.values():
        lines.append(f"{fault.name}: {fault.summary}\n")
        for backend, truth in fault.truths.items():
            why = f" ({truth.why})" if truth.why else ""
            lines.append(f"    {backend.value}: {truth.in_words}; culprit {truth.naming.value}{why}\n")
    lines += [f"control {quiet.name}: {quiet.summary}\n" for quiet in QUIET.values()]
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
    add_job_options(one)
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
    one.add_argument(
        "--settle", type=float, metavar="SECONDS", help="seconds from the fault to the first look; else the fault's own"
    )
    watch = commands.add_parser("watch", help="make faults and controls beside a real `rankmuster watch`")
    add_job_options(watch)
    add_options(watch)
    incident = commands.add_parser("incident", help="make faults in a served engine, and see it rebuilt")
    add_job_options(incident)
    add_incident_options(incident)
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
            extra=dict(variable(text) for text in options.env),
        )
        for index, name in enumerate(dict.fromkeys(named))
    ]


def _collects(risks: str, more: list[str]) -> Mapping[str, Collect]:
    named = [risk for risk in risks.split(",") if risk]
    known = [risk.value for risk in RasRisk]
    if strange := set(named) - set(known):
        raise ValueError(f"--ras-risk {', '.join(sorted(strange))}: there are {', '.join(known)}")
    wanted = [RasRisk(risk) for risk in named]
    if not wanted:
        return {"": collect_by_command(*more)}
    return {f"ras_risk={risk.value}": collect_by_command("--ras-risk", risk.value, *more) for risk in wanted}


def _end(number: int, _: object) -> None:
    """As Ctrl-C does: what a drill has started, it ends."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    for one in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(one) is not signal.SIG_IGN:  # of nohup
            signal.signal(one, _end)
    sys.exit(main(sys.argv[1:]))
