"""`env check`'s answer as text for people, and as JSON (`rankmuster.env-check/1`)."""

from __future__ import annotations

import json

from rankmuster.environment.check import Checked, Report
from rankmuster.environment.contradiction import Contradiction, Severity
from rankmuster.environment.version import written
from rankmuster.environment.wrapped import WIDEST, wrapped
from rankmuster.report.inert import plain

SCHEMA = "rankmuster.env-check/1"


def as_text(report: Report, width: int = WIDEST) -> str:
    """One block for each environment; worst first within it."""
    lines: list[str] = []
    for checked in report.checked:
        lines += [*([""] if lines else []), *_head(checked, width)]
        lines += [line for one in checked.contradictions for line in _one(one, width)]
        if not checked.contradictions:
            lines += ["  no contradiction found"]
    if report.between:
        lines += ["", "between them"]
        lines += [line for one in report.between for line in _one(one, width)]
    count = {severity: sum(one.severity is severity for one in report.all) for severity in Severity}
    total = ", ".join(f"{number} {severity.value}{'' if number == 1 else 's'}" for severity, number in count.items())
    return "\n".join([*lines, "", total]) + "\n"


def _head(checked: Checked, width: int) -> list[str]:
    engine = f", {checked.engine.value}" if checked.engine else ""
    lines = [f"{plain(checked.where)} (torch {written(checked.torch)}, NCCL {written(checked.nccl)}{engine})"]
    for text in checked.assumed:
        lines += wrapped(text, width, "  ")
    for name, value in checked.settings:
        lines += [f"  {name}={plain(value) if value is not None else '(only known where it runs)'}"]
    if checked.nothing_set:
        lines += ["  nothing that decides over evidence is set; the defaults of these versions hold"]
        lines += [f"    {name}={value}" for name, value in checked.defaults]
    return [*lines, *wrapped(f"a dump: {plain(checked.dump)}", width, "  ")]


def _one(one: Contradiction, width: int) -> list[str]:
    where = f"{plain(one.where)}: " if one.where and one.code in ("same_ras_port", "same_prefix") else ""
    return [
        *wrapped(f"{one.severity.value}: {where}{plain(one.statement)} [{one.code}]", width, "  "),
        *wrapped(f"fix: {plain(one.fix)}", width, "      "),
    ]


def as_json(report: Report) -> str:
    """Fields may be added, never renamed."""
    document = {
        "schema": SCHEMA,
        "contradicts": report.contradicts,
        "environments": [
            {
                "where": checked.where,
                "torch": written(checked.torch),
                "nccl": written(checked.nccl),
                "engine": checked.engine.value if checked.engine else None,
                "assumed": list(checked.assumed),
                "settings": dict(checked.settings),
                "nothing_set": checked.nothing_set,
                "defaults": dict(checked.defaults),
                "dump": checked.dump,
                "contradictions": [_record(one) for one in checked.contradictions],
            }
            for checked in report.checked
        ],
        "between": [_record(one) for one in report.between],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _record(one: Contradiction) -> dict[str, object]:
    return {
        "severity": one.severity.value,
        "code": one.code,
        "names": list(one.names),
        "statement": one.statement,
        "fix": one.fix,
        "where": one.where,
    }
