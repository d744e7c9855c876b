"""Which metric of which serving engine means load, progress, or nothing until a request ends.

Sources, read per version: vLLM 0.8.5 to 0.33.0 `vllm/v1/metrics/loggers.py`; SGLang 0.4.6 to 0.5.23
`metrics_collector.py`; TensorRT-LLM `tensorrt_llm/metrics/collector.py` and the Triton backend's
`custom_metrics_reporter`; TGI 3.3.7 `router/`; LMDeploy 0.16 `lmdeploy/metrics/loggers.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class Role(str, Enum):
    """What a series says.

    `step`: moves with every step or token, flat under load means stuck. `end`: moves only when a request ends, flat
    means nothing. `gauge`: a change is a sign of work, no change is none of the lack of it. `elsewhere`: requests that
    wait for another instance, and are not among the waiting; `deferred`: those of the waiting that wait for something
    else than a place in the batch.
    """

    RUNNING = "running"
    WAITING = "waiting"
    ELSEWHERE = "elsewhere"
    DEFERRED = "deferred"
    STEP = "step"
    END = "end"
    GAUGE = "gauge"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Series:
    """One series as scraped.

    `split`: a label whose values stand for different things and stay apart. `only`: the values of `split` that have
    this role, empty for all.
    """

    name: str
    role: Role
    split: str | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram of seconds, named without `_bucket`. `split`, `only`: as of `Series`."""

    name: str
    split: str | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """`keys`: labels that tell replicas of one page apart; what lacks them belongs to the page as a whole.

    `step_seconds`: what tells how long a step or token took, the best first: a page may have two of them.
    `load_age`: seconds for which its load may stay on the page after the requests have ended; 0 where it follows them.
    `load_steps`: steps of a busy time after which it writes its load at the latest.
    """

    name: str
    keys: tuple[str, ...]
    series: tuple[Series, ...]
    step_seconds: tuple[Histogram, ...] = ()
    load_age: float = 0.0
    load_steps: int = 0

    @property
    def counts_steps(self) -> bool:
        """Whether any of its counters moves before a request ends."""
        return any(series.role is Role.STEP for series in self.series)


RANK_LABELS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"})
"""Ranks of one replica export the same requests again (SGLang, --enable-metrics-for-all-schedulers): the largest
counts, never the sum."""

PART_LABELS = frozenset({"priority"})
"""Where such a label is not empty the series is a part of the one where it is (SGLang, priority scheduling)."""

VLLM = Engine(
    "vllm",
    # Ray's page carries every replica of a node; vLLM's own has `engine`, the data-parallel index, since 0.8.5 (V1).
    ("ReplicaId", "engine"),
    (
        Series("vllm:num_requests_running", Role.RUNNING),
        Series("vllm:num_requests_waiting", Role.WAITING),
        Series("vllm:num_requests_swapped", Role.WAITING),  # V0 only, to 0.8.5
        # KV caches of another instance, grammars, LoRA adapters; 0.20.2 and later.
        Series("vllm:num_requests_waiting_by_reason", Role.DEFERRED, split="reason", only=("deferred",)),
        # Flat with requests running is no hang yet: a middle chunk of a long prefill yields no output and no count.
        Series("vllm:iteration_tokens_total_count", Role.STEP),
        Series("vllm:generation_tokens_total", Role.STEP),
        Series("vllm:prompt_tokens_total", Role.STEP),
        Series("vllm:request_success_total", Role.END),
        Series("vllm:kv_cache_usage_perc", Role.GAUGE),  # 0.9.2 and later
        Series("vllm:gpu_cache_usage_perc", Role.GAUGE),  # to 0.11
        Series("vllm:num_requests_kv_fetch_by_stage", Role.GAUGE, split="stage"),  # 0.33.0
        Series(
            "vllm:engine_sleep_state",  # 0.11.2 and later
            Role.PAUSED,
            split="sleep_state",
            only=("weights_offloaded", "discard_all"),
        ),
    ),
    (
        Histogram("vllm:inter_token_latency_seconds"),  # 0.10.2 and later
        Histogram("vllm:time_per_output_token_seconds"),  # to 0.11.2, hidden to 0.14.1
    ),
)

SGLANG = Engine(
    "sglang",
    ("dp_rank",),
    (
        Series("sglang:num_running_reqs", Role.RUNNING),
        Series("sglang:num_queue_reqs", Role.WAITING),
        # Prefill/decode disaggregation: requests that wait for the other instance (0.5.2 and later).
        Series("sglang:num_prefill_bootstrap_queue_reqs", Role.ELSEWHERE),
        Series("sglang:num_prefill_prealloc_queue_reqs", Role.ELSEWHERE),
        Series("sglang:num_prefill_inflight_queue_reqs", Role.ELSEWHERE),
        Series("sglang:num_decode_prealloc_queue_reqs", Role.ELSEWHERE),
        Series("sglang:num_decode_transfer_queue_reqs", Role.ELSEWHERE),
        Series("sglang:realtime_tokens_total", Role.STEP, split="mode"),  # 0.5.8 and later
        Series("sglang:forward_execution_seconds_total", Role.STEP, split="category"),  # 0.5.12 and later
        Series("sglang:gpu_execution_seconds_total", Role.STEP, split="category"),  # 0.5.8
        Series("sglang:cuda_graph_passes_total", Role.STEP, split="mode"),  # 0.5.8 and later
        Series("sglang:dp_attention_steps_total", Role.STEP),  # 0.5.23
        Series("sglang:prompt_tokens_total", Role.END),
        Series("sglang:generation_tokens_total", Role.END),
        Series("sglang:num_requests_total", Role.END),
        Series("sglang:num_aborted_requests_total", Role.END),  # 0.5.5 and later
        # Refreshed per prefill batch and every `decode_log_interval` (40) decode steps only.
        Series("sglang:token_usage", Role.GAUGE),
        Series("sglang:num_used_tokens", Role.GAUGE),
        Series("sglang:gen_throughput", Role.GAUGE),
        Series("sglang:num_paused_reqs", Role.PAUSED),
    ),
    (Histogram("sglang:inter_token_latency_seconds"),),
    # A scheduler without a batch writes its gauges again 30 s after it wrote them last (`check_memory`), and until then
    # they show the requests of its last decode steps.
    load_age=30.0,
    load_steps=40,
)

