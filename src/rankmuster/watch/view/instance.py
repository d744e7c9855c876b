"""One instance in full: its state and why, its rates, its ranks, who speaks of it, and its last stop."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from rankmuster.model.fault import Progress
from rankmuster.model.plane import PlaneState
from rankmuster.report import theme
from rankmuster.report.inert import plain
from rankmuster.report.words import clock
from rankmuster.watch.snapshot import GroupView, InstanceView, PlaneView, StopView
from rankmuster.watch.view import ranks
from rankmuster.watch.view.words import STATES, cut, cut_left, length, number, packed

MOST_GROUPS = 8
"""Groups shown, those that do not advance first."""

MOST_NOTE = 300
"""Characters of one plane's reason."""

INDENT = 2


def render(view: InstanceView, now: float, width: int) -> Iterator[RenderableType]:
    """Line after line. `now`: unix seconds."""
    look = STATES[view.state]
    yield _head(view, now, width)
    room = width - INDENT
    yield _words(Text(plain(view.reason)), "bold" if look.word.isupper() else "")
    accused = _accused(view)
    if accused:
        yield _words(accused)
    yield _words(_rates(view, room))
    if view.ranks:
        shown, others = ranks.split(view.ranks)
        yield Padding(ranks.table(shown, room), (0, 0, 0, INDENT), expand=False)
        if others:
            doing = ranks.doing_words(others)
            yield _words(Text(f"and {len(others)} more{': ' if doing else ''}{plain(doing)}", style="dim"))
    if view.planes:
        yield _words(_planes(view.planes, room))
    for plane in view.planes:
        if plane.state is not PlaneState.SPOKE and plane.note:
            yield _words(Text(f"{plane.plane.value}: {plain(plane.note, MOST_NOTE)}", style="dim"), deeper=True)
    yield from _groups(view.groups, room)
    if view.last_stop is not None:
        yield from _stop(view.last_stop, now, room)


def _words(text: Text, style: str = "", *, deeper: bool = False) -> RenderableType:
    if style:
        text.stylize(style)
    return Padding(text, (0, 0, 0, INDENT * 2 if deeper else INDENT), expand=False)


def _head(view: InstanceView, now: float, width: int) -> Text:
    look = STATES[view.state]
    state = f" {look.word} "
    since = f" for {length(now - view.since)}" if view.since > 0 else ""
    facts = [view.engine or "engine unknown"]
    if view.world_size:
        facts.append(f"{view.world_size} ranks")
    if view.deployment:
        facts.append(f"revision {view.deployment}")
    if view.incarnation:
        facts.append(f"since {view.incarnation}" if view.incarnation[:1].isdigit() else view.incarnation)
    if view.stops:
        facts.append(f"{view.stops} stop{'' if view.stops == 1 else 's'}")
    name_room = max(width - len(state) - len(since) - 3, 8)
    head = Text(f"{look.sign} ", style=look.style.replace(" on red", "").replace("white", "red"))
    head.append_text(cut(view.name, name_room, "bold"))
    head.append(" ")
    head.append(state, style=look.style)
    head.append(since)
    left = width - head.cell_len - 2
    if left > 12:
        head.append("  ")
        head.append_text(cut(", ".join(facts), left, "dim"))
    head.no_wrap = True
    return head


def _accused(view: InstanceView) -> Text:
    if view.class_ is None or view.state not in (Progress.STOPPED, Progress.SLOW):
        return Text()
    kind = f"{view.class_}/{view.subclass}" if view.subclass else view.class_
    sure = f" ({view.confidence.value})" if view.confidence is not None else ""
    named = "; ".join(plain(one, 120) for one in view.suspects[:4])
    more = f"; {len(view.suspects) - 4} more" if len(view.suspects) > 4 else ""
    return Text(f"{plain(kind)}{sure}: {named + more if named else 'nobody is named'}")


def _rates(view: InstanceView, room: int) -> Text:
    parts = [f"tokens/s {number(view.tokens_per_s, 1)}"]
    parts += [f"running {number(view.running)}", f"waiting {number(view.waiting)}"]
    speed = f"speed {plain(view.speed_kind, 20)}"
    if view.speed_now is not None or view.speed_usual is not None:
        speed += f" ({number(view.speed_now, 1)} of {number(view.speed_usual, 1)} tokens/s a request)"
    return packed([Text(part) for part in (*parts, speed)], room)


def _planes(planes: tuple[PlaneView, ...], room: int) -> Text:
    items = [Text("planes", style="dim")]
    for plane in planes:
        look = theme.PLANES[plane.state]
        age = f" {length(plane.age)}" if plane.age is not None else ""
        word = "" if plane.state is PlaneState.SPOKE else f" {look.word}"
        items.append(Text(f"{look.terminal_sign} {plane.plane.value}{word}{age}", style=look.terminal))
    return packed(items, room)


def _groups(groups: tuple[GroupView, ...], room: int) -> Iterator[RenderableType]:
    ordered = sorted(groups, key=lambda one: list(STATES).index(one.state) < 4)
    for group in ordered[:MOST_GROUPS]:
        look = STATES[group.state]
        head = Text(f"{look.sign} ", style="dim")
        head.append_text(cut(f"{group.kind} {group.name}", 28))
        head.append(f" {look.word}: ", style=look.style)
        head.append_text(cut(group.reason, max(room - head.cell_len, 10)))
        yield _words(head)
    if len(groups) > MOST_GROUPS:
        yield _words(Text(f"and {len(groups) - MOST_GROUPS} more groups", style="dim"))


def _stop(stop: StopView, now: float, room: int) -> Iterator[RenderableType]:
    head = f"last stop {clock(stop.at, date=True)[:19]}Z, {length(now - stop.at)} ago"
    if stop.resumed_at is not None:
        head += f", went on after {length(stop.resumed_at - stop.at)}"
    kind = f"{stop.class_}/{stop.subclass}" if stop.class_ and stop.subclass else stop.class_
    if kind:
        named = f", culprit {'; '.join(plain(one, 120) for one in stop.culprits)}" if stop.culprits else ""
        head += f": {plain(kind)}{named or ', no culprit named'}"
    yield _words(Text(plain(head, 600)))
    said = stop.summary or stop.reason
    if said:
        yield _words(Text(plain(said, 400), style="dim"), deeper=True)
    done = []
    for name, how in (("collect", stop.collect), ("diagnose", stop.diagnose), ("hook", stop.hook)):
        style = "bold red" if how.startswith("failed") else "yellow" if how.startswith("not done") else ""
        done.append(Text(f"{name} {plain(how, 200)}", style=style))
    yield _words(packed(done, room - INDENT), deeper=True)
    if stop.bundle is not None:
        text = Text("bundle ")
        text.append_text(cut_left(stop.bundle, max(room - INDENT - 7, 12)))
        yield _words(text, deeper=True)
