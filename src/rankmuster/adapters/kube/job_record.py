"""The record of an admission out of what a Job's pod said: of this node, and as it was sealed. Pure."""

from __future__ import annotations

import json
from typing import Any

from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_words import NotSaid
from rankmuster.model.admission import SCHEMA, Decision
from rankmuster.report.admission_json import HASH, digest
from rankmuster.report.inert import plain

ALONE, PAIR = "alone", "pair"
RECORD, FINGERPRINT, OUTPUT = "record", "fingerprint", "output"
"""Parts of a payload; an output of one rail is called `output:N`."""


def record_of(payload: Payload, node: str) -> dict[str, Any]:
    """The record's document. Raises NotSaid."""
    if payload.kind != ALONE or RECORD not in payload.parts:
        raise NotSaid(f"what the pod on {node} said holds no record (it is of the kind {plain(payload.kind, 40)})")
    try:
        document = json.loads(payload.parts[RECORD])
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise NotSaid(f"the record of {node} is not of the schema {SCHEMA}")
        made = digest(document)
        decision, nodes = Decision(document["decision"]), document["nodes"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotSaid(f"the record of {node} cannot be read ({plain(repr(error), 100)})") from None
    if document.get(HASH) != made:
        raise NotSaid(f"the record of {node} is not as it was written: its hash is another")
    if nodes != [node]:
        raise NotSaid(f"the record is of {plain(nodes, 200)}, and {node} was asked for")
    return {**document, "decision": decision.value}
