"""A checklist as JUnit XML, for CI systems: a test case per item, and one for the gate itself.

An item that fails is a `failure`, one that cannot be told an `error`: a pipeline must not show it in green. A
waived one passed, with who took it on in its output.
"""

from __future__ import annotations

from datetime import datetime, timezone

from rankmuster.model.release import Checklist, ItemResult, ItemState
from rankmuster.report.release_words import headline, waiver_words
from rankmuster.report.xml_text import counted, quoted, text

NAME = "rankmuster gate"


def render(checklist: Checklist) -> str:
    """A whole document, UTF-8 in its declaration."""
    failures, errors = len(checklist.failed), len(checklist.open)
    gate = 0 if checklist.passed else 1
    head = (
        f"name={quoted(checklist.release)} tests={counted(len(checklist.results) + 1)} "
        f'failures={counted(failures + gate)} errors={counted(errors)} skipped="0" time="0"'
    )
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={quoted(NAME)} tests={counted(len(checklist.results) + 1)} "
        f'failures={counted(failures + gate)} errors={counted(errors)} skipped="0" time="0">',
        f"  <testsuite {head}{_when(checklist.made_at)}>",
        *_gate(checklist),
    ]
    for one in checklist.results:
        lines += _case(one)
    return "\n".join([*lines, "  </testsuite>", "</testsuites>", ""])


def _gate(checklist: Checklist) -> list[str]:
    case = f'    <testcase classname="gate" name={quoted(f"release {checklist.release}")} time="0"'
    if checklist.passed:
        return [f"{case}/>"]
    words = headline(checklist)
    return [
        f"{case}>",
        f'      <failure type="gate" message={quoted(words)}>{text([words])}</failure>',
        "    </testcase>",
    ]


def _case(one: ItemResult) -> list[str]:
    head = f'    <testcase classname="gate.checklist" name={quoted(one.item.value)} time="0"'
    told = [one.statement, *one.details, one.note, waiver_words(one), *(f"to do: {todo}" for todo in one.todo)]
    told += [f"evidence: {proof.name} sha256:{proof.sha256}" for proof in one.proofs]
    words = text(line for line in told if line)
    message = quoted(one.statement)
    if one.state is ItemState.FAIL:
        body = f'      <failure type="fail" message={message}>{words}</failure>'
    elif one.state is ItemState.UNKNOWN:
        body = f'      <error type="unknown" message={message}>{words}</error>'
    else:
        body = f"      <system-out>{words}</system-out>"
    return [f"{head}>", body, "    </testcase>"]


def _when(unix: float) -> str:
    try:
        return f' timestamp="{datetime.fromtimestamp(unix, tz=timezone.utc):%Y-%m-%dT%H:%M:%S}"'
    except (OverflowError, OSError, ValueError):
        return ""
