"""A wish is read field by field, and its refusal says which one is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kube_wire_talk import wish

from rankmuster.adapters.kube.agent_wire import CollectWish
from rankmuster.kube.agents.wire import WishRefused, read_wish
from rankmuster.model.kube import PodView


def test_a_wish_is_read_as_it_was_sent() -> None:
    found = read_wish(wish(seconds=12.5, stopped=True, incarnation="u.r1"))
    assert (found.instance, found.incarnation, found.seconds, found.stopped) == ("ns.llm.0", "u.r1", 12.5, True)
    assert found.pods[0].uid == "aaaaaaaa-0000-0000-0000-000000000001"
    pods = tuple(PodView(namespace=one.namespace, name=one.name, uid=one.uid, created=0.0) for one in found.pods)
    sent = CollectWish(found.instance, found.incarnation, found.seconds, found.stopped, pods)
    assert read_wish(json.dumps(sent.plain()).encode()) == found
    assert read_wish(wish(pods=None)).pods == ()
    assert read_wish(wish(seconds=0.1)).seconds == 2.0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"schema": "rankmuster.collect-wish/9"}, "schema"),
        ({"instance": None}, "instance"),
        ({"instance": 5}, "instance"),
        ({"instance": "x" * 300}, "instance"),
        ({"instance": "a\nb"}, "instance"),
        ({"incarnation": ["x"]}, "incarnation"),
        ({"seconds": "soon"}, "seconds"),
        ({"seconds": True}, "seconds"),
        ({"seconds": -1}, "seconds"),
        ({"seconds": 1e9}, "seconds"),
        ({"stopped": "yes"}, "stopped"),
        ({"pods": {}}, None),
        ({"pods": {"a": 1}}, "pods"),
        ({"pods": ["x"]}, "pod"),
        ({"pods": [{"uid": "../../etc"}]}, "uid"),
        ({"pods": [{"uid": None}]}, "uid"),
        ({"pods": [{"uid": "a"}] * 2000}, "pods"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], said: str | None) -> None:
    if said is None:
        assert read_wish(wish(**more)).pods == ()
        return
    with pytest.raises(WishRefused, match=said):
        read_wish(wish(**more))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, json.dumps("x").encode()])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(WishRefused):
        read_wish(body)
