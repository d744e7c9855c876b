"""flight/asked.json: when dumps were asked for, which tells what slowed the job and how long a dump takes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rankmuster.evidence import dump_requests
from rankmuster.evidence.blob import Blob
from rankmuster.model.flight import DumpRequest

DOCUMENT = {
    "schema": "rankmuster.dump-requests/1",
    "requests": [
        {"rank": 2, "pid": 5892, "asked": 1795986505.1, "written": 1795986511.4},
        {"rank": 3, "pid": 5893, "asked": 1795986505.2, "written": None},
        {"rank": 4, "asked": "yesterday"},
        "nonsense",
    ],
}
TEXT = json.dumps(DOCUMENT).encode()


def test_each_request_that_has_a_time_is_read() -> None:
    blob = Blob("flight/asked.json", TEXT)
    assert dump_requests.recognises(blob)
    reading = dump_requests.read(blob)
    assert reading.observations == (
        DumpRequest("flight/asked.json", 2, 1795986505.1, 1795986511.4),
        DumpRequest("flight/asked.json", 3, 1795986505.2, None),
    )
    assert "2 request(s)" in reading.problems[0].message


def test_another_json_is_not_taken_for_it() -> None:
    assert not dump_requests.recognises(Blob("manifest.json", b'{"schema": "rankmuster.bundle/1"}'))


@given(st.integers(0, len(TEXT)), st.binary(max_size=20))
def test_damage_never_raises(cut: int, more: bytes) -> None:
    dump_requests.read(Blob("flight/asked.json", TEXT[:cut] + more))
