"""What of a node is watched: facts by name, what a change of them is, and the hash that names them. Pure.

Labels come one after the other when a node joins, an agent answers later, a plug-in that restarts takes its numbers
away for a moment. So a fact that comes or goes is no change: the same fact with another value is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase

from rankmuster.baseline.fingerprint.setting_names import PREFIX
from rankmuster.model.digest import ascii_digest
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.kube import NodeView
from rankmuster.model.unknown import Unknown
from rankmuster.report.inert import plain

AGENT = "agent: "
"""Before the name of a fact that the node's agent has read."""

IMAGE = "image of the test"

MOST_CHANGES = 6
MOST_FACTS = 256
MOST_VALUE = 256

_PARTS = ("driver", "gpu_model", "gpu_count", "topology_hash", "node_hash", "nic_order")
_OF_A_CONTAINER = ("shm", "sys.complete")
"""Settings that are of the agent's own container, and say nothing of the node; so are NCCL_* values."""

_WORDS = {"bootID": "it was booted again", f"{AGENT}node_hash": "it has other GPUs or NICs"}


def facts_of(
    node: NodeView, fingerprint: Fingerprint | None, ignore: tuple[str, ...] = (), image: str | None = None
) -> dict[str, str]:
    """Name -> value of what is known now. `image`: of the Job, where another one counts as a change."""
    found = {name: value for name, value in node.facts.items() if value and not _nothing(name, value)}
    if fingerprint is not None:
        found |= {f"{AGENT}{name}": value for name, value in _measured(fingerprint).items()}
    if image is not None:
        found[IMAGE] = image
    kept = [name for name in sorted(found) if not any(fnmatchcase(name, pattern) for pattern in ignore)]
    return {name: found[name][:MOST_VALUE] for name in kept[:MOST_FACTS]}


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """In words; empty where no fact that is known of both differs."""
    return tuple(
        _WORDS.get(name, f"{plain(name, 100)} {plain(before[name], 60)} -> {plain(now[name], 60)}")
        for name in sorted(before.keys() & now.keys())
        if before[name] != now[name]
    )


def told(found: tuple[str, ...]) -> str:
    """Changes as one sentence."""
    more = len(found) - MOST_CHANGES
    return "; ".join(found[:MOST_CHANGES]) + (f"; and {more} more" if more > 0 else "")


def watched(facts: Mapping[str, str]) -> str:
    """64 hex digits over the facts."""
    return ascii_digest(dict(facts)).removeprefix("sha256:")


def _nothing(name: str, value: str) -> bool:
    """A device plug-in that restarts has no devices for a moment: that is not another node."""
    return name.startswith("allocatable ") and value == "0"


def _measured(fingerprint: Fingerprint) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _PARTS:
        value = getattr(fingerprint, name)
        if not isinstance(value, Unknown):
            found[name] = json.dumps(value) if isinstance(value, tuple) else str(value)
    devices = fingerprint.network_device_set
    if not isinstance(devices, Unknown):
        listed = sorted(json.dumps(asdict(one), sort_keys=True) for one in devices)
        found["network_device_set"] = ascii_digest(listed).removeprefix("sha256:")[:16]
    for name, setting in fingerprint.settings.items():
        if not isinstance(setting, Unknown) and not name.startswith(PREFIX) and name not in _OF_A_CONTAINER:
            found[f"setting {name}"] = setting
    return found
