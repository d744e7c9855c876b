"""What goes wrong between a caller and the server, switched on per verb and resource."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum

from kube_sim.problems import ApiProblem
from kube_sim.routes import Target


class Harm(str, Enum):
    """SLOW: the answer comes `seconds` late, and nothing was done before. SLOW_AFTER: it is done, then the answer is
    late. REFUSE: `status` with a Status object. CUT_BEFORE: the connection ends, nothing was done. CUT_AFTER: it was
    done. HALF: done, and half of the answer. GARBAGE: done, and an answer that is no JSON. EMPTY: done, 200 without a
    body. PLAIN: `status` as a proxy between gives it, without a Status object; nothing was done. SILENT: of a watch:
    it is open, and nothing comes. GONE: of a watch: an ERROR event with 410 at once. BROKEN: of a watch: events whose
    lines end in the middle, then the connection ends."""

    SLOW = "slow"
    SLOW_AFTER = "slow_after"
    REFUSE = "refuse"
    CUT_BEFORE = "cut_before"
    CUT_AFTER = "cut_after"
    HALF = "half"
    GARBAGE = "garbage"
    EMPTY = "empty"
    PLAIN = "plain"
    SILENT = "silent"
    GONE = "gone"
    BROKEN = "broken"


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(slots=True)
class Fault:
    """Empty `verb`, `resource` (plural, or plural/subresource), `name`, `namespace`, `agent` (start of the user agent)
    fit all. `times`: how often it strikes, None: until it is switched off. `skip`: so many requests pass before."""

    harm: Harm
    verb: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    agent: str = ""
    times: int | None = 1
    skip: int = 0
    seconds: float = 0.0
    status: int = 500
    message: str = "the simulated server was told to refuse"
    retry_after: int | None = None
    struck: int = field(default=0)

    def fits(self, verb: str, target: Target, name: str | None, agent: str) -> bool:
        plural = f"{target.info.plural}/{target.subresource}" if target.subresource else target.info.plural
        return (
            self.verb in ("", verb)
            and self.resource in ("", plural)
            and self.namespace in ("", target.namespace)
            and self.name in ("", name)
            and agent.startswith(self.agent)
        )

    def problem(self) -> ApiProblem:
        """Of REFUSE."""
        reason = _REASONS.get(self.status, "InternalError")
        return ApiProblem(self.status, reason, self.message, retry_after=self.retry_after)


class Faults:
    """Thread-safe. The first that fits strikes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def switch_on(self, fault: Fault) -> Fault:
        """Gives it back: its `struck` counts."""
        with self._lock:
            self._faults.append(fault)
        return fault

    def switch_off(self, fault: Fault | None = None) -> None:
        """None: all."""
        with self._lock:
            self._faults = [] if fault is None else [one for one in self._faults if one is not fault]

    def strike(self, verb: str, target: Target, name: str | None, agent: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if not fault.fits(verb, target, name, agent):
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                if fault.times is not None and fault.struck >= fault.times:
                    continue
                fault.struck += 1
                return fault
        return None
