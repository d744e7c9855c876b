"""The settings of `rankmuster incident` for a drill's engine: gateway and group act, and one undecided is rebuilt."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankmuster.drill.engine_http import GOOD
from rankmuster.drill.incident_gateway import BACKEND, SERVER
from rankmuster.incident.budget import Budget
from rankmuster.model.incident import Step

PROBE_TOKENS = 2
EVIDENCE_SECONDS = 19.5
"""Of the step: what it may take is 20 s, measured from outside."""
BUDGET = Budget({Step.EVIDENCE: EVIDENCE_SECONDS})
"""Of the runbook, as these settings have it."""


@dataclass(frozen=True, slots=True)
class Places:
    """What the runner has to know of the stand. `gateway`, `supervisor`: sockets; None: there is no gateway. `port`: of
    the engine. `folder`: for the runner's own files."""

    instance: str
    port: int
    gateway: Path | None
    supervisor: Path
    watch: Path
    journal: Path
    folder: Path

    @property
    def url(self) -> str:
        """Of the engine itself, past the gateway."""
        return f"http://127.0.0.1:{self.port}"


def settings(places: Places, collect: tuple[str, ...] = ()) -> str:
    """YAML (JSON is part of it). `collect`: more options for collect."""
    haproxy = {"kind": "haproxy", "sockets": [str(places.gateway)], "backend": BACKEND, "server": SERVER}
    instance: dict[str, Any] = {
        "traffic": [haproxy] if places.gateway is not None else [],
        "group": {"kind": "supervisor", "socket": str(places.supervisor)},
        "evidence": {"kind": "collect", "options": list(collect)},
        "probe": {
            "kind": "http",
            "url": f"{places.url}/v1/completions",
            "body": json.dumps({"prompt": "are you all there", "max_tokens": PROBE_TOKENS}),
            "expect": GOOD * PROBE_TOKENS,
        },
        "metrics_url": f"{places.url}/metrics",
    }
    whole = {
        "journal": str(places.journal),
        "folder": str(places.folder),
        "watch": str(places.watch),
        "enable": ["traffic", "group"] if places.gateway is not None else ["group"],
        "undecided": "rebuild",
        "budget": {step.value: seconds for step, seconds in BUDGET.seconds.items()},
        "instances": {places.instance: instance},
    }
    return json.dumps(whole, indent=1) + "\n"
