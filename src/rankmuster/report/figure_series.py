"""Pictures of the other planes on the common time axis: RAS counts, the engine's work, and the GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rankmuster.model.fault import Role
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.job import Job
from rankmuster.model.ras import RasPoll
from rankmuster.report.figure_lanes import AXIS_ROOM, row_name, row_style
from rankmuster.report.page import Markup
from rankmuster.report.ras_answers import SAME_LOOK_S, Answer, RasAnswer, poll_time, ras_answers
from rankmuster.report.series import Curve, EngineCurves, link_rate
from rankmuster.report.svg import LEFT, RIGHT, WIDTH, Axis, Floats, curve, label, svg
from rankmuster.report.words import clock, rate_kib

RAS_ROW = 26
PANEL = 74
"""Height of an engine's panel."""

GPU_ROW = 24
MAX_POLLS = 60
"""RAS polls drawn; where there are more, evenly spaced ones and the last."""

LABEL_ROOM = 34.0
"""Units that a number beside a dot needs; fewer between two polls, and unchanged numbers are left out."""


def spread(count: int, limit: int = MAX_POLLS) -> list[int]:
    """Indexes of at most `limit` of so many polls, the last one always."""
    if count <= limit:
        return list(range(count))
    return sorted({round(index) for index in np.linspace(0, count - 1, limit).tolist()})


def timed_polls(job: Job) -> list[tuple[float, RasPoll]]:
    """Polls with an anchored time, in its order."""
    found = [(time, poll) for poll in job.polls if (time := poll_time(poll)) is not None]
    return sorted(found, key=lambda pair: pair[0])


def ras_figure(job: Job, ranks: Sequence[int], roles: Mapping[int, Role], axis: Axis, key: str) -> Markup | None:
    """A dot per rank and poll: level with the leader, behind it by so many operations, or missing from the reply."""
    looks: list[tuple[float, dict[int, RasAnswer]]] = []
    for time, poll in timed_polls(job):
        answers = ras_answers(job, poll)
        if not axis.holds(time):
            continue
        if not any(answer.answer in TELLING for answer in answers.values()):
            if poll.answered and not poll.corrupt:
                continue  # a text reply that names nobody says nothing of any rank
            answers = {}
        if looks and looks[-1][0] > time - SAME_LOOK_S:
            if _counts(looks[-1][1]) > _counts(answers):
                continue
            looks.pop()
        looks.append((time, answers))
    if not looks:
        return None
    looks = [looks[index] for index in spread(len(looks))]
    parts: list[str] = []
    told = []
    for index, rank in enumerate(ranks):
        top = index * RAS_ROW
        ground, name = row_style(roles.get(rank))
        parts.append(
            f'<rect class="{ground}" x="{LEFT}" y="{top + 1}" width="{WIDTH - LEFT - RIGHT}" height="{RAS_ROW - 3}"/>'
        )
        parts.append(label(0, top + 16, row_name(rank, roles.get(rank)), name))
        role = roles.get(rank)
        tone = f" ring-{role.value}" if role in (Role.CULPRIT, Role.SUSPECT) else ""
        last_text, last_x = "", -math.inf
        final: int | None = None
        for time, answers in looks:
            x, y = axis.x(time), top + RAS_ROW / 2
            answer = answers.get(rank, RasAnswer(Answer.NOT_LISTED))
            if answer.answer in (Answer.MISSING, Answer.DEAD):
                parts.append(f'<path class="cross" d="M{x - 4} {y - 4}l8 8m0 -8l-8 8"/>')
                words = "missing" if answer.answer is Answer.MISSING else "dead"
            elif answer.count is None:
                parts.append(f'<path class="faint" d="M{x - 4} {y}h8"/>')
                words = "" if answers else "no reply"
            elif answer.behind:
                parts.append(f'<circle class="ring{tone}" cx="{x}" cy="{y}" r="4"/>')
                words, final = f"−{answer.behind}", answer.count
            else:
                parts.append(f'<circle class="dot" cx="{x}" cy="{y}" r="4"/>')
                words, final = "", answer.count
            if words and words != last_text and x - last_x > LABEL_ROOM and x < WIDTH - RIGHT - LABEL_ROOM:
                parts.append(label(x + 7, y + 4, words, "name"))
                last_x = x
            last_text = words
        parts.append(label(WIDTH - RIGHT + 12, top + 16, "-" if final is None else str(final), "name"))
        told.append(f"rank {rank}: last count {'unknown' if final is None else final}")
    height = len(ranks) * RAS_ROW
    return svg(
        height + AXIS_ROOM,
        f"RAS: launched operations per rank at {len(looks)} polls",
        "; ".join(told),
        [*parts, *axis.draw(height)],
        key,
    )


TELLING = (Answer.COUNTED, Answer.MISSING, Answer.DEAD)
"""Answers that are worth a column of the picture."""


def _counts(answers: Mapping[int, RasAnswer]) -> int:
    return sum(answer.count is not None for answer in answers.values())


def _top(values: Sequence[Floats], least: float) -> float:
    known = [float(np.nanmax(column)) for column in values if len(column) and not np.all(np.isnan(column))]
    return max([*known, least])


