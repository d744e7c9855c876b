"""Time-outs, log volume and buffer sizes are those that the release's own load asks for."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.environment.calibrated import Grounds, Value
from rankmuster.environment.values import read_number
from rankmuster.gate.deployed import Deployed
from rankmuster.gate.facts import Facts
from rankmuster.gate.items.answer import Answer
from rankmuster.gate.items.artefact import RECORD
from rankmuster.model.release import Item, ItemResult
from rankmuster.model.unknown import Unknown
from rankmuster.report.release_words import named

MOST_LOG_BYTES_PER_HOUR = 1 << 30
"""Of one instance, NCCL's log and the framework's: more fills an ordinary emptyDir of 20 GiB within a day."""
MOST_TIMES = 4.0
"""How far above what is asked for a buffer may be: each doubling doubles the dump and the time that it takes."""
LOGS = ("nccl_log_bytes_per_hour", "framework_log_bytes_per_hour")
SWITCHES = ("0", "1")
"""Values that switch something; all others are sizes and times."""
CALIBRATE = "rankmuster calibrate BUNDLE --format shell prints what to set"


def calibration(facts: Facts) -> ItemResult:
    """See the module."""
    answer = Answer(Item.CALIBRATION)
    recording = facts.recording
    if isinstance(recording, Unknown):
        return answer.lacks(recording, RECORD)
    answer.proofs.append(recording.proof)
    if isinstance(recording.calibration, Unknown):
        return answer.lacks(recording.calibration, RECORD)
    for value in recording.calibration.values:
        if value.to_set:
            _setting(answer, value, facts.workload.deployed)
        elif value.name in LOGS and value.number is not None and value.number > MOST_LOG_BYTES_PER_HOUR:
            words = f"{value.name}: {value.number / (1 << 20):,.0f} MiB an hour, which fills a disk within a day"
            answer.fail(words, "log less: rankmuster env print --profile steady")
        elif value.name in LOGS and value.number is not None:
            answer.say(f"{value.name}: {value.number / (1 << 20):,.1f} MiB an hour")
    return answer.result("buffers, time-outs and logs fit the recorded load")


def _setting(answer: Answer, value: Value, deployed: tuple[Deployed, ...]) -> None:
    if value.number is None:
        if value.variables or value.name == "ring_entries":
            answer.unknown(f"{value.name} is undecided", f"{value.missing or RECORD}")
        else:
            answer.say(f"{value.name} is undecided: {value.missing}")
        return
    for name, asked in value.variables:
        for one in deployed:
            _variable(answer, value, name, asked, one)
    if not value.variables:
        answer.say(f"{value.name}: {value.number:g} {value.unit} ({value.grounds.value}); it is no variable")


def _switch(answer: Answer, name: str, asked: str, one: Deployed) -> None:
    """On or off: what is not set is the version's own default, and only what is set otherwise is wrong."""
    found = read_number(one.given.of(name))
    if found is not None and found != float(asked):
        answer.fail(f"{one.where}: {name}={found:g}, and {asked} is asked for", f"set {name}={asked}; {CALIBRATE}")
    elif found is None and asked == "1" and not one.given.has(name):
        answer.fail(f"{one.where}: {name} is not set, and {asked} is asked for", f"set {name}={asked}; {CALIBRATE}")


def _variable(answer: Answer, value: Value, name: str, asked: str, one: Deployed) -> None:
    """What counts: a setting that is too small loses evidence; one that is far too large costs, and is said."""
    said: Mapping[str, str] = one.given.values
    if asked in SWITCHES:
        _switch(answer, name, asked, one)
        return
    needed = read_number(asked)
    found = read_number(said.get(name))
    if needed is None:
        return
    why = f"{value.basis}" if value.grounds is not Grounds.CONSTANT else f"a constant: {value.basis}"
    if found is None:
        if one.given.has(name):
            answer.unknown(f"{one.where}: {name} is set to what is not known here", f"set {name}={asked}")
        else:
            answer.fail(
                f"{one.where}: {name} is not set; {asked} is asked for ({why})", f"set {name}={asked}; {CALIBRATE}"
            )
    elif found < needed:
        answer.fail(f"{one.where}: {name}={found:g} is less than {asked} ({why})", f"set {name}={asked}; {CALIBRATE}")
    elif needed and found > needed * MOST_TIMES:
        answer.say(f"{one.where}: {name}={found:g} is {found / needed:.0f} times what is asked for ({asked})")
    else:
        answer.say(f"{one.where}: {name}={found:g}, asked for {named([asked])}")
