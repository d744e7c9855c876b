"""Environments and requests, made briefly."""

from __future__ import annotations

import textwrap
from typing import Any

from rankmuster.environment.check import Checked, check
from rankmuster.environment.draft import ProfileName, Request
from rankmuster.environment.given import Given, sifted
from rankmuster.environment.place import Place
from rankmuster.environment.profile import Profile, make_profile
from rankmuster.environment.read_file import read_bytes
from rankmuster.environment.variable import Engine
from rankmuster.environment.version import Version, parse_version

TORCHES = [f"2.{minor}" for minor in range(2, 16)]
NCCLS = ["2.18.6", "2.20.5", "2.24.3", "2.26.2", "2.27.7", "2.28.9", "2.29.2", "2.30.7", "2.31.2", "2.32.6"]


def profile(
    name: str = "steady",
    *,
    torch: str = "2.11",
    nccl: str = "2.28.9",
    instance: str = "llm-0",
    incarnation: str | None = "1795980000",
    folder: str = "/var/log/rankmuster",
    **more: Any,
) -> Profile:
    place = Place(folder, instance, incarnation)
    return make_profile(Request(ProfileName(name), parse_version(torch), parse_version(nccl), place, **more))


def settings(made: Profile) -> dict[str, str]:
    return {item.name: item.value for item in made.settings}


def checked(
    values: dict[str, str],
    *,
    torch: str | None = "2.11",
    nccl: str | None = "2.28.9",
    engine: Engine | None = None,
    **more: Any,
) -> Checked:
    given = Given("test", sifted(values), **more)
    report = check([given], _version(torch), _version(nccl), engine)
    return report.checked[0]


def _version(text: str | None) -> Version | None:
    return parse_version(text) if text else None


def codes(values: dict[str, str], **more: Any) -> set[str]:
    """What is said of it, notes left out."""
    return {one.code for one in checked(values, **more).contradictions if one.severity.value != "note"}


def notes(values: dict[str, str], **more: Any) -> set[str]:
    return {one.code for one in checked(values, **more).contradictions if one.severity.value == "note"}


def read(text: str) -> tuple[Given, ...]:
    return read_bytes(textwrap.dedent(text).encode(), "given")


SOUND = {
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_NCCL_ENABLE_MONITORING": "1",
    "TORCH_FR_DUMP_TEMP_FILE": "/evidence/llm-0/7/nccl_trace_rank_",
}
"""Nothing is wrong with it; tests change one thing."""
