"""Writes the parts of deploy/kubernetes that are made from code: definitions, roles, and Prometheus' rules.

python tools/write_kube_manifests.py           # writes them
python tools/write_kube_manifests.py --check   # says which are not what the code makes (exit status 1)
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from rankmuster.kube.crd.render import definitions
from rankmuster.kube.manifest_yaml import as_yaml
from rankmuster.kube.rbac import PARTS
from rankmuster.kube.rbac_render import roles

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "deploy" / "kubernetes"
RULES = ROOT / "deploy" / "prometheus"

HEAD = "# Written by tools/write_kube_manifests.py from {}: change it there.\n"


def made() -> Iterator[tuple[Path, str]]:
    """Every file with its text."""
    yield (
        PLACE / "definitions" / "definitions.yaml",
        HEAD.format("src/rankmuster/kube/crd") + as_yaml(definitions()),
    )
    for part in PARTS:
        text = HEAD.format("src/rankmuster/kube/rbac.py") + as_yaml(roles([part]))
        yield PLACE / "rbac" / part.value / "roles.yaml", text
    yield PLACE / "monitoring" / "rules.yaml", HEAD.format("deploy/prometheus") + as_yaml(prometheus_rules())


def prometheus_rules() -> Iterator[dict[str, Any]]:
    """Our rule files as objects of the Prometheus Operator."""
    for path in sorted(RULES.glob("*-alerts.yml")):
        yield {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {
                "name": path.stem,
                "namespace": "rankmuster",
                "labels": {"app.kubernetes.io/name": "rankmuster"},
            },
            "spec": yaml.safe_load(path.read_text(encoding="utf-8")),
        }


def stale() -> list[Path]:
    """Files that are not what the code makes now."""
    return [path for path, text in made() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, say what would be written")
    options = parser.parse_args()
    if options.check:
        for path in stale():
            print(f"{path.relative_to(ROOT)} is not what the code makes: run python tools/write_kube_manifests.py")
        return 1 if stale() else 0
    for path, text in made():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
