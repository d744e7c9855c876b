"""NCCL's variables of a profile: log level and subsystems, files, stamps, RAS."""

from __future__ import annotations

from rankmuster.environment import costs
from rankmuster.environment.draft import Draft, ProfileName
from rankmuster.environment.place import FIRST_PORT, PORTS, ras_port
from rankmuster.environment.subsystems import ALWAYS, PER_CALL, WIDER, known, subsystems_for
from rankmuster.environment.table import TABLE
from rankmuster.environment.version import Version, at_least, at_most, written

STAMP = "[%FT%T.%3f%z]_"
"""`[2026-11-30T12:00:00.123+0000] `: year and zone, so that hosts in different zones can be put in one order."""

CRASHING_RAS = ((2, 27, 7), (2, 32, 6))
"""RAS threads that are known to crash a process by themselves (NVIDIA/nccl #1996; #2346 up to 2.30.7 at least). The fix
of #1996 (PR #2406) was merged in September 2026; no release was read that surely has it."""
CRASHING_AT_INIT = ((2, 26, 2), (2, 26, 6))
"""A RAS query while a communicator is made crashes the job (#1669, #1718; fixed in 2.27.3)."""
CRASHING_STATUS = ((2, 26, 2), (2, 28, 9))
"""A RAS query with ranks missing can crash the job or answer garbage (#1762; fixed in 2.29.2)."""


def add_nccl(draft: Draft) -> None:
    """What NCCL logs, where to, and where RAS answers."""
    _log(draft)
    _stamps(draft)
    _ras(draft)


def _words(draft: Draft) -> tuple[str, ...]:
    request = draft.request
    if request.profile is ProfileName.STEADY:
        return known(ALWAYS, request.nccl)
    if request.profile is ProfileName.PREPROD:
        return known((*ALWAYS, *WIDER), request.nccl)
    return subsystems_for(request.suspect, request.nccl)


def _log(draft: Draft) -> None:
    request = draft.request
    words = _words(draft)
    per_call = [word for word in words if word in PER_CALL and word != "CALL"]  # which speaks at TRACE only
    once = f"about {costs.size_text(costs.INIT_LOG_BYTES)} per process at every init"
    draft.set("NCCL_DEBUG", "INFO", "WARN alone does not say whose communicator is whose, nor which path is used", once)
    draft.set(
        "NCCL_DEBUG_SUBSYS",
        ",".join(words),
        _why(draft),
        f"{', '.join(per_call)} write about {costs.CALL_LOG_BYTES} bytes for every call outside CUDA graphs"
        if per_call
        else "",
    )
    if "CALL" in words:
        draft.hints.append(
            "CALL lines come only with NCCL_DEBUG=TRACE. Set that for minutes and in one test, never for good: it logs "
            "every call of every rank"
        )
    if per_call:
        draft.warnings.append(
            f"NCCL logs every call ({', '.join(per_call)}): go back to `--profile steady` when the incident is over"
        )
    draft.set(
        "NCCL_DEBUG_FILE",
        request.place.log_file,
        "one file per host (%h) and process (%p); a shared one is emptied by every process that opens it",
        "it grows for the life of the process and is not rotated",
    )


def _why(draft: Draft) -> str:
    request = draft.request
    if request.profile is ProfileName.STEADY:
        return "what is written once at init, and by RAS when a peer is lost"
    if request.profile is ProfileName.PREPROD:
        return "all that is written once at init: interfaces, graph, the path of every connection"
    suspect = request.suspect.value if request.suspect else "any fault, as none was named with --class"
    return f"what tells apart: {suspect}"


def _stamps(draft: Draft) -> None:
    draft.set(
        "NCCL_DEBUG_TIMESTAMP_LEVELS", "WARN,INFO", "only WARN is stamped otherwise, and an order cannot be made of it"
    )
    draft.set("NCCL_DEBUG_TIMESTAMP_FORMAT", STAMP, "with year and zone: hosts need not be in the same one")


def _ras(draft: Draft) -> None:
    nccl = draft.request.nccl
    instance = draft.request.place.instance
    draft.set(
        "NCCL_RAS_ENABLE",
        1,
        f"RAS tells who answers and who is behind; `NCCL_RAS_ENABLE=0` turns it off ({_ras_default(nccl)})",
        "one thread and a few connections per process",
    )
    draft.set(
        "NCCL_RAS_ADDR",
        f"localhost:{ras_port(instance)}",
        f"a port of this instance's own ({FIRST_PORT} to {FIRST_PORT + PORTS - 1} by its name): two instances of one "
        "user on a node would answer for each other",
        "loopback only, since RAS asks nobody who they are",
    )
    if not TABLE["NCCL_RAS_ENABLE"].read_by(nccl):
        draft.warnings.append(f"NCCL {written(nccl)} has no RAS: dumps, logs and counters must do")
        return
    draft.warnings.extend(ras_warnings(nccl))


def _ras_default(nccl: Version) -> str:
    return "on by default" if TABLE["NCCL_RAS_ENABLE"].read_by(nccl) else "absent"


def ras_warnings(nccl: Version) -> list[str]:
    """What is known to go wrong with this version's RAS, and what to do about it."""
    found = []
    if _within(nccl, CRASHING_RAS):
        found.append(
            f"the RAS thread of NCCL {written(nccl)} is known to crash a process by itself, rarely (NVIDIA/nccl #1996: "
            "port scanners, peers that come and go). It is kept on; if a segfault in the RAS thread is seen, set "
            "NCCL_RAS_ENABLE=0"
        )
    if _within(nccl, CRASHING_AT_INIT):
        found.append("asking RAS during init crashes the job in this version; `rankmuster collect` does not ask then")
    if _within(nccl, CRASHING_STATUS):
        found.append(
            "asking RAS while ranks are missing can crash what is left of the job in this version; `rankmuster "
            "collect` takes dumps first and asks only once a stop is confirmed"
        )
    return found


def _within(version: Version, bounds: tuple[Version, Version]) -> bool:
    """Whether a version may lie between two; `2.28` stands for all of 2.28.x."""
    first, last = bounds
    return at_least(version, first[: len(version)]) and at_most(version, last)
