"""The record: sealed by its hash, verifiable by anybody, unchanged by a reader, and not to be forged unnoticed."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admitted import admission, run_of
from rankmuster.admission.verify import NotARecord, verify
from rankmuster.model.admission import AdmissionRecord, Decision
from rankmuster.report.admission_json import digest, render, seal, to_plain


@pytest.fixture(scope="module")
def record() -> AdmissionRecord:
    return admission([run_of("nt_ar_1.txt")]).record


def test_a_record_as_written_verifies(record: AdmissionRecord) -> None:
    found = verify(render(record).encode())
    assert (found.hash, found.decision, found.nodes) == (record.hash, "provisional", ("node7",))
    assert found.document["schema"] == "rankmuster.admission/1"
    assert len(found.document["runs"][0]["measurements"]) == 32


def test_layout_and_order_of_keys_do_not_matter(record: AdmissionRecord) -> None:
    document = json.loads(render(record))
    other = json.dumps(dict(reversed(document.items())), indent=None, ensure_ascii=False)
    assert verify(other.encode()).hash == record.hash


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"decision": "provisional"', '"decision": "pass"'),
        ('"node7"', '"node8"'),
        ('"retests": 0', '"retests": 1'),
        ('"busbw": 339.', '"busbw": 349.'),
    ],
)
def test_a_change_is_seen(before: str, after: str, record: AdmissionRecord) -> None:
    text = render(record)
    assert before in text
    with pytest.raises(NotARecord, match="not as it was written"):
        verify(text.replace(before, after, 1).encode())


def test_a_key_that_stands_twice_is_refused(record: AdmissionRecord) -> None:
    twice = render(record).replace('"decision"', '"decision": "pass", "decision"', 1)
    with pytest.raises(NotARecord, match="twice"):
        verify(twice.encode())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no whole JSON"),
        (b"[]", "no object"),
        (b'{"schema": "rankmuster.admission/2"}', "this version reads"),
        (b'{"schema": "rankmuster.admission/1", "hash": NaN}', "no whole JSON"),
        (b"[" * 100_000, "no whole JSON"),
        (b"\xff\xfe", "no whole JSON"),
    ],
)
def test_what_is_no_record(data: bytes, words: str) -> None:
    with pytest.raises(NotARecord, match=words):
        verify(data)


def test_a_cut_record_is_refused(record: AdmissionRecord) -> None:
    with pytest.raises(NotARecord, match="copy it again"):
        verify(render(record).encode()[:-200])


def test_numbers_that_are_none_are_null_and_still_hash(record: AdmissionRecord) -> None:
    odd = seal(replace(record, started_at=math.nan, ended_at=math.inf))
    assert verify(render(odd).encode()).document["started_at"] is None


def test_the_hash_is_over_everything_else_and_over_itself_not(record: AdmissionRecord) -> None:
    assert digest(to_plain(record)) == digest(to_plain(replace(record, hash="other")))
    assert digest(to_plain(record)) != digest(to_plain(replace(record, decision=Decision.PASS)))
    assert record.hash.startswith("sha256:")


def test_names_of_any_characters_survive(record: AdmissionRecord) -> None:
    odd = seal(replace(record, nodes=("knoten-ä\x1b[31m\udcff",), notes=("\0",)))
    assert verify(render(odd).encode()).hash == odd.hash


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with contextlib.suppress(NotARecord):
        verify(data)
