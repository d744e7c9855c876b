"""On a screen a fingerprint and a comparison answer in their first line, at any width, with signs beside colours."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from baseline.fingerprint.build_path import h200_vm, hgx, pcie_box
from baseline.fingerprint.mutations import MUTATIONS, software
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.baseline.fingerprint.changes import changes
from rankmuster.model.unknown import Unknown
from rankmuster.report import fingerprint_diff, fingerprint_terminal


def printed(render: Callable[[Console], None], width: int = 80, terminal: bool = False) -> str:
    file = io.StringIO()
    render(Console(file=file, width=width, force_terminal=terminal, highlight=False))
    return file.getvalue()


def shown(path: object, width: int = 80, terminal: bool = False) -> str:
    found = fingerprint_of(path)
    return printed(lambda console: fingerprint_terminal.render(found, console), width, terminal)


def compared(name: str, width: int = 80, terminal: bool = False) -> str:
    one, other = fingerprint_of(hgx()), fingerprint_of(MUTATIONS[name](hgx()))
    found = changes(one, other)
    return printed(lambda console: fingerprint_diff.render(one, other, found, console), width, terminal)


def test_the_first_line_says_what_the_node_is() -> None:
    first = shown(hgx()).splitlines()[0]
    assert first.startswith("class sha256:")
    assert "8 x NVIDIA H100 80GB HBM3, driver 570.133.20, NCCL 2.28.9" in first


def test_it_tells_everything_that_the_class_is_of() -> None:
    text = shown(hgx())
    network = "8 x MT4129, InfiniBand 400 Gb/s, firmware 28.39.1002"
    for words in (network, "vllm 0.15.1", "NCCL_IB_HCA", "18 of 18 NVLinks", "mlx5_7", "the node model, from /sys"):
        assert words in " ".join(text.split())
    assert "UNKNOWN" not in text


def test_what_is_unknown_stands_first_with_the_reason_and_how_to_give_it() -> None:
    text = shown(software(hgx(), image_digest=Unknown("in a container whose digest no variable names")))
    assert text.splitlines()[0].startswith("class unknown:")
    told = " ".join(text.split())
    assert "? image digest: in a container whose digest no variable names; give --image-digest" in told
    assert text.index("UNKNOWN") < text.index("MADE OF")


@pytest.mark.parametrize("path", [h200_vm(), hgx(), pcie_box(), replace(hgx(), gpus=(), nics=())])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_the_screen(path: object, width: int) -> None:
    lines = shown(path, width).splitlines()[1:]  # the first is whole, for `head -1`
    assert all(len(line) <= max(width, 75) for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_what_a_machine_says_of_itself_is_inert() -> None:
    text = shown(replace(hgx(), host="a\x1b[31m[bold]b", driver="\x1b]0;x\x07"), terminal=True)
    assert "\x1b]0" not in text
    assert "[bold]" in text


def test_the_same_is_said_in_one_word() -> None:
    assert compared("nothing").splitlines()[0] == "the same: the old baseline applies"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("half width", "1 change: the old baseline applies"),
        ("driver", "1 change: the old baseline does not apply"),
        ("driver unknown", "1 undecided: it cannot be told whether the old baseline applies"),
    ],
)
def test_the_first_line_says_whether_the_baseline_applies(name: str, answer: str) -> None:
    assert compared(name).splitlines()[0] == answer


def test_a_change_is_told_with_its_sides_its_effect_and_what_to_do() -> None:
    text = compared("shm")
    told = " ".join(text.split())
    assert "x settings/shm: enough -> 64 MiB" in told
    assert "No space left on device" in told
    assert "REGENERATE - the baseline of the class, every profile" in told


@pytest.mark.parametrize(("name", "sign"), [("driver", "x"), ("rate", "!"), ("logging", "-"), ("driver unknown", "?")])
def test_every_change_has_a_sign_beside_its_colour(name: str, sign: str) -> None:
    assert f"\n  {sign} " in compared(name)
    assert "\x1b[" not in compared(name)
    assert "\x1b[" in compared(name, terminal=True)


def test_what_is_unknown_on_both_sides_is_said_once() -> None:
    one = fingerprint_of(software(hgx(), nccl=Unknown("no libnccl")))
    found = changes(one, one)
    text = printed(lambda console: fingerprint_diff.render(one, one, found, console))
    assert text.count("no libnccl") == 1
    assert "on both sides" in " ".join(text.split())


def test_the_json_of_a_comparison_has_all_of_it() -> None:
    one, other = fingerprint_of(hgx()), fingerprint_of(MUTATIONS["driver"](hgx()))
    document = json.loads(fingerprint_diff.as_json(one, other, changes(one, other)))
    assert document["schema"] == "rankmuster.fingerprint-diff/1"
    assert (document["same"], document["baseline_applies"]) == (False, False)
    assert document["before"]["class_hash"] == one.class_hash
    (change,) = document["changes"]
    assert (change["part"], change["before"], change["after"]) == ("driver", "570.133.20", "580.65.06")
    assert document["regenerate"] == change["regenerate"]
    unknown = fingerprint_of(replace(hgx(), driver=Unknown("x"), taken_at=float("nan")))
    assert json.loads(fingerprint_diff.as_json(unknown, unknown, ()))["before"]["class_hash"] is None
