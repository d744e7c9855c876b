"""What a serving engine needs beside, so that its workers get the variables and its own evidence is switched on."""

from __future__ import annotations

from rankmuster.environment import costs
from rankmuster.environment.draft import Draft
from rankmuster.environment.variable import Engine

RAY_PREFIXES = "TORCH_NCCL_,TORCH_FR_,TORCH_INCLUDE_,TORCH_DIST,RANKMUSTER_"
"""NCCL_ is in vLLM's own list, the rest is not (vLLM 0.33.0)."""


def add_engine(draft: Draft) -> None:
    """Variables of the engine, and what must be said on its command line instead."""
    engine = draft.request.engine
    folder = draft.request.place.own_folder
    early = (
        f"it gives up after {costs.ENGINE_STEP_SECONDS} s without a step, before torch's collectives time out at "
        f"{costs.TORCH_TIMEOUT_SECONDS} s: then no dump is written"
    )
    if engine is Engine.VLLM:
        draft.set(
            "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY",
            RAY_PREFIXES,
            "vLLM's older Ray executor hands NCCL_ variables to its workers, and none of torch's; add your own to it",
            "nothing without Ray",
        )
        draft.hints += [
            f"vLLM: {early}. `--distributed-timeout-seconds 240` (0.20.2 and later) lets torch be first",
            "vLLM 0.33 and later: `--watchdog-config "
            f'\'{{"timeout":120,"check_interval":10,"dump_dir":"{folder}"}}\'` writes Python stacks of a stuck worker',
            "vLLM's decode runs through PyNccl and CUDA graphs, which the Flight Recorder does not see; its metrics "
            "page and the GPU counters do",
        ]
    elif engine is Engine.SGLANG:
        draft.hints += [
            "SGLang: `--enable-metrics` is off by default; without it nothing says whether tokens are made",
            f"SGLang: {early}. `--dist-timeout 240` lets torch be first",
            "SGLang 0.5.8 and later: `--soft-watchdog-timeout 120` logs stacks of a stuck scheduler without ending it",
            "SGLang sets NCCL_CUMEM_ENABLE and NCCL_NVLS_ENABLE to 0 unless they are set",
        ]
    elif engine is Engine.TRTLLM:
        draft.hints += [
            "TensorRT-LLM: `return_perf_metrics: true` mounts /prometheus/metrics; the JSON page /metrics is emptied "
            "by every read",
            f"TensorRT-LLM's hang detector ends the workers after {costs.ENGINE_STEP_SECONDS} s",
            "TensorRT-LLM keeps communicators of its own: the Flight Recorder sees none of them, RAS and NCCL's log do",
        ]
