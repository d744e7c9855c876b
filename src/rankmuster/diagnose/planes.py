"""What each plane did: spoke, was silent, or is blind to what matters here (DESIGN, "Planes")."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankmuster.diagnose import traffic
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.departed import departed
from rankmuster.diagnose.finding import counted, quoted
from rankmuster.diagnose.spin import Doing, picture, rates
from rankmuster.model.fault import Progress
from rankmuster.model.frameworklog import (
    CollectiveFingerprint,
    CudaError,
    EngineWatchdog,
    LogSpan,
    OutOfMemory,
    PythonException,
    SignalDeath,
    StoreError,
    TrafficPath,
    WorkerDeath,
)
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.kernel import GpuUuid, KernelEvent, OomKill, ServiceEvent, SXid, Xid
from rankmuster.model.nccllog import NcclInit, NcclLogFile, NcclPerformance
from rankmuster.model.node import NodeState
from rankmuster.model.plane import Plane, PlaneReport, PlaneState
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.topology import GpuFacts, NvlinkStatus, RdmaPort, TopologyMatrix

TROUBLE: tuple[type, ...] = (
    StoreError,
    PythonException,
    OutOfMemory,
    CudaError,
    SignalDeath,
    WorkerDeath,
    EngineWatchdog,
    CollectiveFingerprint,
)
"""What a log without stamps (no span) can still say."""


COLLECTORS = {plane.value: plane for plane in Plane} | {
    "nccl": Plane.NCCL_LOG,
    "logs": Plane.FRAMEWORK_LOG,
    "gpu": Plane.HARDWARE,
    "gpu-counters": Plane.HARDWARE,
    "metrics": Plane.ENGINE,
    "flight-http": Plane.FLIGHT,
}
"""Collectors by the names that manifests give them: a plane's own, or that of its place in the bundle."""

WENT_WELL = frozenset({"answered", "collected", "ok", "done", "success", "partial"})
NOT_ASKED = frozenset({"declined"})


def report(context: Context, progress: Progress) -> tuple[PlaneReport, ...]:
    """One row per plane, in the order of DESIGN."""
    used = traffic.paths(context)
    rows = (
        _topology(context),
        _ras(context, used),
        _flight(context, used, progress),
        _nccl_log(context),
        _framework_log(context),
        _kernel(context),
        _hardware(context),
        _engine(context),
        _platform(context),
    )
    asked = _outcomes(context)
    return tuple(_with_outcome(row, asked.get(row.plane)) for row in rows)


def _outcomes(context: Context) -> dict[Plane, str]:
    """Why the collectors of each plane brought nothing; of several (one a node, as `ras@host`) the first to fail."""
    reasons: dict[Plane, str] = {}
    for manifest in context.evidence.of(ManifestFacts):
        for collector, outcome in manifest.outcomes.items():
            plane = COLLECTORS.get(collector.lower().partition("@")[0])
            if plane is None or outcome.lower() in WENT_WELL:
                continue
            note = manifest.notes.get(collector)
            why = quoted(note if note is not None else outcome)
            asked = "not asked" if outcome.lower() in NOT_ASKED else "asked in vain, its collector says"
            reasons.setdefault(plane, f"{asked}: {why}")
    return reasons


def _with_outcome(row: PlaneReport, reason: str | None) -> PlaneReport:
    """A plane that was asked in vain, or not asked, is silent for the reason that its collector gives."""
    if reason is None or row.state is not PlaneState.SILENT:
        return row
    return replace(row, note=f"{reason} ({row.note})")


def _row(plane: Plane, spoke: bool, note: str, missing: str) -> PlaneReport:
    return PlaneReport(plane, PlaneState.SPOKE if spoke else PlaneState.SILENT, note if spoke else missing)


def _topology(context: Context) -> PlaneReport:
    count = sum(len(context.evidence.of(kind)) for kind in (TopologyMatrix, NvlinkStatus, GpuFacts, RdmaPort))
    return _row(
        Plane.TOPOLOGY, bool(count), counted(count, "captured output"), "no captured nvidia-smi, ibv or sysfs output"
    )


def _ras(context: Context, used: tuple[TrafficPath, ...]) -> PlaneReport:
    answered = [poll for poll in context.polls if poll.answered]
    if not answered:
        if context.corrupt_polls:
            reasons = "; ".join(context.corrupt_polls[0].corrupt[:2])
            return PlaneReport(Plane.RAS, PlaneState.SILENT, f"the reply is corrupt and not believed: {reasons}")
        if context.polls:
            return PlaneReport(Plane.RAS, PlaneState.SILENT, f"asked {counted(len(context.polls), 'time')}, no answer")
        return PlaneReport(Plane.RAS, PlaneState.SILENT, "no RAS reply in the evidence")
    if not any(poll.communicators or poll.groups for poll in answered):
        return PlaneReport(
            Plane.RAS,
            PlaneState.BLIND,
            f"{counted(len(answered), 'poll')}, no communicator yet: RAS sees nothing before init",
        )
    note = counted(len(answered), "poll")
    unanswered = len(context.polls) - len(answered)
    if unanswered:
        note += f", {unanswered} more {'was' if unanswered == 1 else 'were'} not answered"
    unseen = traffic.names(traffic.INVISIBLE_TO_RAS, used)
    if context.corrupt_polls:
        note += f", {len(context.corrupt_polls)} more corrupt and not believed"
    if unseen:
        note += f"; it does not count {unseen}"
    return PlaneReport(Plane.RAS, PlaneState.SPOKE, note)


