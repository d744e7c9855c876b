"""Which cluster is meant, and what is said where none is found."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from kube_odd_server import kubeconfig, odd, says

from rankmuster.adapters.kube import connecting
from rankmuster.adapters.kube.api import PODS, KubeError
from rankmuster.adapters.kube.client import connect
from rankmuster.collect.deadline import Deadline

POD = {"kind": "Pod"}


def plugin(folder: Path, code: str) -> dict[str, object]:
    """A user of an exec plugin."""
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    kind = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}
    return {"exec": {**kind, "args": None, "env": None}}


TOKEN = (
    "import json, pathlib; n = pathlib.Path(__file__ + '.n')\n"
    "n.write_text(n.read_text() + 'x' if n.exists() else 'x')\n"
    "print(json.dumps({'kind': 'ExecCredential', 'apiVersion': 'client.authentication.k8s.io/v1',"
    " 'status': {'token': 'tok' + str(len(n.read_text()))}}))"
)


def test_a_file_that_was_named_is_the_only_one(tmp_path: Path) -> None:
    with odd(says(200, POD)) as server:
        file = kubeconfig(tmp_path, server.url, {"token": "abc"})
        client = connect(file, "here", environ={"KUBECONFIG": "/nowhere"})
        assert client.server == server.url
        client.get(PODS, "a", "t", Deadline.after(10))
        assert b"Authorization: Bearer abc\r\n" in server.requests[0]
    with pytest.raises(KubeError, match="there is no kubeconfig at"):
        connect(tmp_path / "other", None)
    with pytest.raises(KubeError, match=r"context there of .*config cannot be used"):
        connect(file, "there")
    file.write_text("{: not yaml")
    with pytest.raises(KubeError, match="cannot be used"):
        connect(file, None)


def test_where_it_was_looked_for_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(KubeError, match=r"\$KUBECONFIG is not set, there is no ~/.kube/config, and this is no pod"):
        connect(None, None, environ={})
    with pytest.raises(KubeError, match=r"\$KUBECONFIG names /nowhere/x, and there is no such file"):
        connect(None, None, environ={"KUBECONFIG": "/nowhere/x"})
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube", "http://127.0.0.1:7", {})
    assert connect(None, None, environ={}).server == "http://127.0.0.1:7"


def test_inside_a_pod_its_service_account_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("first")
    (tmp_path / "ca.crt").write_text("x")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    credentials = connecting.Credentials(connecting.loader(None, None, environ), Deadline.after(10))
    assert credentials.server == "https://[fd00::1]:443"
    assert credentials.header(Deadline.after(10)) == "bearer first"
    (tmp_path / "token").write_text("second")  # replaced by the kubelet
    assert credentials.again(1, Deadline.after(10))
    assert credentials.header(Deadline.after(10)) == "bearer second"
    (tmp_path / "token").write_text("")
    assert not credentials.again(2, Deadline.after(10))
    assert credentials.header(Deadline.after(10)) == "bearer second"
    with pytest.raises(KubeError, match="service account cannot be used"):
        connecting.loader(None, None, environ)()


def test_a_plugin_is_asked_again_after_a_401(tmp_path: Path) -> None:
    with odd(says(200, POD), says(401, b""), says(200, POD)) as server:
        client = connect(kubeconfig(tmp_path, server.url, plugin(tmp_path, TOKEN)), None)
        client.get(PODS, "a", "t", Deadline.after(10))
        client.get(PODS, "a", "t", Deadline.after(10))
    sent = [one.split(b"Authorization: ")[1].split(b"\r\n")[0] for one in server.requests]
    assert sent == [b"Bearer tok1", b"Bearer tok1", b"Bearer tok2"]


def test_a_plugin_that_hangs_is_left_behind(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, "http://127.0.0.1:7", plugin(tmp_path, "import time; time.sleep(3)"))
    with pytest.raises(KubeError, match="plugin of the kubeconfig hangs") as raised:
        connect(file, None, deadline=Deadline.after(0.2))
    assert raised.value.late


def test_a_server_whose_certificate_is_of_nobody_gets_no_token(tmp_path: Path) -> None:
    with odd(says(200, POD)) as server:
        url = server.url.replace("http:", "https:")
        client = connect(kubeconfig(tmp_path, url, {"token": "abc"}), None)
        with pytest.raises(KubeError) as raised:
            client.get(PODS, "a", "t", Deadline.after(0.5))
    assert "abc" not in str(raised.value)
    assert not any(b"abc" in one for one in server.requests)
