"""The address of the node's agent, as the downward API fills it in."""

from __future__ import annotations

import pytest

from rankmuster.cli.kube_sidecar import _with_brackets


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://fd00::a1:9466", "http://[fd00::a1]:9466"),
        ("http://[fd00::a1]:9466", "http://[fd00::a1]:9466"),
        ("http://10.0.0.1:9466", "http://10.0.0.1:9466"),
        ("http://gpu-1:9466", "http://gpu-1:9466"),
        ("", ""),
    ],
)
def test_an_ipv6_address_gets_its_brackets(given: str, meant: str) -> None:
    assert _with_brackets(given) == meant
