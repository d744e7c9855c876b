"""`rankmuster drill list`: the catalogue of faults and controls."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver
from rankmuster.cli.status import ExitStatus, doing
from rankmuster.cli.verdict_output import color_wanted, printed

if TYPE_CHECKING:
    from rankmuster.report.drill_catalogue import Listed, ListedControl


class ListFormat(str, Enum):
    """How the catalogue is written."""

    TERMINAL = "terminal"
    JSON = "json"


def list_(
    form: Annotated[
        ListFormat, typer.Option("--format", help="terminal: to read; json: for programs.")
    ] = ListFormat.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """List the faults of a drill: the class and culprit that must come back, within how many seconds, and whether this
    machine can make each of them, else why not. Then the controls, in which nothing may happen.

    Exit status: 0 listed, 3 it could not be written.
    """
    with doing("listing the faults"):
        from rankmuster.report import drill_catalogue

        backends = _backends()
        faults, controls = _faults(backends), _controls()
        if form is ListFormat.JSON:
            text = drill_catalogue.as_json(faults, controls)
        else:
            text = printed(
                lambda console: drill_catalogue.render(faults, controls, backends, console),
                width=None,
                color=color_wanted(False, output),
            )
    deliver(text, output)
    return ExitStatus.HEALTHY


def _backends() -> dict[str, str]:
    """Why a backend cannot be used here at all, else empty."""
    from rankmuster.drill import able
    from rankmuster.drill.plan import Backend

    torch = "" if "torch" not in able.missing_extras() else able.missing_words(["torch"])
    return {Backend.GLOO.value: torch, Backend.NCCL.value: able.no_gpus(able.gpus()) or torch}


def _faults(backends: Mapping[str, str]) -> list[Listed]:
    from rankmuster.drill import able
    from rankmuster.drill.fault_needs import Machine
    from rankmuster.report.drill_catalogue import Listed, Wanted

    machine = Machine.here()
    return [
        Listed(
            fault.name,
            fault.summary,
            fault.phase.value,
            fault.most_seconds,
            fault.name in able.OWN,
            tuple(
                Wanted(
                    backend.value,
                    tuple(one.value for one in able.classes_of(fault, truth)),
                    tuple(one.value for one in truth.subkinds),
                    truth.naming.value,
                    truth.why,
                    backends[backend.value] or able.why_not(fault, backend, machine),
                )
                for backend, truth in fault.truths.items()
            ),
        )
        for fault in able.catalogue()
    ]


def _controls() -> list[ListedControl]:
    from rankmuster.drill.card_controls import DRILL_CONTROLS
    from rankmuster.model.drill_score import CONTROLS
    from rankmuster.report.drill_catalogue import ListedControl

    return [ListedControl(one.name, one.summary, one.name in CONTROLS) for one in DRILL_CONTROLS.values()]
