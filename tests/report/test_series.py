"""Curves say what counters did, and nothing where they were unknown or reset."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from rankmuster.model.job import Job
from rankmuster.report.series import bounds, engine_curves, link_rate, step


def test_a_counter_that_restarts_is_unknown_not_negative() -> None:
    rate = step(np.array([0.0, 10.0, 2.0, 4.0]), np.array([0.0, 1.0, 2.0, 2.0]))
    assert rate[0] == 10
    assert np.isnan(rate[1:]).all()


def test_a_counter_missing_from_one_sample_is_no_jump_of_the_links(by_hand: SimpleNamespace) -> None:
    track = by_hand.track(0, 90.0, True)
    holed = track.nvlink_tx_kib.copy()
    holed[5] = np.nan
    rate = link_rate(replace(track, nvlink_tx_kib=holed)).value
    assert np.nanmax(rate) < 2.1e6


def test_pcie_speaks_only_where_nvlink_and_rdma_do_not(by_hand: SimpleNamespace) -> None:
    track = by_hand.track(0, 90.0, True)
    blank = np.full(len(track.time), np.nan)
    bare = replace(track, nvlink_tx_kib=blank, nvlink_rx_kib=blank, pcie_tx_kib=track.nvlink_tx_kib)
    assert abs(np.nanmean(link_rate(bare).value) - 1e6) < 1e3


def test_engine_tokens_stop_when_work_stops(job: Job, by_hand: SimpleNamespace) -> None:
    (engine,) = engine_curves(job)
    rate = engine.token_rate
    assert rate.time[rate.value > 0].max() <= by_hand.start + 3
    assert not engine.moves_per_request


def test_one_observation_still_has_an_axis() -> None:
    assert bounds((None, None), [np.array([5.0])]) == (5.0, 6.0)
    assert bounds((None, None), [np.array([np.nan])]) is None