def _panel(
    top: float,
    axis: Axis,
    name: str,
    lines: Sequence[tuple[Curve, str, str]],
    unit: Callable[[float], str],
    least: float,
) -> list[str]:
    """A panel with its own scale, from zero to the largest value; `lines`: (curve, style, fill)."""
    peak = _top([line.value for line, _, _ in lines], least)
    base = top + PANEL - 12

    def y(value: float) -> float:
        return base - value / peak * (PANEL - 22)

    parts = [
        f'<rect class="row" x="{LEFT}" y="{top + 1}" width="{WIDTH - LEFT - RIGHT}" height="{PANEL - 12}"/>',
        label(0, top + 16, name, "name"),
        label(WIDTH - RIGHT + 12, y(peak) + 4, unit(peak)),
        label(WIDTH - RIGHT + 12, base + 1, unit(0.0)),
    ]
    for line, style, fill in lines:
        parts += curve(axis, line.time, line.value, y, style, fill, base)
    return parts


def engine_figure(engine: EngineCurves, axis: Axis, key: str) -> Markup:
    """Two panels: tokens per second, and requests running (solid) and waiting (dashed)."""
    rate = engine.token_rate
    parts = _panel(0, axis, "tokens/s", [(rate, "curve", "area")], lambda value: f"{value:,.0f}", 1.0)
    requests = [(engine.running, "curve", ""), (engine.waiting, "curve second", "")]
    parts += _panel(PANEL, axis, "requests", requests, lambda value: f"{value:.0f}", 1.0)
    height = 2 * PANEL - 8
    return svg(
        height + AXIS_ROOM,
        f"Engine {engine.label}: tokens per second and requests",
        _engine_words(engine),
        _axed(parts, axis, height),
        key,
    )


def _axed(parts: list[str], axis: Axis, height: float) -> list[str]:
    return [*parts, *axis.draw(height)]


def _engine_words(engine: EngineCurves) -> str:
    rate = engine.token_rate
    moving = rate.time[rate.value > 0]
    running = engine.running.value[~np.isnan(engine.running.value)]
    words = f"tokens last counted at {clock(float(moving[-1]))}" if len(moving) else "no token was counted"
    if len(running):
        words += f"; {running[-1]:.0f} requests running at the last page"
    return words


def gpu_figures(
    tracks: Mapping[int, GpuTrack], ranks: Sequence[int], roles: Mapping[int, Role], axis: Axis, key: str
) -> list[tuple[str, str, Markup]]:
    """(key, caption, picture) for utilisation, link rate and power: a row per rank, one scale for all rows."""
    drawn = [rank for rank in ranks if rank in tracks]
    if not drawn:
        return []
    measures: list[tuple[str, str, dict[int, Curve], float, Callable[[float], str]]] = [
        (
            "util",
            "SM utilisation",
            {rank: Curve(tracks[rank].time, tracks[rank].sm_percent) for rank in drawn},
            100.0,
            lambda value: f"{value:.0f} %",
        ),
        ("links", "Link bytes (NVLink and RDMA)", {rank: link_rate(tracks[rank]) for rank in drawn}, 1.0, rate_kib),
        (
            "power",
            "Power",
            {rank: Curve(tracks[rank].time, tracks[rank].power_w) for rank in drawn},
            1.0,
            lambda value: f"{value:.0f} W",
        ),
    ]
    return [
        (
            f"{key}-{name}",
            f"{title}, each row from 0 to {unit(_top([line.value for line in lines.values()], least))}",
            picture,
        )
        for name, title, lines, least, unit in measures
        if (picture := _rows(title, lines, least, unit, roles, axis, f"{key}-{name}")) is not None
    ]


def _rows(
    title: str,
    lines: Mapping[int, Curve],
    least: float,
    unit: Callable[[float], str],
    roles: Mapping[int, Role],
    axis: Axis,
    key: str,
) -> Markup | None:
    if all(np.all(np.isnan(line.value)) for line in lines.values()):
        return None
    peak = _top([line.value for line in lines.values()], least)
    parts: list[str] = []
    told = []
    for index, (rank, line) in enumerate(lines.items()):
        top = index * GPU_ROW
        base = top + GPU_ROW - 2
        role = roles.get(rank)
        ground, name = row_style(role)
        tone = f"-{role.value}" if role in (Role.CULPRIT, Role.SUSPECT) else ""
        parts.append(
            f'<rect class="{ground}" x="{LEFT}" y="{top + 1}" width="{WIDTH - LEFT - RIGHT}" height="{GPU_ROW - 3}"/>'
        )
        parts.append(label(0, top + 15, row_name(rank, role), name))

        def y(value: float, base: float = base) -> float:
            return base - value / peak * (GPU_ROW - 5)

        style = f"curve curve{tone}" if tone else "curve"
        parts += curve(axis, line.time, line.value, y, style, f"area area{tone}" if tone else "area", base)
        known = line.value[~np.isnan(line.value)]
        last = unit(float(known[-1])) if len(known) else "-"
        parts.append(label(WIDTH - RIGHT + 12, top + 15, last, "name"))
        told.append(f"rank {rank}: last {last}")
    height = len(lines) * GPU_ROW
    return svg(height + AXIS_ROOM, f"{title} per rank over time", "; ".join(told), _axed(parts, axis, height), key)
