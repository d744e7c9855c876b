"""How a process ended, in every spelling."""

from __future__ import annotations

import pytest

from rankmuster.evidence.exit_codes import read_exit


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({}, None),
        ({"exit_code": None}, None),
        ({"exit_code": 0}, 0),
        ({"exit_code": -9}, -9),
        ({"returncode": 1}, 1),
        ({"exit_code": 255}, 255),
        ({"exit_code": 128}, 128),
        ({"exit_code": "-6"}, -6),
        ({"exit_code": "SIGKILL"}, -9),
        ({"exit_code": 1, "signal": "SIGSEGV"}, -11),
        ({"signal": 9}, -9),
        ({"exit_signal": "term"}, -15),
        ({"exit_code": 1, "signal": None}, 1),
    ],
)
def test_plain_spellings_need_no_note(entry: dict[str, object], code: int | None):
    assert read_exit(entry) == (code, None)


@pytest.mark.parametrize(("status", "code"), [(137, -9), (139, -11), (134, -6), (143, -15), ("137", -9)])
def test_a_shells_or_containers_status_is_the_signal_and_says_so(status: object, code: int):
    found, note = read_exit({"exit_code": status})
    assert found == code
    assert note == f"exit status {status} read as signal {-code}"


@pytest.mark.parametrize(
    "entry",
    [{"exit_code": "crashed"}, {"exit_code": []}, {"exit_code": True}, {"signal": "SIGWHAT"}, {"exit_code": -999}],
)
def test_what_cannot_be_read_is_not_passed_off_as_still_running(entry: dict[str, object]):
    code, note = read_exit(entry)
    assert code is None
    assert note is not None
    assert "not known" in note
