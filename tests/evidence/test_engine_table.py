"""The table of series: what it promises to the readers."""

from __future__ import annotations

import re

import pytest

from rankmuster.evidence import engine_table as table


@pytest.mark.parametrize("name", sorted(table.BY_NAME))
def test_every_spelling_is_found_by_the_recognisers_prefix(name: str):
    assert re.match(table.PREFIX, name.encode())


@pytest.mark.parametrize("engine", table.ENGINES, ids=lambda engine: engine.name)
def test_every_engine_tells_its_load(engine: table.Engine):
    roles = {series.role for series in engine.series}
    assert {table.Role.RUNNING, table.Role.WAITING} <= roles


def test_no_counter_of_finished_requests_passes_for_a_step():
    ends = {"sglang:generation_tokens_total", "sglang:prompt_tokens_total", "trtllm_generation_tokens_total"}
    assert all(series.role is table.Role.END for name in ends for _, series in table.BY_NAME[name])


@pytest.mark.parametrize("engine", table.ENGINES, ids=lambda engine: engine.name)
def test_a_histogram_of_step_times_is_no_series_of_progress(engine: table.Engine):
    assert not {one.name for one in engine.step_seconds} & set(table.BY_NAME)


def test_engines_whose_counters_all_wait_for_ends_say_so():
    assert [engine.name for engine in table.ENGINES if not engine.counts_steps] == ["tensorrt-llm"]


def test_names_of_ones_own_have_one_spelling():
    series = table.Series("trtllm_x", table.Role.STEP)
    engine = table.Engine("mine", (), (series,))
    assert table.index((engine,), spelled=False) == {"trtllm_x": ((engine, series),)}
    assert {"trtllm:x", "ray_trtllm_x"} <= set(table.index((engine,)))
