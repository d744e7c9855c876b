"""`env check`: environments in, contradictions out. Pure; what folders are there is asked of the environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rankmuster.environment import costs, rules_engine, rules_names, rules_nccl, rules_paths, rules_pod, rules_recorder
from rankmuster.environment.contradiction import Contradiction, Rule, Severity, Subject
from rankmuster.environment.effective import Effective, effective
from rankmuster.environment.given import Given
from rankmuster.environment.table import TABLE
from rankmuster.environment.values import shown
from rankmuster.environment.variable import Engine, Reader
from rankmuster.environment.version import ASSUMED_NCCL, ASSUMED_TORCH, Version, written

RULES: tuple[Rule, ...] = (
    *rules_recorder.RULES,
    *rules_names.RULES,
    *rules_nccl.RULES,
    *rules_engine.RULES,
    *rules_paths.RULES,
    *rules_pod.RULES,
)


DECIDING = (
    "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_ENABLE_TIMING",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
    "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_DIST_USE_NCCL2",
    "NCCL_DEBUG",
    "NCCL_RAS_ENABLE",
    "NCCL_RAS_ADDR",
)
"""The variables whose defaults are told where nobody set anything."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One environment's answer. `settings`: the variables of the table that are set, None: to something unknown.

    `assumed`: what was not said and had to be assumed. `dump`: what a dump would hold, in a sentence.
    `nothing_set`: none of the variables that decide over evidence is set; then `defaults` are what holds.
    """

    where: str
    torch: Version
    nccl: Version
    engine: Engine | None
    settings: tuple[tuple[str, str | None], ...]
    contradictions: tuple[Contradiction, ...]
    assumed: tuple[str, ...]
    dump: str
    nothing_set: bool
    defaults: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All environments of one look; `between`: contradictions of several."""

    checked: tuple[Checked, ...]
    between: tuple[Contradiction, ...]

    @property
    def all(self) -> tuple[Contradiction, ...]:
        """Every contradiction, as they are shown."""
        return (*(one for checked in self.checked for one in checked.contradictions), *self.between)

    @property
    def contradicts(self) -> bool:
        """Whether there is more than notes."""
        return any(one.severity is not Severity.NOTE for one in self.all)


def check(
    environments: Iterable[Given],
    torch: Version | None = None,
    nccl: Version | None = None,
    engine: Engine | None = None,
) -> Report:
    """Applies every rule; versions and engine given here win over what was seen beside an environment."""
    given = [one.with_versions(torch, nccl, engine) for one in environments]
    subjects = [_subject(one) for one in given]
    checked = tuple(_checked(subject) for subject in subjects)
    return Report(checked, tuple(rules_pod.between(subjects)))


def _subject(given: Given) -> Subject:
    torch, nccl = given.torch or ASSUMED_TORCH, given.nccl or ASSUMED_NCCL
    return Subject(given, effective(given.values, given.unknown, torch), torch, nccl)


def _checked(subject: Subject) -> Checked:
    given = subject.given
    names = sorted({*given.values, *given.unknown} & TABLE.keys())
    # a sidecar without a GPU, or an init container, runs no rank: defaults of torch mean nothing there
    bystander = given.pod is not None and not given.pod.gpus and (given.pod.init or not names)
    found = [] if bystander else [one for rule in RULES for one in rule(subject)]
    found += [Contradiction(Severity.WARNING, "odd_entry", (), text, _odd_fix(text)) for text in given.odd]
    order = list(Severity)
    nothing_set = not any(name.startswith(("TORCH_", "NCCL_")) for name in names)
    return Checked(
        where=given.where,
        torch=subject.torch,
        nccl=subject.nccl,
        engine=given.engine,
        settings=tuple((name, _shown(given.of(name))) for name in names),
        contradictions=tuple(
            replace(one, where=given.where) for one in sorted(found, key=lambda one: order.index(one.severity))
        ),
        assumed=_assumed(given),
        dump="runs no rank, it seems" if bystander else dump_sentence(subject.effective),
        nothing_set=nothing_set,
        defaults=_defaults(subject) if nothing_set and not bystander else (),
    )


def _odd_fix(text: str) -> str:
    if text.startswith("envFrom"):
        return "give a file with the ConfigMap in it as well, or look at the process with --pid"
    return "correct the entry"


def _defaults(subject: Subject) -> tuple[tuple[str, str], ...]:
    """What these versions do by themselves, of what decides over evidence."""
    found = []
    for name in DECIDING:
        row = TABLE[name]
        version = subject.torch if row.reader is Reader.TORCH else subject.nccl
        value = row.default(version) if row.read_by(version) else None
        if value is not None:
            found.append((name, value))
    return tuple(found)


def _shown(value: str | None) -> str | None:
    return None if value is None else shown(value)


def _assumed(given: Given) -> tuple[str, ...]:
    return tuple(
        f"{name} {written(version)} is assumed, as nobody said which one runs (give --{option})"
        for name, version, option, known in (
            ("torch", ASSUMED_TORCH, "torch", given.torch),
            ("NCCL", ASSUMED_NCCL, "nccl", given.nccl),
        )
        if known is None
    )


def dump_sentence(now: Effective) -> str:
    """What would be there after a time-out."""
    if now.blocking_wait:
        return "nothing: blocking wait has no watchdog, so nobody dumps"
    if now.nccl2:
        return "only ranks that fail themselves dump (nccl2 backend), with when a call was finished and no more"
    if now.dump_on_timeout is False:
        return "nothing is written on a time-out: dump on time-out is off"
    if now.group_buffer == 0:
        return "nothing is written: ProcessGroupNCCL's copy of the buffer's size is 0"
    if now.recorder_buffer == 0:
        return "files without entries: the ring is 0"
    if None in (now.dump_on_timeout, now.group_buffer, now.recorder_buffer):
        return "cannot be said: a value is only known where it runs"
    entries = now.recorder_buffer or 0
    stacks = now.stacks is not False
    parts = [
        f"the last {entries} collectives of each rank",
        "with start times" if now.timing else "without telling started from scheduled",
        "with Python stacks" if stacks else "without stacks",
    ]
    size = costs.size_text(costs.dump_bytes(entries, stacks=stacks))
    took = costs.seconds_text(costs.dump_seconds(entries, stacks=stacks))
    return f"{', '.join(parts)}; about {size} and {took} a rank, to {shown(now.prefix or '?')}<rank>"


def codes(contradictions: Sequence[Contradiction]) -> list[str]:
    """Their short names, for tests and scripts."""
    return [one.code for one in contradictions]
