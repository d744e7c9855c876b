"""What is released is known exactly, can be put back as it was, and the evidence is of it and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.environment.variable import Engine
from rankmuster.gate.artefact import unpinned, versions_of
from rankmuster.gate.deployed import Deployed
from rankmuster.gate.facts import Facts, Recording
from rankmuster.gate.items.answer import Answer
from rankmuster.model.fingerprint import NONE
from rankmuster.model.release import Item, ItemResult, Proof
from rankmuster.model.unknown import Unknown
from rankmuster.report.release_words import day, named, short

NEEDED = ("torch", "nccl")
"""Versions without which nobody knows what a setting does."""

ENGINES_OWN: Mapping[Engine, Mapping[str, str]] = {
    Engine.VLLM: {"NCCL_CUMEM_ENABLE": "0"},
    Engine.SGLANG: {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"},
}
"""What vLLM (0.33) and SGLang (0.5) set in their workers where nobody did: a recording may have that besides. Source:
`environment.rules_engine`."""

DAY_AHEAD = 86_400.0
"""Seconds that evidence may be from the future: clocks of two machines, and time zones that were mistaken."""

RECORDED = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_")
"""Variables that a bundle keeps of a process, as far as they change how ranks talk or what they leave."""

PIN = "pin the image by its digest (IMAGE@sha256:...), or say it in `release.digest`"
RECORD = "record the release as it will be deployed: rankmuster collect --dumps always, under its ordinary load"
_DAY = 86_400.0


def artefact(facts: Facts) -> ItemResult:
    """See the module."""
    answer = Answer(Item.ARTEFACT)
    answer.proofs.append(Proof(facts.workload.source, facts.workload.sha256))
    for one in facts.workload.deployed:
        _image(answer, facts, one)
        for dark in one.dark:
            answer.fail(f"{one.where}: {dark}", "set it in the container's own `env`: what is not seen is not put back")
    if isinstance(facts.nodes, Unknown):
        answer.unknown(facts.nodes.reason, "take it where the release runs: rankmuster fingerprint --output FILE")
    else:
        answer.proofs += [one.proof for one in facts.nodes]
        versions = versions_of([one.fingerprint for one in facts.nodes])
        for name in NEEDED:
            if name not in versions:
                todo = "take the fingerprint inside the release's container, where they can be read"
                answer.unknown(f"the version of {name} is not known", todo)
            elif "," in versions[name]:
                answer.fail(f"nodes differ in {name}: {versions[name]}", "bring all nodes to one version first")
        answer.say(", ".join(f"{name} {value}" for name, value in versions.items()) or "no version is known")
        ran = None if isinstance(facts.recording, Unknown) else facts.recording.nccl
        if ran is not None and ran != versions.get("nccl", ran):
            words = f"NCCL {ran} answered in the recording, and the nodes' fingerprints say {versions['nccl']}"
            answer.fail(words, RECORD)
    if isinstance(facts.recording, Unknown):
        answer.unknown(facts.recording.reason, RECORD)
    else:
        _of_it(answer, facts, facts.recording)
    settings = sum(len(one.settings) for one in facts.workload.deployed)
    return answer.result(f"{len(facts.workload.deployed)} container(s) with {settings} settings, and their versions")


def _image(answer: Answer, facts: Facts, one: Deployed) -> None:
    open_ones = unpinned(facts.workload)
    if one.digest and facts.digest and one.digest != facts.digest and not open_ones:
        words = f"{one.where} is pinned to {short(one.digest)}, and `release.digest` says {short(facts.digest)}"
        answer.fail(words, "leave `release.digest` out, or correct it")
    if facts.digest and len(open_ones) > 1:
        answer.fail(f"one `release.digest`, and {len(open_ones)} images without one: {named(open_ones)}", PIN)
    digest = one.digest or (facts.digest if len(open_ones) == 1 else None)
    if digest is None and one.image is not None:
        answer.fail(f"{one.where}: {one.image} is a tag, and a tag can be moved", PIN)
    for node in () if isinstance(facts.nodes, Unknown) else facts.nodes:
        seen = node.fingerprint.image_digest
        if isinstance(seen, str) and seen != NONE and digest is not None and seen != digest:
            words = f"the fingerprint of {node.name} was taken in image {short(seen)}, the release is {short(digest)}"
            answer.fail(words, "take the fingerprint anew in the release's own image")


def _of_it(answer: Answer, facts: Facts, recording: Recording) -> None:
    """Whether the recording is of what is to be released."""
    answer.proofs.append(recording.proof)
    if recording.instance is not None and recording.instance not in (facts.instance, facts.release):
        words = f"the recording is of {recording.instance!r}, and released is {facts.instance!r}"
        answer.fail(words, f"name its instance with `instance`, or {RECORD}")
    if recording.taken_at is None:
        answer.unknown("nobody says when the recording was taken", RECORD)
    elif recording.taken_at > facts.now + DAY_AHEAD:
        answer.fail(f"the recording is of {day(recording.taken_at)}, which is yet to come", "set the clocks; " + RECORD)
    elif facts.now - recording.taken_at > facts.most_age_days * _DAY:
        answer.fail(f"the recording is of {day(recording.taken_at)}, older than {facts.most_age_days:.0f} days", RECORD)
    if recording.environment is None:
        answer.unknown("the recording does not say what was set in the processes", RECORD)
        return
    for one in facts.workload.deployed:
        _same_settings(answer, recording.environment, one)


def _same_settings(answer: Answer, had: Mapping[str, str], one: Deployed) -> None:
    """What Kubernetes makes of the entries counts; a part that only the pod has (a UID in a path) fits anything."""
    own = ENGINES_OWN.get(one.given.engine, {}) if one.given.engine is not None else {}
    now = {name: value for name, value in one.given.communication.items() if name.startswith(RECORDED)}
    for name, value in now.items():
        if "$(" not in value and had.get(name) != value:
            said = f"was {had[name]!r}" if name in had else "was not set"
            answer.fail(f"{name} {said} in the recording, and is {value!r} in {one.where}", RECORD)
    more = [
        name
        for name, value in sorted(had.items())
        if name.startswith(RECORDED) and name not in now and not one.given.has(name) and own.get(name) != value
    ]
    if more:
        words = f"{named(more)} was set in the recording, and is not in {one.where}"
        answer.fail(words, "set it in the release, or record without it")
