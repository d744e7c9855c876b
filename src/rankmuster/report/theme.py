"""The one theme of every page and terminal that the project makes: colours, signs and words for roles and states.

The hues are those of Okabe and Ito (2008), which stay apart for all common kinds of colour blindness, darkened or
lightened until text in them reaches a contrast of 4.5:1 on its ground. Colour never speaks alone: every look has a sign
and a word too, and drawn states have a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rankmuster.model.fault import FaultClass, Role
from rankmuster.model.plane import PlaneState


@dataclass(frozen=True, slots=True)
class Look:
    """How one thing is shown. `tone`: CSS class suffix and name of its colour; `terminal`: a rich style."""

    tone: str
    sign: str
    word: str
    terminal: str
    terminal_sign: str


ROLES: dict[Role, Look] = {
    Role.CULPRIT: Look("culprit", "◆", "culprit", "bold red", "*"),
    Role.SUSPECT: Look("suspect", "◇", "suspect", "yellow", "?"),
    Role.VICTIM: Look("victim", "○", "victim", "cyan", "."),
}

_FAULT = Look("culprit", "◆", "fault", "bold red", "*")
_SLOW = Look("suspect", "◇", "degraded", "bold yellow", "~")
_UNSURE = Look("unsure", "?", "undecided", "bold magenta", "?")

TONES: dict[FaultClass, Look] = {
    FaultClass.INIT_STUCK: _FAULT,
    FaultClass.COLLECTIVE_DESYNC: _FAULT,
    FaultClass.TRANSPORT_STALL: _FAULT,
    FaultClass.PERFORMANCE_DEGRADATION: _SLOW,
    FaultClass.PROCESS_OR_DEVICE_LOST: _FAULT,
    FaultClass.HEALTHY: Look("healthy", "✓", "healthy", "bold green", "+"),
    FaultClass.INCONCLUSIVE: _UNSURE,
    FaultClass.BLIND: _UNSURE,
}

PLANES: dict[PlaneState, Look] = {
    PlaneState.SPOKE: Look("healthy", "●", "spoke", "green", "+"),
    PlaneState.SILENT: Look("suspect", "○", "silent", "yellow", "-"),
    PlaneState.BLIND: Look("unsure", "∅", "blind", "magenta", "x"),
}

LIGHT: dict[str, str] = {
    "ground": "#f6f6f3",
    "surface": "#ffffff",
    "sunken": "#efefeb",
    "ink": "#1a1c1e",
    "soft": "#565b60",
    "line": "#d8d9d4",
    "link": "#0a5a96",
    "culprit": "#b1360b",
    "culprit-wash": "#fbeae3",
    "suspect": "#845600",
    "suspect-wash": "#fbf2dc",
    "victim": "#1d5d97",
    "victim-wash": "#e7f0f8",
    "healthy": "#00694b",
    "healthy-wash": "#e2f3ec",
    "unsure": "#8a3a6b",
    "unsure-wash": "#f8e9f2",
    "finished": "#9fbfb4",
    "started": "#c98500",
    "entered": "#6d7f8f",
    "curve": "#33688f",
    "curve-wash": "#cfdfeb",
}

DARK: dict[str, str] = {
    "ground": "#131619",
    "surface": "#1a1e22",
    "sunken": "#23282d",
    "ink": "#e7e7e4",
    "soft": "#a4abb1",
    "line": "#343b42",
    "link": "#80c1f1",
    "culprit": "#ff8b5e",
    "culprit-wash": "#3a211a",
    "suspect": "#eeb84c",
    "suspect-wash": "#352a14",
    "victim": "#82b9ea",
    "victim-wash": "#1b2c3c",
    "healthy": "#55c9a2",
    "healthy-wash": "#16312a",
    "unsure": "#dd9fc7",
    "unsure-wash": "#35222e",
    "finished": "#47705f",
    "started": "#e0a63a",
    "entered": "#8d9dab",
    "curve": "#7fb4da",
    "curve-wash": "#27414f",
}


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


@cache
def css() -> str:
    """The whole style sheet: the colours, light and dark as the reader's system asks, then the rules of theme.css."""
    rules = files("rankmuster.report").joinpath("theme.css").read_text(encoding="utf-8")
    return (
        f":root{{color-scheme:light dark;{_variables(LIGHT)}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}\n"
        f"@media print{{:root{{color-scheme:light;{_variables(LIGHT)}}}}}\n"
        f"{rules}"
    )
