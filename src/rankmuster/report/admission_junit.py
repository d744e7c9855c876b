"""An admission as JUnit XML, for CI systems: a test suite per group of checks, and one for the decision itself.

A failed or hung check is a `failure`. One that ended in an error is an `error`. One that could not be answered is
`skipped`: the decision says what that costs. The decision is a test case of its own, so that the whole is as red as
the answer: `fail` is a failure, `error` and `provisional` are errors. A provisional admission must not look like a
pass, and CI systems show a run whose tests were skipped in green.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from rankmuster.model.admission import AdmissionRecord, Check, CheckState, Decision
from rankmuster.report.admission_words import GROUPS, MEANINGS, compared_words, nodes_name, of_group
from rankmuster.report.xml_text import counted, quoted, text

NAME = "rankmuster admission"

_FAILURES = (CheckState.FAIL, CheckState.HUNG)


def render(record: AdmissionRecord) -> str:
    """A whole document, UTF-8 in its declaration, ASCII but for what the messages hold."""
    suites = [(title, of_group(record.checks, group)) for group, title in GROUPS.items()]
    suites = [(title, checks) for title, checks in suites if checks]
    every = [check for _, checks in suites for check in checks]
    decided = _decision(record)
    took = max(record.ended_at - record.started_at, 0.0)
    failures = sum(check.state in _FAILURES for check in every) + (record.decision is Decision.FAIL)
    errors = sum(check.state is CheckState.ERROR for check in every)
    errors += record.decision in (Decision.ERROR, Decision.PROVISIONAL)
    skipped = sum(check.state is CheckState.UNKNOWN for check in every)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={quoted(NAME)} tests={counted(len(every) + 1)} failures={counted(failures)} "
        f'errors={counted(errors)} skipped={counted(skipped)} time="{took:.3f}">',
        *decided,
    ]
    for title, checks in suites:
        lines += _suite(title, checks, record)
    return "\n".join([*lines, "</testsuites>", ""])


def _decision(record: AdmissionRecord) -> list[str]:
    bad = record.decision in (Decision.ERROR, Decision.PROVISIONAL)
    first = record.reasons[0] if record.reasons else MEANINGS[record.decision]
    took = max(record.ended_at - record.started_at, 0.0)
    properties = {
        "record": record.hash,
        "profile": record.profile,
        "compared with": compared_words(record),
        **dict(record.fingerprint),
    }
    lines = [
        f'  <testsuite name="Decision" tests="1" failures={counted(record.decision is Decision.FAIL)} '
        f'errors={counted(bad)} skipped="0" time="{took:.3f}"{_where(record)}>',
        "    <properties>",
        *(f"      <property name={quoted(name)} value={quoted(value)}/>" for name, value in properties.items()),
        "    </properties>",
    ]
    case = f'    <testcase classname="admission" name={quoted(f"admission of {nodes_name(record)}")} time="{took:.3f}"'
    if record.decision is Decision.PASS:
        return [*lines, f"{case}/>", "  </testsuite>"]
    tag = "failure" if record.decision is Decision.FAIL else "error"
    return [
        *lines,
        f"{case}>",
        f"      <{tag} type={quoted(record.decision.value)} message={quoted(first)}>{text(record.reasons)}</{tag}>",
        "    </testcase>",
        "  </testsuite>",
    ]


def _suite(title: str, checks: Sequence[Check], record: AdmissionRecord) -> list[str]:
    failures = sum(check.state in _FAILURES for check in checks)
    errors = sum(check.state is CheckState.ERROR for check in checks)
    skipped = sum(check.state is CheckState.UNKNOWN for check in checks)
    lines = [
        f"  <testsuite name={quoted(title)} tests={counted(len(checks))} failures={counted(failures)} "
        f'errors={counted(errors)} skipped={counted(skipped)} time="0"{_where(record)}>'
    ]
    for check in checks:
        name = f"{check.name}: {check.subject}"
        head = f"    <testcase classname={quoted(f'admission.{check.group.value}')} name={quoted(name)}"
        body = _body(check)
        lines += [f'{head} time="0"/>'] if not body else [f'{head} time="0">', *body, "    </testcase>"]
    return [*lines, "  </testsuite>"]


def _body(check: Check) -> list[str]:
    told = [check.statement, check.advice, *(f"evidence: {reference}" for reference in check.evidence)]
    words = [line for line in told if line]
    message = quoted(check.statement)
    if check.state in _FAILURES:
        return [f"      <failure type={quoted(check.state.value)} message={message}>{text(words)}</failure>"]
    if check.state is CheckState.ERROR:
        return [f'      <error type="error" message={message}>{text(words)}</error>']
    if check.state is CheckState.UNKNOWN:
        return [f"      <skipped message={message}/>"]
    if check.state is CheckState.WARN:
        warned = [f"warning: {words[0]}", *words[1:]]
        return [f"      <system-out>{text(warned)}</system-out>"]
    return [f"      <system-out>{text(words)}</system-out>"] if check.statement else []


def _where(record: AdmissionRecord) -> str:
    """Host and time as JUnit's schema has them: ISO 8601 without a zone, UTC."""
    parts = [f" hostname={quoted(nodes_name(record))}"]
    try:
        moment = datetime.fromtimestamp(record.started_at, tz=timezone.utc)
    except (OverflowError, OSError, ValueError):
        return parts[0]
    return f'{parts[0]} timestamp="{moment:%Y-%m-%dT%H:%M:%S}"'
