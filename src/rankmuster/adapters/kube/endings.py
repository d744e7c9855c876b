"""What an error of the API server is as the ending of an action."""

from __future__ import annotations

from rankmuster.adapters.kube.api import Forbidden, Invalid, KubeError
from rankmuster.model.incident import Answer, Ending


def failed(what: str, error: KubeError) -> Answer:
    """`what`: how it stands now, as far as it is known. Trying again helps neither a role that lacks a verb nor an
    object that is refused: REFUSED. Data has `sent` False where the server has surely not done it."""
    if error.late:
        ending = Ending.TIMED_OUT
    elif isinstance(error, (Forbidden, Invalid)):
        ending = Ending.REFUSED
    else:
        ending = Ending.FAILED
    return Answer(ending=ending, note=f"{what}: {error}", data={} if error.maybe else {"sent": False})
