"""One frame: the watch's own health, a table of all instances, and those in full that somebody should look at."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rankmuster.model.fault import Progress
from rankmuster.report.inert import plain
from rankmuster.watch.export.state_file import Freshness
from rankmuster.watch.snapshot import InstanceView, Snapshot, WatcherView
from rankmuster.watch.view import instance
from rankmuster.watch.view.words import STATES, URGENCY, cut, length, number

MOST_FULL = 6
"""Instances shown in full, the most urgent first; of the others a line."""

MOST_LINES = 100
"""Lines of the table: a node has no more instances than GPUs."""

NARROWEST = 40

FINE = (Progress.ADVANCING, Progress.IDLE, Progress.STARTING, Progress.DRAINING)


def urgent_first(instances: Sequence[InstanceView]) -> list[InstanceView]:
    """By state, then by name."""
    return sorted(instances, key=lambda one: (URGENCY.index(one.state), one.name))


def render(snapshot: Snapshot, fresh: Freshness, width: int) -> Group:
    """The frame in `width` columns, at least NARROWEST. Ages are those of now, not of the look."""
    width = max(width, NARROWEST)
    now = snapshot.time + max(fresh.age, 0.0)
    parts: list[RenderableType] = [_watcher(snapshot, fresh, width)]
    if fresh.stale:
        parts.append(Text(f"STALE: {plain(fresh.words)}", style="bold white on red"))
    parts += [Text(f"note: {plain(note, 300)}", style="yellow") for note in snapshot.watcher.notes[:6]]
    ordered = urgent_first(snapshot.instances)
    if not ordered:
        parts += [Text(), Text("no instance is known on this node", style="bold magenta")]
        return Group(*parts)
    if len(ordered) > 1:
        parts += [Text(), _table(ordered[:MOST_LINES], now, width)]
        if len(ordered) > MOST_LINES:
            parts.append(Text(f"and {len(ordered) - MOST_LINES} more instances", style="dim"))
    full = ordered[:MOST_FULL]
    for one in full:
        parts += [Text(), *instance.render(one, now, width)]
    if len(ordered) > len(full):
        parts += [Text(), Text(f"{len(ordered) - len(full)} more in full: name one with --instance", style="dim")]
    return Group(*parts)


def _watcher(snapshot: Snapshot, fresh: Freshness, width: int) -> Text:
    own = snapshot.watcher
    parts = [f"look {length(fresh.age)} ago, one every {own.period:g} s"]
    share = cpu_share(own, snapshot.time)
    if share is not None:
        parts.append(f"{share:.2f} % of a core")
    if own.rss_bytes > 0:
        parts.append(f"{own.rss_bytes / (1 << 20):.0f} MiB")
    head = cut(snapshot.host, 30, "bold")
    head.append("  ")
    head.append_text(cut(f"rankmuster {own.version}: {', '.join(parts)}", max(width - head.cell_len, 10), "dim"))
    return head


def cpu_share(own: WatcherView, now: float) -> float | None:
    """Percent of one core since its start; None in its first seconds, which are those of its start."""
    lived = now - own.started_at
    return own.cpu_seconds / lived * 100 if lived >= 10 else None


def _table(views: Sequence[InstanceView], now: float, width: int) -> Table:
    found = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    wide = width >= 78
    room = max(min(width - (64 if wide else 38), 40), 8)
    columns = [("", False), ("instance", False), ("state", False), ("for", True), ("tokens/s", True)]
    columns += [("run", True), ("wait", True), ("speed", False), ("ranks", True)] if wide else []
    for name, right in columns:
        found.add_column(name, justify="right" if right else "left", no_wrap=True)
    for view in views:
        look = STATES[view.state]
        cells = [
            Text(look.sign, style=look.style),
            cut(view.name, room),
            Text(look.word, style=look.style),
            Text(length(now - view.since) if view.since > 0 else "-"),
            Text(number(view.tokens_per_s, 1)),
        ]
        if wide:
            cells += [
                Text(number(view.running)),
                Text(number(view.waiting)),
                cut(view.speed_kind, 10),
                Text(str(len(view.ranks)) if view.ranks else "-"),
            ]
        found.add_row(*cells)
    return found
