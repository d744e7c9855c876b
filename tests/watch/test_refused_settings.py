"""Settings that could never work are refused when the watch begins, not found out at the first stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmuster.watch.config import WatchConfig, read
from rankmuster.watch.refused import doubts, objections


def said(text: str) -> list[str]:
    return objections(read(text, "watch.yaml"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("engine: {urls: {a: ['127.0.0.1:8000/metrics']}}", "engine.urls.a"),
        ("engine: {urls: {a: ['ftp://127.0.0.1/']}}", "http or https"),
        ("engine: {urls: {a: ['file:///etc/passwd']}}", "http or https"),
        ("engine: {urls: {a: ['http://[::1']}}", "http or https"),
        ("engine: {urls: {a: ['http://h:99999/']}}", "http or https"),
        ('engine: {urls: {a: ["http://h/\\nx"]}}', "http or https"),
        ("engine: {urls: {a: ['']}}", "http or https"),
        ("engine: {urls: {a: []}}", "names no page"),
        ("engine: {urls: {'': ['http://h/']}}", "empty"),
        ("instances: ['']", "empty"),
        ("instances: ['a/../b']", "'a-..-b'?"),
        ('instances: ["a\\e[31mb"]', "no instance is called"),
        (f"instances: [{'a' * 101}]", "no instance is called"),
        ('logs: {files: {"a b": [/var/log/x]}}', "logs.files"),
        ("hardware: {source: dcgm}", "dcgm_url"),
        ("hardware: {dcgm_url: 'localhost:9400'}", "hardware.dcgm_url"),
        ("on_stop: {hooks: [{kind: webhook, url: 'hooks.example/x'}]}", "on_stop.hooks.0.url"),
        ("on_stop: {hooks: [{kind: webhook, url: 'https://u:TOKEN@hooks.example/x'}]}", "header_file"),
    ],
)
def test_what_can_never_work_is_refused_with_its_place(text: str, told: str) -> None:
    (objection,) = said(text)
    assert told in objection
    assert "TOKEN" not in objection


@pytest.mark.parametrize(
    "text",
    [
        "",
        "instances: [llm-0, 'vllm-10.0.0.1:8000', 服务-1]",
        "engine: {urls: {'*': ['http://127.0.0.1:8000/metrics', 'https://[::1]:8443/m?x=1'], a: ['http://u:p@h/']}}",
        "hardware: {source: dcgm, dcgm_url: 'http://10.0.0.1:9400/metrics'}",
        "on_stop: {hooks: [{kind: webhook, url: 'https://hooks.example/SECRET'}]}",
    ],
)
def test_what_can_work_is_not(text: str) -> None:
    assert said(text) == []


def test_hooks_that_would_fail_at_a_stop_are_doubted_at_the_start(tmp_path: Path) -> None:
    there = tmp_path / "headers"
    there.write_text("Authorization: Bearer x\n")
    config = read(
        "on_stop: {hooks: ["
        f"{{kind: command, command: [{tmp_path}/none]}}, {{kind: command, command: [/bin/true]}},"
        f"{{kind: webhook, url: 'https://h/', header_file: {tmp_path}/none}},"
        f"{{kind: webhook, url: 'https://h/', header_file: {there}}}]}}",
        "watch.yaml",
    )
    assert [text.partition(":")[0] for text in doubts(config, tmp_path)] == ["on_stop.hooks.0", "on_stop.hooks.2"]


def test_a_folder_that_cannot_be_is_doubted_where_evidence_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = WatchConfig()
    assert doubts(config, tmp_path / "new" / "folder") == []
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/1/stops")):
        (doubt,) = doubts(config, folder)
        assert "--bundles" in doubt
        assert doubts(read("on_stop: {collect: false}", "watch.yaml"), folder) == []


def test_credentials_in_the_address_of_a_page_are_said_to_be_of_no_use(tmp_path: Path) -> None:
    (doubt,) = doubts(
        read("engine: {urls: {a: ['http://u:SECRET@h/', 'http://u:SECRET@h2/']}}", "watch.yaml"), tmp_path
    )
    assert "not sent" in doubt
    assert "SECRET" not in doubt
