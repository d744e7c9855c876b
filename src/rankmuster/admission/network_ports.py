"""Ports: up, as fast as their siblings, without errors. A port that NCCL_IB_HCA leaves out is not asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from rankmuster.admission.facts import NodeFacts
from rankmuster.admission.gathering import Answer, gathered
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.topology import RdmaPort
from rankmuster.model.unknown import Unknown

CABLE = "look at the cable, the module and the switch's port"

ERRORS = (
    "link_downed",
    "link_error_recovery",
    "symbol_error",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "excessive_buffer_overrun_errors",
    "local_ack_timeout_err",
    "req_transport_retries_exceeded",
)
"""Counters of a damaged or flapping link (linux sysfs-class-infiniband, mlx5 counters). They stand at zero on a link in
order, or at a few from the time when the cable was plugged."""

CARRIER_CHANGES = 10
"""Changes of an Ethernet carrier since boot that are worth a word: bringing an interface up takes two to four."""

RISING_REFUSES = frozenset(
    {"link_downed", "link_error_recovery", "local_link_integrity_errors", "excessive_buffer_overrun_errors"}
)
"""Of these one during the benchmark refuses: the link went away. The others count single damaged packets."""

_UP = frozenset({"PORT_ACTIVE", "PORT_ACTIVE_DEFER"})
_ACTIVE = "PORT_ACTIVE"


def port_checks(
    facts: NodeFacts,
    before: Sequence[RdmaPort] = (),
    settings: Mapping[str, object] | None = None,
    devices: Iterable[str] = (),
) -> list[Check]:
    """`before`: the ports before the benchmark, to tell errors that came with it. `settings`: NCCL_IB_HCA's too.
    `devices`: names of the RDMA NICs that the node has, each of which must be among the ports."""
    if isinstance(facts.ports, Unknown):
        words = f"RDMA ports could not be read ({facts.ports.reason})"
        return [Check("ports", CheckGroup.NETWORK, CheckState.UNKNOWN, "the node", words, required=True)]
    wanted = str((settings or {}).get("NCCL_IB_HCA") or "")
    ports = [port for port in facts.ports if used(port, wanted)]
    absent = [
        Answer(name, CheckState.UNKNOWN, "none of its ports could be read") for name in _absent(facts.ports, devices)
    ]
    earlier = {(port.device, port.port): port.counters for port in before}
    fastest: dict[str | None, float] = {}
    for port in ports:
        fastest[port.link_layer] = max(fastest.get(port.link_layer, 0.0), port.rate_gbps or 0.0)
    told: dict[str | None, set[str]] = {}
    for port in ports:
        told.setdefault(port.link_layer, set()).update(name for name in ERRORS if name in port.counters)
    if not ports and not absent:
        words = (
            f"NCCL_IB_HCA={wanted} leaves out every port" if facts.ports else "no port of its RDMA NICs could be read"
        )
        state = CheckState.WARN if facts.ports else CheckState.UNKNOWN
        return [Check("ports", CheckGroup.NETWORK, state, "the node", words, required=True)]
    rates = {f"{rate:g} Gb/s" for rate in fastest.values() if rate}
    return [
        *gathered(
            "ports",
            CheckGroup.NETWORK,
            [*(_state(port, fastest[port.link_layer]) for port in ports), *absent],
            kind="ports",
            well=f"active at {' and '.join(sorted(rates))}" if rates else "active",
            required=True,
        ),
        *gathered(
            "port-errors",
            CheckGroup.NETWORK,
            [_errors(port, earlier.get((port.device, port.port)), told[port.link_layer]) for port in ports],
            kind="ports",
            well="no link errors",
        ),
        *_carriers(facts.carrier_changes),
    ]


def used(port: RdmaPort, wanted: str) -> bool:
    """Whether NCCL_IB_HCA lets NCCL use the port: `^` leaves out, `=` wants whole names, `:2` a port; else prefixes."""
    words = wanted.strip()
    if not words:
        return True
    without = words.startswith("^")
    words = words.removeprefix("^")
    whole = words.startswith("=")
    for word in words.removeprefix("=").split(","):
        name, _, number = word.strip().partition(":")
        if not name:
            continue
        fits = port.device == name if whole else port.device.startswith(name)
        if fits and (not number or number == str(port.port)):
            return not without
    return without


def _absent(ports: Sequence[RdmaPort], devices: Iterable[str]) -> list[str]:
    seen = {port.device for port in ports}
    return [name for name in devices if name not in seen]


def _name(port: RdmaPort) -> str:
    return f"{port.device} port {port.port}"


def _state(port: RdmaPort, fastest: float) -> Answer:
    if port.state is None:
        return Answer(_name(port), CheckState.UNKNOWN, "its state could not be read")
    if port.state not in _UP:
        if port.state == "PORT_INIT" and port.link_layer != "Ethernet":
            words = "the link is up and no subnet manager has configured it (INIT)"
            return Answer(_name(port), CheckState.FAIL, words, "start the fabric's subnet manager")
        if port.physical_state == "Disabled":
            words = "the port is switched off; NCCL does not use it"
            return Answer(_name(port), CheckState.WARN, words, "leave it out with NCCL_IB_HCA if that is meant")
        also = f", {port.physical_state}" if port.physical_state else ""
        words = f"the port is down ({port.state.removeprefix('PORT_')}{also})"
        return Answer(_name(port), CheckState.FAIL, words, f"{CABLE}; leave out an unused one with NCCL_IB_HCA")
    if not port.rate_gbps:
        return Answer(_name(port), CheckState.UNKNOWN, "its rate could not be read")
    if port.rate_gbps < fastest:
        words = f"{port.rate_gbps:g} Gb/s where its siblings have {fastest:g}"
        return Answer(_name(port), CheckState.FAIL, words, f"it came up with fewer lanes or slower: {CABLE}")
    return Answer(_name(port), CheckState.PASS, "")


def _errors(port: RdmaPort, earlier: Mapping[str, int] | None, told: Set[str]) -> Answer:
    """`told`: counters that some port of its kind has; which there are differs by adapter."""
    counted = {name: port.counters[name] for name in ERRORS if port.counters.get(name)}
    if earlier is not None:
        risen = {name: count - earlier[name] for name, count in counted.items() if count > earlier.get(name, count)}
        if risen:
            words = ", ".join(f"{name} +{count}" for name, count in risen.items())
            state = CheckState.FAIL if RISING_REFUSES & risen.keys() else CheckState.WARN
            return Answer(_name(port), state, f"errors while the benchmark ran: {words}", CABLE)
    if counted:
        words = ", ".join(f"{name} {count}" for name, count in counted.items())
        return Answer(_name(port), CheckState.WARN, f"errors since the driver was loaded: {words}", CABLE)
    silent = sorted(told - port.counters.keys())
    if silent or not told:
        which = f" ({', '.join(silent[:4])})" if silent else ""
        return Answer(_name(port), CheckState.UNKNOWN, f"its error counters could not be read{which}")
    return Answer(_name(port), CheckState.PASS, "")


def _carriers(changes: Mapping[str, int]) -> list[Check]:
    return [
        Check(
            "carrier-changes",
            CheckGroup.NETWORK,
            CheckState.WARN,
            interface,
            f"the carrier came or went {count} times since boot ({CARRIER_CHANGES} are worth a word): the link flaps",
            CABLE,
        )
        for interface, count in sorted(changes.items())
        if count >= CARRIER_CHANGES
    ]
