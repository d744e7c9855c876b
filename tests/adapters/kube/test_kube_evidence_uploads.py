"""Copies of bundles beyond the controller's volume: none is lost with a process, and nobody waits for one."""

from __future__ import annotations

import queue
from pathlib import Path

import pytest
from kube_local_api import LocalApi

from rankmuster.adapters.kube.shell_collect import ShellWish, shell_collect
from rankmuster.adapters.kube.uploads import Outcome, Uploads, marked, unmarked, uploaded_below
from rankmuster.collect.bundle.verify import verify
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import ContainerView, PodView

pytest.importorskip("fsspec", reason="copies go through fsspec, of the extra s3")

POD = PodView(namespace="s", name="p", uid="u", created=0.0, containers=(ContainerView(name="worker", running=True),))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of incidents with one bundle and things that are none."""
    root = tmp_path / "incidents"
    place = root / "i-1" / "evidence"
    place.mkdir(parents=True)
    api = LocalApi(logs={("worker", False): b"a line\n"})
    shell_collect(api, POD, None, frozenset(), ShellWish(instance="nobody"), place / "bundle", Deadline.after(6))
    (place / "nodes").mkdir()
    (root / "i-2" / "evidence" / "bundle").mkdir(parents=True)  # never closed
    (root / "i-3" / "evidence").mkdir(parents=True)
    (root / "i-3" / "evidence" / "bundle.tar.zst").write_bytes(b"one that was not merged")
    return root


def test_bundles_without_a_mark_are_found_and_copied_once_whole(root: Path, tmp_path: Path) -> None:
    bundle, single = root / "i-1" / "evidence" / "bundle", root / "i-3" / "evidence" / "bundle.tar.zst"
    assert list(unmarked(root)) == [bundle, single]
    (tmp_path / "store").mkdir()
    told: queue.Queue[Outcome] = queue.Queue()
    uploads = Uploads(root, f"file://{tmp_path / 'store'}", told.put)
    uploads.start()
    outcomes = [told.get(timeout=60) for _ in range(2)]
    uploads.close()
    assert [one.bundle for one in outcomes] == [bundle, single]
    assert all(one.url for one in outcomes), outcomes
    copies = sorted((tmp_path / "store").iterdir())
    assert [one.name.rpartition("-")[0] for one in copies] == ["i-1-evidence", "i-3-evidence"]
    assert verify(copies[0]).ok
    assert marked(bundle)
    assert uploaded_below(root / "i-1") == outcomes[0].url
    assert uploaded_below(root / "i-2") is None
    assert list(unmarked(root)) == []
    assert not [one for one in bundle.parent.iterdir() if one.name.startswith(".")]

    # A process that died between the copy and its mark: the same bundle is known by its name.
    bundle.with_name("bundle.uploaded.json").unlink()
    again = Uploads(root, f"file://{tmp_path / 'store'}/", told.put)
    again.start()
    outcome = told.get(timeout=60)
    again.close()
    assert "was there already" in outcome.note
    assert marked(bundle)


def test_a_store_that_fails_is_asked_again_and_the_error_is_told(root: Path, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where a folder should be")
    told: queue.Queue[Outcome] = queue.Queue()
    uploads = Uploads(root / "i-1", f"file://{tmp_path / 'store'}", told.put, first_pause=0.1)
    uploads.start()
    first = told.get(timeout=60)
    (tmp_path / "store").unlink()
    while (last := told.get(timeout=60)).url is None:
        pass
    uploads.close()
    assert first.url is None
    assert first.again is not None
    assert "was not copied" in first.note
    assert last.bundle == root / "i-1" / "evidence" / "bundle"


def test_adding_never_waits_and_what_has_no_room_is_found_later(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, "file:///nowhere", lambda outcome: None, most_waiting=1)
    assert uploads.add(tmp_path / "a") is True
    assert uploads.add(tmp_path / "a") is True
    assert uploads.add(tmp_path / "b") is False
    uploads.close()
