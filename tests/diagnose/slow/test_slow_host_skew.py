"""Enqueue times of hosts whose clocks differ: the difference is taken off, and what is left carries its error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from build_evidence import instance

from build_slow import context_of, play, tensor_parallel
from rankmuster.diagnose.slow.measure import measure

HOSTS = ["10.0.0.1"] * 4 + ["10.0.0.2"] * 4


def world(**fields: object):  # type: ignore[no-untyped-def]
    return tensor_parallel(8, 4, steps=300, timing=False, **fields)


def test_a_clock_ahead_by_seconds_makes_nobody_late() -> None:
    clocks = dict.fromkeys(range(4, 8), 3.0)
    report = measure(context_of(world(clocks=clocks), instance(8, hosts=HOSTS)))
    found = {one.rank: one for one in report.host_skew if one.label == "default_pg"}
    assert len(found) == 8
    assert max(one.behind.p50 for one in found.values()) < 5.0  # ms, of 3,000
    assert {one.error_ms for rank, one in found.items() if rank >= 4} == {100.0}
    assert not any(one.own_removed for one in found.values())


def test_on_one_host_there_is_no_error() -> None:
    report = measure(context_of(world(late={2: 6.0}), instance(8, hosts=["10.0.0.1"] * 8)))
    found = {one.rank: one for one in report.host_skew if one.label == "tp0"}
    assert {one.error_ms for one in found.values()} == {0.0}
    assert found[2].behind.p90 == pytest.approx(6.0, abs=1.0)


def test_where_hosts_are_unknown_only_variation_shows() -> None:
    clocks = dict.fromkeys(range(4, 8), 3.0)
    report = measure(context_of(world(clocks=clocks)))
    assert report.host_skew
    assert all(one.own_removed for one in report.host_skew)
    assert max(one.behind.p50 for one in report.host_skew) < 5.0


def test_a_host_whose_clock_nothing_ties_to_the_others_is_left_out_and_named() -> None:
    dumps = play(world(clocks=dict.fromkeys(range(4, 8), 3.0)))
    for rank, dump in dumps.items():
        unseen = np.zeros(len(dump.columns), dtype=np.int64)
        dumps[rank] = replace(dump, columns=replace(dump.columns, completed_ns=unseen))
    report = measure(context_of(dumps, instance(8, hosts=HOSTS)))
    assert report.slow == ()
    assert any("10.0.0.1" in note and "10.0.0.2" in note for note in report.notes)
    assert report.host_skew == () or max(one.behind.high for one in report.host_skew) < 50.0
