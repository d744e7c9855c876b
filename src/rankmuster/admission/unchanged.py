"""Whether the node that was measured is the node whose fingerprint was taken: nothing may change in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rankmuster.baseline.fingerprint.changes import changes
from rankmuster.baseline.fingerprint.setting_names import PREFIX, changes_choices
from rankmuster.baseline.fingerprint.settings import NCCL_UNKNOWN
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.unknown import Unknown

NAME = "same-node"
SETTINGS = "same-settings"
MASKED = "***"  # a value that may be a secret, as every collector writes it
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


def same_settings_checks(runs: Sequence[BenchmarkRun], fingerprint: Fingerprint) -> list[Check]:
    """ERROR where a run had NCCL_* values that are not the fingerprint's, lacked some, or runs differ; else nothing.

    A run that says nothing of its environment is taken to have had the node's; what the fingerprint could not read
    cannot disagree, and has no class either. What nccl.conf sets is in no environment: NCCL reads it by itself.
    """
    runs = [run for run in runs if run.measurements or run.ranks]  # one that did not begin says nothing
    told = [run for run in runs if run.environment_whole]
    differ = [words for run in told[1:] for words in _differ(_settings(told[0]), _settings(run))]
    if differ:
        statement = f"the runs were not all started with the same settings: {_some(differ)}"
        return [_settings_check(statement, "bring the runs of one setting at a time")]
    odd = [] if NCCL_UNKNOWN in fingerprint.settings else [words for run in runs for words in _odd(run, fingerprint)]
    if odd:
        statement = f"the benchmark ran with other settings than the fingerprint's: {_some(odd)}"
        advice = "take the fingerprint with the same variables set (--env NAME=VALUE)"
        return [_settings_check(statement, advice)]
    return []


def _odd(run: BenchmarkRun, fingerprint: Fingerprint) -> Iterator[str]:
    ran = _settings(run)
    known = {name: value for name, value in fingerprint.settings.items() if name.startswith(PREFIX)}
    for name, value in sorted(ran.items()):
        if not isinstance(known.get(name), Unknown) and known.get(name) != value:
            yield f"{name}={value}, {known.get(name, 'unset')} in the fingerprint"
    if not run.environment_whole:
        return
    by_file = fingerprint.made_from.get("nccl_conf") or ()
    for name, here in sorted(known.items()):
        if name not in ran and name not in by_file and not isinstance(here, Unknown) and here != MASKED:
            yield f"{name} was not set, {here} in the fingerprint"


def _differ(first: dict[str, str], other: dict[str, str]) -> Iterator[str]:
    for name in sorted(first.keys() | other.keys()):
        if first.get(name) != other.get(name):
            yield f"{name}: {_said(first.get(name))} and {_said(other.get(name))}"


def _settings(run: BenchmarkRun) -> dict[str, str]:
    return {name: value.strip() for name, value in run.environment if changes_choices(name)}


def _some(words: Sequence[str]) -> str:
    return "; ".join(list(dict.fromkeys(words))[:MOST])


def _settings_check(words: str, advice: str) -> Check:
    return Check(SETTINGS, CheckGroup.ENVIRONMENT, CheckState.ERROR, "the node", words, advice, required=True)
