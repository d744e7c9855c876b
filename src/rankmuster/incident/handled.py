"""Whether a stop is a new one: what an incident was opened for, and closed about, opens no other. Pure."""

from __future__ import annotations

from rankmuster.model.incident import SERVED, IncidentHead, OpenedBy

_WORSE = {OpenedBy.SLOW: 0, OpenedBy.STOPPED: 1, OpenedBy.ENDED: 2}
"""What a group may become while it is looked at."""


def handled(newest: IncidentHead | None, since: float, by: OpenedBy) -> bool:
    """Whether the newest incident was about this very stop: one that is open takes everything of its instance, and
    what has lasted since before one was closed is what that one was about. `since`: unix seconds."""
    if newest is None:
        return False
    if newest.closed_at is None:
        return True
    if since > newest.closed_at:
        return False
    served = newest.outcome in SERVED
    if served and by is OpenedBy.ENDED and since > newest.opened_at:
        return False  # it was rebuilt and has ended before that was written down
    # a slow group that stops, and a stopped one that ends, has become something else; what serves again has not
    return served or _WORSE.get(by, 0) <= _WORSE.get(newest.by, 2)
