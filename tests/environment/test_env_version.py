"""Versions as people and programs write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmuster.environment.version import at_least, at_most, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.11", (2, 11)),
        ("2.11.0+cu128", (2, 11, 0)),
        ("v2.28.9-1", (2, 28, 9)),
        ("2.9.0a0+git1234abc", (2, 9, 0)),
        ("2.10.0.dev20260101", (2, 10, 0)),
        ("22809", (2, 28, 9)),
        ("2804", (2, 8, 4)),
        (" 2.4.1 ", (2, 4, 1)),
    ],
)
def test_versions_are_read(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("text", ["", "new", "2", "2.", "11", "2.x", "2.11\n2.12", "1" * 400, "2.99999999"])
def test_what_is_no_version_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="version"):
        parse_version(text)


def test_ten_is_newer_than_nine() -> None:
    assert at_least((2, 10), (2, 9))
    assert at_least((2, 11, 1), (2, 11))
    assert at_most((2, 10, 5), (2, 10))
    assert not at_least((2, 9, 1), (2, 10))


@given(st.text(max_size=40))
def test_no_text_does_harm(text: str) -> None:
    try:
        version = parse_version(text)
    except ValueError:
        return
    assert all(part >= 0 for part in version)
