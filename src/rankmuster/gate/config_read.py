"""Reads the settings of `rankmuster gate`: what could never be meant is refused before anything is looked at."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from rankmuster.gate.config import GateConfig, WaiverConfig
from rankmuster.incident.config_read import ConfigRefused, checked
from rankmuster.model.release import Waiver


def read(text: str, name: str) -> GateConfig:
    """The settings in `text`. `name`: of the file, for messages. Raises ConfigRefused."""
    config: GateConfig = checked(GateConfig, text, name, "release")
    for number, one in enumerate(config.waivers):
        _until(one, f"{name}: waivers.{number}")
    return config


def waivers_of(config: GateConfig) -> tuple[Waiver, ...]:
    """As the checklist takes them. Raises ConfigRefused."""
    return tuple(
        Waiver(one.item, one.owner, one.reason, _until(one, f"waivers.{number}"), one.release)
        for number, one in enumerate(config.waivers)
    )


def _until(one: WaiverConfig, where: str) -> float:
    """The end of the last day, unix seconds."""
    for key, text in (("owner", one.owner), ("reason", one.reason)):
        if not any(letter.isalnum() for letter in text):
            raise ConfigRefused(f"{where}.{key}: somebody has to be named, and say why")
    try:
        day = datetime.strptime(one.until, "%Y-%m-%d").replace(tzinfo=timezone.utc)
        return (day + timedelta(days=1)).timestamp()
    except (ValueError, OverflowError):
        raise ConfigRefused(f"{where}.until: {one.until} is no day that a waiver could have") from None
