"""What tests turn and look at in a server that runs as a process of its own: paths below /simulated."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kube_sim.faults import Fault, Harm
from kube_sim.problems import bad_request, no_such_path

if TYPE_CHECKING:
    from kube_sim.server import Server

ROOT = "/simulated"


def controlled(server: Server, method: str, path: str, query: Mapping[str, str], given: bytes) -> dict[str, Any]:
    """GET requests (?agent=): what was asked and how often. DELETE requests: forget it. POST faults (fields of Fault),
    DELETE faults. POST compact, bookmark, drop (?resource=, cut=1). GET memory. Raises ApiProblem 400 and 404."""
    what = method, path.removeprefix(f"{ROOT}/")
    if what == ("GET", "requests"):
        return _requests(server, query.get("agent", ""))
    if what == ("DELETE", "requests"):
        server.recorder.clear()
    elif what == ("POST", "faults"):
        server.faults.switch_on(_fault(given))
    elif what == ("DELETE", "faults"):
        server.faults.switch_off()
    elif what == ("POST", "compact"):
        server.store.compact()
    elif what == ("POST", "bookmark"):
        server.watching.bookmark()
    elif what == ("POST", "drop"):
        return {"dropped": server.watching.drop(query.get("resource", ""), cut=query.get("cut") == "1")}
    elif what == ("GET", "memory"):
        with open("/proc/self/statm") as sizes:
            return {"resident_bytes": int(sizes.read().split()[1]) * 4096, "watches": len(server.watching.open)}
    else:
        raise no_such_path()
    return {}


def _requests(server: Server, agent: str) -> dict[str, Any]:
    asked = server.recorder.asked(agent=agent)
    counts: dict[tuple[str, str, str], int] = {}
    for one in asked:
        if one.resource:
            counts[one.right] = counts.get(one.right, 0) + 1
    return {
        "counts": [[*right, count] for right, count in sorted(counts.items())],
        "rights": sorted(server.recorder.rights(agent=agent)),
        "refused": [dataclasses.asdict(one) for one in asked if one.status >= 400][-100:],
    }


def _fault(given: bytes) -> Fault:
    try:
        fields = msgspec.json.decode(given)
        return Fault(Harm(fields.pop("harm")), **fields)
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise bad_request(f"no fault: {error}") from None
