"""The pictures of the page: each group around the first divergence, then every plane on one time axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.model.fault import Role
from rankmuster.model.job import Job
from rankmuster.model.plane import Plane
from rankmuster.model.verdict import Verdict
from rankmuster.report.figure_lanes import around, legend, strip
from rankmuster.report.figure_series import engine_figure, gpu_figures, ras_figure, timed_polls
from rankmuster.report.html_findings import Anchors
from rankmuster.report.inert import plain
from rankmuster.report.lanes import MAX_RANKS, Lanes, chosen, drawn_groups, lanes, odd_ranks
from rankmuster.report.operations import Operations
from rankmuster.report.page import Markup, link, scroll, text
from rankmuster.report.series import bounds, engine_curves
from rankmuster.report.svg import PATTERNS, Axis

MAX_ENGINES = 4
"""Engines drawn: data-parallel replicas of one front end."""


NOTHING = Markup("")


@dataclass(slots=True)
class Pictures:
    """The two sections, and which picture draws which file of the evidence."""

    around: Markup = NOTHING
    axis: Markup = NOTHING
    of_source: dict[str, str] = field(default_factory=dict)


def _figure(key: str, caption: Markup, picture: Markup, after: Markup = NOTHING) -> str:
    return (
        f'<figure id="{key}"><figcaption>{caption}</figcaption>'
        f"{scroll('Picture, scrolls sideways', picture)}{after}</figure>"
    )


def _see(anchor: str | None) -> str:
    return f" See {link(anchor, anchor.replace('-', ' '))}." if anchor is not None else ""


def _left(words: list[str]) -> str:
    return f" <small>Left out: {text(', '.join(words))}.</small>" if words else ""


def _around_caption(picture: Lanes, anchor: str | None) -> Markup:
    number = f"{'p2p ' if picture.p2p else ''}#{picture.focus}"
    what = f"around the first divergence at {number}" if picture.diverges else f"the last ones, up to {number}"
    left = []
    if picture.ranks_left:
        left.append(f"{picture.ranks_left} of {len(picture.group.members)} ranks")
    if picture.numbers_left:
        left.append(f"{picture.numbers_left} other collectives in the ring buffers")
    return Markup(
        f"<b>{text(plain(picture.group.label, 80))}</b>, {text(what)}. A bar runs from enqueued to found complete by "
        f"the watchdog, as the host saw it; an arrow: not ended at the look.{_see(anchor)}{_left(left)}"
    )


def _axis(verdict: Verdict, job: Job, tables: Mapping[int, Operations]) -> Axis | None:
    engines = engine_curves(job)
    times = [curves.tokens.time for curves in engines] + [track.time for track in job.tracks.values()]
    times += [table.created for table in tables.values()]
    window = (
        verdict.window.start if verdict.window.start is not None else job.window[0],
        verdict.window.end if verdict.window.end is not None else job.window[1],
    )
    covered = bounds(window, times)
    if covered is None:
        return None
    fault = verdict.window.fault_at
    inside = fault is not None and covered[0] <= fault <= covered[1]
    return Axis(*covered, fault if fault is not None and inside else covered[0], fault if inside else None)


def pictures(
    verdict: Verdict, job: Job, tables: Mapping[int, Operations], roles: Mapping[int, Role], places: Anchors
) -> Pictures:
    """Both sections; empty ones where the evidence holds nothing to draw."""
    made = Pictures()
    groups, groups_left = drawn_groups(verdict, job, tables)
    drawn = [picture for group in groups if (picture := lanes(group, verdict, job, tables)) is not None]
    axis = _axis(verdict, job, tables)
    flight = places.for_plane(Plane.FLIGHT)
    here, wide = [], []
    for index, picture in enumerate(drawn):
        key = f"group-{index}"
        shown = around(picture, roles, f"{key}-near", flight or places.leading() if picture.diverges else flight)
        if shown is not None:
            marks = {cell.mark for cell in picture.cells.values()}
            anchor = (flight or places.leading()) if picture.diverges else None
            here.append(_figure(key, _around_caption(picture, anchor), shown, legend(marks)))
            for cell in picture.cells.values():
                if cell.source is not None:
                    made.of_source.setdefault(cell.source, key)
        if axis is not None:
            flown, marks = strip(picture, tables, roles, axis, f"{key}-wide")
            caption = Markup(f"<b>{text(plain(picture.group.label, 80))}</b>: operations in flight, per rank")
            wide.append(_figure(f"{key}-strip", caption, flown, legend(marks)))
    if groups_left:
        here.append(f'<p class="soft">{groups_left} more groups are not drawn.</p>')
    if here:
        made.around = Markup(
            '<section aria-labelledby="divergence"><h2 id="divergence">The last collectives, rank by rank</h2>'
            f"{PATTERNS}{''.join(here)}</section>"
        )
    if axis is not None:
        wide += _planes(verdict, job, roles, axis, places, made.of_source)
    if wide:
        defs = "" if here else PATTERNS
        note = "All on one time axis" + (", counted from the fault" if axis is not None and axis.fault_at else "")
        made.axis = Markup(
            f'<section aria-labelledby="timeline"><h2 id="timeline">{note}</h2>{defs}{"".join(wide)}</section>'
        )
    return made


def _planes(
    verdict: Verdict, job: Job, roles: Mapping[int, Role], axis: Axis, places: Anchors, of_source: dict[str, str]
) -> list[str]:
    every = sorted({rank.rank for rank in job.ranks} | set(job.tracks))
    ranks = chosen(every, odd_ranks(verdict, job))
    left = _left([f"{len(every) - len(ranks)} of {len(every)} ranks"] if len(every) > MAX_RANKS else [])
    parts = []
    counted = ras_figure(job, ranks, roles, axis, "ras-counts")
    if counted is not None:
        caption = Markup(
            "<b>RAS counts</b>: launched operations per rank at each poll. Dot: level with the leader; ring: behind it "
            "by the number beside; cross: missing from the reply; dash: no count. "
            "One look at a moving job always has a tail."
            f"{_see(places.for_plane(Plane.RAS))}{left}"
        )
        parts.append(_figure("ras", caption, counted))
        of_source.update({poll.source: "ras" for _, poll in timed_polls(job)})
    engines = engine_curves(job)
    for index, engine in enumerate(engines[:MAX_ENGINES]):
        seen = _see(places.for_plane(Plane.ENGINE)) if index == 0 else ""
        slow = (
            " Its tokens are counted only when a request ends: flat means nothing." if engine.moves_per_request else ""
        )
        caption = Markup(
            f"<b>Engine {text(engine.label, 60)}</b>: tokens per second, and requests running (solid) and waiting "
            f"(dashed).{slow}{seen}"
        )
        parts.append(_figure(f"engine-{index}", caption, engine_figure(engine, axis, f"engine-{index}-picture")))
        of_source.update(dict.fromkeys(engine.sources, f"engine-{index}"))
    if len(engines) > MAX_ENGINES:
        parts.append(f'<p class="soft">{len(engines) - MAX_ENGINES} more engines are not drawn.</p>')
    for index, (key, caption_words, picture) in enumerate(gpu_figures(job.tracks, ranks, roles, axis, "gpu")):
        seen = _see(places.for_plane(Plane.HARDWARE)) if index == 0 else ""
        parts.append(_figure(key, Markup(f"<b>GPU</b>: {text(caption_words)}.{seen}{left}"), picture))
        if index == 0:
            of_source.update({track.source: key for track in job.tracks.values()})
    return parts
