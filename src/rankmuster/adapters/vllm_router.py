"""vLLM's router (vllm-project/router, `vllm-router`) as a Traffic: `/workers`, or the older calls where it has none."""

from __future__ import annotations

from pathlib import Path

from rankmuster.adapters.registry_traffic import RegistryTraffic
from rankmuster.adapters.worker_registry import AddRemove, EitherOf, Router, WorkersByUrl


def vllm_router(name: str, url: str, worker: str, header_file: Path | None = None) -> RegistryTraffic:
    """`worker`: its URL, as the router was given it."""
    router = Router(url, worker, header_file)
    return RegistryTraffic(name, worker, EitherOf(WorkersByUrl(router), AddRemove(router)))
