"""A drill of the built-in instance, from the options to its card."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.drill_card import DrillStatus
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.drill.campaign import Campaign
    from rankmuster.drill.plan import Backend

RANKS, QUICK_RANKS = 4, 2
QUICK_PERIOD = 2.0
"""Between two looks of the watch in a quick drill, which waits for fewer seconds that way."""
QUICK_FAULTS = ("kill", "freeze", "stop")
"""Of a first drill: a rank that is gone, one that does not answer, and one that calls nothing any more."""
NO_GATEWAY = (
    "HAProxy is not installed (Debian: apt-get install haproxy): clients ask the engine itself, and that service is "
    "back is measured at its own address; no gateway stops requests, so that those which run break off"
)


@dataclass(frozen=True, slots=True)
class BuiltInAsked:
    """The options, as given."""

    faults: list[str]
    backend: Backend
    ranks: int | None
    culprit: int | None
    graph: bool
    times: int
    controls: str
    quick: bool
    period: float | None
    env: list[str]
    gateway: bool
    artefact: str | None
    output: Path
    dry_run: bool


def drill_built_in(asked: BuiltInAsked) -> int:
    """Raises CommandError for what cannot be drilled, before anything is started."""
    from rankmuster.cli.drill_progress import drilled, new_folder
    from rankmuster.drill import card_machine
    from rankmuster.drill.apart import forget
    from rankmuster.drill.card_book import About
    from rankmuster.model.drill_card import BUILT_IN

    forget()
    gateway = asked.gateway and _haproxy()
    campaign = _campaign(asked, gateway)
    if asked.dry_run:
        write_stdout(_plan(asked, campaign))
        return DrillStatus.PASSED
    output = new_folder(asked.output)
    if asked.gateway and not gateway:
        say(f"rankmuster: {NO_GATEWAY}")
    if not campaign.controls:
        say("rankmuster: without controls the card cannot pass: nobody knows then whether anything raises an alarm")
    about = About(BUILT_IN, card_machine.read(), asked.artefact, _options(asked, campaign, gateway))
    return drilled(about, output, lambda book: campaign.run(output, book))


def _campaign(asked: BuiltInAsked, gateway: bool) -> Campaign:
    from rankmuster.drill import able
    from rankmuster.drill.campaign import Campaign
    from rankmuster.drill.card_controls import chosen as chosen_controls
    from rankmuster.drill.incident_command import PERIOD
    from rankmuster.drill.incident_once import IncidentOrder
    from rankmuster.drill.incident_stand import StandOrder
    from rankmuster.drill.job_options import variable
    from rankmuster.drill.plan import Backend, JobPlan

    ranks = asked.ranks if asked.ranks is not None else QUICK_RANKS if asked.quick else RANKS
    culprit = max(ranks - 2, 0) if asked.culprit is None else asked.culprit
    names = asked.faults or (list(QUICK_FAULTS) if asked.quick else [])
    try:
        choice = able.chosen(names, asked.backend)
        controls = chosen_controls(asked.controls)
        extra = dict(variable(text) for text in asked.env)
        JobPlan("drill", ranks, asked.backend, culprit=culprit, graph=asked.graph)  # says what of it cannot be
    except ValueError as error:
        raise CommandError(str(error)) from error
    if missing := able.missing_extras():
        raise CommandError(able.missing_words(missing))
    if asked.backend is Backend.NCCL and (why := able.no_gpus(able.gpus(), ranks)):
        raise CommandError(f"{why}: take fewer --ranks, or --backend gloo")
    stand = StandOrder(
        f"drill-{os.getpid()}",
        asked.backend,
        ranks,
        graph=asked.graph,
        period=asked.period if asked.period is not None else QUICK_PERIOD if asked.quick else PERIOD,
        extra=extra,
        gateway=gateway,
    )
    return Campaign(IncidentOrder(stand, culprit), choice, controls, asked.times, asked.quick)


def _haproxy() -> bool:
    from rankmuster.drill.incident_gateway import NoGateway, program

    try:
        program()
    except NoGateway:
        return False
    return True


def _options(asked: BuiltInAsked, campaign: Campaign, gateway: bool) -> dict[str, str]:
    """For the card: how it was drilled."""
    stand = campaign.order.stand
    return {
        "backend": stand.backend.value,
        "ranks": str(stand.ranks),
        "graph": "yes" if stand.graph else "no",
        "times": str(asked.times),
        "period": f"{stand.period:g}",
        "controls": ", ".join(one.name for one in campaign.controls) or "none",
        "gateway": "haproxy" if gateway else "none",
        "quick": "yes" if asked.quick else "no",
    }


def _plan(asked: BuiltInAsked, campaign: Campaign) -> str:
    """What would be done, in lines."""
    stand, choice = campaign.order.stand, campaign.choice
    lines = [
        f"start an engine of {stand.ranks} {stand.backend.value} ranks with "
        + ("HAProxy before it" if stand.gateway else "no gateway")
        + f", a watch (a look in {stand.period:g} s) and incident serve, below {asked.output}; for each:"
    ]
    lines += [f"fault {one.name}: {one.summary}, {asked.times} time(s)" for one in choice.faults]
    lines += [f"control {one.name}: {one.summary}" for one in campaign.controls]
    lines += [f"left out {fault.name}: {why}" for fault, why in choice.left_out]
    lines.append("end all of it, and write card.json; nothing was done now")
    return "\n".join(lines) + "\n"
