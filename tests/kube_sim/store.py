"""The objects of the simulated cluster: the one truth, synchronous, thread-safe, without sockets.

`Server` puts HTTP in front of it; the simulated controllers and kubelets work on it directly. What it hands out are
copies. All raise ApiProblem.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal

from kube_sim import rules
from kube_sim.apply import applied, bare
from kube_sim.definitions import keep_definitions
from kube_sim.history import Change, Object, Place
from kube_sim.kinds import BUILT_IN, KindInfo
from kube_sim.managers import Manager, after_update, owners_of, rows
from kube_sim.namespaces import keep_namespaces
from kube_sim.patches import json_patched, merged, strategic
from kube_sim.problems import ApiProblem, bad_request, exists_already, invalid, not_found
from kube_sim.schema import checked
from kube_sim.shapes import shape_of
from kube_sim.tables import Tables
from kube_sim.values import copied, stamp

PatchKind = Literal["merge", "json", "strategic", "apply"]
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class Store(Tables):
    """`clock`: unix seconds, of all stamps. `uid`: of new objects. `history`: changes that are kept for watches."""

    def __init__(
        self, clock: Callable[[], float] = time.time, uid: Callable[[], str] | None = None, *, history: int = 20_000
    ) -> None:
        super().__init__(history)
        self.clock = clock
        self._uid = uid or (lambda: str(uuid.uuid4()))
        self._random = random.Random(0)
        self._local = threading.local()
        for info in BUILT_IN:
            self.know(info)
        for name in ("default", "kube-system"):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        keep_namespaces(self)
        keep_definitions(self)

    def define(
        self,
        group: str,
        version: str,
        plural: str,
        kind: str,
        namespaced: bool = True,
        status: bool = False,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        """Another resource, as a CustomResourceDefinition makes one. Kubernetes' own are there already, and
        LeaderWorkerSets and JobSets."""
        schemas = {version: schema} if schema else {}
        self.know(KindInfo(group, version, plural, kind, namespaced, status, True, True, schemas=schemas))

    def create(
        self,
        obj: Mapping[str, Any],
        *,
        user: str = "test",
        dry_run: bool = False,
        manager: str | None = None,
        keep_status: bool = True,
        check: str = "Ignore",
    ) -> Object:
        """`manager`: whose the fields are (None: nobody's, until somebody applies). `keep_status`: over the network
        the server drops it. `check`: fieldValidation (Ignore, Warn, Strict)."""
        given = rules.parsed(obj)
        with self._change(dry_run) as told:
            info = self.kind_of(given)
            if not keep_status:
                rules.new_status(info, given)
            rules.defaults(info, given)
            given = self._checked(info, given, check)
            given["apiVersion"] = info.api_version()
            metadata = given["metadata"]
            name = metadata.get("name") or self._generated(info, metadata.get("generateName"))
            rules.check_name(info, name)
            namespace = (metadata.get("namespace") or "default") if info.namespaced else ""
            place = Place(info.key, namespace, name)
            if place[1:] in self._tables[info.key]:
                raise exists_already(info.plural, info.group, name)
            self._need_namespace(namespace, told)
            rules.new_metadata(info, given, namespace, name, self._uid(), self.clock())
            metadata.pop("managedFields", None)
            if manager:
                owner = Manager(manager, "Update", "", str(given["apiVersion"]))
                shape = shape_of(info)
                metadata["managedFields"] = rows(after_update(None, given, owner, shape, stamp(self.clock())))
            return self._put(place, given, "ADDED", told)

    def seed(self, obj: Object) -> None:
        """As it is, unchecked and uncopied, with its own UID and creation time where it has them: for a fleet that is
        there from the start. Raises ApiProblem 404 for a kind that is not known."""
        with self._change() as told:
            info = self.kind_of(obj)
            metadata = obj["metadata"]
            place = self._place(info, metadata.get("namespace"), metadata["name"])
            if info.namespaced:
                metadata["namespace"] = place.namespace
                self._need_namespace(place.namespace, told)
            metadata.setdefault("uid", self._uid())
            metadata.setdefault("creationTimestamp", stamp(self.clock()))
            self._put(place, obj, "ADDED", told, copy=False)

    def update(
        self,
        obj: Mapping[str, Any],
        *,
        subresource: str | None = None,
        user: str = "test",
        dry_run: bool = False,
        manager: str | None = None,
        check: str = "Ignore",
    ) -> Object:
        given = rules.parsed(obj)
        with self._change(dry_run) as told:
            info = self.kind_of(given)
            place = self._place(info, given["metadata"].get("namespace"), given["metadata"].get("name") or "")
            live = self.row(place.key, place.namespace, place.name)
            rules.check_versions(info, live, given, put=True)
            return self._write(info, place, live, given, subresource, manager or user, told, check)

    def patch(
        self,
        plural_key: str,
        namespace: str | None,
        name: str,
        body: Any,
        *,
        kind: PatchKind = "merge",
        subresource: str | None = None,
        manager: str | None = None,
        force: bool = False,
        user: str = "test",
        dry_run: bool = False,
        check: str = "Ignore",
    ) -> Object:
        """`kind` apply: `manager` is needed, and what is not there is created."""
        with self._change(dry_run) as told:
            info = self.kind(plural_key)
            place = self._place(info, namespace, name)
            if kind == "apply":
                return self._apply(info, place, body, subresource, manager, force, told, check)
            live = self.row(place.key, place.namespace, place.name)
            if kind == "strategic" and info.custom:
                raise ApiProblem(
                    415,
                    "UnsupportedMediaType",
                    "the body of the request was in an unknown format - accepted media types include: "
                    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                )
            if kind == "json":
                made = json_patched(live, body)
            elif not isinstance(body, Mapping):
                raise bad_request(
                    "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}"
                )
            else:
                made = merged(live, body) if kind == "merge" else strategic(live, body, shape_of(info))
            given = rules.parsed(made)
            rules.check_versions(info, live, given, put=False)
            return self._write(info, place, live, given, subresource, manager or user, told, check)

    def _apply(
        self,
        info: KindInfo,
        place: Place,
        body: Any,
        subresource: str | None,
        manager: str | None,
        force: bool,
        told: list[Change],
        check: str,
    ) -> Object:
        if not isinstance(body, Mapping) or not body.get("apiVersion") or not body.get("kind"):
            raise bad_request("error decoding YAML: Object 'apiVersion' or 'kind' is missing")
        if not manager:
            raise invalid(
                "PatchOptions",
                "meta.k8s.io",
                "",
                [("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")],
            )
        if (body.get("metadata") or {}).get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        wanted = rules.parsed(body)
        if wanted["metadata"].get("name", place.name) != place.name:
            raise bad_request(
                f"the name of the object ({wanted['metadata']['name']}) does not match the name on the URL "
                f"({place.name})"
            )
        live = self._tables[info.key].get(place[1:])
        wanted = self._checked(info, wanted, check, whole=False)
        wanted["metadata"].pop("creationTimestamp", None)
        if subresource == "status":
            wanted = {key: one for key, one in wanted.items() if key in ("apiVersion", "kind", "metadata", "status")}
            if info.custom:
                kept = ("name", "namespace", "uid", "resourceVersion")
                wanted["metadata"] = {key: one for key, one in wanted["metadata"].items() if key in kept}
        elif info.status:
            wanted.pop("status", None)
        owner = Manager(manager, "Apply", subresource or "", str(body["apiVersion"]))
        shape, now = shape_of(info), stamp(self.clock())
        if live is None:
            if subresource:
                raise not_found(info.plural, info.group, place.name)
            if wanted["metadata"].get("uid"):
                uid = wanted["metadata"]["uid"]
                message = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise ApiProblem(409, "Conflict", message)
            made = applied(None, wanted, owner, shape, force=force, now=now)
            fields = made["metadata"].pop("managedFields")
            rules.new_status(info, made)
            rules.defaults(info, made)
            made = self._checked(info, made, "Ignore")
            self._need_namespace(place.namespace, told)
            rules.check_name(info, place.name)
            rules.new_metadata(info, made, place.namespace, place.name, self._uid(), self.clock())
            made["apiVersion"] = info.api_version()
            made["metadata"]["managedFields"] = fields
            return self._put(place, made, "ADDED", told)
        rules.check_versions(info, live, wanted, put=False)
        made = applied(live, wanted, owner, shape, force=force, now=now)
        fields = made["metadata"]["managedFields"]
        made = self._checked(info, made, "Ignore")
        made["apiVersion"] = info.api_version()
        after = rules.written(info, live, made, subresource)
        after["metadata"]["managedFields"] = fields
        return self._changed(info, place, live, after, told)

    def _write(
        self,
        info: KindInfo,
        place: Place,
        live: Object,
        given: Object,
        subresource: str | None,
        manager: str,
        told: list[Change],
        check: str,
    ) -> Object:
        given = self._checked(info, given, check)
        given["apiVersion"] = info.api_version()
        after = rules.written(info, live, given, subresource)
        after["metadata"].pop("managedFields", None)
        if live["metadata"].get("managedFields") and given["metadata"].get("managedFields") != []:
            if bare(live) == bare(after):
                owners = owners_of(live)
            else:
                owner = Manager(
                    manager, "Update", "" if subresource == "open" else subresource or "", str(after["apiVersion"])
                )
                owners = after_update(live, after, owner, shape_of(info), stamp(self.clock()))
            after["metadata"]["managedFields"] = rows(owners)
        return self._changed(info, place, live, after, told)

    def _changed(self, info: KindInfo, place: Place, live: Object, after: Object, told: list[Change]) -> Object:
        metadata = after["metadata"]
        held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") or _held(after)
        if "deletionTimestamp" in metadata and not held:
            return self._drop(place, after, told)
        if live == after:
            found: Object = copied(live)
            return found
        return self._put(place, after, "MODIFIED", told)

    def delete(
        self,
        plural_key: str,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str = "Background",
        grace: int | None = None,
        dry_run: bool = False,
    ) -> Object:
        """The object as it was left: with a deletionTimestamp where finalizers or a grace period hold it."""
        with self._change(dry_run) as told:
            info = self.kind(plural_key)
            place = self._place(info, namespace, name)
            live = self.row(place.key, place.namespace, place.name)
            rules.check_preconditions(info, live, uid, resource_version)
            metadata = live["metadata"]
            finalizers = [
                one for one in metadata.get("finalizers") or () if one not in ("foregroundDeletion", "orphan")
            ]
            if propagation in ("Foreground", "Orphan"):
                finalizers.append("foregroundDeletion" if propagation == "Foreground" else "orphan")
            elif "deletionTimestamp" in metadata:
                finalizers = list(metadata.get("finalizers") or ())
            seconds = rules.grace_of(info, live, grace)
            if not finalizers and not seconds and not _held(live):
                return self._drop(place, live, told)
            after = rules.marked(live, self.clock(), seconds, finalizers)
            if not finalizers:
                after["metadata"].pop("finalizers", None)
            if "deletionTimestamp" in metadata and after["metadata"] == {
                **metadata,
                "deletionTimestamp": after["metadata"]["deletionTimestamp"],
            }:
                found: Object = copied(live)
                return found
            if info.key == "namespaces":
                after.setdefault("status", {})["phase"] = "Terminating"
            return self._put(place, after, "MODIFIED", told)

    def _place(self, info: KindInfo, namespace: str | None, name: str) -> Place:
        return Place(info.key, (namespace or "default") if info.namespaced else "", name)

    def _generated(self, info: KindInfo, prefix: str | None) -> str:
        if not prefix:
            raise invalid(
                info.kind,
                info.group,
                "",
                [("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")],
            )
        return prefix[:58] + "".join(self._random.choices(_LETTERS, k=5))

    def _need_namespace(self, namespace: str, told: list[Change]) -> None:
        """Makes it where it is not there: that is left to the network's side to refuse."""
        info = self._kinds["namespaces"]
        there = self._tables[info.key].get(("", namespace))
        if namespace and there is None:
            made = rules.parsed({"apiVersion": "v1", "kind": "Namespace"})
            rules.defaults(info, made)
            rules.new_metadata(info, made, "", namespace, self._uid(), self.clock())
            self._put(Place(info.key, "", namespace), made, "ADDED", told)
        elif there is not None and "deletionTimestamp" in there["metadata"]:
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise ApiProblem(403, "Forbidden", message)

    def _checked(self, info: KindInfo, obj: Object, check: str, *, whole: bool = True) -> Object:
        found = checked(info, obj, check, whole=whole)
        if check == "Warn":
            self._local.warnings = [*self.warnings(), *(f'unknown field "{one}"' for one in found.unknown)]
        return found.obj

    def warnings(self) -> list[str]:
        """Of this thread's writes with `check` Warn since the last time it asked; they are gone then."""
        found, self._local.warnings = getattr(self._local, "warnings", []), []
        return found


def _held(obj: Object) -> bool:
    """A namespace that is not empty yet."""
    return obj["kind"] == "Namespace" and bool((obj.get("spec") or {}).get("finalizers"))
