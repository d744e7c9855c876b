"""What is taken from a container besides its processes: which files and which port, from its ranks' own settings.
Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.adapters.kube import shell_scripts as scripts
from rankmuster.collect.collector import Assessment
from rankmuster.collect.flight.settings import read_settings
from rankmuster.collect.logs.nccl_files import STANDARD, host_part
from rankmuster.collect.ras.address import AddressUnusable, endpoint
from rankmuster.collect.ras.locate import switched_off
from rankmuster.collect.ras.policy import Action, decide
from rankmuster.collect.target import Target
from rankmuster.collect.wishes import RasRisk
from rankmuster.model.fault import Progress

MOST_PATHS = 64
"""Prefixes and files that are asked for by name: they travel in a URL."""

MOST_PIDS = 128
RAS_SECONDS = 10
"""For a report: NCCL itself waits 5 s for members that do not answer, twice."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`prefixes`: of dumps. `nccl_logs`: files. `pids`: whose mapped files say which NCCL. `ras`: the command, empty
    where it is not asked; `ras_declined` says why then."""

    prefixes: tuple[str, ...] = ()
    nccl_logs: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    smi: bool = False
    ras: tuple[str, ...] = ()
    ras_declined: str = ""


def plan_of(target: Target | None, tools: frozenset[str], risk: RasRisk, *, stopped: bool, hostname: str) -> Plan:
    """Of an instance that was found; with none only `nvidia-smi` is asked."""
    smi = "nvidia-smi" in tools
    if target is None:
        return Plan(smi=smi, ras_declined="no instance was found, so there is nobody to ask")
    prefixes: dict[str, None] = {}
    logs: dict[str, None] = {}
    for process in target.workers or target.processes:
        settings = read_settings(process.environ, None)
        prefixes |= dict.fromkeys(one for one in settings.prefixes if one.startswith("/"))
        pattern = process.environ.get("NCCL_DEBUG_FILE", "")
        if pattern.startswith("/") and pattern not in STANDARD:
            named = pattern.replace("%h", host_part(hostname)).replace("%p", str(process.inner_pid))
            logs[named.replace("%%", "%")] = None
    ras, declined = _ras(target, tools, risk, stopped=stopped)
    return Plan(
        tuple(prefixes)[:MOST_PATHS],
        tuple(logs)[:MOST_PATHS],
        tuple(process.pid for process in target.workers)[:MOST_PIDS],
        smi,
        ras,
        declined,
    )


def _ras(target: Target, tools: frozenset[str], risk: RasRisk, *, stopped: bool) -> tuple[tuple[str, ...], str]:
    """(the command, why there is none). Its release is not known here, which counts as the worst one."""
    if switched_off(target):
        return (), "NCCL_RAS_ENABLE=0 switches it off"
    seen = Assessment(
        Progress.STOPPED if stopped else Progress.UNKNOWN, None, stopped, False, "nobody has said that it has stopped"
    )
    decision = decide((), risk, seen, dumped=True, final=True)
    if decision.action is not Action.ASK:
        return (), decision.reason
    try:
        place = endpoint(target.setting("NCCL_RAS_ADDR"))
    except AddressUnusable as error:
        return (), str(error)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(place.host, place.host)  # noqa: S104  # compared, never bound
    words = (host, str(place.port), str(RAS_SECONDS))
    if "python3" in tools:
        return ("python3", "-c", scripts.RAS_PYTHON, *words), ""
    if "bash" in tools:
        return ("bash", "-c", scripts.RAS_BASH, "bash", *words), ""
    if "nc" in tools:
        return (*scripts.SHELL, scripts.RAS_NC, "sh", *words), ""
    return (), "nothing in the container can open a connection (python3, bash or nc)"
