"""Probes of containers (startup, readiness, liveness): HTTP, TCP, a command. Real time."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kube_sim.pod_network import Network

Exec = Callable[[Sequence[str]], Sequence[str]]


def ask(probe: Mapping[str, Any], container: Mapping[str, Any], address: str, command: Exec) -> bool:
    """One attempt. `command`: makes of a command what runs it in the container."""
    seconds = float(probe.get("timeoutSeconds", 1))
    if "exec" in probe:
        try:
            words = command(probe["exec"]["command"])
            return subprocess.run(words, capture_output=True, timeout=seconds, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False
    if "tcpSocket" in probe:
        try:
            host = probe["tcpSocket"].get("host") or address
            with socket.create_connection((host, port_of(probe["tcpSocket"]["port"], container)), seconds):
                return True
        except OSError:
            return False
    if "httpGet" in probe:
        return _http(probe["httpGet"], container, address, seconds)
    return True


def _http(get: Mapping[str, Any], container: Mapping[str, Any], address: str, seconds: float) -> bool:
    host = get.get("host") or address
    url = f"http://{host}:{port_of(get['port'], container)}/{get.get('path', '/').lstrip('/')}"
    headers = {one["name"]: one["value"] for one in get.get("httpHeaders") or []}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=seconds) as answer:
            return 200 <= int(answer.status) < 400
    except (urllib.error.URLError, OSError, ValueError):
        return False


def port_of(given: Any, container: Mapping[str, Any]) -> int:
    """A number, or the name of a port of the container."""
    if isinstance(given, str) and not given.isdigit():
        return int(next(one["containerPort"] for one in container.get("ports") or [] if one.get("name") == given))
    return int(given)


class Probing:
    """The probes of one start of a container, in a thread. `ready(bool)` and `unhealthy()` are called from it."""

    def __init__(
        self,
        container: Mapping[str, Any],
        address: str,
        command: Exec,
        ready: Callable[[bool], None],
        unhealthy: Callable[[str], None],
        network: Network,
    ) -> None:
        self._container, self._address, self._command, self._network = container, address, command, network
        self._ready, self._unhealthy = ready, unhealthy
        self._stop = threading.Event()
        self.started = "startupProbe" not in container
        threading.Thread(target=self._run, daemon=True, name=f"probes {container['name']}").start()

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        self._network.enter()
        if not self.started:
            if not self._until_started(self._container["startupProbe"]):
                return
            self.started = True
        readiness, liveness = self._container.get("readinessProbe"), self._container.get("livenessProbe")
        if readiness is None:
            self._ready(True)
        loops = [(one, kind) for one, kind in ((readiness, "readiness"), (liveness, "liveness")) if one]
        due = {kind: time.monotonic() + float(one.get("initialDelaySeconds", 0)) for one, kind in loops}
        failures, good = dict.fromkeys(due, 0), False
        while loops and not self._stop.wait(max(0.0, min(due.values()) - time.monotonic())):
            for probe, kind in loops:
                if due[kind] > time.monotonic():
                    continue
                due[kind] = time.monotonic() + float(probe.get("periodSeconds", 10))
                passed = ask(probe, self._container, self._address, self._command)
                failures[kind] = 0 if passed else failures[kind] + 1
                if self._stop.is_set():
                    return
                if kind == "readiness" and passed != good and (passed or failures[kind] >= _limit(probe)):
                    good = passed
                    self._ready(good)
                if kind == "liveness" and failures[kind] >= _limit(probe):
                    self._unhealthy("Liveness probe failed")
                    return

    def _until_started(self, probe: Mapping[str, Any]) -> bool:
        failures = 0
        self._stop.wait(float(probe.get("initialDelaySeconds", 0)))
        while not self._stop.is_set():
            if ask(probe, self._container, self._address, self._command):
                return True
            failures += 1
            if failures >= _limit(probe):
                self._unhealthy("Startup probe failed")
                return False
            self._stop.wait(float(probe.get("periodSeconds", 10)))
        return False


def _limit(probe: Mapping[str, Any]) -> int:
    return int(probe.get("failureThreshold", 3))
