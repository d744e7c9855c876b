"""Debian's Prometheus scrapes a real exporter and evaluates the rules: a stop goes from pending to firing and ends."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
RULES = HERE.parents[2] / "deploy" / "prometheus" / "rankmuster-alerts.yml"
PATIENCE = 60.0
"""Seconds for what takes two; a machine may be busy."""

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="prometheus and promtool are in Debian's package prometheus",
)


class Feed:
    """The exporter's process, told what to show."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "exporter_process.py")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        host, port = self.process.stdout.readline().split()
        self.address = f"{host}:{port}"

    def look(self, *states: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(states) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "looked\n"

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def feed() -> Iterator[Feed]:
    made = Feed()
    yield made
    made.close()


def hurried() -> str:
    """The rules as they are, with seconds where they have minutes."""
    text = RULES.read_text(encoding="utf-8")
    text = re.sub(r"(interval|for): \d+[smh]\n", lambda match: f"{match[1]}: 1s\n", text)
    return text.replace(":max[1m]", ":max[3s]")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def prometheus(feed: Feed, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "rules.yml").write_text(hurried(), encoding="utf-8")
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [{"job_name": "rankmuster-watch", "static_configs": [{"targets": [feed.address]}]}],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={address}",
        ],
        stdout=log,
        stderr=log,
    )
    try:
        until(lambda: ask(address, "/-/ready") is not None, "Prometheus is ready")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()


def ask(address: str, path: str) -> Any:
    """The JSON of an answer (or its text); None where there is none yet."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
            body = answer.read()
    except (urllib.error.URLError, OSError):
        return None
    return json.loads(body) if body.startswith(b"{") else body.decode()


def query(address: str, expression: str) -> dict[str, float]:
    """Labels, joined by a space -> value."""
    answer = ask(address, f"/api/v1/query?query={urllib.parse.quote(expression)}")
    found = {}
    for one in answer["data"]["result"] if answer else ():
        labels = [value for key, value in sorted(one["metric"].items()) if key not in ("__name__", "job", "instance")]
        found[" ".join(labels)] = float(one["value"][1])
    return found


def alerts(address: str) -> dict[str, str]:
    """Alert and instance -> pending or firing."""
    answer = ask(address, "/api/v1/alerts")
    every = answer["data"]["alerts"] if answer else ()
    return {f"{one['labels']['alertname']} {one['labels'].get('llm_instance', '')}": one["state"] for one in every}


def until(true: Callable[[], object], what: str) -> None:
    """Waits for a condition."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"not within {PATIENCE:.0f} s: {what}"
        time.sleep(0.1)


def test_a_stop_is_seen_called_and_over(feed: Feed, prometheus: str) -> None:
    stop = "RankmusterInstanceStopped llm-1"
    seen: list[str] = []

    def alarm(state: str | None, states: tuple[str, ...]) -> bool:
        feed.look(*states)
        now = alerts(prometheus)
        assert not any("llm-0" in name for name in now), now
        if stop in now and now[stop] not in seen:
            seen.append(now[stop])
        return now.get(stop) == state

    calm = ("idle", "advancing")
    until(lambda: feed.look(*calm) or query(prometheus, "rankmuster_looks_total"), "series come in")
    assert query(prometheus, 'rankmuster_instance_state{state="advancing"} == 1') == {"llm-1 advancing": 1}
    assert query(prometheus, 'up{job="rankmuster-watch"}') == {"": 1}
    assert alarm(None, calm)
    until(lambda: alarm("firing", ("idle", "stopped")), "the alert fires")
    assert seen == ["firing"] or seen == ["pending", "firing"]
    assert query(prometheus, "llm_instance:rankmuster_stopped:max == 1") == {"llm-1": 1}
    assert query(prometheus, "rankmuster_stops_total") == {"inconclusive llm-1 none": 1}
    until(lambda: alarm(None, calm), "the alert ends")
    groups = ask(prometheus, "/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    told = RULES.read_text()
    assert len(rules) == len(re.findall(r"^ +- (?:alert|record):", told, re.MULTILINE)) > 0
    assert {rule["health"] for rule in rules} == {"ok"}, [rule.get("lastError") for rule in rules]


def test_promtool_finds_nothing_wrong_with_the_page(feed: Feed) -> None:
    feed.look("advancing", "stopped", "unknown")
    page = ask(feed.address, "/metrics")
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
