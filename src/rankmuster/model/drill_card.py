"""The score card of a drill, sealed (schema `rankmuster.drill/1`): what the gate reads.

Fields are added, never renamed. The seal finds what was changed by accident or by hand. It is no signature: who can
write the file can seal it anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankmuster.model import drill_score
from rankmuster.model.digest import ascii_digest
from rankmuster.model.drill_run import DrillRun
from rankmuster.model.drill_score import Numbers
from rankmuster.model.plain_json import Bounds, NotPlain, from_plain, to_plain
from rankmuster.model.strict_json import NotStrict, strict_object

__all__ = ["BUILT_IN", "CARD", "SCHEMA", "DrillRun", "ScoreCard", "read"]

FAMILY, VERSION = "rankmuster.drill/", 1
SCHEMA = f"{FAMILY}{VERSION}"
BUILT_IN = "built-in"
"""The target that is the serving instance of the drill itself."""
CARD = "card.json"
"""Its name in the folder of a drill."""
SEAL = "seal"
MOST_BYTES = 16 << 20
"""Of one card: a thousand runs have some MB."""
_BOUNDS = Bounds(text=8_192, members=10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreCard:
    """One drill. `target`: "built-in", or the instance's name. `made_at`: unix seconds when it was written. `complete`:
    every run that was asked for was made, or says why it was left out.

    `machine`: host, cpus, gpus, platform, python and versions, null where there is none. `fingerprint`: class_hash,
    node_hash and topology_hash; of one that is null, NAME_unknown says why. `artefact`: a release's digest, as given.
    `settings`: the NCCL_* and TORCH_* variables of the watched job. `options`: how the drill was run.
    """

    target: str
    made_at: float
    complete: bool
    machine: Mapping[str, Any]
    fingerprint: Mapping[str, str | None]
    artefact: str | None
    settings: Mapping[str, str]
    options: Mapping[str, str]
    runs: tuple[DrillRun, ...]

    @property
    def wanted_controls(self) -> tuple[str, ...]:
        """The controls that belong to it: a user's own job is not idled, contended or restarted for a drill."""
        return drill_score.CONTROLS if self.target == BUILT_IN else drill_score.OWN_CONTROLS

    @property
    def numbers(self) -> Numbers:
        """All runs in a few numbers."""
        return drill_score.numbers(self.runs)

    @property
    def passed(self) -> bool | None:
        """Whether all bars hold; None where there is too little to say so."""
        if not self.complete:
            return None
        if drill_score.failures(self.runs):
            return False
        return None if drill_score.gaps(self.runs, self.wanted_controls) else True

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it did not pass, in words; empty where it did."""
        cut = () if self.complete else ("the drill was ended before all of it was done",)
        return (*cut, *drill_score.failures(self.runs), *drill_score.gaps(self.runs, self.wanted_controls))

    def to_plain(self) -> dict[str, Any]:
        """As values of JSON, with its seal: sha256 over the canonical form of everything else."""
        plain = {"schema": SCHEMA, **to_plain(self, _BOUNDS)}
        return {**plain, SEAL: ascii_digest(plain)}

    def to_json(self) -> str:
        """Canonical: keys sorted, no blanks, ASCII; ends with a newline."""
        return json.dumps(self.to_plain(), sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n"


def read(text: bytes | str) -> ScoreCard:
    """A card as it was written. Raises ValueError, which says what is wrong with it."""
    try:
        document = strict_object(text, MOST_BYTES)
    except NotStrict as error:
        raise ValueError(str(error)) from None
    schema = document.get("schema")
    if schema != SCHEMA:
        raise ValueError(_other_schema(schema))
    sealed = document.pop(SEAL, None)
    if not isinstance(sealed, str):
        raise ValueError("it has no seal: no drill wrote it so")
    try:
        made = ascii_digest(document)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"its seal cannot be computed ({error})") from None
    if sealed != made:
        raise ValueError(
            f"it was changed after it was written: its seal says {sealed[:19]}..., its content {made[:19]}..."
        )
    try:
        return from_plain(ScoreCard, document, _BOUNDS)
    except NotPlain as error:
        raise ValueError(f"it is not as a drill writes it: {error}") from None


def _other_schema(schema: object) -> str:
    if isinstance(schema, str) and schema.startswith(FAMILY):
        number = schema.removeprefix(FAMILY)
        if number.isascii() and number.isdigit() and len(number) < 6 and int(number) > VERSION:
            return (
                f"its schema is {schema}, which a later version of rankmuster wrote; this one reads {SCHEMA}: update it"
            )
    return f"its schema is {str(schema)[:60]!r}, and a score card's is {SCHEMA}"
