"""Which container of a pod is the engine's: those named, those with GPUs, or the only one. Pure."""

from __future__ import annotations

import re
from typing import Any

from rankmuster.kube.inject.templates import NotInjectable, Template

_GPU = re.compile(r"(?:[a-z0-9.-]+/)?(?:gpu|mig-[a-z0-9.]+)(?:\.shared)?")
_OFTEN = ("main", "kserve-container", "vllm", "sglang", "trtllm")


def engines(template: Template, named: tuple[str, ...], *, others_have_gpus: bool) -> list[dict[str, Any]]:
    """The containers that get the environment; none where this template is no engine's. Raises NotInjectable."""
    listed = _listed(template)
    if named:
        found = [one for one in listed if one.get("name") in named]
        if not found and template.main is not None:
            found = [template.main]
        if not found and not others_have_gpus:
            there = ", ".join(str(one.get("name")) for one in listed) or "none"
            raise NotInjectable(f"{template.where}: no container is called {', '.join(named)}; there is {there}")
        return found
    if template.main is not None:
        return [template.main]
    found = [one for one in listed if has_gpus(one)]
    if found:
        return found
    if len(listed) == 1:
        return listed
    usual = [one for one in listed if one.get("name") in _OFTEN]
    if len(usual) == 1 and not others_have_gpus:
        return usual
    if others_have_gpus:
        return []
    there = ", ".join(str(one.get("name")) for one in listed) or "none"
    raise NotInjectable(
        f"{template.where}: no container asks for GPUs, and there are several ({there}): name the engine's with "
        "--container NAME"
    )


def has_gpus(container: dict[str, Any]) -> bool:
    """Whether it asks for any, by the device plugin or by a claim (DRA)."""
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return False
    asked = [part for key in ("limits", "requests") if isinstance(part := resources.get(key), dict)]
    if any(_GPU.fullmatch(str(name)) and str(count) != "0" for part in asked for name, count in part.items()):
        return True
    return bool(resources.get("claims"))


def any_gpus(template: Template) -> bool:
    """Whether any container of the template does."""
    found = [*_listed(template), *([template.main] if template.main is not None else [])]
    return any(has_gpus(one) for one in found)


def _listed(template: Template) -> list[dict[str, Any]]:
    found = template.spec.get("containers")
    if found is None and template.main is not None:
        return []
    if found is None:
        found = []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise NotInjectable(f"{template.where}: containers is no list of objects")
    if not found and template.main is None:
        raise NotInjectable(f"{template.where}: there is no container")
    return found
