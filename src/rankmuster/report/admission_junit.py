"""An admission as JUnit XML, for CI systems: a test suite per group of checks, and one for the decision itself.

A failed or hung check is a `failure`. One that ended in an error is an `error`. One that could not be answered is
`skipped`: the decision says what that costs. The decision is a test case of its own, so that the whole is as red as
the answer: `fail` is a failure, `error` and `provisional` are errors. A provisional admission must not look like a
pass, and CI systems show a run whose tests were skipped in green.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from xml.sax.saxutils import escape, quoteattr

from rankmuster.model.admission import AdmissionRecord, Check, CheckState, Decision
from rankmuster.report.admission_words import GROUPS, MEANINGS, compared_words, nodes_name, of_group
from rankmuster.report.inert import plain

NAME = "rankmuster admission"

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 allows nowhere, not even escaped (`Char` of its specification)."""

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
        f"<testsuites name={_quoted(NAME)} tests={_count(len(every) + 1)} failures={_count(failures)} "
        f'errors={_count(errors)} skipped={_count(skipped)} time="{took:.3f}">',
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
        f'  <testsuite name="Decision" tests="1" failures={_count(record.decision is Decision.FAIL)} '
        f'errors={_count(bad)} skipped="0" time="{took:.3f}"{_where(record)}>',
        "    <properties>",
        *(f"      <property name={_quoted(name)} value={_quoted(value)}/>" for name, value in properties.items()),
        "    </properties>",
    ]
    case = f'    <testcase classname="admission" name={_quoted(f"admission of {nodes_name(record)}")} time="{took:.3f}"'
    if record.decision is Decision.PASS:
        return [*lines, f"{case}/>", "  </testsuite>"]
    tag = "failure" if record.decision is Decision.FAIL else "error"
    reasons = "\n".join(record.reasons)
    return [
        *lines,
        f"{case}>",
        f"      <{tag} type={_quoted(record.decision.value)} message={_quoted(first)}>{_text(reasons)}</{tag}>",
        "    </testcase>",
        "  </testsuite>",
    ]


def _suite(title: str, checks: Sequence[Check], record: AdmissionRecord) -> list[str]:
    failures = sum(check.state in _FAILURES for check in checks)
    errors = sum(check.state is CheckState.ERROR for check in checks)
    skipped = sum(check.state is CheckState.UNKNOWN for check in checks)
    lines = [
        f"  <testsuite name={_quoted(title)} tests={_count(len(checks))} failures={_count(failures)} "
        f'errors={_count(errors)} skipped={_count(skipped)} time="0"{_where(record)}>'
    ]
    for check in checks:
        name = f"{check.name}: {check.subject}"
        head = f"    <testcase classname={_quoted(f'admission.{check.group.value}')} name={_quoted(name)}"
        body = _body(check)
        lines += [f'{head} time="0"/>'] if not body else [f'{head} time="0">', *body, "    </testcase>"]
    return [*lines, "  </testsuite>"]


def _body(check: Check) -> list[str]:
    told = [check.statement, check.advice, *(f"evidence: {reference}" for reference in check.evidence)]
    words = "\n".join(line for line in told if line)
    message = _quoted(check.statement)
    if check.state in _FAILURES:
        return [f"      <failure type={_quoted(check.state.value)} message={message}>{_text(words)}</failure>"]
    if check.state is CheckState.ERROR:
        return [f'      <error type="error" message={message}>{_text(words)}</error>']
    if check.state is CheckState.UNKNOWN:
        return [f"      <skipped message={message}/>"]
    if check.state is CheckState.WARN:
        return [f"      <system-out>{_text('warning: ' + words)}</system-out>"]
    return [f"      <system-out>{_text(words)}</system-out>"] if check.statement else []


def _where(record: AdmissionRecord) -> str:
    """Host and time as JUnit's schema has them: ISO 8601 without a zone, UTC."""
    parts = [f" hostname={_quoted(nodes_name(record))}"]
    try:
        moment = datetime.fromtimestamp(record.started_at, tz=timezone.utc)
    except (OverflowError, OSError, ValueError):
        return parts[0]
    return f'{parts[0]} timestamp="{moment:%Y-%m-%dT%H:%M:%S}"'


def _text(words: str) -> str:
    return escape(_NO_XML.sub("", "\n".join(plain(line) for line in words.split("\n"))))


def _quoted(words: object) -> str:
    return quoteattr(_NO_XML.sub("", plain(words)))


def _count(number: int) -> str:
    return f'"{int(number)}"'
