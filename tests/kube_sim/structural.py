"""What a CustomResourceDefinition must be before it is taken: its name, its versions, schemas that are structural."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kube_sim.problems import ApiProblem, invalid

Object = dict[str, Any]


def check_definition(obj: Object) -> None:
    """Raises ApiProblem 422."""
    spec, name = obj["spec"], str(obj["metadata"].get("name"))
    found = (
        []
        if name == f"{spec['names']['plural']}.{spec['group']}"
        else [f'metadata.name: Invalid value: "{name}": must be spec.names.plural+"."+spec.group']
    )
    for place, one in enumerate(spec["versions"]):
        at = f"spec.versions[{place}].schema.openAPIV3Schema"
        schema = (one.get("schema") or {}).get("openAPIV3Schema")
        found += structural_problems(schema, at) if schema else [f"{at}: Required value: schemas are required"]
    if sum(1 for one in spec["versions"] if one.get("storage")) != 1:
        found.append("spec.versions: Invalid value: must have exactly one version marked as storage version")
    if found:
        raise refused(found, name)


def structural_problems(schema: Any, path: str = "spec.validation.openAPIV3Schema", depth: int = 0) -> list[str]:
    """Why a schema is not structural, as far as it is looked at here: every place has a type, no $ref, properties and
    additionalProperties exclude each other, defaults only inside, arrays have items."""
    if not isinstance(schema, Mapping):
        return [f"{path}: must be an object"]
    found = []
    if "$ref" in schema:
        found.append(f"{path}.$ref: Forbidden: $ref is not supported")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if "type" not in schema and not free:
        found.append(f"{path}.type: Required value: must not be empty for specified object fields")
    if schema.get("type") not in (None, "object", "array", "string", "integer", "number", "boolean"):
        found.append(f"{path}.type: Unsupported value: {json.dumps(schema.get('type'))}")
    if depth == 0 and schema.get("type") != "object":
        found.append(f"{path}.type: Invalid value: must be object at the root")
    if "properties" in schema and "additionalProperties" in schema:
        found.append(
            f"{path}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"
        )
    if schema.get("type") == "array" and "items" not in schema:
        found.append(f"{path}.items: Required value: must be specified")
    if schema.get("uniqueItems"):
        found.append(
            f"{path}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity "
            "becomes quadratic"
        )
    for word in ("exclusiveMinimum", "exclusiveMaximum"):
        if word in schema and not isinstance(schema[word], bool):
            found.append(f"{path}.{word}: Invalid value: must be a boolean")
    for word in ("definitions", "dependencies", "patternProperties"):
        if word in schema:
            found.append(f"{path}.{word}: Forbidden: {word} is not supported")
    if schema.get("x-kubernetes-list-type") == "map" and not schema.get("x-kubernetes-list-map-keys"):
        found.append(f"{path}.x-kubernetes-list-map-keys: Required value")
    for name, one in (schema.get("properties") or {}).items():
        if depth == 0 and name == "metadata":
            continue
        found += structural_problems(one, f"{path}.properties[{name}]", depth + 1)
    if isinstance(schema.get("items"), Mapping):
        found += structural_problems(schema["items"], f"{path}.items", depth + 1)
    if isinstance(schema.get("additionalProperties"), Mapping):
        found += structural_problems(schema["additionalProperties"], f"{path}.additionalProperties", depth + 1)
    return found


def refused(problems: list[str], name: str) -> ApiProblem:
    """Of a CustomResourceDefinition."""
    causes = [(one.partition(": ")[0], "FieldValueInvalid", one.partition(": ")[2]) for one in problems]
    return invalid("CustomResourceDefinition", "apiextensions.k8s.io", name, causes)
