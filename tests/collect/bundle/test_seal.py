"""The manifest: read by the evidence layer, sealed, and tolerant of what later versions add."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from making import sealed

from rankmuster.collect.bundle import manifest
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Piece
from rankmuster.evidence import manifest as reader
from rankmuster.evidence.blob import Blob
from rankmuster.model.instance import ManifestFacts

PIECE = Piece("flight/nccl_trace_rank_2", "flight-pipes", 5, "a" * 64, 1795986513.8, 2, "10.0.0.7")
ENDED = (
    manifest.Report("ras", Outcome(Ending.DECLINED, "not asked: token=planted-token", ("careful",)), 1.0, 0.1, 3.0),
    manifest.Report("flight-pipes", Outcome(Ending.DONE, "one dump"), 1.0, 0.1, 3.0),
)
AROUND = manifest.Circumstances(
    "0.1.0", "n1", 1.0, 2.0, 20.0, {"name": "llm-0", "world_size": 4, "ranks": [2]}, ("a note",), {}, {"n1": -0.004}
)


def test_the_evidence_layer_reads_what_is_written() -> None:
    blob = Blob("manifest.json", manifest.sealed_bytes(manifest.build([PIECE], ENDED, AROUND)))
    assert reader.recognises(blob)
    reading = reader.read(blob)
    assert reading.problems == ()
    (facts,) = reading.observations
    assert isinstance(facts, ManifestFacts)
    assert facts.look_times == {PIECE.path: 1795986513.8}
    assert facts.ranks == {PIECE.path: 2}
    assert facts.hosts == {PIECE.path: "10.0.0.7"}
    assert facts.digests == {PIECE.path: "a" * 64}
    assert facts.clock_offsets == {"n1": -0.004}
    assert facts.outcomes == {"ras": "declined", "flight-pipes": "done"}


def test_it_is_not_taken_for_a_description_of_the_instance() -> None:
    from rankmuster.evidence import instance

    data = manifest.sealed_bytes(manifest.build([PIECE], ENDED, AROUND))
    assert not instance.recognises(Blob("manifest.json", data))


def test_the_same_bundle_has_the_same_bytes_and_no_secret() -> None:
    first = manifest.sealed_bytes(manifest.build([PIECE], ENDED, AROUND))
    assert first == manifest.sealed_bytes(manifest.build([PIECE], ENDED, AROUND))
    assert b"planted-token" not in first


def test_what_was_sealed_is_known_and_what_was_changed_too() -> None:
    data = manifest.sealed_bytes(manifest.build([PIECE], ENDED, AROUND))
    assert manifest.parse(data).sealed
    assert not manifest.parse(data.replace(b'"n1"', b'"n2"')).sealed
    assert not manifest.parse(data.replace(b'"seal"', b'"sole"')).sealed
    assert not manifest.parse(data + b" ").sealed


def test_a_bundle_of_next_year_with_more_fields_is_read() -> None:
    data = sealed({"a": b"x"}, weather={"sky": "blue"}, schema="rankmuster.bundle/1.4")
    read = manifest.parse(data)
    assert read.sealed
    assert read.document["weather"] == {"sky": "blue"}


@pytest.mark.parametrize("schema", ["rankmuster.bundle/2", "rankmuster.bundle/10"])
def test_another_major_version_is_refused_with_a_clear_sentence(schema: str) -> None:
    with pytest.raises(manifest.ManifestRefused, match=f"{schema}.*this version reads 'rankmuster.bundle/1'") as caught:
        manifest.parse(sealed({}, schema=schema))
    assert caught.value.unreadable


def changed(change: Callable[[dict[str, object]], object]) -> bytes:
    document = json.loads(sealed({"a": b"x"}))
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"schema": 1}',
        b'{"schema": "rankmuster.verdict/1"}',
        b'{"schema": "rankmuster.bundle/1"}',
        b'{"schema": "rankmuster.bundle/1", "files": {}, "files": {}}',
        b'{"schema": "rankmuster.bundle/1", "files": {"a": 1}}',
        changed(lambda d: d.update(files=[])),
        changed(lambda d: d.update(files={"a": {"size": -1, "sha256": "a" * 64}})),
        changed(lambda d: d.update(files={"a": {"size": True, "sha256": "a" * 64}})),
        changed(lambda d: d.update(files={"a": {"size": 1, "sha256": "A" * 64}})),
        changed(lambda d: d.update(files={"../a": {"size": 1, "sha256": "a" * 64}})),
        changed(lambda d: d.update(files={"/a": {"size": 1, "sha256": "a" * 64}})),
        changed(lambda d: d.update(files={"a/./b": {"size": 1, "sha256": "a" * 64}})),
        changed(lambda d: d.update(files={"a\\b": {"size": 1, "sha256": "a" * 64}})),
        changed(lambda d: d.update(files={"a\x1b[2J": {"size": 1, "sha256": "a" * 64}})),
        changed(lambda d: d.update(files={"x/" * 40 + "a": {"size": 1, "sha256": "a" * 64}})),
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(manifest.ManifestRefused):
        manifest.parse(data)
