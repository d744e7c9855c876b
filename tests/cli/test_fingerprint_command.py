"""`rankmuster fingerprint`: taken here or of captured text, stored once, compared in words with an exit status."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
import yaml
from typer.main import get_command

from baseline.fingerprint.build_path import hgx
from baseline.fingerprint.mutations import MUTATIONS, software
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.cli.fingerprint import FingerprintStatus, fingerprint_app
from rankmuster.cli.status import CommandError
from rankmuster.evidence.fingerprint_file import read_fingerprint
from rankmuster.model.unknown import Unknown
from rankmuster.report.fingerprint_yaml import as_yaml

Run = Callable[..., tuple[int, str, str]]

TOPOLOGY = """$ nvidia-smi topo -m
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\t0-31\t0\t\tN/A
GPU1\tNV4\t X \t0-31\t0\t\tN/A

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
"""
LISTED = """$ nvidia-smi -L
GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)
GPU 1: NVIDIA A100-PCIE-40GB (UUID: GPU-66666666-7777-8888-9999-aaaaaaaaaaaa)
"""


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`run("diff", a, b)` -> (exit status, standard output, standard error), in an empty folder."""
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.add_typer(fingerprint_app, name="fingerprint")
    app.command("other")(lambda: None)

    def call(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        words = ["fingerprint", *map(str, arguments)]
        try:
            status = get_command(app).main(args=words, prog_name="rankmuster", standalone_mode=False)
        except CommandError as error:
            sys.stderr.write(str(error))
            status = 3
        told = capfd.readouterr()
        return int(status or 0), told.out, told.err

    return call


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    folder = tmp_path / "captured"
    folder.mkdir()
    (folder / "topo.txt").write_text(TOPOLOGY)
    (folder / "list.txt").write_text(LISTED)
    return folder


def stored(path: Path, name: str) -> Path:
    path.write_text(as_yaml(fingerprint_of(MUTATIONS[name](hgx()))))
    return path


def test_this_machine_has_a_fingerprint_whatever_it_lacks(run: Run) -> None:
    status, out, err = run("--image-digest", "none", "--engine", "none")
    document = yaml.safe_load(out)
    assert document["schema"] == "rankmuster.fingerprint/1"
    assert read_fingerprint(out.encode()).host == document["host"]
    known = isinstance(document["classHash"], str)
    assert status == (FingerprintStatus.SAME if known else FingerprintStatus.UNKNOWN)
    assert known or "the class is unknown" in err


def test_captured_text_gives_what_it_holds(run: Run, captured: Path) -> None:
    status, out, err = run("--from", captured)
    document = yaml.safe_load(out)
    assert status == FingerprintStatus.UNKNOWN
    assert document["communicationFingerprint"]["gpuModel"] == "NVIDIA A100-PCIE-40GB"
    assert document["communicationFingerprint"]["gpuCount"] == 2
    assert document["madeFrom"]["matrices"]["m"]["rows"]["GPU0"]["GPU1"] == "NV4"
    assert "unknown" in document["communicationFingerprint"]["driver"]
    assert "driver unknown" in err


def test_what_the_user_knows_is_taken(run: Run, captured: Path) -> None:
    digest = "sha256:" + "1f" * 32
    _, out, _ = run("--from", captured, "--image-digest", f"registry/vllm@{digest}", "--engine", "vllm=0.15.1")
    found = read_fingerprint(out.encode())
    assert (found.image_digest, found.engine, found.engine_version) == (digest, "vllm", "0.15.1")
    _, out, _ = run("--from", captured, "--image-digest", "none", "--engine", "none")
    found = read_fingerprint(out.encode())
    assert (found.image_digest, found.engine, found.engine_version) == ("none", "none", "none")


def test_a_profile_is_named_by_its_key(run: Run, captured: Path) -> None:
    _, out, _ = run("--from", captured, "--profile", "links")
    assert yaml.safe_load(out)["communicationFingerprint"]["ncclTestProfile"].startswith("links@")
    status, _, err = run("--from", captured, "--profile", "no-such-profile")
    assert status == 3
    assert "no-such-profile" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--image-digest", "latest"), "sha256: and 64 hex digits"),
        (("--engine", "vllm"), "NAME=VERSION"),
        (("--host", "a"), "give it with --from"),
        (("--python", "/no/such/python"), "there is no such file"),
        (("--from", "/no/such/folder"), "/no/such/folder"),
        (("--from", ""), "--from is empty"),
        (("--from", ".", "--pid", "1"), "leave them out with --from"),
    ],
)
def test_bad_usage_is_told(run: Run, arguments: tuple[str, ...], told: str) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (3, "")
    assert told in err


