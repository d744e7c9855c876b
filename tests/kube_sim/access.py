"""Who asks, by a bearer token, and whether the roles in the store allow it: RBAC as Kubernetes evaluates it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kube_sim.problems import ApiProblem
from kube_sim.store import Store

ADMIN = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()


NOBODY = User("system:anonymous", ("system:unauthenticated",))


class Access:
    """`enforced`: without it everybody may do everything, as an administrator."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._users: dict[str, User] = {}
        self.enforced = False

    def admit(self, token: str, user: str, *groups: str) -> None:
        """From now on `token` is this user's. A service account is `system:serviceaccount:NAMESPACE:NAME`."""
        more: tuple[str, ...] = ("system:authenticated",)
        if user.startswith("system:serviceaccount:"):
            more += ("system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}")
        with self._lock:
            self._users[token] = User(user, groups + more)

    def withdraw(self, token: str) -> None:
        with self._lock:
            self._users.pop(token, None)

    def user(self, authorization: str | None) -> User:
        """By the header. Raises ApiProblem 401 for a token that nobody has, where it is enforced."""
        kind, _, token = (authorization or "").partition(" ")
        with self._lock:
            found = self._users.get(token) if kind.lower() == "bearer" else None
        if found is None and self.enforced:
            if not authorization:
                return NOBODY
            raise ApiProblem(401, "Unauthorized", "Unauthorized")
        return found or User("", (ADMIN,))

    def allows(
        self,
        user: User,
        verb: str,
        group: str,
        resource: str,
        subresource: str,
        namespace: str | None,
        name: str | None,
    ) -> bool:
        if not self.enforced or ADMIN in user.groups:
            return True
        whole = f"{resource}/{subresource}" if subresource else resource
        return any(_rule_allows(rule, verb, group, whole, subresource, name) for rule in self._rules(user, namespace))

    def _rules(self, user: User, namespace: str | None) -> Iterator[Mapping[str, Any]]:
        group = "rbac.authorization.k8s.io"
        bindings = [(one, None) for one in self._store.rows(f"clusterrolebindings.{group}")]
        if namespace:
            bindings += [(one, namespace) for one in self._store.rows(f"rolebindings.{group}", namespace)]
        for binding, within in bindings:
            if not any(_is_subject(one, user, within) for one in binding.get("subjects") or ()):
                continue
            role = binding["roleRef"]
            key = f"{'clusterroles' if role['kind'] == 'ClusterRole' else 'roles'}.{group}"
            try:
                found = self._store.row(key, within, role["name"])
            except ApiProblem:
                continue
            yield from found.get("rules") or ()


def _is_subject(subject: Mapping[str, Any], user: User, within: str | None) -> bool:
    if subject["kind"] == "ServiceAccount":
        namespace = subject.get("namespace") or within
        return user.name == f"system:serviceaccount:{namespace}:{subject['name']}"
    return subject["name"] == user.name if subject["kind"] == "User" else subject["name"] in user.groups


def _rule_allows(
    rule: Mapping[str, Any], verb: str, group: str, resource: str, subresource: str, name: str | None
) -> bool:
    verbs, groups, resources = rule.get("verbs") or (), rule.get("apiGroups") or (), rule.get("resources") or ()
    names = rule.get("resourceNames") or ()
    return (
        ("*" in verbs or verb in verbs)
        and ("*" in groups or group in groups)
        and ("*" in resources or resource in resources or (bool(subresource) and f"*/{subresource}" in resources))
        and (not names or name in names)
    )
