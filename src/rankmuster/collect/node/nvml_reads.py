"""What NVML is asked of one GPU, each value by itself: what a driver or a GPU does not know is left out.

Runs inside the child process only.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator

from rankmuster.collect.node.nvml_fields import (
    ALL_LINKS,
    CLOCKS,
    FABRIC_STATES,
    FACTS,
    LINK_COUNT,
    LINK_ERRORS,
    LINK_SPEED,
    LINK_STATE,
    LINK_STATES,
    LINK_VERSION,
    LOST,
    MAX_LINKS,
    NVLINK5_RX,
    NVLINK5_TX,
    NVLINK_RX,
    NVLINK_TX,
    OLD_LINK_ERRORS,
    PCIE_RX,
    PCIE_TX,
    RECOVERY,
    RECOVERY_WORDS,
    SAMPLED,
    VERSIONS,
    YES_NO,
)

TYPE_CHECKING = False  # not from `typing`, which is 0.6 MB of a process that lasts for days
if TYPE_CHECKING:
    from typing import Any

_MEBIBYTE = 1 << 20

NO_LINKS_AFTER = 3
"""Samples without NVLink bytes after which a GPU that answers otherwise is taken to have none, and is not asked."""


class Gpu:
    """One GPU by its index. `error`: what NVML says instead of answers ("GPU is lost"); None while it answers.

    `now_in`: (call, monotonic seconds since when) while NVML is asked: what it hangs in, where it hangs.
    """

    def __init__(self, nvml: Any, index: int) -> None:
        self.nvml = nvml
        self.index = index
        self.handle: Any = None
        self.uuid: str | None = None
        self.bus: str | None = None
        self.error: str | None = None
        self.now_in: tuple[str, float] | None = None
        self._link_ids: tuple[int, ...] | None = None
        self._without_links = 0  # moving samples in a row for which no NVLink counter answered

    def call(self, name: str, *arguments: Any) -> Any:
        """What `nvml<name>` returns; None where the binding, the driver or the GPU does not know it."""
        function = getattr(self.nvml, f"nvml{name}", None)
        if function is None:
            return None
        self.now_in = (name, time.monotonic())
        try:
            return function(*arguments)
        except self.nvml.NVMLError as error:
            if getattr(error, "value", None) in LOST:
                self.error = str(error)
            return None
        except (TypeError, ValueError, AttributeError, UnicodeDecodeError):
            return None  # a binding of another version, or a driver that answers nonsense
        finally:
            self.now_in = None

    def of_device(self, name: str, *arguments: Any) -> Any:
        """`nvmlDevice<name>` of this GPU."""
        return self.call(f"Device{name}", self.handle, *arguments)

    def open(self) -> bool:
        """Finds the GPU; False when NVML cannot reach it, with `error` saying why."""
        self.now_in = ("DeviceGetHandleByIndex", time.monotonic())
        try:
            self.handle = self.nvml.nvmlDeviceGetHandleByIndex(self.index)
        except self.nvml.NVMLError as error:
            self.error = str(error)
            return False
        finally:
            self.now_in = None
        self.uuid = _text(self.of_device("GetUUID"))
        self.bus = _text(getattr(self.of_device("GetPciInfo"), "busId", None))
        return True

    def fields(self, *wanted: int | tuple[int, int]) -> dict[int, int]:
        """Field id -> value, for those that the GPU knows; all of one call must differ in id."""
        return {field: value for (field, _), value in self.scoped(*wanted).items()}

    def scoped(self, *wanted: int | tuple[int, int]) -> dict[tuple[int, int], int]:
        """(field id, scope) -> value, for those that the GPU knows."""
        found: dict[tuple[int, int], int] = {}
        for value in self.of_device("GetFieldValues", list(wanted)) or ():
            if value.nvmlReturn in LOST:
                self.error = str(self.nvml.NVMLError(value.nvmlReturn))
            number = _number(value)
            if value.nvmlReturn == 0 and number is not None:
                found[int(value.fieldId), int(value.scopeId)] = number
        return found

    def sample(self) -> dict[str, Any]:
        """The moving values at one moment, byte counters first; keys as in `gpu-counters.jsonl`."""
        began = time.monotonic()
        row: dict[str, Any] = {"time": round(time.time(), 4)}
        self._forget()
        row |= self._link_bytes()
        known = self.fields(*SAMPLED)
        row |= {name: known[field] for field, name in SAMPLED.items() if field in known}
        load = self.of_device("GetUtilizationRates")
        row["sm_util_percent"] = getattr(load, "gpu", None)
        row["memory_util_percent"] = getattr(load, "memory", None)
        power = self.of_device("GetPowerUsage")
        row["power_w"] = power / 1000 if isinstance(power, int) else None
        for name, kind in CLOCKS.items():
            row[name] = self.of_device("GetClockInfo", kind)
        row["temperature_c"] = self.of_device("GetTemperature", 0)
        reasons = self.of_device("GetCurrentClocksEventReasons")
        row["clock_event_reasons"] = (
            reasons if reasons is not None else self.of_device("GetCurrentClocksThrottleReasons")
        )
        row["pids"] = self.pids()
        row["took_ms"] = round((time.monotonic() - began) * 1000, 1)
        if self.error:
            row["error"] = self.error
        return {name: value for name, value in row.items() if value is not None}

    def moving(self, *, whole: bool) -> dict[str, Any]:
        """The values that tell whether a GPU works, as few calls as possible: two field reads' worth and two more.

        PCIe counters only where there is no NVLink: reading over PCIe moves bytes there. `whole`: with `rare`.
        """
        row: dict[str, Any] = {"time": round(time.time(), 4)}
        self._forget()
        links = self._link_bytes() if self._without_links < NO_LINKS_AFTER else {}
        row |= links
        load = self.of_device("GetUtilizationRates")
        row["sm_util_percent"] = getattr(load, "gpu", None)
        row["memory_util_percent"] = getattr(load, "memory", None)
        power = self.of_device("GetPowerUsage")
        row["power_w"] = power / 1000 if isinstance(power, int) else None
        if links:
            self._without_links = 0
        elif load is not None and self.error is None:
            self._without_links += 1
            known = self.fields(PCIE_TX, PCIE_RX)
            row |= {SAMPLED[field]: value for field, value in known.items()}
        if whole:
            row |= self.rare()
        if self.error:
            row["error"] = self.error
        return {name: value for name, value in row.items() if value is not None}

    def rare(self) -> dict[str, Any]:
        """What costs more and changes seldom: the clock, and the processes."""
        clock, pids = self.of_device("GetClockInfo", CLOCKS["sm_clock_mhz"]), self.pids()
        return {name: value for name, value in (("sm_clock_mhz", clock), ("pids", pids)) if value is not None}

    def _forget(self) -> None:
        """What was said before is no answer now: a GPU may come back from a reset."""
        self.error = None

    def _link_bytes(self) -> dict[str, int]:
        links = self._link_ids
        if not links:  # a GPU that has counted per link before counts so for ever
            known = self.fields((NVLINK_TX, ALL_LINKS), (NVLINK_RX, ALL_LINKS))
            if NVLINK_TX in known and NVLINK_RX in known:
                return {"nvlink_tx_kib": known[NVLINK_TX], "nvlink_rx_kib": known[NVLINK_RX]}
        if links is None:
            links = tuple(range(min(self.fields(LINK_COUNT).get(LINK_COUNT, 0), MAX_LINKS)))
        if not links:
            return {}
        per_link = self.scoped(*((field, link) for link in links for field in (NVLINK5_TX, NVLINK5_RX)))
        answered = tuple(link for link in links if {(NVLINK5_TX, link), (NVLINK5_RX, link)} <= per_link.keys())
        if self._link_ids is None:
            self._link_ids = answered
        if not answered or answered != self._link_ids:
            return {}  # the sum over fewer links than before would look like a counter that fell
        sent, received = (sum(per_link[field, link] for link in answered) for field in (NVLINK5_TX, NVLINK5_RX))
        return {"nvlink_tx_kib": sent // 1024, "nvlink_rx_kib": received // 1024}

    def pids(self) -> list[int] | None:
        """The compute processes on the GPU as NVML numbers them; None where it cannot say."""
        listed = self.of_device("GetComputeRunningProcesses")
        if listed is None:
            return None
        return sorted({int(process.pid) for process in listed if process.pid})

    def used_mib(self) -> int | None:
        """Memory in use, of all processes and the driver; None where it does not say."""
        used = getattr(self.of_device("GetMemoryInfo"), "used", None)
        return int(used) >> 20 if isinstance(used, int) else None

    def facts(self) -> Iterator[dict[str, Any]]:
        """What stands still, part by part, so that samples can be taken in between.

        Parts have `name`, `facts` (keys as `nvidia-smi -q` has them) or `link`. Serial numbers are not asked for.
        """
        yield {"name": _text(self.of_device("GetName"))}
        facts = {"VBIOS Version": _text(self.of_device("GetVbiosVersion"))}
        for key, call in (
            ("PCI / GPU Link Info / PCIe Generation / Current", "GetCurrPcieLinkGeneration"),
            ("PCI / GPU Link Info / PCIe Generation / Max", "GetMaxPcieLinkGeneration"),
            ("PCI / GPU Link Info / Link Width / Current", "GetCurrPcieLinkWidth"),
            ("PCI / GPU Link Info / Link Width / Max", "GetMaxPcieLinkWidth"),
        ):
            value = self.of_device(call)
            facts[key] = (f"{value}x" if "Width" in key else str(value)) if isinstance(value, int) else None
        yield {"facts": _known(facts)}
        facts = {}
        for some in _batches(list(FACTS)):
            known = self.fields(*some)
            for field, value in known.items():
                key = FACTS[field]
                facts[key] = ("Yes" if value else "No") if key in YES_NO else str(value)
        yield {"facts": _known(facts)}
        action = self.fields(RECOVERY).get(RECOVERY)
        memory = self.of_device("GetMemoryInfo")
        facts = {
            "GPU Recovery Action": _word(RECOVERY_WORDS, action),
            "MIG Mode / Current": _mode(self.of_device("GetMigMode")),
            "ECC Mode / Current": _mode(self.of_device("GetEccMode")),
            "Persistence Mode": _mode(self.of_device("GetPersistenceMode")),
            "FB Memory Usage / Total": _mebibytes(getattr(memory, "total", None)),
            "FB Memory Usage / Used": _mebibytes(getattr(memory, "used", None)),
            **self._fabric(),
        }
        yield {"facts": _known(facts)}
        count = self.fields(LINK_COUNT).get(LINK_COUNT)
        for link in range(min(count if count is not None else 18, MAX_LINKS)):
            found = self._link(link)
            if found is not None:
                yield {"link": found}

    def _fabric(self) -> dict[str, str | None]:
        for make, call in (
            ("c_nvmlGpuFabricInfo_v3_t", "GetGpuFabricInfoV"),
            ("c_nvmlGpuFabricInfo_v2_t", "GetGpuFabricInfoV"),
        ):
            struct: Callable[[], Any] | None = getattr(self.nvml, make, None)
            if struct is None:
                continue
            info = struct()
            if self.of_device(call, ctypes.byref(info)) is None:
                continue
            status = int(info.status)
            return {
                "Fabric / State": FABRIC_STATES.get(int(info.state)),
                "Fabric / Status": "Success" if status == 0 else f"error {status}",
                "Fabric / CliqueId": str(int(info.cliqueId)),
                "Fabric / Health Mask": f"{int(info.healthMask):#x}",
            }
        return {}

    def _link(self, link: int) -> dict[str, Any] | None:
        known = self.fields((LINK_STATE, link), (LINK_SPEED, link), (LINK_VERSION, link))
        state = LINK_STATES.get(known.get(LINK_STATE, -1))
        if state is None:
            active = self.of_device("GetNvLinkState", link)
            if active is None:
                return None
            state = "active" if active else "inactive"
        found: dict[str, Any] = {"link": link, "state": state}
        if known.get(LINK_SPEED):
            found["speed_mb_per_s"] = known[LINK_SPEED]
        if known.get(LINK_VERSION):
            found["version"] = VERSIONS.get(known[LINK_VERSION], str(known[LINK_VERSION]))
        found["remote_type"] = {0: "gpu", 1: "ibm_npu", 2: "switch"}.get(
            self.of_device("GetNvLinkRemoteDeviceType", link)
        )
        found["remote"] = _text(getattr(self.of_device("GetNvLinkRemotePciInfo", link), "busId", None))
        errors: dict[str, int] = {}
        for some in _batches(list(LINK_ERRORS)):
            values = self.fields(*((field, link) for field in some))
            errors |= {LINK_ERRORS[field]: value for field, value in values.items()}
        if not errors:
            for kind, name in enumerate(OLD_LINK_ERRORS):
                value = self.of_device("GetNvLinkErrorCounter", link, kind)
                if isinstance(value, int):
                    errors[name] = value
        found["errors"] = errors
        return {name: value for name, value in found.items() if value not in (None, {})}


def _batches(fields: list[int], size: int = 12) -> Iterator[list[int]]:
    """Fields a few at a time: a driver that does not know one id may refuse the whole call."""
    for start in range(0, len(fields), size):
        yield fields[start : start + size]


def _number(value: Any) -> int | None:
    """The number of a field value by its type (nvmlValueType_t)."""
    kinds = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    if not 0 <= value.valueType < len(kinds):
        return None
    number = getattr(value.value, kinds[value.valueType], None)
    try:
        return None if number is None else int(number)
    except (ValueError, OverflowError):
        return None


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    return value if isinstance(value, str) and value else None


def _known(facts: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in facts.items() if value is not None}


def _mode(value: Any) -> str | None:
    """NVML gives a mode, or (current, pending)."""
    current = value[0] if isinstance(value, (list, tuple)) and value else value
    return {0: "Disabled", 1: "Enabled"}.get(current) if isinstance(current, int) else None


def _mebibytes(value: Any) -> str | None:
    return f"{value // _MEBIBYTE} MiB" if isinstance(value, int) else None


def _word(words: tuple[str, ...], value: int | None) -> str | None:
    if value is None:
        return None
    return words[value] if 0 <= value < len(words) else f"action {value}"
