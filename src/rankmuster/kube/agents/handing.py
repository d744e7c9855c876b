"""A bundle on its way out of the pod: to the node's agent, with an end of its own and attempts until then."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from rankmuster.adapters.http_call import NotCalled, call
from rankmuster.adapters.kube.agent_wire import POD_UID, SHA256
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.agents.wire import BUNDLE_TYPE, INSTANCE

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
ATTEMPT_SECONDS = 20.0
"""Of one attempt: 100 MB take a second on a node."""


def hand_over(
    bundle: Path,
    name: str,
    sha256: str,
    size: int,
    agent: str,
    *,
    pod_uid: str,
    instance: str,
    headers: Mapping[str, str],
    deadline: Deadline,
) -> str:
    """Puts it to the agent. Empty when it is there, else why it is not."""
    url = f"{agent.rstrip('/')}/v1/bundles/{quote(name)}"
    own = {
        **headers,
        "Content-Type": BUNDLE_TYPE,
        "Content-Length": str(size),
        SHA256: sha256,
        POD_UID: pod_uid,
        INSTANCE: instance,
    }
    pause, why = FIRST_PAUSE, "there was no time left to try"
    while not deadline.passed:
        try:
            with bundle.open("rb") as file:
                reply = call("PUT", url, deadline.within(ATTEMPT_SECONDS), headers=own, body=file)
        except OSError as error:
            return f"it cannot be read ({error.strerror})"
        except NotCalled as error:
            why = str(error)
        else:
            if reply.good:
                return ""
            why = f"status {reply.status}: {' '.join(reply.text().split())[:300]}"
            if 400 <= reply.status < 500 and reply.status not in (401, 408, 429):  # a token may come late
                return why
        threading.Event().wait(min(pause, deadline.remaining()))
        pause = min(2 * pause, LONGEST_PAUSE)
    return why
