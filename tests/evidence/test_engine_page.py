"""Metrics pages: load and progress per replica, whatever the engine calls them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import engine_page
from rankmuster.evidence import engine_table as table
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.problem import ProblemKind
from rankmuster.model.stamp import unix

VLLM = """\
# HELP vllm:num_requests_running Requests in the running batch.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="lab"} 16.0
# HELP vllm:num_requests_waiting Requests waiting.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="lab"} 0.0
# HELP vllm:prompt_tokens_total Prompt tokens.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="lab"} 2048.0
# HELP vllm:generation_tokens_total Generated tokens.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="lab"} 2400.0
"""
SGLANG = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 5.0
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="1"} 5.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",priority="",tp_rank="0"} 3.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",priority="1",tp_rank="0"} 2.0
# TYPE sglang:realtime_tokens_total counter
sglang:realtime_tokens_total{engine_type="unified",mode="decode",model_name="m",pp_rank="0",tp_rank="0"} 48211.0
sglang:realtime_tokens_total{engine_type="unified",mode="prefill_compute",model_name="m",pp_rank="0",tp_rank="0"} 11.0
# TYPE sglang:token_usage gauge
sglang:token_usage{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 0.25
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{engine_type="unified",is_streaming="true",model_name="m"} 30100.0
"""


def read(page: str | bytes, path: str = "engine/1795986477.893.prom") -> Reading:
    blob = Blob(path, page.encode() if isinstance(page, str) else page)
    return engine_page.read(blob) if engine_page.recognises(blob) else Reading()


def only_page(reading: Reading) -> EnginePage:
    (page,) = reading.observations
    assert isinstance(page, EnginePage)
    return page


def only_stream(reading: Reading) -> EngineStream:
    (stream,) = only_page(reading).streams
    return stream


def test_a_captured_vllm_page_tells_load_and_steps_at_the_time_of_its_name():
    page = only_page(read(VLLM))
    assert (page.engine, page.time) == ("vllm", unix(1795986477.893))
    (stream,) = page.streams
    assert (stream.key, stream.running, stream.waiting, stream.paused) == ("0", 16.0, 0.0, False)
    assert stream.steps == {"vllm:generation_tokens_total": 2400.0, "vllm:prompt_tokens_total": 2048.0}
    assert stream.ends == {}


def test_each_data_parallel_replica_of_vllm_is_a_stream_of_its_own():
    page = VLLM + 'vllm:num_requests_running{engine="1",model_name="lab"} 2.0\n'
    assert [(s.key, s.running) for s in only_page(read(page)).streams] == [("0", 16.0), ("1", 2.0)]


def test_the_steps_of_vllm_are_counted_by_the_histogram_of_iterations():
    page = VLLM + 'vllm:iteration_tokens_total_count{engine="0",model_name="lab"} 2911.0\n'
    assert only_stream(read(page)).steps["vllm:iteration_tokens_total_count"] == 2911.0


@pytest.mark.parametrize(("state", "paused"), [("awake", False), ("weights_offloaded", True), ("discard_all", True)])
def test_a_sleeping_vllm_is_paused_not_stuck(state: str, paused: bool):
    states = "".join(
        f'vllm:engine_sleep_state{{engine="0",sleep_state="{s}"}} {float(s == state)}\n'
        for s in ("awake", "weights_offloaded", "discard_all")
    )
    assert only_stream(read(VLLM + states)).paused is paused


def test_ranks_of_one_sglang_replica_are_not_counted_twice_nor_are_priorities():
    stream = only_stream(read(SGLANG))
    assert (stream.running, stream.waiting) == (5.0, 3.0)


def test_sglang_token_totals_are_ends_and_realtime_tokens_are_steps():
    stream = only_stream(read(SGLANG))
    assert stream.steps == {
        "sglang:realtime_tokens_total{decode}": 48211.0,
        "sglang:realtime_tokens_total{prefill_compute}": 11.0,
    }
    assert stream.ends == {"sglang:generation_tokens_total": 30100.0}
    assert stream.gauges == {"sglang:token_usage": 0.25}


