"""Damaged JSON: what stands before the damage, and never half a record."""

from __future__ import annotations

import json
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import json_text

DOCUMENT = {"world": 2, "processes": [{"rank": 0, "exit": None}, {"rank": 1, "exit": -9}], "env": {"A": 'x,]}\\"y'}}
TEXT = json.dumps(DOCUMENT).encode()


def test_a_whole_document_is_itself():
    assert json_text.parse(b"\xef\xbb\xbf" + TEXT) == json_text.Parsed(DOCUMENT, None)


@given(st.integers(1, len(TEXT) - 1))
@settings(max_examples=100, deadline=None)
def test_a_cut_document_keeps_only_whole_records(cut: int):
    parsed = json_text.parse(TEXT[:cut])
    assert parsed.damage is not None
    assert isinstance(parsed.value, dict)
    processes = parsed.value.get("processes", [])
    assert processes == DOCUMENT["processes"][: len(processes)]
    assert parsed.value.get("world", 2) == 2


def test_two_documents_one_after_the_other_are_the_first_and_damage():
    parsed = json_text.parse(TEXT + TEXT)
    assert (parsed.value, bool(parsed.damage)) == (DOCUMENT, True)


def test_numbers_and_nesting_meant_to_hurt():
    assert json_text.parse(b'{"a": ' + b"9" * 100_000 + b"}").value == {"a": float("inf")}
    assert json_text.parse(b'{"a": NaN}').value == {"a": None}
    deep = json_text.parse(b"[" * (sys.getrecursionlimit() * 50))
    assert deep.damage is not None
    assert json_text.parse(b'{"a": "' + b"\\" * 1_000_000).value == {}


@given(st.binary(max_size=300), st.integers(0, len(TEXT)))
@settings(max_examples=100, deadline=None)
def test_no_bytes_raise(noise: bytes, cut: int):
    json_text.parse(noise)
    json_text.parse(TEXT[:cut] + noise + TEXT[cut:])
