"""The settings of a watch: checked once, then handed to the process that watches as they are."""

from __future__ import annotations

import json

import pytest

from rankmuster.watch.config import ConfigRefused, WatchConfig, from_plain, read, to_plain
from rankmuster.watch.start import settings_of

FULL = """
period: 2
start_seconds: 90
pids: [3]
listen: 127.0.0.1:9464
state: /var/lib/x
engine: {urls: {a: [http://h/metrics]}, mappings: [{name: x, running: [y]}]}
hardware: {source: dcgm, dcgm_url: http://h:9400/metrics}
ras: {risk: never}
logs: {files: {'*': [/a/b]}, inspector: [/c]}
on_stop:
  dumps: never
  again_seconds: 4
  hooks: [{kind: command, command: [a, b]}, {kind: webhook, url: http://h, header_file: /secret}]
"""


@pytest.mark.parametrize("text", ["", FULL])
def test_they_arrive_as_they_were_checked(text: str) -> None:
    settings = read(text, "watch.yaml")
    assert from_plain(json.loads(json.dumps(to_plain(settings)))) == settings


def test_a_start_is_over_by_its_operators_word_alone() -> None:
    said, unsaid = settings_of(read("start_seconds: 90", "watch.yaml")), settings_of(WatchConfig())
    assert (said.start_seconds, said.start_ends) == (90.0, True)
    assert (unsaid.start_seconds, unsaid.start_ends) == (600.0, False)


def test_without_a_file_they_are_the_defaults() -> None:
    assert read("", "watch.yaml") == WatchConfig()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("perriod: 5", "perriod: there is no such key"),
        ("ras: {seconds: 5, foo: 2}", "ras.foo: there is no such key"),
        ("ras: {seconds: 5}", "ras.seconds: Input should be greater than or equal to 10"),
        ("period: .nan", "period"),
        ("start_seconds: 0", "start_seconds: Input should be greater than or equal to 1"),
        ("on_stop: {hooks: [{kind: pager}]}", "'pager'"),
        ("on_stop: {hooks: [{kind: command}]}", "on_stop.hooks.0.command.command: Field required"),
        ("on_stop: {hooks: [{kind: command, command: []}]}", "at least 1 item"),
        ("engine: {mappings: [{name: Mine!}]}", "engine.mappings.0.name"),
        ("hardware: {source: x}", "'auto', 'nvml', 'dcgm' or 'none'"),
        ("pids: [-4]", "pids.0"),
        ("1: 2", "string"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(ConfigRefused) as refused:
        read(text, "watch.yaml")
    assert told in str(refused.value)
    assert str(refused.value).startswith("watch.yaml: ")
