"""What the kernel log says of the hardware since boot: Xid, SXid, PCIe errors, links, machine checks, services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rankmuster.admission.facts import NodeFacts
from rankmuster.admission.gathering import MOST_NAMED, named
from rankmuster.admission.gpu_words import subject
from rankmuster.admission.hardware_memory import RESET, recovery_known
from rankmuster.admission.xid_rules import XidVerdict, standing, verdict
from rankmuster.evidence.pci import bus_id
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.kernel import KernelEvent, KernelEventKind, ServiceEventKind, SXid, Xid
from rankmuster.model.node_path import GpuPath
from rankmuster.model.unknown import Unknown

CORRECTED_STORM = 100
"""Corrected PCIe errors of one device since boot that are worth a word. A clean slot has none in months; storms run to
thousands an hour (okm #937). Corrected errors are repaired, so they never refuse."""

LINK_DOWNS = 3
"""Times a NIC's link went down since boot before it is worth a word: bringing an interface up takes one or two."""

HOW = "give the kernel log with --kernel-log (dmesg or journalctl -k of this boot), or run as root or with CAP_SYSLOG"

_FATAL_WORD = "(Fatal)"
"""What linux writes behind Uncorrected or Uncorrectable (aer.c); the other is (Non-Fatal)."""

_STANDS_IN = "; the driver's recovery action of every GPU is None, which a refusing Xid would have changed"

_FABRIC_MANAGER = "nvidia-fabricmanager"
_SXID_REFUSES = frozenset({"partition", "fabric", "hang"})
_FATAL_KINDS = {
    KernelEventKind.GPU_INIT: "the driver could not start a GPU",
    KernelEventKind.GSP_STALL: "the driver gave up on a GPU's firmware (GSP)",
    KernelEventKind.NVLINK_TRAINING: "NVLinks could not be discovered",
}
_SAID_KINDS = {
    KernelEventKind.HUNG_TASK: "a task was blocked for minutes",
    KernelEventKind.LOCKUP: "a CPU was stuck",
    KernelEventKind.TX_TIMEOUT: "a NIC's transmit queue timed out",
    KernelEventKind.PCIE_WIDTH: "a PCIe link came up narrower or slower than its device",
    KernelEventKind.BOND_DOWN: "an interface of a bond went down",
}


def kernel_checks(facts: NodeFacts, gpus: Sequence[GpuPath]) -> list[Check]:
    """Xid, SXid and the other lines, and the fabric manager's own log."""
    if isinstance(facts.kernel, Unknown):
        enough = recovery_known(gpus)
        words = f"the kernel log could not be read ({facts.kernel.reason}){_STANDS_IN if enough else ''}"
        node = "the node"
        return [
            Check("xid", CheckGroup.HARDWARE, CheckState.UNKNOWN, node, words, HOW, required=not enough),
            *_service_checks(facts),
        ]
    names = {gpu.bus_id: subject(gpu) for gpu in gpus if isinstance(gpu.bus_id, str)}
    names |= {short: subject(gpu) for gpu in gpus if isinstance(gpu.bus_id, str) and (short := bus_id(gpu.bus_id))}
    xids = [event for event in facts.kernel if isinstance(event, Xid)]
    switches = [event for event in facts.kernel if isinstance(event, SXid)]
    others = [event for event in facts.kernel if isinstance(event, KernelEvent)]
    return [
        *_xid_checks(xids, names, whole=facts.kernel_whole, recovery=recovery_known(gpus)),
        *_sxid_checks(switches),
        *_event_checks(others, names),
        *_service_checks(facts),
    ]


def _xid_checks(xids: Sequence[Xid], names: dict[str, str], *, whole: bool, recovery: bool) -> list[Check]:
    """`recovery`: the driver says that no GPU needs any, which stands in for lines that are gone."""
    group, checks = CheckGroup.HARDWARE, []
    by_gpu: dict[tuple[str, XidVerdict], list[Xid]] = {}
    for xid in standing(xids):
        by_gpu.setdefault((xid.bus_id, verdict(xid)), []).append(xid)
    for (address, means), those in by_gpu.items():
        if means is XidVerdict.NOTHING:
            continue
        codes = Counter((xid.code, _meaning(xid)) for xid in those)
        words = "; ".join(
            f"Xid {code} ({meaning})" + (f", {count} times" if count > 1 else "")
            for (code, meaning), count in list(codes.items())[:MOST_NAMED]
        )
        refuses = means is XidVerdict.REFUSE
        last = max(those, key=lambda xid: xid.origin.line)
        checks.append(
            Check(
                "xid",
                group,
                CheckState.FAIL if refuses else CheckState.WARN,
                names.get(address, f"the GPU at {address}"),
                f"{words} since boot",
                f"{RESET}; the log's line: {last.text[:120]}" if refuses else "a program's own fault, as a rule",
                tuple(xid.origin.reference for xid in those[:MOST_NAMED]),
                required=True,
            )
        )
    if not any(check.state is CheckState.FAIL for check in checks):
        left = len(xids) - sum(len(those) for (_, means), those in by_gpu.items() if means is not XidVerdict.NOTHING)
        also = f" ({left} line(s) only follow others or inform)" if left else ""
        if whole:
            words = f"no Xid since boot that refuses{also}"
            checks.insert(0, Check("xid", group, CheckState.PASS, "the node", words, required=True))
        else:
            words = f"the kernel log does not reach back to this boot; what is left has no Xid that refuses{also}"
            words += _STANDS_IN if recovery else ""
            checks.insert(0, Check("xid", group, CheckState.UNKNOWN, "the node", words, HOW, required=not recovery))
    return checks


def _meaning(xid: Xid) -> str:
    return f"{xid.meaning}: {xid.recovery_action}" if xid.recovery_action else xid.meaning


def _sxid_checks(switches: Sequence[SXid]) -> list[Check]:
    checks = []
    for refuses in (True, False):
        those = [sxid for sxid in switches if sxid.effect != "none" and (sxid.effect in _SXID_REFUSES) is refuses]
        if not those:
            continue
        codes = Counter((sxid.code, sxid.bus_id, sxid.effect) for sxid in those)
        words = "; ".join(
            f"SXid {code} of the NVSwitch at {address} (effect: {effect})" + (f", {count} times" if count > 1 else "")
            for (code, address, effect), count in list(codes.items())[:MOST_NAMED]
        )
        checks.append(
            Check(
                "sxid",
                CheckGroup.HARDWARE,
                CheckState.FAIL if refuses else CheckState.WARN,
                "the NVSwitches",
                f"{words} since boot",
                "drain the node, reset all GPUs and switches together, then admit again" if refuses else "",
                tuple(sxid.origin.reference for sxid in those[:MOST_NAMED]),
                required=refuses,
            )
        )
    return checks


def _event_checks(events: Sequence[KernelEvent], names: dict[str, str]) -> list[Check]:
    checks = [*_aer(events, names), *_links(events)]
    for kind, words in _FATAL_KINDS.items():
        checks += _one(events, kind, CheckState.FAIL, words, RESET, names)
    for kind, words in _SAID_KINDS.items():
        checks += _one(events, kind, CheckState.WARN, words, "", names)
    faults = [event for event in events if event.kind is KernelEventKind.IOMMU_FAULT]
    of_gpus = [event for event in faults if (event.device or "") in names]
    words = "the IOMMU blocked a device's memory access"
    advice = "boot with iommu=pt or the IOMMU off: GPU peer-to-peer and GPUDirect need untranslated addresses"
    checks += _one(of_gpus, KernelEventKind.IOMMU_FAULT, CheckState.FAIL, words, advice, names)
    rest = [event for event in faults if event not in of_gpus]
    checks += _one(rest, KernelEventKind.IOMMU_FAULT, CheckState.WARN, words, advice, names)
    for kind, fatal_words, said_words in (
        (KernelEventKind.MACHINE_CHECK, "a fatal machine check (memory or CPU)", "a corrected machine check"),
        (KernelEventKind.NIC_ERROR, "a NIC's firmware or health failed", "a NIC complained of its cable or module"),
    ):
        fatal = [event for event in events if event.kind is kind and event.fatal]
        said = [event for event in events if event.kind is kind and not event.fatal]
        checks += _one(fatal, kind, CheckState.FAIL, fatal_words, "have the part looked at", names)
        checks += _one(said, kind, CheckState.WARN, said_words, "", names)
    return checks


def _one(
    events: Iterable[KernelEvent],
    kind: KernelEventKind,
    state: CheckState,
    words: str,
    advice: str,
    names: dict[str, str],
) -> list[Check]:
    those = [event for event in events if event.kind is kind]
    if not those:
        return []
    devices = list(dict.fromkeys(names.get(event.device, event.device) for event in those if event.device))
    times = f"{len(those)} times since boot" if len(those) > 1 else "once since boot"
    evidence = tuple(event.origin.reference for event in those[:MOST_NAMED])
    name = kind.value.replace("_", "-")
    where = named(devices) if devices else "the node"
    return [Check(name, CheckGroup.HARDWARE, state, where, f"{words}, {times}", advice, evidence)]


def _aer(events: Sequence[KernelEvent], names: dict[str, str]) -> list[Check]:
    aer = [event for event in events if event.kind is KernelEventKind.AER]
    fatal = [event for event in aer if event.fatal or _FATAL_WORD in event.text]
    checks = _one(fatal, KernelEventKind.AER, CheckState.FAIL, "a fatal PCIe error", "reseat or replace", names)
    counts = Counter(event.device or "a device" for event in aer if event not in fatal)
    for device, count in counts.items():
        if count >= CORRECTED_STORM:
            words = f"{count} corrected PCIe errors since boot ({CORRECTED_STORM} are worth a word): retries cost time"
            where = names.get(device, device)
            checks.append(Check("aer", CheckGroup.HARDWARE, CheckState.WARN, where, words, "reseat the card or cable"))
    return checks


def _links(events: Sequence[KernelEvent]) -> list[Check]:
    counts = Counter(event.device or "a NIC" for event in events if event.kind is KernelEventKind.LINK_DOWN)
    return [
        Check(
            "link-down",
            CheckGroup.NETWORK,
            CheckState.WARN,
            device,
            f"the link went down {count} times since boot",
            "look at the cable, the module and the switch's port",
        )
        for device, count in counts.items()
        if count >= LINK_DOWNS
    ]


def _service_checks(facts: NodeFacts) -> list[Check]:
    """The fabric manager as its journal tells it; a VM's runs on the host, so silence is no fault here."""
    if isinstance(facts.services, Unknown):
        return []
    events = [event for event in facts.services if event.service == _FABRIC_MANAGER]
    if not events:
        return []
    last = events[-1]
    states = [event for event in events if event.kind is not ServiceEventKind.ERROR]
    ended = states and states[-1].kind in (ServiceEventKind.FAILED, ServiceEventKind.STOPPED, ServiceEventKind.STOPPING)
    state, words = CheckState.PASS, "the fabric manager runs"
    if ended:
        last, state, words = states[-1], CheckState.FAIL, f"the fabric manager has {states[-1].kind.value}"
    elif last.kind is ServiceEventKind.ERROR:
        state, words = CheckState.WARN, f"the fabric manager's last line is an error: {last.text[:160]}"
    advice = "systemctl restart nvidia-fabricmanager, and its log says why" if state is not CheckState.PASS else ""
    group = CheckGroup.HARDWARE
    return [Check("fabric-manager", group, state, "the node", words, advice, (last.origin.reference,))]
