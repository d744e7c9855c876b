"""Words that detectors share: quotations that fit a sentence, and numbers with their noun."""

from __future__ import annotations

import pytest

from rankmuster.diagnose.finding import counted, quoted


@pytest.mark.parametrize(
    ("text", "quotation"),
    [
        ("network IB not found.", "network IB not found"),
        ("two\nlines  of it ", "two lines of it"),
        ("nothing", "nothing"),
        ("x" * 30, "x" * 20 + "…"),
        ("did it crash?", "did it crash?"),
    ],
)
def test_a_quotation_has_no_end_of_its_own(text: str, quotation: str) -> None:
    assert quoted(text, 20) == quotation


def test_one_is_singular() -> None:
    assert [counted(n, "log") for n in (0, 1, 2)] == ["0 logs", "1 log", "2 logs"]
    assert counted(2, "process", "processes") == "2 processes"
