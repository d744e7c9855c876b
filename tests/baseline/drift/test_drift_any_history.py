"""Whatever a store may hold, there is an answer: sparse, odd, one-sided and broken histories and fingerprints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_fleet import DAY, PROFILE, START, fingerprint, fleet
from rankmuster.baseline.drift.examine import examine
from rankmuster.baseline.drift.fleet import Fleet, NodePast
from rankmuster.model.benchmark import Cell, Operation
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.history import CellHistory, ClassHistory
from rankmuster.model.unknown import Unknown

VALUES = st.sampled_from([float("nan"), 0.0, -1.0, 1e-100, 1e100, 1.0, 100.0, 101.0, 99.0, 50.0])
TIMES = st.sampled_from([START, START + 1, START + DAY, START + 2 * DAY, START + 30 * DAY, 0.0, 1e12])


@st.composite
def histories(draw: st.DrawFn, class_hash: str) -> ClassHistory:
    count = draw(st.integers(1, 25))
    times = np.sort(np.array(draw(st.lists(TIMES, min_size=count, max_size=count))))
    nodes = tuple(draw(st.lists(st.sampled_from(["node-h-1", "node-h-2", "node-h-3"]), min_size=count, max_size=count)))
    cells = {}
    for size in draw(st.sets(st.sampled_from([1, 1 << 13, 1 << 20, 1 << 28]))):
        rows = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True))
        columns = [np.array(draw(st.lists(VALUES, min_size=len(rows), max_size=len(rows)))) for _ in range(4)]
        cell = Cell(draw(st.sampled_from(list(Operation))), size, "float")
        cells[cell] = CellHistory(cell, np.array(sorted(rows)), *columns)
    return ClassHistory(
        class_hash, PROFILE, nodes, times, tuple(f"r{n}" for n in range(count)), cells, (), count, {"error": 2}
    )


@st.composite
def fingerprints(draw: st.DrawFn, host: str) -> Fingerprint:
    unknown = Unknown("nobody said")
    return fingerprint(
        host,
        day=draw(st.sampled_from([0.0, 1.0, 29.0])),
        driver=draw(st.sampled_from(["580.1", "580.2"])),
        class_hash=draw(st.sampled_from(["class-580.1", "class-580.2", unknown])),
        node_hash=draw(st.sampled_from([f"node-{host}", unknown])),
        nic_order=draw(st.sampled_from([(), (1, 0), unknown])),
        network_device_set=draw(st.sampled_from([(), unknown])),
        made_from=draw(st.sampled_from([{}, {"gpus": unknown}, {"gpus": "x"}, {"gpus": [{"uuid": 3}, 4]}])),
    )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_there_is_always_an_answer(data: st.DataObject) -> None:
    classes = data.draw(st.sets(st.sampled_from(["class-580.1", "class-580.2"])))
    nodes = []
    for host in ("h-1", "h-2", "h-3"):
        prints = sorted(
            (data.draw(fingerprints(host)) for _ in range(data.draw(st.integers(0, 3)))), key=lambda one: one.taken_at
        )
        nodes.append(NodePast(host, data.draw(st.sampled_from([f"node-{host}", None])), tuple(prints)))
    made = Fleet(tuple(nodes), tuple(data.draw(histories(name)) for name in sorted(classes)), START + 30 * DAY)
    report = examine(made)
    assert report.nodes == 3
    assert report.stop_rollout <= bool(report.findings)
    for finding in report.findings:
        assert finding.statement
        assert finding.size is None or np.isfinite(finding.size)


def test_no_node_at_all_is_no_error() -> None:
    report = examine(Fleet((), (), START))
    assert (report.nodes, report.findings, report.classes) == (0, (), ())


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_nodes_and_histories_changes_nothing(seed: int) -> None:
    def driver(node: int, day: float) -> str:
        return "580.2" if node < 4 and day >= 12 else "580.1"

    made = fleet(24, days=20, seed=seed, driver=driver, speed=lambda node, day: 0.9 if node < 6 and day >= 12 else 1.0)
    turned = replace(made, nodes=made.nodes[::-1], histories=made.histories[::-1])
    assert examine(turned).findings == examine(made).findings
    assert examine(turned).why == examine(made).why
