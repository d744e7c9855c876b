"""The metrics page of a drill's front end, in vLLM's names and labels (version 0.33; engine facts: `engine_table`)."""

from __future__ import annotations

from collections.abc import Iterator

from rankmuster.drill.counts import Counts, Histogram

MODEL = "drill"
SLEEP_STATES = {"awake": 1.0, "weights_offloaded": 0.0, "discard_all": 0.0}
REASONS = ("stop", "length", "abort", "error")


def page(counts: Counts) -> str:
    """The page, labels in the order of the alphabet as prometheus_client sorts them."""
    return "".join(_lines(counts))


def _lines(counts: Counts) -> Iterator[str]:
    yield from _single(
        "num_requests_running", "gauge", "Number of requests in model execution batches.", counts.running
    )
    yield from _single("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", counts.waiting)
    yield from _head("engine_sleep_state", "gauge", "Engine sleep state; awake = 0 means engine is sleeping.")
    for state, value in SLEEP_STATES.items():
        yield _line("engine_sleep_state", value, after=f',sleep_state="{state}"')
    cache = "KV-cache usage. 1 means 100 percent usage."
    yield from _single("kv_cache_usage_perc", "gauge", cache, counts.cache)
    yield from _single("prompt_tokens_total", "counter", "Number of prefill tokens processed.", counts.prompt)
    yield from _single("generation_tokens_total", "counter", "Number of generation tokens processed.", counts.generated)
    yield from _head("request_success_total", "counter", "Count of successfully processed requests.")
    for reason in REASONS:
        ended = counts.ended if reason == "length" else 0
        yield _line("request_success_total", ended, middle=f'finished_reason="{reason}",')
    told = "Histogram of number of tokens per engine_step."
    yield from _histogram("iteration_tokens_total", told, counts.iteration)
    yield from _histogram(
        "inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", counts.inter_token
    )
    told = "Histogram of time to first token in seconds."
    yield from _histogram("time_to_first_token_seconds", told, counts.first_token)
    told = "Histogram of e2e request latency in seconds."
    yield from _histogram("e2e_request_latency_seconds", told, counts.request)


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP vllm:{name} {text}\n# TYPE vllm:{name} {kind}\n"


def _line(name: str, value: float, *, middle: str = "", after: str = "") -> str:
    return f'vllm:{name}{{engine="0",{middle}model_name="{MODEL}"{after}}} {float(value)}\n'


def _single(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield from _head(name, kind, text)
    yield _line(name, value)


def _histogram(name: str, text: str, one: Histogram) -> Iterator[str]:
    yield from _head(name, "histogram", text)
    seen = 0
    for bound, count in zip((*map(float, one.bounds), "+Inf"), one.counts, strict=True):
        seen += count
        yield _line(f"{name}_bucket", seen, middle=f'le="{bound}",')
    yield _line(f"{name}_count", seen)
    yield _line(f"{name}_sum", one.total)
