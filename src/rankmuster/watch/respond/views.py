"""What `top` and the exporter show of a stop, from what is known of it, and the same from the record. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rankmuster.report.inert import plain
from rankmuster.watch.respond.outcome import HookEnded, StepEnding, StopOutcome
from rankmuster.watch.respond.told import culprits
from rankmuster.watch.snapshot import StopView

MOST_TEXT = 600
"""Characters of one sentence: the state file is written at each look."""


def view_of(outcome: StopOutcome, resumed_at: float | None = None) -> StopView:
    """Of one stop, while it is being answered and afterwards."""
    verdict = outcome.verdict or {}
    return StopView(
        at=outcome.notice.detected_at,
        incarnation=outcome.notice.incarnation,
        reason=plain(outcome.notice.reason, MOST_TEXT),
        resumed_at=resumed_at,
        collect=plain(outcome.collect.text, MOST_TEXT),
        diagnose=plain(outcome.diagnose.text, MOST_TEXT),
        hook=plain(hooks_text(outcome.hooks), MOST_TEXT),
        bundle=str(outcome.bundle) if outcome.bundle is not None else None,
        class_=verdict.get("class"),
        subclass=verdict.get("subclass"),
        summary=plain(verdict["summary"], MOST_TEXT) if verdict.get("summary") else None,
        culprits=culprits(outcome)[:16] if outcome.verdict is not None else (),
    )


def hooks_text(hooks: tuple[HookEnded, ...]) -> str:
    """All hooks in one word: the first that went wrong speaks for them."""
    if not hooks:
        return "off"
    for wanted in (StepEnding.FAILED, StepEnding.TIMED_OUT, StepEnding.RUNNING, StepEnding.NOT_DONE):
        for hook in hooks:
            if hook.ended.ending is wanted:
                return hook.ended.text
    return "done" if all(hook.ended.ending is StepEnding.DONE for hook in hooks) else "not done: waits"


def as_json(view: StopView) -> dict[str, Any]:
    """For the record."""
    return {
        "at": view.at if math.isfinite(view.at) else 0.0,
        "reason": view.reason,
        "collect": view.collect,
        "diagnose": view.diagnose,
        "hook": view.hook,
        "bundle": view.bundle,
        "class": view.class_,
        "subclass": view.subclass,
        "summary": view.summary,
        "culprits": list(view.culprits),
    }


def from_json(raw: Mapping[str, Any], incarnation: str) -> StopView | None:
    """What `as_json` made; None where it is not that."""
    at, named = raw.get("at"), raw.get("culprits")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not isinstance(named, list):
        return None
    texts = {name: raw.get(name) for name in ("reason", "collect", "diagnose", "hook")}
    maybe = {name: raw.get(name) for name in ("bundle", "class", "subclass", "summary")}
    if not all(isinstance(text, str) for text in texts.values()):
        return None
    if not all(text is None or isinstance(text, str) for text in maybe.values()):
        return None
    return StopView(
        at=float(at),
        incarnation=incarnation,
        reason=str(texts["reason"]),
        collect=str(texts["collect"]),
        diagnose=str(texts["diagnose"]),
        hook=str(texts["hook"]),
        bundle=maybe["bundle"],
        class_=maybe["class"],
        subclass=maybe["subclass"],
        summary=maybe["summary"],
        culprits=tuple(str(one) for one in named),
    )
