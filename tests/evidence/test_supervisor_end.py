"""platform/supervisor.json: how a group ended, as whoever ran it saw it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmuster.evidence import instance, supervisor_end
from rankmuster.evidence.blob import Blob
from rankmuster.model.supervised import SupervisedEnd

DOCUMENT = {
    "schema": "rankmuster.supervisor/1",
    "instance": "llm-0",
    "ended": True,
    "ended_by": "",
    "launcher": {"pid": 3318, "name": "torchrun", "exit_code": -9, "exited_at": 1796049101.4},
    "log": "/var/log/llm-0.log",
    "members": [{"pid": 3503, "rank": 0, "signalled": 15}, {"pid": 3504, "rank": 1, "signalled": None}, "nonsense"],
}
TEXT = json.dumps(DOCUMENT).encode()
PATH = "platform/supervisor.json"


def test_the_end_is_read() -> None:
    blob = Blob(PATH, TEXT)
    assert supervisor_end.recognises(blob)
    assert not instance.recognises(blob)
    reading = supervisor_end.read(blob)
    assert reading.problems == ()
    assert reading.observations == (
        SupervisedEnd(PATH, True, "", 3318, "torchrun", -9, 1796049101.4, 1, "/var/log/llm-0.log"),
    )


@pytest.mark.parametrize("name", sorted(DOCUMENT.keys() - {"schema", "instance"}))
def test_a_field_of_the_wrong_type_costs_itself_alone(name: str) -> None:
    reading = supervisor_end.read(Blob(PATH, json.dumps({**DOCUMENT, name: 7.5}).encode()))
    assert len(reading.observations) == 1


@given(st.integers(0, len(TEXT)), st.binary(max_size=20))
def test_no_bytes_raise(cut: int, more: bytes) -> None:
    supervisor_end.read(Blob(PATH, TEXT[:cut] + more))
    supervisor_end.read(Blob(PATH, TEXT[:cut] + more + TEXT[cut:]))
