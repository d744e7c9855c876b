"""Score cards of drills, made for tests: rows that are right, and whatever of them a test wants otherwise."""

from __future__ import annotations

from typing import Any

from rankmuster.drill.card import Shape, blank
from rankmuster.drill.plan import Backend
from rankmuster.model.drill_card import BUILT_IN, ScoreCard
from rankmuster.model.drill_run import DrillRun
from rankmuster.model.drill_score import CONTROLS

SHAPE = Shape(Backend.GLOO, 4, 2)

RIGHT: dict[str, Any] = {
    "expected_classes": ("process_or_device_lost",),
    "expected_culprit": 2,
    "naming": "must",
    "made": True,
    "detected": True,
    "detected_by": "watch",
    "detected_seconds": 10.0,
    "said_class": "process_or_device_lost",
    "said_subclass": "unresponsive",
    "culprits": (2,),
    "named_by": "verdict",
    "named_seconds": 14.5,
    "class_right": True,
    "culprit_right": True,
    "evidence_saved": True,
    "evidence_first": True,
    "bundle": "000-freeze/incidents/1/evidence",
    "bundle_said": "process_or_device_lost: unresponsive; culprit 2",
    "planes": {"platform": "spoke", "ras": "blind"},
    "service_back": True,
    "back_seconds": 19.5,
    "budget_seconds": 770.0,
    "again": True,
    "incidents": 1,
}


def row(kind: Any, name: str, **more: Any) -> DrillRun:
    made = blank(name, kind, SHAPE)
    return DrillRun(**{field: getattr(made, field) for field in DrillRun.__dataclass_fields__} | more)


def fault(name: str = "freeze", **more: Any) -> DrillRun:
    return row("fault", name, **{**RIGHT, **more})


def control(name: str = "healthy", **more: Any) -> DrillRun:
    return row("control", name, **more)


def quiet_controls() -> tuple[DrillRun, ...]:
    return tuple(control(name) for name in CONTROLS)


def card(*runs: DrillRun, **more: Any) -> ScoreCard:
    about: dict[str, Any] = {
        "target": BUILT_IN,
        "made_at": 1_796_000_000.0,
        "complete": True,
        "machine": {
            "host": "node-7",
            "cpus": 2,
            "gpus": [],
            "platform": "Linux",
            "python": "3.11.7",
            "versions": {"torch": "2.13.0", "nccl": None, "driver": None, "rankmuster": "0.1.0"},
        },
        "fingerprint": {"class_hash": "sha256:" + "ab" * 32, "node_hash": None, "node_hash_unknown": "no GPU"},
        "artefact": None,
        "settings": {"TORCH_FR_BUFFER_SIZE": "2000"},
        "options": {"backend": "gloo"},
    }
    return ScoreCard(**{**about, "runs": runs or (fault(), *quiet_controls()), **more})
