"""What a rank is told, on its command line: the profile and how it is to be measured."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from rankmuster.model.benchmark import Operation, Profile, Step


class Backend(str, Enum):
    """What moves the data."""

    NCCL = "nccl"  # the library, called directly
    TORCH_NCCL = "torch-nccl"  # torch's own collectives over it
    GLOO = "gloo"  # on the CPU


@dataclass(frozen=True, slots=True)
class Orders:
    """`rank`, `ranks`: None where a launcher numbers the processes. `store`: a file that all ranks share, None: TCP.

    `results`: a file descriptor to speak to. `seconds`: the rank ends itself after them, whatever happens.
    `choices`: measure nothing; do each operation once, with NCCL's log of its choices.
    `environment`: variables to set before torch starts, and no other NCCL_* may stand; None: as it is started.
    `logs`: the folder for NCCL's logs and dumps, None for one of the rank's own that is gone afterwards.
    """

    profile: Profile
    seconds: float
    backend: Backend = Backend.NCCL
    rank: int | None = None
    ranks: int | None = None
    store: str | None = None
    results: int = 1
    choices: bool = False
    logs: str | None = None
    tied: bool = False  # end when standard input closes: the parent is gone
    environment: tuple[tuple[str, str], ...] | None = None

    def arguments(self) -> list[str]:
        """For the command line; all of it, in a form that any shell quotes well."""
        given = asdict(self)
        given["backend"] = self.backend.value
        given["profile"]["steps"] = [asdict(step) | {"operation": step.operation.value} for step in self.profile.steps]
        shown = {name: value for name, value in given.items() if value is not None and value is not False}
        return ["--orders", json.dumps(shown, separators=(",", ":"), sort_keys=True)]


def parse(arguments: Sequence[str]) -> Orders:
    """Raises ValueError for orders that nobody of ours gave."""
    parser = argparse.ArgumentParser(prog="python -m rankmuster.bench.builtin", add_help=True)
    parser.add_argument("--orders", required=True, help="JSON, as `rankmuster bench` makes it")
    text = parser.parse_args(arguments).orders
    try:
        given: dict[str, Any] = json.loads(text)
        raw = given.pop("profile")
        steps = tuple(
            Step(**(step | {"operation": Operation(step["operation"]), "sizes": tuple(step["sizes"])}))
            for step in raw.pop("steps")
        )
        if "backend" in given:
            given["backend"] = Backend(given["backend"])
        if given.get("environment") is not None:
            given["environment"] = tuple((str(name), str(value)) for name, value in given["environment"])
        return Orders(profile=Profile(**(raw | {"steps": steps})), **given)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"--orders cannot be read ({type(error).__name__}: {error})") from error
