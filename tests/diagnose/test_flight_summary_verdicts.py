"""Dumps give the same verdict whether they are read themselves or through their nodes' summaries."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from build_flight import batch, blobs, dumps, instead, manifest, one_group, parallel, recv, send, without

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence import flight_summary
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import Evidence, gather, load
from rankmuster.evidence.flight_summary_node import OF_A_NODE, gathered
from rankmuster.evidence.flight_summary_write import encode
from rankmuster.model.flight import FlightDump
from rankmuster.model.verdict_json import verdict_to_plain

CASES = sorted(path.parent for path in (Path(__file__).parent.parent / "cases").glob("*/truth.json"))

SWAPPED = parallel(2, 2, 2)
WORLDS = {
    "healthy, moving": parallel(4, 2, 2, look=0.02, timing=True),
    "stopped rank": parallel(4, 2, 2, stops={5: 20}),
    "stalled GPU": parallel(2, 2, 2, stalls={3: 11}, timing=True),
    "skipped call": without(one_group(4), 2, 17),
    "another call": instead(SWAPPED, 3, 9, SWAPPED.programs[3][10]),
    "absent": one_group(4, absent=frozenset({2}), stops={2: 20}),
    "wrapped": one_group(4, rounds=300, ring=100, stops={1: 250}),
    "gloo": one_group(4, backend="gloo", stops={1: 25}),
    "only active": one_group(8, only_active=True, stops={6: 25}),
    "old schema": one_group(4, version="2.1", status=False, timeout=False, stops={0: 9}),
    "batches": one_group(
        2, calls=[batch("0", send("0", 1), recv("0", 1))], stops={1: 0}
    ),
    "a node": replace(parallel(4, 2, 2, stops={5: 20}), absent=frozenset({12, 13, 14, 15})),
}  # fmt: skip


def told(evidence: Evidence) -> str:
    """The verdict as JSON. Paths of dumps begin with their node, where they came through its summary."""
    text = json.dumps(verdict_to_plain(diagnose(evidence).verdict), ensure_ascii=False, indent=1)
    return text.replace("node-a/", "").replace("node-b/", "")


def through_summaries(files: list[Blob], nodes: int = 2) -> list[Blob]:
    """The same evidence in two files, half of the dumps in each."""
    share = -(-len(files) // nodes)
    halves = [files[start : start + share] for start in range(0, len(files), share)]
    return [
        Blob(f"{name}.rfs", encode(gathered(gather(own, OF_A_NODE), name, None, 1795980600.0)))
        for name, own in zip(("node-a", "node-b"), halves, strict=False)
    ]


@pytest.mark.parametrize("name", WORLDS)
def test_played_worlds(name: str) -> None:
    files = blobs(dumps(WORLDS[name]), json_ranks=(1,))
    assert told(gather(through_summaries(files))) == told(gather(files))


def test_look_times_of_the_nodes_manifest() -> None:
    files = blobs(dumps(one_group(4, stops={2: 20})))
    newest = max(dump.columns.newest_ns for dump in gather(files).of(FlightDump)) / 1e9
    looks = manifest({file.path: newest + 0.05 for file in files})
    (summary,) = through_summaries([looks, *files], nodes=1)
    assert told(gather([summary])) == told(gather([looks, *files])) != told(gather(files))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_captured_cases(case: Path) -> None:
    evidence = load(case / "input.tar.zst")
    if not evidence.of(FlightDump):
        pytest.skip("no dump in this case")
    reading = flight_summary.read(Blob("node-a.rfs", encode(gathered(evidence, "node-a", None, 1795980600.0))))
    dumps_again = tuple(value for value in reading.observations if isinstance(value, FlightDump))
    again = replace(evidence, by_type={**evidence.by_type, FlightDump: dumps_again})
    assert told(again) == told(evidence)


def test_a_rank_whose_dump_is_unusable_has_left_one() -> None:
    """Read itself or through a summary: nobody is called missing for a file that a failing disk has spoilt."""
    world = one_group(4, stops={2: 20})
    files = [Blob(file.path, b"") if file.path.endswith("_2") else file for file in blobs(dumps(world))]
    for evidence in (gather(files), gather(through_summaries(files))):
        verdict = diagnose(evidence).verdict
        assert not [suspect for suspect in verdict.suspects if suspect.role.value == "culprit"]


def test_a_node_whose_summary_is_damaged_has_left_dumps() -> None:
    files = blobs(dumps(one_group(4, stops={2: 20})))
    whole, half = through_summaries(files)
    spoilt = replace(half, data=half.data[:-1])
    verdict = diagnose(gather([whole, spoilt])).verdict
    assert not [suspect for suspect in verdict.suspects if suspect.role.value == "culprit"]
    (line,) = [problem for problem in verdict.problems if "summary" in problem]
    assert "ranks 2, 3 on node-b" in line


@pytest.mark.parametrize("name", WORLDS)
def test_a_summary_left_beside_its_dumps_changes_nothing(name: str) -> None:
    """`summarize` writes into the folder one stands in: the folder may then be diagnosed as before."""
    files = blobs(dumps(WORLDS[name]))
    beside = json.loads(told(gather([*files, *through_summaries(files)])))
    alone = json.loads(told(gather(files)))
    for field in ("class", "subclass", "progress", "confidence", "suspects", "first_divergence"):
        assert beside[field] == alone[field]
