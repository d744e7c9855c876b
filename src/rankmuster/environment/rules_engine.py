"""Contradictions with what the engine itself sets, removes, or does not hand on."""

from __future__ import annotations

from collections.abc import Iterator

from rankmuster.environment import costs
from rankmuster.environment.contradiction import Contradiction, Severity, Subject
from rankmuster.environment.engine_settings import RAY_PREFIXES
from rankmuster.environment.values import read_flag, read_number
from rankmuster.environment.variable import Engine

_BATCH_INVARIANT = ("NCCL_LAUNCH_MODE", "NCCL_PROTO", "NCCL_ALGO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")
_HANDED_ON = ("VLLM_", "FLASH_ATTENTION_", "LMCACHE_", "NCCL_", "UCX_", "HF_", "HUGGING_FACE_")
"""Prefixes that vLLM's v1 Ray executor copies (vLLM 0.33.0)."""


def vllm(subject: Subject) -> Iterator[Contradiction]:
    """What vLLM pops and overrides."""
    given = subject.given
    if given.engine is not Engine.VLLM:
        return
    if given.has("NCCL_ASYNC_ERROR_HANDLING"):
        yield Contradiction(
            Severity.WARNING,
            "engine_removes",
            ("NCCL_ASYNC_ERROR_HANDLING",),
            "vLLM removes NCCL_ASYNC_ERROR_HANDLING in every GPU worker",
            "use TORCH_NCCL_ASYNC_ERROR_HANDLING, which it leaves alone",
        )
    if read_flag(given.of("VLLM_BATCH_INVARIANT")):
        names = tuple(name for name in _BATCH_INVARIANT if given.has(name))
        if names:
            yield Contradiction(
                Severity.WARNING,
                "engine_overrides",
                names,
                f"vLLM sets {', '.join(names)} itself in batch-invariant mode",
                "remove them, or VLLM_BATCH_INVARIANT",
            )
    if read_number(given.of("NCCL_CUMEM_ENABLE")) not in (None, 0):
        yield Contradiction(
            Severity.NOTE,
            "engine_overrides",
            ("NCCL_CUMEM_ENABLE",),
            "vLLM 0.6.6 to 0.9.2 set NCCL_CUMEM_ENABLE=0 whatever it was",
            "nothing to do from 0.10.2 on",
        )


def ray_workers(subject: Subject) -> Iterator[Contradiction]:
    """Variables that end in the driver."""
    given = subject.given
    if given.engine not in (Engine.VLLM, None) or not given.ray:
        return
    prefixes = (*_HANDED_ON, *_listed(given.of("VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY")))
    names = _listed(given.of("VLLM_RAY_EXTRA_ENV_VARS_TO_COPY"))
    if "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY" in given.unknown:
        return
    left = tuple(
        sorted(
            name
            for name in {*given.values, *given.unknown}
            if name.startswith(("TORCH_NCCL_", "TORCH_FR_", "TORCH_INCLUDE_"))
            and not name.startswith(prefixes)
            and name not in names
        )
    )
    if left:
        shown = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
        yield Contradiction(
            Severity.WARNING,
            "not_handed_to_ray",
            left,
            f"vLLM's older Ray executor does not hand {shown} to its workers, where they are read",
            f"set VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY={RAY_PREFIXES}, or set them on every Ray node",
        )


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def sglang(subject: Subject) -> Iterator[Contradiction]:
    """What SGLang sets where nobody did."""
    given = subject.given
    unset = [name for name in ("NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE") if not given.has(name)]
    if given.engine is Engine.SGLANG and unset:
        yield Contradiction(
            Severity.NOTE,
            "engine_sets",
            tuple(unset),
            f"SGLang sets {' and '.join(unset)} to 0 where they are not set",
            "set them where another value is wanted",
        )


def engine_first(subject: Subject) -> Iterator[Contradiction]:
    """The engine gives up before torch would dump."""
    given = subject.given
    if given.engine not in (Engine.VLLM, Engine.SGLANG) or not subject.effective.dump_on_timeout:
        return
    own = read_number(given.of("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS")) if given.engine is Engine.VLLM else None
    seconds = own or costs.ENGINE_STEP_SECONDS
    if seconds < costs.TORCH_TIMEOUT_SECONDS:
        option = "--distributed-timeout-seconds" if given.engine is Engine.VLLM else "--dist-timeout"
        yield Contradiction(
            Severity.NOTE,
            "engine_first",
            ("TORCH_NCCL_DUMP_ON_TIMEOUT",),
            f"{given.engine.value} gives up after {seconds} s without a step, torch's collectives after "
            f"{costs.TORCH_TIMEOUT_SECONDS} s unless told otherwise: then no dump is written on time-out",
            f"give the engine {option} {max(30, int(seconds * 0.8))}",
        )


RULES = (vllm, ray_workers, sglang, engine_first)
