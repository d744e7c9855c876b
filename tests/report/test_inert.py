"""Foreign text must not act on a terminal or a page."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.report.inert import MAX_TEXT, plain


def test_ansi_sequences_are_gone_and_control_characters_become_visible() -> None:
    assert plain("\x1b[31mred\x1b[0m host") == "red host"
    assert plain("a\x07b\x9bc\x7f") == "a\\x07b\\x9bc\\x7f"


def test_text_direction_marks_cannot_reverse_a_name() -> None:
    assert plain("rank\u202e2") == "rank\\u202e2"


def test_undecodable_file_names_can_be_encoded() -> None:
    assert plain("log\udcff.txt").encode("utf-8") == b"log\\udcff.txt"


def test_line_breaks_cannot_forge_a_second_line() -> None:
    assert plain("host\r\nhealthy: all is well\u2028x") == "host healthy: all is well\\u2028x"


def test_a_megabyte_is_cut_and_says_so() -> None:
    shown = plain("x" * 1_000_000)
    assert len(shown) < MAX_TEXT + 10
    assert shown.endswith("[cut]")


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_text_is_one_printable_line(words: str) -> None:
    shown = plain(words)
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)
    assert shown.encode("utf-8").decode("utf-8") == shown
