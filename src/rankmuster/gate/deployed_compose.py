"""The engine's services of a docker-compose file. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rankmuster.environment.given import Given
from rankmuster.environment.read_manifest import environments
from rankmuster.gate.deployed import Deployed, NotDeployable, pinned
from rankmuster.model.release import Setting


def deployed_services(services: Mapping[Any, Any], name: str, containers: Sequence[str]) -> Iterator[Deployed]:
    """`containers`: names of services; else those that reserve GPUs, or the only one. Raises NotDeployable."""
    bodies = {str(key): body for key, body in services.items() if isinstance(body, Mapping)}
    asking = [key for key, body in bodies.items() if _gpus(body)]
    chosen = list(containers) or asking or (list(bodies) if len(bodies) == 1 else [])
    there = ", ".join(bodies) or "none"
    if missing := [key for key in chosen if key not in bodies]:
        raise NotDeployable(f"{name}: no service is called {', '.join(missing)}; there is {there}")
    if left := [key for key in asking if key not in chosen]:
        raise NotDeployable(f"{name}: service {', '.join(left)} reserves GPUs, and is not among `containers`: name it")
    if not chosen:
        raise NotDeployable(f"{name}: no service reserves GPUs, and there are several ({there}): name the engine's")
    for key in chosen:
        yield _service(key, bodies[key], name)


def _service(key: str, body: Mapping[Any, Any], name: str) -> Deployed:
    where = f"{name}, service {key}"
    given = next(iter(environments({"services": {key: body}}, name)), Given(where, {}))
    image = body.get("image") if isinstance(body.get("image"), str) else None
    dark = [f"{one} is set to what is known only where it runs" for one in sorted(given.unknown)]
    dark += [
        f"{part} brings in what is not seen here: set it in `environment`"
        for part in ("env_file", "extends")
        if body.get(part)
    ]
    settings = tuple(Setting(one, value) for one, value in given.communication.items())
    return Deployed(
        where, key, (), f"service/{key}", None, image, pinned(image), settings, (), {}, (*dark, *given.odd), given
    )


def _gpus(body: Mapping[Any, Any]) -> bool:
    """`deploy.resources.reservations.devices` with the capability gpu, `gpus`, or the runtime."""
    if body.get("gpus") or body.get("runtime") == "nvidia":
        return True
    node: Any = body
    for key in ("deploy", "resources", "reservations", "devices"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return isinstance(node, list) and any("gpu" in str(one) for one in node)
