"""A fingerprint is written the same everywhere, and any YAML reader reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from baseline.fingerprint.build_path import h200_vm, hgx, pcie_box
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.evidence.fingerprint_document import BESIDE, FINGERPRINT_FIELDS
from rankmuster.evidence.fingerprint_file import read_fingerprint
from rankmuster.evidence.plain_yaml import plain_values
from rankmuster.model.fingerprint import SCHEMA, Fingerprint
from rankmuster.model.node_path import NodePath
from rankmuster.model.unknown import Unknown
from rankmuster.report.fingerprint_yaml import as_json, as_yaml

ISSUED = (
    *("imageDigest", "cudaVersion", "ncclVersion", "pytorchVersion", "engine", "engineVersion", "gpuModel", "gpuCount"),
    *("driver", "topologyHash", "ncclTestProfile", "networkDeviceSet"),
)

numbers = st.integers(-(1 << 62), 1 << 62) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def written(made_from: object) -> Fingerprint:
    return replace(fingerprint_of(h200_vm()), made_from={"odd": made_from})


@pytest.mark.parametrize("path", [h200_vm(), hgx(), pcie_box()], ids=["vm", "hgx", "pcie"])
def test_it_has_the_fields_by_their_names(path: NodePath) -> None:
    document = yaml.safe_load(as_yaml(fingerprint_of(path)))
    assert document["schema"] == SCHEMA
    assert tuple(document["communicationFingerprint"]) == ISSUED == tuple(FINGERPRINT_FIELDS)
    assert list(document)[:5] == ["schema", "fingerprintHash", "host", "takenAt", "communicationFingerprint"]
    assert set(BESIDE) | {"madeFrom"} <= set(document)
    assert {"gpus", "matrices", "pci", "nics", "cpu", "container", "nccl_settings"} <= set(document["madeFrom"])
    assert document == json.loads(as_json(fingerprint_of(path)))


def test_every_field_of_a_fingerprint_is_written() -> None:
    named = {*FINGERPRINT_FIELDS.values(), *BESIDE.values(), "host", "taken_at", "made_from"}
    assert named == {one.name for one in fields(Fingerprint)}


def test_unknown_is_a_mapping_with_the_reason() -> None:
    document = yaml.safe_load(as_yaml(fingerprint_of(replace(hgx(), driver=Unknown("no NVML: it hangs")))))
    assert document["communicationFingerprint"]["driver"] == {"unknown": "no NVML: it hangs"}
    assert "driver unknown" in document["classHash"]["unknown"]


@settings(deadline=None)
@given(st.text())
def test_texts_are_read_back_as_they_were(text: str) -> None:
    sent = text.encode("utf-8", "backslashreplace").decode()
    for form in (as_yaml, as_json):
        assert read_fingerprint(form(written({sent: sent, "list": [sent]})).encode()).made_from["odd"] == {
            sent: sent,
            "list": [sent],
        }


@settings(deadline=None)
@given(values)
def test_values_are_read_back_as_they_were(value: object) -> None:
    sent = json.loads(json.dumps(value).encode("utf-8", "backslashreplace"))
    for form in (as_yaml, as_json):
        assert read_fingerprint(form(written(sent)).encode("utf-8", "backslashreplace")).made_from["odd"] == sent


@settings(deadline=None)
@given(st.text() | numbers)
def test_yamls_own_reader_reads_the_same(value: object) -> None:
    if isinstance(value, str):
        value = value.encode("utf-8", "backslashreplace").decode()
    text = as_yaml(written(value))
    assert yaml.safe_load(text)["madeFrom"]["odd"] == plain_values(text.encode())["madeFrom"]["odd"] == value


@pytest.mark.parametrize(
    "word", ["yes", "No", "on", "null", "~", "1e3", "0x10de", "12:30:00", "2025-12-01", "=", "<<", "- a", "a: b"]
)
def test_texts_that_look_like_something_else_stay_texts(word: str) -> None:
    text = as_yaml(written(word))
    assert yaml.safe_load(text)["madeFrom"]["odd"] == word
    assert read_fingerprint(text.encode()).made_from["odd"] == word


def test_a_key_named_unknown_is_no_unknown_value() -> None:
    found = read_fingerprint(as_yaml(written({"unknown": "a fact of that name"})).encode())
    assert found.made_from["odd"] == {"unknown": "a fact of that name"}


def test_it_is_written_without_anchors_and_in_one_way() -> None:
    shared = ["x", "y"]
    text = as_yaml(written({"one": shared, "two": shared}))
    assert "&" not in text
    assert as_yaml(read_fingerprint(text.encode())) == text


def test_it_is_the_same_in_another_process_and_locale() -> None:
    program = (
        "import locale; locale.setlocale(locale.LC_ALL, ''); from baseline.fingerprint.build_path import hgx; "
        "from rankmuster.baseline.fingerprint.build import fingerprint_of; from rankmuster.report.fingerprint_yaml "
        "import as_yaml; print(as_yaml(fingerprint_of(hgx())), end='')"
    )
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.split()
    for seed, spoken in enumerate(["C", *(name for name in known if name.startswith(("de", "tr", "C.")))][:3]):
        env = {
            **os.environ,
            "PYTHONHASHSEED": str(seed),
            "LC_ALL": spoken,
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, env=env, check=False)
        assert run.stdout.decode() == as_yaml(fingerprint_of(hgx())), run.stderr


def test_captured_text_has_no_time() -> None:
    found = fingerprint_of(replace(h200_vm(), taken_at=float("nan")))
    assert yaml.safe_load(as_yaml(found))["takenAt"] is None
    assert as_yaml(read_fingerprint(as_yaml(found).encode())) == as_yaml(found)
