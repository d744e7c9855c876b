"""Contradictions among NCCL's variables: logs, RAS, what debugging left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rankmuster.environment import costs
from rankmuster.environment.contradiction import Contradiction, Severity, Subject
from rankmuster.environment.nccl_settings import ras_warnings
from rankmuster.environment.subsystems import PER_CALL
from rankmuster.environment.table import TABLE
from rankmuster.environment.values import address, quoted, read_number, shown
from rankmuster.environment.version import at_least, written

LOOPBACK = ("localhost", "ip6-localhost", "::1")

_LEFT_OVER = {
    "NCCL_P2P_DISABLE": "GPUs of one node talk through host memory",
    "NCCL_SHM_DISABLE": "processes of one node talk through the network",
    "NCCL_IB_DISABLE": "InfiniBand and RoCE are not used; everything goes through TCP",
}


def log_level(subject: Subject) -> Iterator[Contradiction]:
    """TRACE left on, INFO without a file."""
    given = subject.given
    level = (given.of("NCCL_DEBUG") or "").strip().upper()
    words = _words(subject)
    if level == "TRACE":
        yield Contradiction(
            Severity.ERROR,
            "trace_left_on",
            ("NCCL_DEBUG",),
            "TRACE logs every call of every rank, for ever: disks fill and the instance slows down",
            "set NCCL_DEBUG=INFO, or WARN",
        )
    if level in ("INFO", "TRACE") and (not given.has("NCCL_DEBUG_FILE") or given.of("NCCL_DEBUG_FILE") == ""):
        yield Contradiction(
            Severity.WARNING,
            "log_without_file",
            ("NCCL_DEBUG", "NCCL_DEBUG_FILE"),
            f"{level} goes to standard output, where all ranks write at once: lines of several ranks run into each "
            "other",
            "set NCCL_DEBUG_FILE=/folder/nccl_%h_%p.log",
        )
    if level in ("INFO", "TRACE"):
        loud = [word for word in words if word in PER_CALL - {"CALL"}]
        if loud:
            yield Contradiction(
                Severity.NOTE,  # as an incident's profile wants it
                "log_per_call",
                ("NCCL_DEBUG_SUBSYS",),
                f"{', '.join(loud)} log every call outside CUDA graphs, about {costs.CALL_LOG_BYTES} bytes each",
                "set NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,RAS when the test is over",
            )
    elif words and not given.has("NCCL_DEBUG"):
        yield Contradiction(
            Severity.NOTE,
            "subsystems_without_level",
            ("NCCL_DEBUG_SUBSYS",),
            "subsystems are chosen, and NCCL_DEBUG is not set: nothing is logged",
            "set NCCL_DEBUG=INFO",
        )


def _words(subject: Subject) -> list[str]:
    text = subject.given.of("NCCL_DEBUG_SUBSYS") or ""
    return [] if text.startswith("^") else [word.strip().upper() for word in text.split(",") if word.strip()]


def log_file(subject: Subject) -> Iterator[Contradiction]:
    """One file for many processes."""
    path = subject.given.of("NCCL_DEBUG_FILE")
    if not path:  # an empty one cannot be opened, and NCCL stays at standard output
        return
    level = (subject.given.of("NCCL_DEBUG") or "").strip().upper()
    marks = set(re.findall(r"%[hp]", path.replace("%%", "")))
    fix = f"set NCCL_DEBUG_FILE to a name with %h and %p, like {_folder(path)}/nccl_%h_%p.log"
    if "%p" not in marks and path not in ("/dev/stdout", "/dev/stderr", "stdout", "stderr"):
        yield Contradiction(
            Severity.ERROR,
            "shared_log_file",
            ("NCCL_DEBUG_FILE",),
            f"{quoted(path)} has no %p: every process opens it anew and empties it, so most of it is lost",
            fix,
        )
    elif "%p" in marks and "%h" not in marks:
        yield Contradiction(
            Severity.NOTE,
            "log_file_without_host",
            ("NCCL_DEBUG_FILE",),
            f"{quoted(path)} has no %h: on a shared file system processes of two hosts may have one pid",
            fix,
        )
    if level in ("", "NONE", "VERSION") and not (level == "" and "NCCL_DEBUG" in subject.given.unknown):
        yield Contradiction(
            Severity.WARNING,
            "log_file_without_level",
            ("NCCL_DEBUG_FILE", "NCCL_DEBUG"),
            f"no file is written at level {level or 'NONE (the default)'}",
            "set NCCL_DEBUG=WARN or INFO",
        )


def _folder(path: str) -> str:
    return shown(path.rpartition("/")[0])[:60] or "/var/log/rankmuster"


def stamps(subject: Subject) -> Iterator[Contradiction]:
    """Lines that cannot be put into an order."""
    given = subject.given
    if given.of("NCCL_DEBUG_TIMESTAMP_FORMAT") == "":
        yield Contradiction(
            Severity.WARNING,
            "no_stamps",
            ("NCCL_DEBUG_TIMESTAMP_FORMAT",),
            "an empty format turns all stamps off",
            "unset it",
        )
    info = (given.of("NCCL_DEBUG") or "").strip().upper() == "INFO"
    if info and not given.has("NCCL_DEBUG_TIMESTAMP_LEVELS") and at_least(subject.nccl, (2, 26)):
        yield Contradiction(
            Severity.NOTE,
            "info_without_stamps",
            ("NCCL_DEBUG_TIMESTAMP_LEVELS",),
            "INFO lines carry no time unless asked to",
            "set NCCL_DEBUG_TIMESTAMP_LEVELS=WARN,INFO",
        )


def ras(subject: Subject) -> Iterator[Contradiction]:
    """RAS off, shared, or open to the network."""
    given = subject.given
    if not TABLE["NCCL_RAS_ENABLE"].read_by(subject.nccl):
        return
    if read_number(given.of("NCCL_RAS_ENABLE")) == 0:
        warned = ras_warnings(subject.nccl)
        yield Contradiction(
            Severity.NOTE if warned else Severity.WARNING,
            "ras_off",
            ("NCCL_RAS_ENABLE",),
            "RAS is off: who answers and who is behind cannot be asked"
            + (f" (NCCL {written(subject.nccl)} has known faults in it, so this may be meant)" if warned else ""),
            "set NCCL_RAS_ENABLE=1, unless its thread crashed here",
        )
        return
    place = given.of("NCCL_RAS_ADDR")
    found = address(place) if place else None
    if found and not _loopback(found[0]):
        yield Contradiction(
            Severity.ERROR,
            "ras_open",
            ("NCCL_RAS_ADDR",),
            f"RAS listens at {quoted(place or '')}, beyond this host, and asks nobody who they are",
            f"set NCCL_RAS_ADDR=localhost:{found[1]}",
        )
    if not given.has("NCCL_RAS_ADDR") and given.pod is not None and given.pod.host_network and given.pod.gpus:
        yield Contradiction(
            Severity.WARNING,
            "ras_shared_on_host",
            ("NCCL_RAS_ADDR",),
            "with hostNetwork every instance of one user on the node shares RAS's port 28028: any of them answers",
            "give each instance a port of its own; `rankmuster env print --instance NAME` chooses one",
        )


def _loopback(host: str) -> bool:
    return host.lower() in LOOPBACK or re.fullmatch(r"127(\.\d{1,3}){3}", host) is not None


def left_over(subject: Subject) -> Iterator[Contradiction]:
    """What somebody switched off to find a fault, and forgot."""
    given = subject.given
    for name, effect in _LEFT_OVER.items():
        if (read_number(given.of(name)) or 0) > 0:
            yield Contradiction(
                Severity.WARNING,
                "left_from_debugging",
                (name,),
                f"{name} is on: {effect}",
                f"unset {name}, unless this machine needs it",
            )
    names = given.of("NCCL_SOCKET_IFNAME") or ""
    bad = sorted({word.strip().lstrip("=") for word in names.split(",")} & {"lo", "docker0"})
    if bad and not names.startswith("^"):
        yield Contradiction(
            Severity.ERROR,
            "interface_without_peers",
            ("NCCL_SOCKET_IFNAME",),
            f"NCCL is told to use {' and '.join(bad)}, over which no other host is reached",
            "name the interface of the cluster's network, or exclude these: NCCL_SOCKET_IFNAME=^lo,docker0",
        )
    for name in ("NCCL_ALGO", "NCCL_PROTO"):
        if given.of(name):
            yield Contradiction(
                Severity.NOTE,
                "pinned",
                (name,),
                f"{name} is pinned: what is measured now cannot be compared with machines where it is not",
                f"unset {name} where NCCL may choose",
            )


RULES = (log_level, log_file, stamps, ras, left_over)
