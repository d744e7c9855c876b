"""What a Job's pod says gets through a log that others write into, or it is not believed."""

from __future__ import annotations

import contextlib
import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_words import (
    BEGIN,
    END,
    MOST_MESSAGE,
    Ending,
    NotSaid,
    Summary,
    message,
    packed,
    summary_of,
    unpacked,
)

PAYLOAD = Payload(kind="alone", node="n1", decision="pass", reason="fine", parts={"record": bytes(range(256)) * 40})


def summary(payload: Payload, **changes: object) -> Summary:
    _, sha256, size = packed(payload)
    values = {"kind": payload.kind, "node": payload.node, "ending": Ending.DONE, "sha256": sha256, "size": size}
    return Summary(**{**values, **changes})  # type: ignore[arg-type]


def test_a_result_comes_back_whole_from_between_other_words() -> None:
    text, _, _ = packed(PAYLOAD)
    log = b"words\n" + BEGIN + b"\nan older attempt, cut\n" + text + b"\xff\x00 later words\n"
    assert unpacked(log, summary_of(message(summary(PAYLOAD)).decode())) == PAYLOAD
    assert max(len(line) for line in text.splitlines()) <= 120


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 4_000), st.integers(0, 200))
def test_a_log_that_was_touched_anywhere_gives_the_same_result_or_none(noise: bytes, at: int, gone: int) -> None:
    text, _, _ = packed(PAYLOAD)
    place = at % len(text)
    log = text[:place] + noise + text[place + gone :]
    with contextlib.suppress(NotSaid):
        assert unpacked(log, summary(PAYLOAD)) == PAYLOAD


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.none(),
        st.text(max_size=200),
        st.recursive(
            st.none() | st.text(max_size=9),
            lambda one: st.dictionaries(st.sampled_from(["schema", "kind", "node", "ending", "sha256", "size"]), one),
            max_leaves=6,
        ).map(json.dumps),
    )
)
def test_any_termination_message_is_read_or_refused_with_a_word(text: str | None) -> None:
    with pytest.raises(NotSaid):
        summary_of(text)


def test_a_termination_message_fits_whatever_the_reason_is() -> None:
    made = message(summary(PAYLOAD, reason="ä" * 50_000, seal="s" * 80))
    assert len(made) <= MOST_MESSAGE
    assert summary_of(made.decode()).reason.startswith("ä")


def test_a_result_that_unpacks_to_gigabytes_is_not_unpacked() -> None:
    import base64

    import zstandard

    bomb = zstandard.ZstdCompressor(level=3).compress(b"\0" * (65 << 20))
    log = BEGIN + b"\n" + base64.b64encode(bomb) + b"\n" + END
    with pytest.raises(NotSaid, match="more than 64 MiB"):
        unpacked(log, summary(PAYLOAD, sha256=hashlib.sha256(b"").hexdigest()))


def test_a_result_of_another_form_with_the_right_hash_is_refused() -> None:
    import base64

    import zstandard

    for odd in (
        b"[]",
        b"{}",
        b'{"schema": "x", "parts": {}}',
        b"\xff",
        b'{"parts": 3, "schema": "rankmuster.admit-job/1"}',
    ):
        log = BEGIN + b"\n" + base64.b64encode(zstandard.ZstdCompressor().compress(odd)) + b"\n" + END
        with pytest.raises(NotSaid):
            unpacked(log, summary(PAYLOAD, sha256=hashlib.sha256(odd).hexdigest()))
