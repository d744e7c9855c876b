"""The answer about drift in one line, and which of the three answers it is."""

from __future__ import annotations

from enum import Enum

from rankmuster.model.drift import DriftFinding, DriftReport, DriftScope


class Outcome(str, Enum):
    """What a report comes to."""

    NONE = "none"
    DRIFT = "drift"
    CANNOT_TELL = "cannot_tell"  # nothing was found, and a part could not be compared


def outcome(report: DriftReport) -> Outcome:
    """What was found counts before what could not be compared."""
    if report.findings:
        return Outcome.DRIFT
    return Outcome.CANNOT_TELL if report.unknown or not report.nodes else Outcome.NONE


def headline(report: DriftReport) -> str:
    """The answer, in one line."""
    of = count(report.nodes)
    if not report.nodes:
        return "cannot tell: no node to compare"
    if not report.findings:
        if report.unknown:
            parts = count(len(report.unknown), "part")
            return f"cannot tell: nothing is seen to drift on {of}, and {parts} could not be compared"
        return f"no drift: {of} as the baseline"
    drifted = len({node for one in report.findings for node in one.nodes})
    systematic = [one for one in report.findings if one.scope is DriftScope.SYSTEMATIC]
    where = f"on {count(drifted)} of {report.nodes:,}"
    if drifted > report.nodes:  # asked of some nodes, it is true of others too
        where = f"on {count(drifted)}, this one among them" if report.nodes == 1 else f"on {count(drifted)}"
    if not drifted:
        where = "of a whole class"
    if report.stop_rollout:
        return f"systematic drift {where}: stop the rollout"
    if systematic:
        return f"systematic change {where}, and no loss is seen to come of it"
    if report.nodes == 1:
        return "drift of the node"
    return f"drift of single nodes: {drifted:,} of {report.nodes:,}"


def count(number: int, what: str = "node") -> str:
    """`1 node`, `37 nodes`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size_text(finding: DriftFinding) -> str:
    """The relative change in a narrow column: `-10.2 %`; empty where it is no number."""
    return "" if finding.size is None else f"{finding.size * 100:+.1f} %"
