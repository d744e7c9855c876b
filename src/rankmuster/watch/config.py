"""The configuration file of `rankmuster watch` (YAML), checked before anything is begun.

Every key has a default, so that no file at all is the ordinary case; keys that nobody knows are refused, since a
misspelt one would be silently without effect. What checks it is loaded only where a file is read: the process that
watches for days gets the settings from the command line, checked (`to_plain`, `from_plain`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

from rankmuster.collect.wishes import DumpWish, RasRisk
from rankmuster.model import plain_json
from rankmuster.model.checked import Check, Part

MAX_BYTES = 1 << 20
"""Of a configuration: a thousand times what a long one has."""


class ConfigRefused(Exception):
    """The file cannot be used; the message says where it is wrong and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping(Part):
    """The metrics of an engine that is not known here. Names as scraped; labels that tell replicas apart in `keys`.

    `steps`: counters that move with every step or token. `ends`: that move only when a request ends. `gauges`: whose
    change is a sign of work. `paused`: above zero while it sleeps on purpose. `step_seconds`: a histogram of the time
    of one step or token (its name without `_bucket`).
    """

    name: Annotated[str, Check(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    gauges: tuple[str, ...] = ()
    paused: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    step_seconds: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(Part):
    """`urls`: instance name -> its servers' metrics pages; "*" for instances whose servers are not found otherwise."""

    enabled: bool = True
    urls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    mappings: tuple[Mapping, ...] = ()


class HardwareSource(str, Enum):
    """AUTO: NVML, and DCGM's page where that cannot be used and an address is given."""

    AUTO = "auto"
    NVML = "nvml"
    DCGM = "dcgm"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware(Part):
    """`dcgm_url`: the page of a DCGM exporter. `rdma`: whether byte counters of RDMA ports are read."""

    source: HardwareSource = HardwareSource.AUTO
    dcgm_url: str | None = None
    rdma: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Ras(Part):
    """`seconds`: between two polls, where the release may be polled at all. `events`: MONITOR, where it exists."""

    enabled: bool = True
    risk: RasRisk = RasRisk.AFTER_STOP_CONFIRMED
    seconds: Annotated[float, Check(ge=10.0, le=3600.0)] = 60.0
    events: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs(Part):
    """`files`: instance name ("*" for every) -> further files to follow. `inspector`: folders of NCCL Inspector's."""

    enabled: bool = True
    kernel: bool = True
    files: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    inspector: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook(Part):
    """Started without a shell; the stop as JSON on its standard input."""

    kind: Literal["command"] = "command"
    command: Annotated[tuple[str, ...], Check(min_length=1)]
    seconds: Annotated[float, Check(gt=0, le=3600)] = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookHook(Part):
    """The stop as JSON by POST. `header_file`: lines of headers ("Authorization: Bearer ..."), kept out of the file."""

    kind: Literal["webhook"] = "webhook"
    url: str
    header_file: Path | None = None
    attempts: Annotated[int, Check(ge=1, le=10)] = 3
    seconds: Annotated[float, Check(gt=0, le=600)] = 10.0


Hook = Annotated[CommandHook | WebhookHook, Check(discriminator="kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnStop(Part):
    """`bundles`: folder for bundles, verdicts and the record of what was done; None: below the state folder.

    `most_bundles`: in that folder, above which none is added: they are evidence, and nothing here deletes any.
    `again_seconds`: a further stop of the same incarnation is collected when it comes so long after the last
    collection; None: one collection an incarnation.
    """

    collect: bool = True
    diagnose: bool = True
    bundles: Path | None = None
    deadline: Annotated[float, Check(ge=2.0, le=600.0)] = 20.0
    dumps: DumpWish = DumpWish.WHEN_NOT_HEALTHY
    stacks: bool = True
    most_bundles: Annotated[int, Check(ge=1)] = 50
    again_seconds: Annotated[float, Check(gt=0)] | None = None
    hooks: tuple[Hook, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchConfig(Part):
    """All of it. `period`: seconds between two looks. `instances`: names to watch, empty for all on this node.

    `find_seconds`: between two searches for instances that have come. `draining_file`: while it exists, an instance
    that advances or is idle counts as draining (a preStop hook makes it). `listen`: HOST:PORT of the exporter, None for
    none. `state`: folder of the state file and of the record of stops. `start_seconds`: within which an incarnation has
    to serve, from the start of its processes; None: that is not known, and silence is no stop.
    """

    period: Annotated[float, Check(ge=1.0, le=60.0)] = 5.0
    find_seconds: Annotated[float, Check(ge=1.0, le=600.0)] = 15.0
    instances: tuple[str, ...] = ()
    pids: tuple[Annotated[int, Check(ge=1, le=1 << 22)], ...] = ()
    engine: Engine = Engine()
    hardware: Hardware = Hardware()
    ras: Ras = Ras()
    logs: Logs = Logs()
    on_stop: OnStop = OnStop()
    start_seconds: Annotated[float, Check(ge=1.0, le=86_400.0)] | None = None
    draining_file: Path | None = None
    listen: str | None = None
    state: Path | None = None


BOUNDS = plain_json.Bounds(text=MAX_BYTES, members=MAX_BYTES)
"""No settings have more: their file has no more."""


def to_plain(settings: WatchConfig) -> dict[str, Any]:
    """As plain values of JSON."""
    return plain_json.to_plain(settings, BOUNDS)


def from_plain(raw: object) -> WatchConfig:
    """What `to_plain` gave, whose limits were checked before. Raises `plain_json.NotPlain`."""
    return plain_json.from_plain(WatchConfig, raw, BOUNDS)


def read(text: str, name: str) -> WatchConfig:
    """The configuration in `text`; an empty one is all defaults. `name`: of the file, for messages.

    Raises ConfigRefused.
    """
    import yaml
    from pydantic import TypeAdapter, ValidationError

    if len(text) > MAX_BYTES:
        raise ConfigRefused(f"{name} has {len(text)} characters; a configuration has at most {MAX_BYTES}")
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigRefused(f"{name} is no YAML: {' '.join(str(error).split())[:300]}") from error
    if raw is None:
        return WatchConfig()
    if not isinstance(raw, dict):
        raise ConfigRefused(f"{name} holds a {type(raw).__name__}; wanted are keys such as `period: 5`")
    try:
        return TypeAdapter(WatchConfig).validate_python(raw)
    except ValidationError as error:
        told = "; ".join(_told(one) for one in error.errors()[:5])
        raise ConfigRefused(f"{name}: {told}") from error


def _told(one: Any) -> str:
    place = ".".join(map(str, one["loc"])) or "the file"
    return f"{place}: " + ("there is no such key" if one["type"] == "unexpected_keyword_argument" else str(one["msg"]))
