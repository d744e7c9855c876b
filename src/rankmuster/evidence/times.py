"""The shapes in which logs write times, each to a `Stamp` that says how much of it is known."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from rankmuster.model.stamp import YEARLESS, Stamp, StampKind

_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, start=1)}
_GLOG = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(\.\d+)?")
_ISO = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[T ,](\d\d):(\d\d):(\d\d)([.,]\d+)?(Z|[+-]\d\d:?\d\d)?(?![\d:])")
_US = re.compile(r"(\d\d)/(\d\d)/(\d{4})-(\d\d):(\d\d):(\d\d)(\.\d+)?")
_SYSLOG = re.compile(rf"\b({'|'.join(_NAMES)}) +(\d{{1,2}})(?: (\d{{4}}))? (\d\d):(\d\d):(\d\d)(\.\d+)?")
_MONTH_DAY = re.compile(r"(?<![\d\-])(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?![\d:])")
_UPTIME = re.compile(r"^\s*(?:<\d+>)?\[ *(\d+\.\d+)\]")


def _moment(year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: str | None) -> float | None:
    try:
        base = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None
    return base + (float("0." + fraction[1:]) if fraction else 0.0)


def _local(parts: tuple[str, ...], fraction: str | None, *, year: int | None) -> Stamp | None:
    month, day, hour, minute, second = (int(part) for part in parts)
    seconds = _moment(year if year is not None else YEARLESS, month, day, hour, minute, second, fraction)
    if seconds is None:
        return None
    return Stamp(seconds, StampKind.LOCAL if year is not None else StampKind.LOCAL_NO_YEAR)


def glog(text: str) -> Stamp | None:
    """`E1129 21:08:13.152419115` anywhere in `text`: no year, no zone."""
    m = _GLOG.search(text)
    return _local(m.groups()[:5], m.group(6), year=None) if m else None


def iso(text: str) -> Stamp | None:
    """`2026-11-29 21:07:56[.123]`, `2026/11/29 ...`, `...T...Z`: UNIX with a zone, LOCAL without."""
    m = _ISO.search(text)
    if not m:
        return None
    year, *rest, fraction, zone = m.groups()
    stamp = _local(tuple(rest), fraction, year=int(year))
    if stamp is None or zone is None:
        return stamp
    offset = 0
    if zone != "Z":
        digits = zone[1:].replace(":", "")
        offset = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1 if zone[0] == "+" else -1)
    return Stamp(stamp.seconds - offset, StampKind.UNIX)


def us(text: str) -> Stamp | None:
    """TensorRT-LLM's `[11/29/2026-20:00:00]`."""
    m = _US.search(text)
    if not m:
        return None
    month, day, year, hour, minute, second, fraction = m.groups()
    return _local((month, day, hour, minute, second), fraction, year=int(year))


def syslog(text: str) -> Stamp | None:
    """`Nov 29 21:07:56`, and the fabric manager's `Jul 23 2024 07:53:55`."""
    m = _SYSLOG.search(text)
    if not m:
        return None
    month, day, year, hour, minute, second, fraction = m.groups()
    numbers = (str(_MONTHS[month]), day, hour, minute, second)
    return _local(numbers, fraction, year=int(year) if year else None)


def month_day(text: str) -> Stamp | None:
    """vLLM's `11-29 20:00:00`."""
    m = _MONTH_DAY.search(text)
    return _local(m.groups(), None, year=None) if m else None


def uptime(text: str) -> Stamp | None:
    """dmesg's `[12345.678901]` at the start of a line."""
    m = _UPTIME.match(text)
    return Stamp(float(m.group(1)), StampKind.UPTIME) if m else None


def any_of(text: str) -> Stamp | None:
    """The first shape that fits, the most complete ones first."""
    for shape in (iso, us, glog, syslog, month_day, uptime):
        stamp = shape(text)
        if stamp is not None:
            return stamp
    return None
