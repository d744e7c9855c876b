"""One request with what is needed to answer it, and answers as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from kube_sim.kinds import KindInfo
from kube_sim.problems import ApiProblem, bad_request
from kube_sim.routes import Target

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """`warnings`: as Warning headers."""

    body: bytes
    status: int = 200
    warnings: tuple[str, ...] = ()
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """`given`: the body as it came. `agent`: the user agent. `user`: by its token."""

    verb: str
    target: Target
    query: Mapping[str, str]
    given: bytes
    content_type: str
    agent: str
    user: str

    @property
    def dry_run(self) -> bool:
        found = self.query.get("dryRun")
        if found not in (None, "", "All"):
            raise ApiProblem(422, "Invalid", f'dryRun: Unsupported value: "{found}": supported values: "All"')
        return found == "All"

    @property
    def manager(self) -> str:
        """Whose the fields are that it writes: named, else the start of the user agent, as the real one does it."""
        return self.query.get("fieldManager") or self.agent.partition("/")[0] or "unknown"

    def body(self) -> Any:
        """Raises ApiProblem 400, and 415."""
        kind = self.content_type.partition(";")[0].strip()
        if kind.endswith("protobuf"):
            raise ApiProblem(415, "UnsupportedMediaType", "the simulated server speaks JSON only")
        try:
            if kind.endswith("yaml"):
                return yaml.safe_load(self.given)
            return msgspec.json.decode(self.given)
        except (msgspec.DecodeError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise bad_request(f"the object provided is unrecognized: {error}") from None

    def object(self) -> Object:
        """The body as an object of the target. Raises ApiProblem 400."""
        made = self.body()
        if not isinstance(made, dict):
            raise bad_request("the object provided is unrecognized (must be of type Object)")
        target = self.target
        made.setdefault("apiVersion", target.api_version)
        made.setdefault("kind", target.info.kind)
        if (made["apiVersion"], made["kind"]) != (target.api_version, target.info.kind):
            raise bad_request(
                f"{made['kind']} in version {made['apiVersion']!r} cannot be handled as a {target.info.kind}: no kind "
                f"{made['kind']!r} is registered for version {target.api_version!r}"
            )
        metadata = made.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise bad_request("json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
        if metadata.setdefault("namespace", target.namespace) != target.namespace and target.namespace is not None:
            raise bad_request(
                f"the namespace of the provided object does not match the namespace sent on the request: "
                f"{metadata['namespace']} {target.namespace}"
            )
        if target.name is not None and metadata.setdefault("name", target.name) != target.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({target.name})"
            )
        if metadata["namespace"] is None:
            del metadata["namespace"]
        made["metadata"] = metadata
        return made


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def shown(obj: Object, info: KindInfo, version: str) -> Object:
    """In the version that was asked for: the simulated server converts nothing but the name of it."""
    if version == info.version:
        return obj
    return {**obj, "apiVersion": info.api_version(version)}


def answer_of(obj: Object, target: Target, status: int = 200, warnings: tuple[str, ...] = ()) -> Answer:
    return Answer(encoded(shown(obj, target.info, target.version)), status, warnings)


def refusal(problem: ApiProblem) -> Answer:
    headers = {} if problem.retry_after is None else {"Retry-After": str(problem.retry_after)}
    return Answer(encoded(problem.body()), problem.status, headers=headers)
