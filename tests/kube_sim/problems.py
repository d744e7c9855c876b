"""What an API server answers when it does not do what was asked: Kubernetes' Status object, in the real one's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ApiProblem(Exception):
    """`status`: HTTP's. `reason`: the machine's word for it. `details`: of the Status. `retry_after`: seconds."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message
        self.details, self.retry_after = dict(details or {}), retry_after

    def body(self) -> dict[str, Any]:
        """The Status object."""
        details = dict(self.details)
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            **({"details": details} if details else {}),
            "code": self.status,
        }


def resource_words(plural: str, group: str) -> str:
    """As messages name a resource: `pods`, `jobs.batch`."""
    return f"{plural}.{group}" if group else plural


def _details(plural: str, group: str, name: str) -> dict[str, Any]:
    return {"name": name, **({"group": group} if group else {}), "kind": plural}


def not_found(plural: str, group: str, name: str) -> ApiProblem:
    message = f'{resource_words(plural, group)} "{name}" not found'
    return ApiProblem(404, "NotFound", message, details=_details(plural, group, name))


def no_such_path() -> ApiProblem:
    return ApiProblem(404, "NotFound", "the server could not find the requested resource", details={})


def exists_already(plural: str, group: str, name: str) -> ApiProblem:
    message = f'{resource_words(plural, group)} "{name}" already exists'
    return ApiProblem(409, "AlreadyExists", message, details=_details(plural, group, name))


def conflict(plural: str, group: str, name: str, why: str) -> ApiProblem:
    message = f'Operation cannot be fulfilled on {resource_words(plural, group)} "{name}": {why}'
    return ApiProblem(409, "Conflict", message, details=_details(plural, group, name))


def stale(plural: str, group: str, name: str) -> ApiProblem:
    """The object has another resourceVersion than the caller thinks."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(plural, group, name, why)


def invalid(kind: str, group: str, name: str, causes: Sequence[tuple[str, str, str]]) -> ApiProblem:
    """`causes`: field, reason (FieldValueInvalid...), message."""
    lines = [f"{field}: {message}" for field, _, message in causes]
    told = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    return ApiProblem(
        422,
        "Invalid",
        f'{resource_words(kind, group)} "{name}" is invalid: {told}',
        details={
            "name": name,
            **({"group": group} if group else {}),
            "kind": kind,
            "causes": [{"reason": reason, "message": message, "field": field} for field, reason, message in causes],
        },
    )


def bad_request(message: str) -> ApiProblem:
    return ApiProblem(400, "BadRequest", message)


def expired(asked: int, oldest: int) -> ApiProblem:
    """410: what was asked for has been compacted away."""
    return ApiProblem(410, "Expired", f"too old resource version: {asked} ({oldest})")


def forbidden(
    plural: str, group: str, name: str, user: str, verb: str, namespace: str | None, subresource: str = ""
) -> ApiProblem:
    """As the RBAC authoriser words it."""
    what = f"{plural}/{subresource}" if subresource else plural
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    named = f' "{name}"' if name else ""
    message = (
        f'{resource_words(plural, group)}{named} is forbidden: User "{user}" cannot {verb} resource '
        f'"{what}" in API group "{group}" {where}'
    )
    return ApiProblem(403, "Forbidden", message, details=_details(plural, group, name))