def _flight(context: Context, used: tuple[TrafficPath, ...], progress: Progress) -> PlaneReport:
    facts = list(context.dump_facts.values())
    unseen = traffic.names(traffic.INVISIBLE_TO_FLIGHT, used)
    if not facts:
        return PlaneReport(
            Plane.FLIGHT,
            PlaneState.SILENT,
            "no dump in the evidence" + (f"; it would not see {unseen}" if unseen else ""),
        )
    stale = [item.rank for item in facts if item.stale]
    if not any(item.entries for item in facts):
        return PlaneReport(
            Plane.FLIGHT,
            PlaneState.SILENT,
            f"{counted(len(facts), 'dump')} without an entry: no collective was enqueued yet, or the recorder's buffer "
            "size is 0",
        )
    waiting = any(head is not None for head in context.table.heads.values())
    if progress is Progress.STOPPED and not waiting:
        return PlaneReport(
            Plane.FLIGHT,
            PlaneState.BLIND,
            f"{counted(len(facts), 'dump')} and nothing outstanding in them: the stop is in traffic it does not record"
            + (f" ({unseen})" if unseen else " (CUDA graphs, communicators outside ProcessGroupNCCL)"),
        )
    note = f"dumps of {len(facts)} of {context.roster.world_size or len(facts)} ranks"
    if stale:
        note += f", {len(stale)} of them of another run"
    if unseen:
        note += f"; it does not see {unseen}"
    return PlaneReport(Plane.FLIGHT, PlaneState.SPOKE, note)


def _nccl_log(context: Context) -> PlaneReport:
    files = context.evidence.of(NcclLogFile)
    note = counted(len(files), "log")
    holes = sum(file.hole for file in files)
    if holes:
        note += f", {holes} of them with a hole (rotation)"
    if files and not context.evidence.of(NcclInit):
        note += ", no init lines"
    measured = len(context.evidence.of(NcclPerformance))
    if measured:
        note += f", {counted(measured, 'collective')} measured by NCCL's Inspector"
    return _row(Plane.NCCL_LOG, bool(files or measured), note, "no NCCL_DEBUG output in the evidence")


def _framework_log(context: Context) -> PlaneReport:
    spans = context.evidence.of(LogSpan)
    said = sum(len(context.evidence.of(kind)) for kind in TROUBLE)
    note = f"{counted(len(spans), 'log')}, {counted(len(context.timeouts), 'watchdog time-out')}"
    if said:
        note += f", {counted(said, 'report')} of trouble"
    spoke = bool(spans or context.timeouts or said)
    return _row(Plane.FRAMEWORK_LOG, spoke, note, "no framework or engine log in the evidence")


def _kernel(context: Context) -> PlaneReport:
    kinds = (Xid, SXid, OomKill, KernelEvent, ServiceEvent, GpuUuid)
    count = sum(len(context.evidence.of(kind)) for kind in kinds)
    earlier = len(context.bygone.events) if context.bygone is not None else 0
    note = counted(count, "event") + (f", {earlier} more from before the instance's start" if earlier else "")
    return _row(Plane.KERNEL, bool(count or earlier), note, "no kernel log with an event in the evidence")


def _hardware(context: Context) -> PlaneReport:
    count = len(context.tracks) + len(context.stray_tracks)
    note = f"samples of {counted(count, 'GPU')}"
    if context.stray_tracks:
        note += f", {len(context.stray_tracks)} of them not tied to a rank"
    foreign = picture(context).ranks(Doing.FOREIGN)
    if foreign:
        note += f"; silent for {ranks_text(foreign)}: a process outside the instance runs there too"
    tracks = (*context.tracks.values(), *context.stray_tracks)
    if count and not any(bool(np.isfinite(rates(track)).any()) for track in tracks):
        return PlaneReport(Plane.HARDWARE, PlaneState.SILENT, f"{note}, without link byte counters over time")
    if count and len(foreign) == count:
        return PlaneReport(Plane.HARDWARE, PlaneState.SILENT, note)
    return _row(Plane.HARDWARE, bool(count), note, "no GPU samples in the evidence")


def _engine(context: Context) -> PlaneReport:
    timed = [time for page in context.pages if (time := context.time(page.time)) is not None]
    note = counted(len(context.pages), "metrics page")
    if not context.pages:
        return PlaneReport(Plane.ENGINE, PlaneState.SILENT, "no metrics page in the evidence")
    if not timed:
        return PlaneReport(Plane.ENGINE, PlaneState.SILENT, f"{note} without a time")
    if len(context.pages) == 1:
        note = "1 metrics page: load at one moment, and no progress"
    streams = [stream for page in context.pages for stream in page.streams]
    loaded = any((stream.running or 0) + (stream.waiting or 0) > 0 for stream in streams)
    if loaded and not any(stream.steps for stream in streams):
        what = "its counters move only when requests end, so that a stop does not show"
        return PlaneReport(Plane.ENGINE, PlaneState.BLIND, f"{note}; {what}")
    end = context.window[1]
    if end is not None and end - max(timed) > context.limits.stale_page_seconds:
        note += f", the last one {end - max(timed):.0f} s before the end of the evidence"
    return PlaneReport(Plane.ENGINE, PlaneState.SPOKE, note)


def _platform(context: Context) -> PlaneReport:
    facts = context.facts
    listed = len(facts.processes) if facts else 0
    left = departed(context)
    ended = sum(p.exit_code is not None or p.rank in left for p in facts.processes) if facts else 0
    note = f"{counted(listed, 'process', 'processes')}, {ended} ended"
    watched = sum(len(state.tasks) for state in context.evidence.of(NodeState))
    if watched:
        seen = f"{counted(watched, 'process', 'processes')} seen from outside"
        note = f"{note}; {seen}" if listed else seen
    return _row(Plane.PLATFORM, listed + watched > 0, note, "no instance.json with processes")
