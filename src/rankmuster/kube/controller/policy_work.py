"""Brings policies into line: their status, and the finalizer while an incident under them is open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.adapters.kube.api import KubeError
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.controller import finalizer
from rankmuster.kube.controller.fleet import Fleet
from rankmuster.kube.controller.outside import Outside
from rankmuster.kube.controller.policies import Policies, policy_view
from rankmuster.kube.controller.said_once import SaidOnce
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.controller.work_queue import WorkQueue
from rankmuster.store.errors import HistoryError

AGAIN_SECONDS = 30.0
"""Between two looks at a policy's status where nothing tells of a change: progress is in it."""

DELETING_SECONDS = 2.0
"""The same while its deletion is held."""


class PolicyWork:
    """`told` is fed by the watches, `turn` is for one thread. A dry run writes nothing."""

    def __init__(
        self, settings: ControllerSettings, outside: Outside, fleet: Fleet, policies: Policies, once: SaidOnce
    ) -> None:
        self._settings, self._outside, self._fleet = settings, outside, fleet
        self._policies, self._once = policies, once
        self._raw: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.queue: WorkQueue[tuple[str, str]] = WorkQueue(outside.clock)
        fleet.tell(self.queue.add)

    def told(self, raw: Any, gone: bool) -> None:
        """A policy as it is now, or that it is gone."""
        view = policy_view(raw)
        if view is None:
            return
        if gone:
            self._raw.pop(view.key, None)
        else:
            self._raw[view.key] = raw
        before = self._fleet.known_policy(view.key)
        self._fleet.policy(view, gone=gone)
        same = before is not None and (before.generation, before.deleting_since) == (
            view.generation,
            view.deleting_since,
        )
        if gone or not same:
            self.queue.add(view.key)

    def turn(self, wait: float) -> None:
        """One that is due, if there is one in so many seconds."""
        key = self.queue.take(wait)
        if key is None:
            return
        name = f"{key[0]}/{key[1]}"
        try:
            self._one(key)
        except (KubeError, HistoryError) as error:
            pause = self.queue.failed(key)
            self._once.tell(
                f"policy {name}", f"the policy {name} could not be written: {error}; again in {pause:.0f} s"
            )
            return
        self._once.tell(f"policy {name}", "")
        there = self._fleet.known_policy(key)
        again = None if there is None else (DELETING_SECONDS if there.deleting else AGAIN_SECONDS)
        self.queue.done(key, again)

    def _one(self, key: tuple[str, str]) -> None:
        policy = self._fleet.known_policy(key)
        if policy is None or self._settings.dry_run:
            return
        journal, now = self._outside.journal, self._outside.unix_now()
        opened = [
            head
            for head in journal.incidents(open_only=True)
            if (known := self._fleet.governed(head.instance)) is not None and known.policy.key == key
        ]
        # what only observes holds nothing, and needs nobody to let go of it
        acts = policy.spec is not None and any(one in self._settings.enable for one in policy.spec.enable)
        wanted = finalizer.wanted(policy, opened if acts or policy.held else (), now)
        if policy.deleting and policy.held and wanted:
            finalizer.abort(journal, opened, now)
        if wanted != policy.held and not (wanted and policy.deleting):
            deadline = Deadline.after(finalizer.CALL_SECONDS, self._outside.clock)
            finalizer.hold(self._outside.api, policy.namespace, policy.name, wanted, deadline)
        if policy.deleting:
            return
        status = self._raw.get(key, {}).get("status")
        self._policies.reconcile(key, status if isinstance(status, dict) else {})