def test_a_stored_fingerprint_is_never_written_over(run: Run, captured: Path, tmp_path: Path) -> None:
    target = tmp_path / "node.yaml"
    assert run("--from", captured, "--output", target)[0] == FingerprintStatus.UNKNOWN
    before = target.read_bytes()
    status, _, err = run("--from", captured, "--output", target)
    assert status == 3
    assert "never written over" in err
    assert target.read_bytes() == before


@pytest.mark.parametrize("form", ["yaml", "json", "terminal"])
def test_it_is_written_in_the_form_asked_for(run: Run, captured: Path, form: str) -> None:
    _, out, _ = run("--from", captured, "--format", form)
    if form == "terminal":
        assert out.startswith("class unknown: 2 x NVIDIA A100")
        assert "\x1b[" not in out
    else:
        assert read_fingerprint(out.encode()).gpu_count == 2
        assert (json.loads if form == "json" else yaml.safe_load)(out)


@pytest.mark.parametrize(
    ("name", "status"),
    [("nothing", 0), ("idle", 0), ("rate", 1), ("driver", 1), ("driver unknown", 2)],
)
def test_the_exit_status_of_a_comparison_answers(run: Run, tmp_path: Path, name: str, status: int) -> None:
    one, other = stored(tmp_path / "a.yaml", "nothing"), stored(tmp_path / "b.yaml", name)
    assert run("diff", one, other)[0] == status
    found, out, _ = run("diff", one, other, "--format", "json")
    assert found == status
    assert json.loads(out)["same"] is (status == 0)


def test_unknown_on_both_sides_cannot_be_told(run: Run, tmp_path: Path) -> None:
    one = tmp_path / "a.yaml"
    one.write_text(as_yaml(fingerprint_of(software(hgx(), nccl=Unknown("no libnccl")))))
    status, out, _ = run("diff", one, one)
    assert status == 2
    assert "equals nothing" in out


def test_a_comparison_says_what_a_change_does(run: Run, tmp_path: Path) -> None:
    one, other = stored(tmp_path / "a.yaml", "nothing"), stored(tmp_path / "b.yaml", "no sys")
    _, out, _ = run("diff", one, other)
    assert "/sys not mounted: NCCL cannot see which NIC is near which GPU" in " ".join(out.split())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "empty"),
        (b"\xff\xfe", "no UTF-8"),
        (b"schema: rankmuster.fingerprint/2\n", "newer rankmuster"),
        (as_yaml(fingerprint_of(hgx())).replace("hgx-1", "hgx-9").encode(), "changed: host"),
        (as_yaml(fingerprint_of(hgx())).encode()[:9000], "no fingerprint can be read"),
    ],
    ids=["empty", "binary", "later", "changed", "cut"],
)
def test_a_bad_file_is_told_with_its_name(run: Run, tmp_path: Path, content: bytes, told: str) -> None:
    good, bad = stored(tmp_path / "a.yaml", "nothing"), tmp_path / "bad.yaml"
    bad.write_bytes(content)
    status, out, err = run("diff", good, bad)
    assert (status, out) == (3, "")
    assert "bad.yaml" in err
    assert told in err


def test_a_file_that_is_not_there_is_told(run: Run, tmp_path: Path) -> None:
    status, _, err = run("diff", tmp_path / "a", tmp_path)
    assert status == 3
    assert "cannot read" in err


def test_several_nodes_have_to_be_told_apart(run: Run, captured: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    for host in ("node-a", "node-b"):
        shutil.copytree(captured, both / "nodes" / host)
        for path in (both / "nodes" / host).iterdir():
            path.write_text(path.read_text().replace("$ nvidia-smi", f"root@{host}:~# nvidia-smi"))
    status, _, err = run("--from", both)
    assert status == 3
    assert "node-a" in err
    _, out, _ = run("--from", both, "--host", "node-b")
    assert yaml.safe_load(out)["host"] == "node-b"


def test_the_matrix_alone_names_the_model_by_another_source(run: Run, tmp_path: Path) -> None:
    path = replace(hgx(), pci=Unknown("no /sys"), nics=())
    one = tmp_path / "a.yaml"
    one.write_text(as_yaml(fingerprint_of(path)))
    assert yaml.safe_load(one.read_text())["madeFrom"]["topology_source"] == "matrix"
    assert run("diff", one, stored(tmp_path / "b.yaml", "nothing"))[0] == 1


def test_captured_text_gets_the_time_that_is_given(run: Run, captured: Path) -> None:
    assert run("--from", captured, "--taken-at", "2025-12-01", "--output", "a.yaml")[0] == 2
    assert read_fingerprint(Path("a.yaml").read_bytes()).taken_at == 1764547200.0
    assert "has not come yet" in run("--from", captured, "--taken-at", "2999-01-01")[2]
    assert "given with --from" in run("--taken-at", "1d")[2]