def test_what_sglang_counts_for_all_replicas_together_is_given_to_none_of_them():
    page = """\
sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 1.0
sglang:num_running_reqs{dp_rank="1",tp_rank="0"} 2.0
sglang:generation_tokens_total{model_name="m"} 9.0
"""
    streams = only_page(read(page)).streams
    assert [(s.key, s.running, dict(s.ends)) for s in streams] == [
        ("", None, {"sglang:generation_tokens_total": 9.0}),
        ("0", 1.0, {}),
        ("1", 2.0, {}),
    ]


def test_requests_in_the_transfer_queues_of_disaggregated_sglang_wait():
    page = "sglang:num_queue_reqs 0.0\nsglang:num_decode_transfer_queue_reqs 4.0\nsglang:num_running_reqs 0.0\n"
    stream = only_stream(read(page))
    assert (stream.waiting, stream.elsewhere, stream.load, stream.own_load) == (4.0, 4.0, 4.0, 0.0)


def test_requests_that_vllm_defers_are_of_those_that_wait():
    page = """\
vllm:num_requests_running{engine="0"} 0.0
vllm:num_requests_waiting{engine="0"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 2.0
"""
    stream = only_stream(read(page))
    assert (stream.waiting, stream.elsewhere, stream.own_load) == (3.0, 2.0, 1.0)


def test_tensorrt_llm_has_no_steps_on_this_page_and_its_token_totals_are_ends():
    page = """\
trtllm_num_requests_running{engine_type="trtllm",model_name="m"} 2.0
trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 1.0
trtllm_generation_tokens_total{engine_type="trtllm",model_name="m"} 700.0
trtllm_kv_cache_utilization{engine_type="trtllm",model_name="m"} 0.5
"""
    stream = only_stream(read(page))
    assert (stream.running, stream.waiting, dict(stream.steps)) == (2.0, 1.0, {})
    assert stream.ends == {"trtllm_generation_tokens_total": 700.0}


def test_tritons_request_metric_is_split_into_active_and_waiting():
    page = """\
nv_inference_request_success{model="ensemble",version="1"} 7
nv_inference_request_success{model="tensorrt_llm",version="1"} 7
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 1
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 64
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 2
nv_trt_llm_general_metrics{general_type="iteration_counter",model="tensorrt_llm",version="1"} 451
nv_trt_llm_general_metrics{general_type="timestamp",model="tensorrt_llm",version="1"} 1700074049
"""
    stream = only_stream(read(page))
    assert (stream.running, stream.waiting) == (2.0, 1.0)
    assert stream.steps == {"nv_trt_llm_general_metrics{iteration_counter}": 451.0}
    assert stream.ends == {"nv_inference_request_success": 14.0}


def test_tgi_and_lmdeploy_pages():
    tgi = 'tgi_batch_current_size 3\ntgi_queue_size 0\ntgi_batch_inference_success{method="decode"} 1203\n'
    stream = only_stream(read(tgi))
    assert (stream.running, stream.steps) == (3.0, {"tgi_batch_inference_success{decode}": 1203.0})
    lmdeploy = 'lmdeploy:num_requests_running{engine="0"} 1.0\nlmdeploy:generation_tokens_total{engine="0"} 5.0\n'
    assert only_page(read(lmdeploy)).engine == "lmdeploy"


def test_vllm_under_ray_is_the_same_engine_with_a_stream_per_replica():
    page = "".join(
        f'ray_vllm_num_requests_running{{ReplicaId="{r}",WorkerId="w",engine="0",model_name="m"}} {n}\n'
        for r, n in (("a", 1), ("b", 2))
    )
    found = only_page(read(page))
    assert (found.engine, [(s.key, s.running) for s in found.streams]) == ("vllm", [("a/0", 1.0), ("b/0", 2.0)])


def test_a_time_within_the_page_outranks_the_name():
    page = 'vllm:num_requests_running{engine="0"} 1.0 1795986500123\n'
    assert only_page(read(page)).time == unix(1795986500.123)


@pytest.mark.parametrize(
    "line",
    [
        "tgi_request_success 5",
        "tgi_request_success\t5",
        "  tgi_request_success   5.0",
        'tgi_request_success {a="b"} 5',
        'tgi_request_success 5 # {trace_id="a"} 1 1795986500.1',
        'tgi_request_success{a="{#"} 5 1795986500123 # {} 1',
    ],
)
def test_blanks_and_exemplars_are_no_part_of_a_sample(line: str):
    assert only_stream(read(f"tgi_queue_size 0\n{line}\n# EOF\n")).ends == {"tgi_request_success": 5.0}


