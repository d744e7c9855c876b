"""What is said of an instance, of its stop and of what came of it. Pure."""

from __future__ import annotations

from rankmuster.collect.target import Target
from rankmuster.watch.finding_known import alive
from rankmuster.watch.respond.notice import StopNotice
from rankmuster.watch.respond.outcome import StopOutcome
from rankmuster.watch.watched import Looked, Watched


def living(target: Target) -> frozenset[int]:
    """The pids of an instance's ranks that live, of all its processes where no rank is known."""
    return frozenset(p.pid for p in target.workers or target.processes if alive(p))


def told_of(target: Target) -> str:
    """What it is and where."""
    pids = sorted(living(target))
    shown = ", ".join(map(str, pids[:8])) + (", ..." if len(pids) > 8 else "")
    of = f"{len(target.workers)} rank(s) here of {target.world_size or 'an unknown number'}"
    return f"{target.engine or 'engine unknown'}, {of}; pids {shown or 'none'}"


def told_of_outcome(outcome: StopOutcome) -> str:
    """What the evidence of a stop says, and how each step ended."""
    text = f"collect {outcome.collect.text}, diagnose {outcome.diagnose.text}"
    verdict = outcome.verdict
    if verdict:
        sub = f"/{verdict.get('subclass')}" if verdict.get("subclass") else ""
        sure = f" ({verdict.get('confidence')})" if verdict.get("confidence") else ""
        summary = str(verdict.get("summary")).removeprefix(f"{verdict.get('class')}: ")
        text = f"{verdict.get('class')}{sub}{sure}: {summary}; {text}"
    if outcome.bundle is not None:
        text += f"; {outcome.bundle}"
    for hook, said in told_of_hooks(outcome).items():
        text += f"; hook {hook} {said}"
    # Whoever reads this after a further stop must not take the first one's evidence for this one's.
    earlier = outcome.repeated and outcome.folder is not None
    return f"of an earlier stop of this incarnation, nothing new was done: {text}" if earlier else text


def told_of_hooks(outcome: StopOutcome) -> dict[str, str]:
    """How each ended; several of one program or server are numbered from the second on."""
    found: dict[str, str] = {}
    for hook in outcome.hooks:
        name = f"{hook.kind} {hook.name}"
        number = sum(1 for key in found if key.partition(" #")[0] == name) + 1
        found[name if number == 1 else f"{name} #{number}"] = hook.ended.text
    return found


def notice_of(watched: Watched, looked: Looked, host: str, unix_now: float, metrics_url: str | None) -> StopNotice:
    """For whoever answers a stop. `unix_now`: of the look; `metrics_url`: that somebody gave, None: it is found."""
    target, view, judgement = watched.target, looked.view, looked.judgement
    return StopNotice(
        instance=target.name,
        incarnation=target.incarnation or watched.identity,
        host=host,
        detected_at=unix_now,
        since=view.since,
        reason=judgement.reason,
        pids=tuple(process.pid for process in target.processes),
        deployment=target.deployment,
        metrics_url=metrics_url,
        state=judgement.state,
        class_=view.class_,
        subclass=view.subclass,
        confidence=judgement.confidence,
        planes=view.planes,
        suspects=judgement.suspects,
    )
