"""manifest.json: look times, ranks and hosts of files, under the paths that observations carry."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import manifest
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.problem import ProblemKind

DUMP = "flight/nccl_trace_rank_2"
DIGEST = "ab" * 32
DOCUMENT: dict[str, object] = {
    "schema": "rankmuster.bundle/1",
    "files": {DUMP: {"look_time": 1795986513.8, "rank": 2, "host": "10.0.0.7", "sha256": DIGEST.upper()}},
    "clock_offsets": {"10.0.0.7": -0.004},
    "collectors": {"ras": "answered", "flight": {"outcome": "timed out", "seconds": 5}},
}
TEXT = json.dumps(DOCUMENT).encode()


def read(document: object, path: str = "manifest.json") -> tuple[ManifestFacts, Reading]:
    blob = Blob(path, document if isinstance(document, bytes) else json.dumps(document).encode())
    assert manifest.recognises(blob)
    reading = manifest.read(blob)
    (facts,) = reading.observations
    assert isinstance(facts, ManifestFacts)
    return facts, reading


def test_what_a_manifest_says_of_a_file():
    facts, reading = read(DOCUMENT)
    assert facts.look_times == {DUMP: 1795986513.8}
    assert (facts.ranks, facts.hosts, facts.digests) == ({DUMP: 2}, {DUMP: "10.0.0.7"}, {DUMP: DIGEST})
    assert facts.clock_offsets == {"10.0.0.7": -0.004}
    assert facts.outcomes == {"ras": "answered", "flight": "timed out"}
    assert reading.problems == ()


def test_separate_maps_and_lists_say_the_same():
    apart, _ = read({"look_times": {DUMP: 1795986513.8}, "ranks": {DUMP: 2}, "hosts": {DUMP: "10.0.0.7"}})
    listed, _ = read(
        {
            "schema": "rankmuster.bundle/1",
            "files": [{"path": "./" + DUMP, "look_time": "2026-11-29T21:08:33.8Z", "rank": "2", "host": "10.0.0.7"}],
        }
    )
    for facts in (apart, listed):
        assert (facts.look_times, facts.ranks, facts.hosts) == ({DUMP: 1795986513.8}, {DUMP: 2}, {DUMP: "10.0.0.7"})


def test_paths_are_those_of_the_files_beside_it_also_inside_an_archive():
    assert list(read(DOCUMENT, "incident.tar.gz!llm-0/manifest.json")[0].ranks) == [f"incident.tar.gz!llm-0/{DUMP}"]
    assert list(read(DOCUMENT, "incident.tar.gz!manifest.json")[0].ranks) == [f"incident.tar.gz!{DUMP}"]


def test_fields_of_the_wrong_type_are_named():
    facts, reading = read({"look_times": {"a": "noon", "b": 1795986513}, "clock_offsets": {"h": "fast"}})
    assert facts.look_times == {"b": 1795986513.0}
    (problem,) = reading.problems
    assert problem.kind is ProblemKind.CORRUPT
    assert "look_time of a" in problem.message
    assert "clock offset of h" in problem.message


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)), st.binary(max_size=100))
@settings(max_examples=80, deadline=None)
def test_no_damage_raises(cut: int, start: int, noise: bytes):
    for damaged in (TEXT[:cut], TEXT[start:], TEXT[:cut] + noise + TEXT[start:], noise):
        assert isinstance(manifest.read(Blob("x", damaged)), Reading)
        manifest.recognises(Blob("x", damaged))