def test_names_may_be_those_of_an_engine_of_ones_own():
    engine = table.Engine("mine", ("replica",), (table.Series("mine_running", table.Role.RUNNING),))
    page = Blob("x", b'mine_running{replica="a"} 2\nray_mine_running 7\nvllm:num_requests_running 9\n')
    known = table.index((engine,), spelled=False)
    found = only_page(engine_page.read(page, known))
    assert (found.engine, [(s.key, s.running) for s in found.streams]) == ("mine", [("a", 2.0)])


def test_a_number_cut_in_half_is_not_believed():
    reading = read(VLLM[: VLLM.rindex("00.0")])  # `24` is left of 2400.0
    assert "vllm:generation_tokens_total" not in only_stream(reading).steps
    (problem,) = reading.problems
    assert problem.kind is ProblemKind.DAMAGED
    assert "line 12" in problem.message
    assert "3 others were used" in problem.message


def test_a_page_saved_without_its_last_line_end_is_whole():
    reading = read(VLLM.rstrip("\n"))
    assert only_stream(reading).steps["vllm:generation_tokens_total"] == 2400.0
    assert reading.problems == ()


def test_a_damaged_line_costs_only_itself():
    reading = read(VLLM.replace('running{engine="0",model', 'running{engine="0,model'))
    assert only_stream(reading).running is None
    assert only_stream(reading).waiting == 0.0
    assert [p.kind for p in reading.problems] == [ProblemKind.DAMAGED]


def test_values_that_are_no_number_of_anything_are_left_out():
    page = (
        "sglang:num_running_reqs 1.0\nsglang:token_usage NaN\nsglang:gen_throughput +Inf\nsglang:num_used_tokens -3\n"
    )
    reading = read(page)
    assert only_stream(reading).gauges == {}
    assert len(reading.problems) == 1  # the negative one; NaN is how an engine says "no value yet"


@pytest.mark.parametrize(
    "other",
    [
        b'{"nccl_version": "2.28.9", "communicators": []}',
        b"vm:3:3 [0] NCCL INFO Bootstrap: Using eth0\n" * 20,
        b"# HELP node_cpu_seconds_total x\nnode_cpu_seconds_total 3\n",
        b"(EngineCore) vllm:num_requests_running is a metric\nvllm:num_requests_running is what to watch\n" * 9,
        b"",
        b"\x80\x02}q\x00",
    ],
)
def test_other_formats_are_not_claimed(other: bytes):
    assert not engine_page.recognises(Blob("1795986477.893.prom", other))


def test_a_real_page_of_a_thousand_buckets_takes_less_than_three_milliseconds():
    buckets = "".join(
        f'vllm:h{h}_seconds_bucket{{engine="0",le="{b}.0",model_name="lab"}} {b}.0\n'
        for h in range(25)
        for b in range(42)
    )
    page = buckets + VLLM
    read(page)
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        assert only_stream(read(page)).running == 16.0
        took.append(time.perf_counter() - begun)
    assert min(took) < 0.003


@given(st.integers(0, len(VLLM) + len(SGLANG)), st.integers(0, len(VLLM)), st.binary(max_size=200))
@settings(max_examples=80, deadline=None)
def test_no_damage_raises(cut: int, start: int, noise: bytes):
    page = (VLLM + SGLANG).encode()
    for damaged in (page[:cut], page[start:], page[:cut] + noise + page[start:], noise):
        assert isinstance(engine_page.read(Blob("x", damaged)), Reading)
        engine_page.recognises(Blob("x", damaged))


@given(st.integers(1, len(VLLM) - 1))
@settings(max_examples=80, deadline=None)
def test_a_cut_page_never_tells_a_number_that_was_not_on_it(cut: int):
    whole = only_stream(read(VLLM))
    reading = engine_page.read(Blob("x", VLLM[:cut].encode()))
    for page in reading.observations:
        assert isinstance(page, EnginePage)
        for stream in page.streams:
            assert stream.running in (None, whole.running)
            assert all(whole.steps[name] == value for name, value in stream.steps.items())
