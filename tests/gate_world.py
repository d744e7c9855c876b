"""A release whose checklist passes, in a folder of its own: each test then takes away or changes what it is about.

The recording is the captured case of four healthy ranks, with the settings of the workload; the node is the captured
one of four H200s; the history holds what its load asks for.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml
import zstandard

from admitted import taken
from rankmuster.bench.profile_from_bundle import profile_of
from rankmuster.evidence.bundle import load
from rankmuster.model.admission import Decision
from rankmuster.model.benchmark import Cell, HistoryRun, HistoryValue, RunState, series_key
from rankmuster.model.drill_card import DrillRun, ScoreCard
from rankmuster.model.drill_score import CONTROLS
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.report.fingerprint_yaml import as_yaml as fingerprint_yaml
from rankmuster.store.history import History
from rankmuster.store.records import with_record

CASE = Path(__file__).parent / "cases" / "healthy-tp4" / "input.tar.zst"
DIGEST = "sha256:" + "a1" * 32
HOST = "node7"
NAME = "llm-0"

ENVIRONMENT = {
    "TORCH_FR_BUFFER_SIZE": "60000",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "60000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_NCCL_ENABLE_TIMING": "0",
    "TORCH_NCCL_DESYNC_DEBUG": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "1",
    "TORCH_INCLUDE_STACK_TRACE": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "20000",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "480",
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,RAS",
    "NCCL_DEBUG_TIMESTAMP_LEVELS": "WARN,INFO",
    "NCCL_RAS_ENABLE": "1",
    "NCCL_RAS_ADDR": "localhost:28163",
    "NCCL_NVLS_ENABLE": "0",
}
"""Plain values; those that only a pod has stand in `workload`."""


def workload(**environment: str | None) -> dict[str, Any]:
    """A LeaderWorkerSet of one pod. `environment`: over ENVIRONMENT; None leaves a variable out."""
    values = {name: value for name, value in {**ENVIRONMENT, **environment}.items() if value is not None}
    entries: list[dict[str, Any]] = [
        {"name": "HF_TOKEN", "value": "hf_secret"},
        {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        *({"name": name, "value": value} for name, value in values.items()),
        {"name": "TORCH_FR_DUMP_TEMP_FILE", "value": "/evidence/llm-0/$(POD_UID)/nccl_trace_rank_"},
        {"name": "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "value": "/evidence/llm-0/$(POD_UID)/nccl_pipe_rank_"},
        {"name": "NCCL_DEBUG_FILE", "value": "/evidence/llm-0/$(POD_UID)/nccl_%h_%p.log"},
    ]
    container = {
        "name": "vllm",
        "image": f"vllm/vllm-openai@{DIGEST}",
        "command": ["vllm", "serve", "some/model"],
        "resources": {"limits": {"nvidia.com/gpu": 4}},
        "env": entries,
        "volumeMounts": [{"name": "evidence", "mountPath": "/evidence"}, {"name": "shm", "mountPath": "/dev/shm"}],
    }
    spec = {
        "containers": [{"name": "helper", "image": "busybox:1", "env": [{"name": "A", "value": "b"}]}, container],
        "volumes": [
            {"name": "evidence", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
        ],
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": NAME, "namespace": "serving", "labels": {"app": "llm"}},
        "spec": {"leaderWorkerTemplate": {"size": 1, "workerTemplate": {"spec": spec}}},
    }


INCIDENT: dict[str, Any] = {
    "enable": ["traffic", "group", "node", "retest"],
    "instances": {
        NAME: {
            "traffic": [{"kind": "haproxy", "sockets": ["/run/haproxy.sock"], "backend": "llm", "server": NAME}],
            "group": {"kind": "supervisor"},
            "node": [{"kind": "deny_file", "path": "/etc/deny"}],
            "retest": {"kind": "admit"},
            "probe": {"kind": "http", "url": "http://127.0.0.1:8000/health"},
        }
    },
}


def drill_run(name: str, kind: str = "fault", **changes: Any) -> DrillRun:
    """One that is as it should be."""
    fault = kind == "fault"
    made = DrillRun(
        name=name,
        kind=kind,  # type: ignore[arg-type]
        why="",
        backend="nccl",
        ranks=4,
        graph=False,
        phase="serving",
        expected_classes=("collective_desync",),
        expected_subclasses=(),
        expected_culprit=2 if fault else None,
        naming="must" if fault else "nobody",
        most_seconds=15.0,
        made=True,
        detected=fault,
        detected_by="watch" if fault else None,
        detected_seconds=11.0 if fault else None,
        said_class="collective_desync" if fault else None,
        said_subclass="missing_enter" if fault else None,
        culprits=(2,) if fault else (),
        named_by="verdict" if fault else None,
        named_seconds=18.0 if fault else None,
        class_right=True if fault else None,
        culprit_right=True if fault else None,
        culprit_wrong=False,
        evidence_saved=True if fault else None,
        evidence_first=True if fault else None,
        bundle="bundle" if fault else None,
        bundle_said=None,
        planes={"flight": "spoke", "ras": "spoke"} if fault else {},
        service_back=True if fault else None,
        back_seconds=40.0 if fault else None,
        budget_seconds=770.0 if fault else None,
        again=True if fault else None,
        alarms=(),
        incidents=1 if fault else 0,
        wrongs=(),
    )
    return replace(made, **changes)


DRILLED = ("NCCL_NVLS_ENABLE", "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_ENABLE_MONITORING")
"""Settings that a drill has to have in common with the release."""
FAULTS = ("skip", "stop", "kill", "freeze", "loop", "wrong_size", "graph_stop", "exception", "recorder_timeout")


def score_card(node: Fingerprint, at: float, **changes: Any) -> ScoreCard:
    """One that passed, on the node of the fingerprint."""
    runs = (*(drill_run(name) for name in FAULTS), *(drill_run(name, "control") for name in CONTROLS))
    hashes = {"class_hash": str(node.class_hash), "topology_hash": str(node.topology_hash)}
    made = ScoreCard(
        target="built-in",
        made_at=at,
        complete=True,
        machine={"host": HOST},
        fingerprint=hashes,
        artefact=None,
        settings={name: ENVIRONMENT[name] for name in DRILLED},
        options={},
        runs=runs,
    )
    return replace(made, **changes)


@dataclass
class World:
    """`now`: of the checks, unix seconds: the recording is of that day."""

    folder: Path
    now: float

    @property
    def config(self) -> Path:
        return self.folder / "gate.yaml"

    def settings(self, **changes: Any) -> None:
        """Writes gate.yaml with other values at its first level; None leaves a key out."""
        given = {**yaml.safe_load(self.config.read_text()), **changes}
        self.config.write_text(yaml.safe_dump({key: value for key, value in given.items() if value is not None}))

    def deploy(self, **environment: str | None) -> None:
        """Another environment of the workload."""
        (self.folder / "llm.yaml").write_text(yaml.safe_dump(workload(**environment), sort_keys=False))

    def card(self, **changes: Any) -> None:
        """Another score card."""
        (self.folder / "card.json").write_text(score_card(fingerprint(), self.now, **changes).to_json())

    def instance(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Changes the recording's instance.json."""
        path = self.folder / "bundle" / "instance.json"
        facts = json.loads(path.read_text())
        change(facts)
        path.write_text(json.dumps(facts))

    def incident(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Changes the runbook's settings."""
        settings = json.loads(json.dumps(INCIDENT))
        change(settings)
        (self.folder / "incident.yaml").write_text(yaml.safe_dump(settings))


@cache
def fingerprint() -> Fingerprint:
    """Of the captured node."""
    found = taken(host=HOST).fingerprint
    assert isinstance(found, Fingerprint)
    return found


_MADE: dict[float, tuple[tempfile.TemporaryDirectory[str], float]] = {}
FRESH_SECONDS = 600.0
"""For which a world that was made for about now may be copied for another test."""


def world(folder: Path, now: float) -> World:
    """All files, and a history. `folder`: empty. Made once for about the same time, and copied."""
    base = next((one for at, one in _MADE.items() if abs(at - now) < FRESH_SECONDS), None)
    if base is None:
        base = _MADE.setdefault(now, (tempfile.TemporaryDirectory(prefix="gate-world-"), now))
        _make(Path(base[0].name), now)
    shutil.copytree(base[0].name, folder, dirs_exist_ok=True)
    return World(folder, base[1])


def _make(folder: Path, now: float) -> None:
    made = World(folder, now)
    data = zstandard.ZstdDecompressor().stream_reader(CASE.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder / "bundle", filter="data")
    made.instance(
        lambda facts: facts.update(
            instance=NAME, deployment="rev-7", incarnation="1795983700", environment=ENVIRONMENT, last_look=now
        )
    )
    made.instance(lambda facts: [one.update(host=HOST) for one in facts["processes"]])
    made.config.write_text(
        yaml.safe_dump(
            {
                "release": {"name": NAME, "workload": "llm.yaml", "torch": "2.11", "nccl": "2.28.9"},
                "bundle": ["bundle"],
                "fingerprints": ["nodes/*.yaml"],
                "history": "history.db",
                "drills": ["card.json"],
                "runbook": "incident.yaml",
                "records": "releases",
            }
        )
    )
    made.deploy()
    made.card()
    made.incident(lambda settings: None)
    (folder / "nodes").mkdir()
    (folder / "nodes" / f"{HOST}.yaml").write_text(fingerprint_yaml(fingerprint()))
    fill(folder / "history.db", folder / "bundle", now)


def fill(url: Path, bundle: Path, now: float) -> None:
    """A history in which the recording's own profile was measured on the node, which was then admitted."""
    look = fingerprint()
    profile = profile_of(load(bundle), name=NAME).profile
    cells = [Cell(step.operation, size, step.dtype) for step in profile.steps for size in step.sizes]
    run = with_record(
        HistoryRun(
            record="",
            class_hash=str(look.class_hash),
            kin_hash=str(look.kin_hash),
            node_hash=str(look.node_hash),
            host=HOST,
            profile=series_key(profile, "built-in", 4),
            tool="built-in",
            started_at=now - 3600.0,
            state=RunState.COMPLETE,
            settings=tuple(sorted((name, str(value)) for name, value in look.settings.items())),
            values=tuple(HistoryValue(cell, 100.0, 100.0) for cell in sorted(cells)),
        )
    )
    from history_made import admission

    record = replace(
        admission("gate", nodes=(HOST,), started_at=now - 3600.0), decision=Decision.PASS, ended_at=now - 3000.0
    )
    with History.open(str(url)) as history:
        history.put_measured(look, fingerprint_yaml(look).encode(), [run])
        history.put_admission(record, json.dumps({"of": "gate"}).encode())