TENSORRT_LLM = Engine(
    "tensorrt-llm",
    (),
    (
        Series("trtllm_num_requests_running", Role.RUNNING),
        Series("trtllm_num_requests_waiting", Role.WAITING),
        # No step counter on the Prometheus page; `iter` of the JSON page is one (see engine_iterations).
        Series("trtllm_num_requests_completed_total", Role.END),
        Series("trtllm_prompt_tokens_total", Role.END),
        Series("trtllm_generation_tokens_total", Role.END),
        Series("trtllm_request_success_total", Role.END),
        Series("trtllm_iteration_latency_seconds", Role.GAUGE),
        Series("trtllm_kv_cache_used_blocks", Role.GAUGE),
        Series("trtllm_kv_cache_utilization", Role.GAUGE),
        Series("trtllm_num_context_requests", Role.GAUGE),
        Series("trtllm_num_generation_requests", Role.GAUGE),
    ),
    (Histogram("trtllm_time_per_output_token_seconds"),),  # a mean of each request, at its end
)

TRITON = Engine(
    "triton-tensorrt-llm",
    (),
    (
        Series("nv_trt_llm_request_metrics", Role.RUNNING, split="request_type", only=("active",)),
        Series("nv_trt_llm_request_metrics", Role.WAITING, split="request_type", only=("waiting",)),
        Series("nv_trt_llm_general_metrics", Role.STEP, split="general_type", only=("iteration_counter",)),
        Series("nv_inference_request_success", Role.END),
        Series("nv_trt_llm_kv_cache_block_metrics", Role.GAUGE, split="kv_cache_block_type", only=("used", "fraction")),
        Series(
            "nv_trt_llm_inflight_batcher_metrics",
            Role.GAUGE,
            split="inflight_batcher_specific_metric",
            only=("generation_requests", "total_context_tokens", "context_requests"),
        ),
    ),
)

TGI = Engine(
    "tgi",
    (),
    (
        Series("tgi_batch_current_size", Role.RUNNING),
        Series("tgi_queue_size", Role.WAITING),
        # Counters without `_total`; count above success for long: a batch that does not come back.
        Series("tgi_batch_inference_count", Role.STEP, split="method"),
        Series("tgi_batch_inference_success", Role.STEP, split="method"),
        Series("tgi_request_success", Role.END),
        Series("tgi_request_count", Role.END),
        Series("tgi_batch_current_max_tokens", Role.GAUGE),
    ),
    (Histogram("tgi_batch_inference_duration", split="method", only=("decode",)),),
)

LMDEPLOY = Engine(
    "lmdeploy",
    ("engine",),
    (
        Series("lmdeploy:num_requests_running", Role.RUNNING),
        Series("lmdeploy:num_requests_waiting", Role.WAITING),
        Series("lmdeploy:num_api_requests_waiting", Role.WAITING),
        Series("lmdeploy:generation_tokens_total", Role.STEP),
        Series("lmdeploy:iteration_tokens_total_count", Role.STEP),
        Series("lmdeploy:prompt_tokens_total", Role.STEP),
        Series("lmdeploy:request_success_total", Role.END),
        Series("lmdeploy:gpu_cache_usage_perc", Role.GAUGE),
    ),
    (Histogram("lmdeploy:iter_token_latency"), Histogram("lmdeploy:time_per_output_token_seconds")),
)

ENGINES = (VLLM, SGLANG, TENSORRT_LLM, TRITON, TGI, LMDEPLOY)

PREFIX = rb"(?:ray_)?(?:vllm[:_]|sglang[:_]|trtllm[:_]|nv_trt_llm_|nv_inference_|tgi_|lmdeploy[:_])"
"""How the names of the table begin, for the recogniser; with the spellings of `spellings`."""


def spellings(name: str) -> tuple[str, ...]:
    """Ray renames `vllm:x` to `ray_vllm_x` (and passes counters on as they are); Dynamo wrote `trtllm:x`."""
    flat = name.replace(":", "_")
    spelled = [name, flat, "ray_" + flat, "ray_" + name]
    if name.startswith("trtllm_"):
        spelled.append(name.replace("_", ":", 1))
    return tuple(dict.fromkeys(spelled))


Index = Mapping[str, tuple[tuple[Engine, Series], ...]]
"""Name as scraped -> the engines and roles it stands for."""


def index(engines: Iterable[Engine], *, spelled: bool = True) -> Index:
    """What a page is read with. `spelled`: whether names may also come in the spellings of Ray and Dynamo."""
    found: dict[str, tuple[tuple[Engine, Series], ...]] = {}
    for engine in engines:
        for series in engine.series:
            for name in spellings(series.name) if spelled else (series.name,):
                found[name] = (*found.get(name, ()), (engine, series))
    return found


LATE_LOAD = {engine.name: engine for engine in ENGINES if engine.load_age}
"""Engines whose load on the page may be older than the page, by their names."""

BY_NAME = index(ENGINES)
"""Every spelling of a series of the engines that are known."""
