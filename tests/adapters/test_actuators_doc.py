"""docs/actuators.md is held against the settings and the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rankmuster.adapters.admit_alone import ONE_RUN_SHARE, SHORT
from rankmuster.adapters.admit_retest import ALONE_SHARE
from rankmuster.adapters.collect_here import CLOSE_SECONDS, GRACE
from rankmuster.adapters.command_group import GRACE as COMMAND_GRACE
from rankmuster.adapters.command_group import LOOK_SECONDS, PREFIX, SCHEMA
from rankmuster.adapters.own_words import MOST_REASON
from rankmuster.adapters.slurm_find import KILL_WAIT
from rankmuster.adapters.slurm_wait import KILL_MARGIN
from rankmuster.incident.config_read import read

TEXT = (Path(__file__).parents[2] / "docs" / "actuators.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL))
def test_the_examples_are_settings(block: str) -> None:
    whole = {"group": {"kind": "supervisor"}, **yaml.safe_load(block)}
    read(yaml.safe_dump({"instances": {"llm-0": whole}}), "example")


def test_the_numbers_are_the_program_s() -> None:
    flat = " ".join(TEXT.split())
    for words in (
        f"`KillWait` ({KILL_WAIT:.0f} s by default)",
        f"`{' '.join(SHORT)}`",
        f"One run may take {ONE_RUN_SHARE[True]} of the time, of a long one {ONE_RUN_SHARE[False]}",
        f"with pairs {ALONE_SHARE} of the time",
        f"told to finish {CLOSE_SECONDS} s before it, ended {GRACE} s later",
        f"SIGTERM, SIGKILL {COMMAND_GRACE} s later",
        f"cut at {MOST_REASON} characters",
        f'"schema": "{SCHEMA}"',
        f"`{PREFIX}INSTANCE`",
    ):
        assert words in flat, words
    assert (LOOK_SECONDS, KILL_MARGIN) == (2.0, 3.0)
    assert "It has two seconds" in flat
    assert "three seconds after `KillWait`" in flat
    assert "six seconds more" in flat
