"""RETEST and SHORT_RETEST: the suspects, alone and with a good node, while nothing runs on them."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Action
from rankmuster.incident.actuators import Retest
from rankmuster.incident.steps import group as groups
from rankmuster.incident.steps.scene import Ended, Scene
from rankmuster.incident.tools import ToolRole
from rankmuster.model.incident import Answer, Ending, GroupState, NodeRetest, RetestEnding, Step
from rankmuster.model.plain_json import Bounds, to_plain

LOOK_SECONDS = 2.0

BOUNDS = Bounds(text=2_000, members=1_000)


def run(scene: Scene) -> Ended:
    """RETEST, after traffic is back. Data: `results`, one a node."""
    nodes = wanted(scene, fenced=True)
    if not nodes:
        return Ended(Ending.SKIPPED, "no node is to be tested again")
    busy = used(scene, nodes)
    idle = tuple(one for one in nodes if one not in busy)
    left = [_not_tested(node, why) for node, why in busy.items()]
    if left:
        scene.note("not tested, since they are used: " + "; ".join(f"{node} ({why})" for node, why in busy.items()))
    if not idle:
        return Ended(Ending.SKIPPED, "the suspects are all used again", {"results": _plain(left)})
    return _test(scene, idle, left, short=False)


def run_short(scene: Scene) -> Ended:
    """SHORT_RETEST, between the end and the start. Data: as above."""
    nodes = wanted(scene, fenced=False)
    if not nodes:
        return Ended(Ending.SKIPPED, "no node is to be tested again")
    if scene.tools.retest is not None and scene.past.ending(Step.TERMINATE) is not Ending.DONE:
        observed = scene.past.ending(Step.TERMINATE) is Ending.OBSERVED
        if not observed:
            return Ended(Ending.SKIPPED, "the suspects are not known to be free: the group was not seen to end")
    again = lives_again(scene)
    if again is not None:
        return Ended(Ending.SKIPPED, f"the suspects are not free: {again}")
    return _test(scene, nodes, [], short=True)


def wanted(scene: Scene, *, fenced: bool) -> tuple[str, ...]:
    """Names as the scheduler has them. `fenced`: those that were fenced too, which a test may let in again."""
    decision = scene.decision
    if decision is None:
        return ()
    nodes = (*decision.retest, *(scene.record.incident.to_fence if fenced else ()))
    return tuple(dict.fromkeys(scene.scheduler_name(node) for node in nodes))


def results(scene: Scene, step: Step) -> dict[str, RetestEnding]:
    """By node, what its test said."""
    event = scene.past.ended(step)
    found = {}
    for one in event.data.get("results", ()) if event is not None else ():
        try:
            found[str(one["node"])] = RetestEnding(one["ending"])
        except (KeyError, TypeError, ValueError):
            continue
    return found


def used(scene: Scene, nodes: Sequence[str]) -> dict[str, str]:
    """Which of them cannot be tested now, and why."""
    group = scene.tools.group
    if group is None:
        return dict.fromkeys(nodes, "nobody can say what runs there")
    look = groups.look_at(group, scene.deadline.within(LOOK_SECONDS), lambda: scene.acting.given_up)
    if look.state is GroupState.ENDED:
        return {}
    if look.state is GroupState.UNKNOWN or not look.hosts:
        return dict.fromkeys(nodes, f"where the group runs is not known: {groups.told(look)}")
    running = {*look.hosts, *look.nodes.values(), *(scene.scheduler_name(host) for host in look.hosts)}
    return {node: f"{scene.opening.instance} runs there" for node in nodes if node in running}


def lives_again(scene: Scene) -> str | None:
    """What runs after the end of the group, if it has been started by somebody at once; None where nothing is seen."""
    group = scene.tools.group
    if group is None or scene.past.ending(Step.TERMINATE) is not Ending.DONE:
        return None
    look = groups.look_at(group, scene.deadline.within(LOOK_SECONDS), lambda: scene.acting.given_up)
    return groups.told(look) if look.state in groups.LIVING else None


def testing(scene: Scene, retest: Retest, nodes: tuple[str, ...], left: list[NodeRetest], *, short: bool) -> Action:
    good = next((one for one in _good(scene) if one not in nodes), None)
    unless = None
    if short and scene.past.ending(Step.TERMINATE) is Ending.OBSERVED:
        unless = "nothing was terminated"

    def call(deadline: Deadline, operation: str) -> Answer:
        found = retest.test(nodes, good, operation, deadline, short=short)
        return _answer(nodes, found, left)

    return Action(
        name=f"{retest.name}:{'short_retest' if short else 'retest'}",
        slot=retest.name,
        call=call,
        would=lambda: retest.would(nodes, good, short=short),
        enabled=scene.enabled(ToolRole.RETEST),
        unless=unless,
        safe=True,  # of nodes that nothing uses a second test harms nobody
        part_will_do=True,  # a node that could not be tested, or is provisional, has had its test
    )


def _test(scene: Scene, nodes: tuple[str, ...], left: list[NodeRetest], *, short: bool) -> Ended:
    retest = scene.tools.retest
    if retest is None:
        return Ended(Ending.SKIPPED, "no re-test is configured", {"results": _plain(left)})
    answer = scene.acting.act(testing(scene, retest, nodes, left, short=short), scene.deadline)
    if answer.ending is Ending.TIMED_OUT:  # a hung check is a failed check
        hung = [NodeRetest(node=node, ending=RetestEnding.FAIL, note="its re-test hung") for node in nodes]
        return Ended(answer.ending, answer.note, {"results": _plain([*hung, *left])})
    return Ended(answer.ending, answer.note, answer.data)


def _good(scene: Scene) -> tuple[str, ...]:
    settings = scene.instance.retest
    return settings.good if settings is not None else ()


def _answer(nodes: tuple[str, ...], found: object, left: list[NodeRetest]) -> Answer:
    if not isinstance(found, tuple) or not all(isinstance(one, NodeRetest) for one in found):
        return Answer(
            ending=Ending.FAILED, note=f"the re-test answered with a {type(found).__name__}, not with results"
        )
    by_node = {one.node: one for one in found}
    missing = [_not_tested(node, "the re-test said nothing of it") for node in nodes if node not in by_node]
    results = [*(by_node[node] for node in nodes if node in by_node), *missing, *left]
    note = ", ".join(f"{one.node} {one.ending.value}" for one in results)
    decided = all(one.ending in (RetestEnding.PASS, RetestEnding.FAIL) for one in results)
    return Answer(ending=Ending.DONE if decided else Ending.PARTIAL, note=note, data={"results": _plain(results)})


def _not_tested(node: str, why: str) -> NodeRetest:
    return NodeRetest(node=node, ending=RetestEnding.NOT_TESTED, note=why)


def _plain(results: Sequence[NodeRetest]) -> list[dict[str, object]]:
    return [to_plain(one, BOUNDS) for one in results]
