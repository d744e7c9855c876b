"""Overlays of deploy/kubernetes as `kubectl kustomize` renders them, once each."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PLACE = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("observing", "acting-traffic-only", "acting", "acting-postgres", "drill")
RENDERED = (
    *(f"overlays/{name}" for name in OVERLAYS),
    "definitions",
    "monitoring",
    "rbac/exec-evidence",
    "rbac/incident-profile",
)
MINORS = ("1.34", "1.35", "1.36", "1.37")
"""The last four that kubernetes-validate 1.37 has."""

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


@functools.cache
def _text(folder: str) -> str:
    done = subprocess.run(["kubectl", "kustomize", str(PLACE / folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(folder: str) -> list[dict[str, Any]]:
    """The objects of a kustomization, by `kubectl` of this machine."""
    return list(yaml.load_all(_text(folder), yaml.CSafeLoader))


def read(path: Path) -> list[dict[str, Any]]:
    """The objects of a file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The object of that kind and name; of a generated one without its hash."""
    (found,) = (each for each in objects if each["kind"] == kind and each["metadata"]["name"].startswith(name))
    return found


def pod_specs(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What runs, by its name."""
    for each in objects:
        if each["kind"] in ("Deployment", "DaemonSet", "Job"):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]
