"""Every variable that is known, by name: torch's, NCCL's, the engines' and our own."""

from __future__ import annotations

from rankmuster.environment.nccl_table import NCCL
from rankmuster.environment.torch_table import TORCH
from rankmuster.environment.variable import Kind, Reader, Variable

_DAY = 86_400

_ENGINES: tuple[Variable, ...] = (
    Variable(
        "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY",
        Reader.VLLM,
        Kind.WORDS,
        "which more variables vLLM hands to its Ray workers; NCCL_ is handed on, TORCH_NCCL_ and TORCH_FR_ are not",
        "vLLM 0.33.0, the v1 Ray executor",
    ),
    Variable("VLLM_RAY_EXTRA_ENV_VARS_TO_COPY", Reader.VLLM, Kind.WORDS, "the same, by whole names", "vLLM 0.33.0"),
    Variable(
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS",
        Reader.VLLM,
        Kind.SECONDS,
        "how long one step may take before the engine gives up",
        "vLLM 0.9.2 and later",
        defaults=(((0,), "300"),),
        least=1,
        most=_DAY,
    ),
    Variable("VLLM_BATCH_INVARIANT", Reader.VLLM, Kind.FLAG, "same results in every batch", "vLLM 0.33.0"),
    Variable(
        "RANKMUSTER_INSTANCE", Reader.RANKMUSTER, Kind.TEXT, "the instance's name, for whoever collects", "this program"
    ),
    Variable("POD_UID", Reader.RANKMUSTER, Kind.TEXT, "the pod's UID, from the downward API", "this program"),
    Variable(
        "RANKMUSTER_INCARNATION", Reader.RANKMUSTER, Kind.TEXT, "which start of the instance this is", "this program"
    ),
)

TABLE: dict[str, Variable] = {row.name: row for row in (*TORCH, *NCCL, *_ENGINES)}
