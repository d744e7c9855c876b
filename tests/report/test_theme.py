"""One theme: legible in light and dark, and never colour alone."""

from __future__ import annotations

import re

import pytest

from rankmuster.model.fault import FaultClass, Role
from rankmuster.model.plane import PlaneState
from rankmuster.report import theme
from rankmuster.report.page import Markup, page, prose


def luminance(colour: str) -> float:
    """WCAG 2.1 relative luminance."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_text_is_legible_on_every_ground_it_stands_on(colours: dict[str, str]) -> None:
    for ink in ("ink", "soft", "link", "culprit", "suspect", "victim", "healthy", "unsure"):
        for ground in ("ground", "surface"):
            assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
    for tone in ("culprit", "suspect", "victim", "healthy", "unsure"):
        assert contrast(colours[tone], colours[f"{tone}-wash"]) >= 4.5, tone
        assert contrast(colours["ink"], colours[f"{tone}-wash"]) >= 4.5, tone


def test_both_schemes_define_the_same_colours() -> None:
    assert theme.LIGHT.keys() == theme.DARK.keys()


def test_every_role_class_and_state_has_a_sign_and_a_word() -> None:
    assert set(theme.ROLES) == set(Role)
    assert set(theme.TONES) == set(FaultClass)
    assert set(theme.PLANES) == set(PlaneState)
    for looks in (theme.ROLES, theme.PLANES):
        assert len({look.sign for look in looks.values()}) == len(looks)
        assert len({look.terminal_sign for look in looks.values()}) == len(looks)


def test_every_colour_that_the_rules_use_is_defined() -> None:
    used = set(re.findall(r"var\(--([a-z-]+)\)", theme.css())) - {"tone", "wash"}
    assert used <= set(theme.LIGHT)


def test_a_page_escapes_its_title_and_code_marks_cannot_open_tags() -> None:
    assert "<title>&lt;b&gt;</title>" in page("<b>", Markup(""))
    assert prose("`<b>` & x") == "<code>&lt;b&gt;</code> &amp; x"
