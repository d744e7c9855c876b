"""Metrics pages as each version of each engine writes them: names, labels and types after what its sources say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class State:
    """What an engine did so far. `tokens`: produced; `steps`: of the engine; `ended`: requests; `held`: cache use."""

    running: int = 3
    waiting: int = 1
    tokens: int = 2400
    steps: int = 300
    ended: int = 2
    held: float = 0.25
    paused: bool = False
    times: tuple[int, int, int] = (10, 90, 100)  # cumulative: below 20 ms, below 40 ms, all


def sample(name: str, value: float, **labels: str) -> str:
    told = ",".join(f'{key}="{text}"' for key, text in sorted(labels.items()))
    return f"{name}{{{told}}} {float(value)}\n" if told else f"{name} {float(value)}\n"


def typed(kind: str, name: str, value: float, **labels: str) -> str:
    return f"# HELP {name} Text with a {{brace}} and a # sign.\n# TYPE {name} {kind}\n{sample(name, value, **labels)}"


def histogram(name: str, counts: tuple[int, int, int], **labels: str) -> str:
    bounds = ("0.02", "0.04", "+Inf")
    lines = "".join(sample(f"{name}_bucket", c, le=le, **labels) for le, c in zip(bounds, counts, strict=True))
    return (
        f"# TYPE {name} histogram\n{lines}"
        + sample(f"{name}_count", counts[-1], **labels)
        + sample(f"{name}_sum", 3.5, **labels)
    )


Version = tuple[int, ...]


def vllm(version: Version, state: State, *, ray: bool = False, **more: str) -> str:
    """V1 from 0.8.5; 0.6.6 is V0, which had no `engine` label."""
    labels = {"model_name": "m", **more}
    if version >= (0, 8, 5):
        labels["engine"] = "0"
    page = typed("gauge", "vllm:num_requests_running", state.running, **labels)
    page += typed("gauge", "vllm:num_requests_waiting", state.waiting, **labels)
    if version <= (0, 8, 5):
        page += typed("gauge", "vllm:num_requests_swapped", 0, **labels)
        page += typed("gauge", "vllm:cpu_cache_usage_perc", 0, **labels)
        page += typed("gauge", "vllm:avg_generation_throughput_toks_per_s", 12, **labels)
    if version <= (0, 10, 2):
        page += typed("gauge", "vllm:gpu_cache_usage_perc", state.held, **labels)
    if version >= (0, 9, 2):
        page += typed("gauge", "vllm:kv_cache_usage_perc", state.held, **labels)
    if version >= (0, 11, 2):
        for name in ("awake", "weights_offloaded", "discard_all"):
            asleep = name == "weights_offloaded" if state.paused else name == "awake"
            page += sample("vllm:engine_sleep_state", asleep, sleep_state=name, **labels)
    if version >= (0, 20, 2):
        page += sample("vllm:num_requests_waiting_by_reason", state.waiting, reason="capacity", **labels)
    if version >= (0, 33):
        page += sample("vllm:num_requests_kv_fetch_by_stage", 0, stage="in_progress", **labels)
        page += sample("vllm:admission_rejections_total", 0, model_name="m", reason="full")
    page += typed("counter", "vllm:prompt_tokens_total", 4 * state.ended + 70, **labels)
    page += typed("counter", "vllm:generation_tokens_total", state.tokens, **labels)
    page += typed("gauge", "vllm:generation_tokens_created", 1.7959848830898082e09, **labels)
    page += typed("counter", "vllm:request_success_total", state.ended, finished_reason="stop", **labels)
    page += typed("counter", "vllm:request_success_total", 0, finished_reason="abort", **labels)
    page += histogram("vllm:iteration_tokens_total", (1, 2, state.steps), **labels)
    page += histogram("vllm:time_to_first_token_seconds", (1, 2, 3), **labels)
    if version >= (0, 10, 2):
        page += histogram("vllm:inter_token_latency_seconds", state.times, **labels)
    if version <= (0, 11, 2):
        page += histogram("vllm:time_per_output_token_seconds", state.times, **labels)
    return page.replace("vllm:", "ray_vllm_") if ray else page


def sglang(version: Version, state: State, **more: str) -> str:
    server = {"model_name": "m", "engine_type": "unified"}
    labels = {**server, **more}
    if version >= (0, 5, 2):
        labels.update(tp_rank="0", pp_rank="0")
    if version >= (0, 5, 8):
        labels.update(moe_ep_rank="0")
    page = typed("gauge", "sglang:num_running_reqs", state.running, **labels)
    page += typed("gauge", "sglang:num_queue_reqs", state.waiting, **labels)
    page += typed("gauge", "sglang:num_used_tokens", 1000 * state.held, **labels)
    page += typed("gauge", "sglang:token_usage", state.held, **labels)
    page += typed("gauge", "sglang:gen_throughput", 100.5, **labels)
    page += typed("gauge", "sglang:cache_hit_rate", 0.1, **labels)
    if version >= (0, 5, 2):
        page += typed("gauge", "sglang:num_retracted_reqs", 0, **labels)
        page += typed("gauge", "sglang:num_paused_reqs", 2 if state.paused else 0, **labels)
        page += typed("gauge", "sglang:num_decode_transfer_queue_reqs", 0, **labels)
    if version >= (0, 5, 8):
        page += "# TYPE sglang:realtime_tokens_total counter\n"
        page += sample("sglang:realtime_tokens_total", state.tokens, mode="decode", **labels)
        page += sample("sglang:realtime_tokens_total", 70, mode="prefill_compute", **labels)
        page += sample("sglang:cuda_graph_passes_total", state.steps, mode="decode", **labels)
        name = "forward_execution" if version >= (0, 5, 12) else "gpu_execution"
        page += sample(f"sglang:{name}_seconds_total", state.steps / 50, category="decode", **labels)
    if version >= (0, 5, 23):
        page += sample("sglang:scheduler_idle_seconds_total", 5 + state.steps / 7, **labels)
        page += sample("sglang:dp_attention_steps_total", state.steps, **labels)
        server["is_streaming"] = "true"
    page += typed("counter", "sglang:prompt_tokens_total", 10 * state.ended, **server)
    page += typed("counter", "sglang:generation_tokens_total", 100 * state.ended, **server)
    page += typed("counter", "sglang:num_requests_total", state.ended, **server)
    return page + histogram("sglang:inter_token_latency_seconds", state.times, **server)


def tensorrt_llm(state: State, spelled: str = "trtllm_") -> str:
    labels = {"engine_type": "trtllm", "model_name": "m"}
    page = typed("gauge", "trtllm_num_requests_running", state.running, **labels)
    page += typed("gauge", "trtllm_num_requests_waiting", state.waiting, **labels)
    page += typed("gauge", "trtllm_kv_cache_utilization", state.held, **labels)
    page += typed("gauge", "trtllm_iteration_latency_seconds", 0.007, **labels)
    page += typed("counter", "trtllm_generation_tokens_total", 100 * state.ended, **labels)
    page += typed("counter", "trtllm_request_success_total", state.ended, finished_reason="stop", **labels)
    page += histogram("trtllm_time_per_output_token_seconds", state.times, **labels)
    return page.replace("trtllm_", spelled) if spelled != "trtllm_" else page


def triton(state: State) -> str:
    model = {"model": "tensorrt_llm", "version": "1"}
    page = "# TYPE nv_trt_llm_request_metrics gauge\n"
    for kind, value in (("active", state.running), ("waiting", state.waiting), ("max", 64), ("scheduled", 2)):
        page += sample("nv_trt_llm_request_metrics", value, request_type=kind, **model)
    page += sample("nv_trt_llm_general_metrics", state.steps, general_type="iteration_counter", **model)
    page += sample("nv_trt_llm_general_metrics", 1700074049, general_type="timestamp", **model)
    page += sample("nv_trt_llm_kv_cache_block_metrics", 40 * state.held, kv_cache_block_type="used", **model)
    return page + typed("counter", "nv_inference_request_success", state.ended, **model)


def tgi(state: State) -> str:
    page = f"# TYPE tgi_queue_size gauge\ntgi_queue_size {state.waiting}\ntgi_batch_current_size {state.running}\n"
    page += f"tgi_batch_current_max_tokens {100 * state.held}\n# TYPE tgi_batch_inference_count counter\n"
    page += f'tgi_batch_inference_count{{method="decode"}} {state.steps + 1}\n'
    page += f'tgi_batch_inference_success{{method="decode"}} {state.steps}\n'
    page += histogram("tgi_batch_inference_duration", (7, 8, 9), method="prefill")
    page += histogram("tgi_batch_inference_duration", state.times, method="decode")
    return f"{page}tgi_request_count {state.ended + 1}\ntgi_request_success {state.ended}\n"


def lmdeploy(state: State) -> str:
    labels = {"engine": "0", "model_name": "m"}
    page = typed("gauge", "lmdeploy:num_requests_running", state.running, **labels)
    page += typed("gauge", "lmdeploy:num_requests_waiting", state.waiting, **labels)
    page += typed("gauge", "lmdeploy:gpu_cache_usage_perc", state.held, **labels)
    page += typed("counter", "lmdeploy:generation_tokens_total", state.tokens, **labels)
    page += typed("counter", "lmdeploy:request_success_total", state.ended, **labels)
    page += histogram("lmdeploy:iteration_tokens_total", (1, 2, state.steps), **labels)
    return page + histogram("lmdeploy:iter_token_latency", state.times, **labels)


VLLM = (
    *((0, 6, 6), (0, 8, 5), (0, 9, 2), (0, 10, 2), (0, 11, 2), (0, 12, 0), (0, 14, 1), (0, 17, 1), (0, 20, 2)),
    *((0, 24, 0), (0, 28, 0), (0, 31, 0), (0, 33, 0)),
)
SGLANG = ((0, 4, 6), (0, 5, 2), (0, 5, 5), (0, 5, 8), (0, 5, 12), (0, 5, 23))

Write = Callable[[State], str]


def named(engine: str, version: Version) -> str:
    return f"{engine} {'.'.join(map(str, version))}"


STEPPING: Mapping[str, Write] = {
    **{named("vllm", v): (lambda state, v=v: vllm(v, state)) for v in VLLM},
    **{named("sglang", v): (lambda state, v=v: sglang(v, state)) for v in SGLANG if v >= (0, 5, 8)},
    "vllm under ray": lambda state: vllm((0, 28), state, ray=True, ReplicaId="a", WorkerId="w"),
    "triton-tensorrt-llm": triton,
    "tgi": tgi,
    "lmdeploy": lmdeploy,
}
"""Versions whose pages have counters that move with every step."""

ENDING: Mapping[str, Write] = {
    **{named("sglang", v): (lambda state, v=v: sglang(v, state)) for v in SGLANG if v < (0, 5, 8)},
    "tensorrt-llm": tensorrt_llm,
    "tensorrt-llm of Dynamo": lambda state: tensorrt_llm(state, "trtllm:"),
    "tensorrt-llm under ray": lambda state: tensorrt_llm(state, "ray_trtllm_"),
}
"""Those whose counters move when requests end."""
