"""How admissions are said: decisions, states, sizes and values, one wording for terminal, HTML and JUnit."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.model.admission import AdmissionRecord, Check, CheckGroup, CheckState, Decision, Kinship
from rankmuster.model.judgement import CellJudgement, RegimeJudgement, Standing
from rankmuster.report.size_words import size_words
from rankmuster.report.theme import Look

DECISIONS: dict[Decision, Look] = {
    Decision.PASS: Look("healthy", "✓", "pass", "bold green", "+"),
    Decision.FAIL: Look("culprit", "◆", "fail", "bold red", "*"),
    Decision.PROVISIONAL: Look("suspect", "◇", "provisional", "bold yellow", "~"),
    Decision.ERROR: Look("unsure", "?", "error", "bold magenta", "?"),
}

STATES: dict[CheckState, Look] = {
    CheckState.PASS: Look("healthy", "✓", "pass", "green", "+"),
    CheckState.FAIL: Look("culprit", "◆", "fail", "bold red", "*"),
    CheckState.HUNG: Look("culprit", "■", "hung", "bold red", "#"),
    CheckState.ERROR: Look("unsure", "?", "error", "bold magenta", "!"),
    CheckState.WARN: Look("suspect", "◇", "warning", "yellow", "~"),
    CheckState.UNKNOWN: Look("unsure", "∅", "unknown", "magenta", "?"),
}

STANDINGS: dict[Standing, Look] = {
    Standing.WITHIN: Look("healthy", "✓", "within", "green", "+"),
    Standing.BELOW: Look("culprit", "◆", "below", "bold red", "*"),
    Standing.BORDERLINE: Look("suspect", "◇", "borderline", "yellow", "~"),
    Standing.TOO_LITTLE: Look("unsure", "∅", "too little", "magenta", "?"),
    Standing.ABOVE: Look("suspect", "▲", "above", "yellow", "^"),
}

GROUPS: dict[CheckGroup, str] = {
    CheckGroup.HARDWARE: "Hardware",
    CheckGroup.ENVIRONMENT: "Environment",
    CheckGroup.PEER_TO_PEER: "Peer to peer",
    CheckGroup.NETWORK: "Network",
    CheckGroup.TOPOLOGY: "Topology",
    CheckGroup.CORRECTNESS: "Correctness",
    CheckGroup.NCCL: "NCCL's choices",
    CheckGroup.PROFILE: "Profile",
}

MEANINGS: dict[Decision, str] = {
    Decision.PASS: "may join the pool",
    Decision.FAIL: "must not join the pool",
    Decision.PROVISIONAL: "nothing speaks against it, and too little speaks for it",
    Decision.ERROR: "could not be decided: not a pass",
}

_BAD_FIRST = (
    CheckState.HUNG,
    CheckState.FAIL,
    CheckState.ERROR,
    CheckState.UNKNOWN,
    CheckState.WARN,
    CheckState.PASS,
)
SHORT_HASH = 19
"""Characters of a hash shown: `sha256:` and twelve digits."""


def of_group(checks: Sequence[Check], group: CheckGroup) -> list[Check]:
    """The checks of a group, what needs attention first."""
    return sorted((check for check in checks if check.group is group), key=lambda check: _BAD_FIRST.index(check.state))


def plural(count: int) -> str:
    """The s of several."""
    return "" if count == 1 else "s"


def nodes_name(record: AdmissionRecord) -> str:
    """`node7`, `node7 and node8`, `node7 and 3 more`."""
    nodes = record.nodes or ("no node",)
    if len(nodes) <= 2:
        return " and ".join(nodes)
    return f"{nodes[0]} and {len(nodes) - 1} more"


def class_words(record: AdmissionRecord) -> str:
    """The class's hash, short; `unknown` where it is (the notes say why)."""
    found = record.fingerprint.get("class_hash", "")
    return found[:SHORT_HASH] if found.startswith("sha256:") else "unknown"


def compared_words(record: AdmissionRecord) -> str:
    """With whom the node was compared."""
    if not record.judgements and record.kinship in (Kinship.CLASS, Kinship.KIN):
        return "nothing: it was not judged"
    if record.kinship is Kinship.FLOOR:
        given = record.settings.get("floor")
        return f"the given floor, {given}" if given else "a floor from the hardware's own limits"
    if record.compared_with is None or record.kinship is Kinship.NONE:
        return "nothing"
    runs, nodes = record.history_runs, record.history_nodes
    past = f"{runs} run{plural(runs)} of {nodes} node{plural(nodes)}"
    return f"its own class, {past}" if record.kinship is Kinship.CLASS else f"kin with other settings, {past}"


def regime_words(judged: RegimeJudgement) -> str:
    """`all_reduce, CUDA graph, plateau`."""
    graph = ", CUDA graph" if judged.graph else ""
    placed = ", in place" if judged.in_place else ""
    return f"{judged.operation.value}{graph}{placed}, {judged.regime.value}"


def level_words(judged: RegimeJudgement) -> str:
    """`97.2 % of its class, refused below 97.0 %`; empty where there is no number."""
    if judged.statistic is None:
        return ""
    against = "its floor" if judged.floor else "the class"
    words = f"{100 * judged.statistic:.1f} % of {against}"
    if judged.refuse_below is not None:
        words += f", refused below {100 * judged.refuse_below:.1f} %"
    return words if judged.can_refuse else f"{words}; latency alone refuses nobody"


def value_words(cell: CellJudgement, value: float | None) -> str:
    """A value in the cell's own unit: `338.2 GB/s`, `28.5 us`."""
    if value is None:
        return "-"
    return f"{value:.4g} {cell.unit}"


def span_text(sizes: Sequence[int]) -> str:
    """`1 MiB`, or `1 MiB to 256 MiB`."""
    low, high = min(sizes), max(sizes)
    return size_words(low) if low == high else f"{size_words(low)} to {size_words(high)}"
