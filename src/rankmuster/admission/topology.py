"""The node model beside its siblings': the same GPUs in the same number with another topology are worth a word."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.unknown import Unknown

SHORT = 19
"""Characters of a hash shown: `sha256:` and twelve digits."""


def topology_checks(fingerprint: Fingerprint, siblings: Mapping[str, int]) -> list[Check]:
    """`siblings`: topology hash -> nodes of this GPU model and count that have it, this node perhaps among them."""
    name, group = "topology", CheckGroup.TOPOLOGY
    own = fingerprint.topology_hash
    if isinstance(own, Unknown):
        words = f"the topology is not wholly known ({own.reason}): it can be compared with no other"
        return [Check(name, group, CheckState.UNKNOWN, "the node", words, "", required=True)]
    model = f"{fingerprint.gpu_count} x {fingerprint.gpu_model}"
    if not siblings:
        words = f"no other node with {model} is known to compare with"
        return [Check(name, group, CheckState.PASS, "the node", words)]
    usual, nodes = max(siblings.items(), key=lambda each: (each[1], each[0]))
    same = siblings.get(own, 0)
    if own == usual or same >= nodes:
        return [Check(name, group, CheckState.PASS, "the node", f"the topology of {same} node(s) with {model}")]
    words = (
        f"another topology than its siblings: {nodes} node(s) with {model} have {usual[:SHORT]}, {same} have this "
        f"({own[:SHORT]})"
    )
    advice = "compare with a sibling: rankmuster fingerprint diff A B"
    return [Check(name, group, CheckState.WARN, "the node", words, advice)]
