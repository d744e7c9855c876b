"""Whether the node that was measured is the node whose fingerprint was taken: nothing may change in between."""

from __future__ import annotations

from collections.abc import Iterator

from rankmuster.baseline.fingerprint.changes import changes
from rankmuster.baseline.fingerprint.setting_names import PREFIX, changes_choices
from rankmuster.baseline.fingerprint.settings import NCCL_UNKNOWN
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.unknown import Unknown

NAME = "same-node"
MOST = 6
"""Changes named; the two fingerprints have the rest."""

_PARTS = (
    ("node", "node_hash"),
    ("driver", "driver"),
    ("topology", "topology_hash"),
    ("image", "image_digest"),
    ("CUDA", "cuda_version"),
    ("NCCL", "nccl_version"),
    ("PyTorch", "pytorch_version"),
    ("order of NICs", "nic_order"),
    ("GPU count", "gpu_count"),
    ("class", "class_hash"),
)


def unchanged_check(before: Fingerprint, after: Fingerprint) -> Check:
    """ERROR with what changed; a part that only one of the two could read is no change."""
    found = list(dict.fromkeys(_differences(before, after)))
    if not found:
        words = "the fingerprint is the same before and after the benchmark"
        return Check(NAME, CheckGroup.ENVIRONMENT, CheckState.PASS, "the node", words)
    words = f"the node changed between fingerprint and benchmark: {'; '.join(found[:MOST])}"
    if len(found) > MOST:
        words += f"; and {len(found) - MOST} more"
    advice = "admit again when nobody works on the node: results of one thing must not count for another"
    return Check(NAME, CheckGroup.ENVIRONMENT, CheckState.ERROR, "the node", words, advice, required=True)


def _differences(before: Fingerprint, after: Fingerprint) -> Iterator[str]:
    parts = [(name, getattr(before, field), getattr(after, field)) for name, field in _PARTS]
    parts += [
        (name, before.settings.get(name), after.settings.get(name)) for name in {**before.settings, **after.settings}
    ]
    differ = [
        (name, old, new)
        for name, old, new in parts
        if not isinstance(old, Unknown) and not isinstance(new, Unknown) and old != new
    ]
    if not differ:
        return
    for change in changes(before, after):
        if "unknown" not in (change.before[:7], change.after[:7]) and not change.applies:
            yield f"{change.part}: {change.before} -> {change.after}"
    for name, old, new in differ:
        if not str(old).startswith("sha256:"):
            yield f"{name}: {_said(old)} -> {_said(new)}"
    named = [name for name, old, _ in differ if str(old).startswith("sha256:")]
    if named:
        yield f"another hash of the {', the '.join(named)}"


def _said(value: object) -> str:
    return "unset" if value is None else str(value)[:80]


def same_settings_check(run: BenchmarkRun, fingerprint: Fingerprint) -> Check | None:
    """ERROR where the benchmark ran with NCCL_* values that are not the fingerprint's; None where they agree.

    A run that says nothing of its environment is taken to have had the node's; what the fingerprint could not read
    cannot disagree, and has no class either.
    """
    if not run.environment or NCCL_UNKNOWN in fingerprint.settings:
        return None
    ran = {name: value.strip() for name, value in run.environment if changes_choices(name)}
    known = {name: value for name, value in fingerprint.settings.items() if name.startswith(PREFIX)}
    told = {name: value for name, value in known.items() if not isinstance(value, Unknown)}
    odd = [
        f"{name}={value}, {told.get(name, 'unset')} in the fingerprint"
        for name, value in sorted(ran.items())
        if not isinstance(known.get(name), Unknown) and told.get(name) != value
    ]
    if not odd:
        return None
    words = f"the benchmark ran with other settings than the fingerprint's: {'; '.join(odd[:MOST])}"
    advice = "take the fingerprint with the same variables set (--env NAME=VALUE)"
    return Check("same-settings", CheckGroup.ENVIRONMENT, CheckState.ERROR, "the node", words, advice, required=True)
