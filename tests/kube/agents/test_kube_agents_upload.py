"""Copies beyond the node: each until it is there, with an end of its own, and nothing lost on the way."""

from __future__ import annotations

import hashlib
import io
import time
from pathlib import Path

import pytest

from rankmuster.kube.agents.shelf import Shelf
from rankmuster.kube.agents.uploading import Uploading

pytest.importorskip("fsspec")


def put(shelf: Shelf, name: str) -> None:
    data = name.encode() * 100
    digest = hashlib.sha256(data).hexdigest()
    shelf.put(f"{name}.tar.zst", len(data), io.BytesIO(data).read, sha256=digest, pod_uid="p", instance=name)


def wait_for(true: object) -> None:
    assert callable(true)
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def test_a_store_that_is_away_is_tried_until_it_is_back(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.write_text("a file stands where the folder should be")
    shelf, said = Shelf(tmp_path / "node", time.time, least_free=0), []
    put(shelf, "one")
    uploading = Uploading(shelf, f"file://{store}", 20.0, said.append, first_pause=0.1)
    uploading.start()
    try:
        wait_for(lambda: said)
        assert "was not copied" in said[0]
        assert [card.uploaded for card in shelf.cards()] == [""]
        store.unlink()
        wait_for(lambda: shelf.cards()[0].uploaded)
        assert (store / "one.tar.zst").read_bytes() == b"one" * 100
        put(shelf, "two")
        uploading.wake()
        wait_for(lambda: (store / "two.tar.zst").exists())
        wait_for(lambda: all(card.uploaded for card in shelf.cards()))
    finally:
        uploading.close()
    # a life later nothing is sent again; and what an earlier life had sent without writing it down is known
    (tmp_path / "node" / "two.tar.zst.json").write_text(
        (tmp_path / "node" / "two.tar.zst.json").read_text().replace(f"file://{store}/two.tar.zst", "")
    )
    again = Shelf(tmp_path / "node", time.time, least_free=0)
    assert [bool(card.uploaded) for card in again.cards()] == [True, False]
    uploading = Uploading(again, f"file://{store}/", 20.0, said.append, first_pause=0.1)
    uploading.start()
    try:
        wait_for(lambda: all(card.uploaded for card in again.cards()))
    finally:
        uploading.close()
