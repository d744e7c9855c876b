"""SGLang's router (sgl-model-gateway, `sglang-router`) as a Traffic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankmuster.adapters.registry_traffic import RegistryTraffic
from rankmuster.adapters.worker_registry import AddRemove, Registry, Router, WorkersById


def sglang_router(
    name: str,
    url: str,
    worker: str,
    header_file: Path | None = None,
    api: str = "workers",
    add: Mapping[str, Any] | None = None,
) -> RegistryTraffic:
    """`api`: `workers` for 0.2 and later, `add_remove` for older ones. `add`: as POST /workers takes it."""
    router = Router(url, worker, header_file)
    registry: Registry = AddRemove(router) if api == "add_remove" else WorkersById(router, add or {})
    return RegistryTraffic(name, worker, registry, add)
