"""The Dockerfiles by their text, since nothing here can build them; and that what they copy is enough to build from."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from kube_manifests import ROOT

PLACE = ROOT / "deploy" / "images"
FILES = ("Dockerfile", "Dockerfile.admission")
TARGETS = ("sidecar", "agent", "controller", "drill")
COPIED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "src")


def stages(name: str) -> dict[str, list[tuple[str, str]]]:
    """Instructions of each stage, by its name; the last without one is `final`."""
    text = re.sub(r"\\\n", " ", (PLACE / name).read_text(encoding="utf-8"))
    made: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if not word or word.startswith("#"):
            continue
        if word == "FROM":
            base, _, stage = rest.partition(" AS ")
            current = made.setdefault(stage or "final", [])
            rest = base
        current.append((word, " ".join(rest.split())))
    return made


def finals(name: str) -> list[list[tuple[str, str]]]:
    found = stages(name)
    return [found[target] for target in TARGETS] if name == "Dockerfile" else [found["final"]]


@pytest.mark.parametrize("name", FILES)
def test_images_run_as_a_user_without_rights(name: str) -> None:
    for stage in finals(name):
        assert [rest for word, rest in stage if word == "USER"] == ["65532:65532"]
        user = next(at for at, (word, _) in enumerate(stage) if word == "USER")
        assert not [word for word, _ in stage[user:] if word in ("RUN", "COPY", "ADD")]


@pytest.mark.parametrize("name", FILES)
def test_the_base_is_pinned_by_a_tag_and_may_be_by_a_digest(name: str) -> None:
    text = (PLACE / name).read_text(encoding="utf-8")
    assert re.search(r"^ARG BASE=[\w./-]+:[\w.-]+$", text, re.MULTILINE)
    assert ":latest" not in text
    own = set(stages(name))
    for stage in stages(name).values():
        (base,) = (rest for word, rest in stage if word == "FROM")
        assert base == "${BASE}${DIGEST}" or base in own


@pytest.mark.parametrize("name", FILES)
def test_only_what_is_needed_is_copied(name: str) -> None:
    for stage, lines in stages(name).items():
        copied = {part for word, rest in lines if word == "COPY" for part in rest.split()[:-1]}
        if stage == "build":
            assert copied == set(COPIED)
        else:
            assert copied <= {
                "--from=build",
                "/wheels",
                "/opt/rankmuster",
                *(f"--from=install-{one}" for one in TARGETS),
            }
        assert not [word for word, _ in lines if word == "ADD"]


def test_images_but_that_of_admission_hold_no_gpu_libraries() -> None:
    text = (PLACE / "Dockerfile").read_text(encoding="utf-8")
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert not re.search(r"cuda|nccl|nvidia|cu\d\d", code, re.IGNORECASE)
    with_torch = {stage for stage, lines in stages("Dockerfile").items() if any("torch" in rest for _, rest in lines)}
    assert with_torch == {"install-drill"}
    assert not [word for word, rest in stages("Dockerfile")["sidecar"] if "install-drill" in rest]


def test_what_each_image_installs_exists() -> None:
    table = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[project.optional-dependencies]")[1]
    extras = re.findall(r"^(\w+) = \[", table.split("\n[")[0], re.MULTILINE)
    installs = {
        stage.removeprefix("install-"): set(found[1].split(",")) if found else set()
        for stage, lines in stages("Dockerfile").items()
        if stage.startswith("install-")
        for found in [re.search(r"\.whl\)\[([\w,]+)\]", " ".join(rest for _, rest in lines))]
    }
    assert installs["controller"] == {"kubernetes", "postgres", "s3", "prometheus"}
    assert installs["sidecar"] == {"prometheus"}
    assert all(found <= set(extras) for found in installs.values())


def test_the_last_stage_is_the_sidecars_and_takes_the_arguments_of_inject() -> None:
    """`docker build` without --target makes what stands in every pod; inject gives arguments and no command."""
    assert list(stages("Dockerfile"))[-1] == "sidecar"
    assert ("ENTRYPOINT", '["rankmuster"]') in stages("Dockerfile")["sidecar"]


def test_the_context_is_what_is_copied() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines[1] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(COPIED)


def test_what_is_copied_is_enough_to_build_from(tmp_path: Path) -> None:
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("pip brings a newer setuptools to build with than there is here")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
            shutil.copytree(source, tmp_path / name, ignore=ignored)
        else:
            shutil.copy(source, tmp_path / name)
    command = [sys.executable, "-c", "import setuptools.build_meta as b; print(b.build_wheel('.'))"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "rankmuster/cli/kube.py" in names
    assert any(name.endswith(".css") for name in names)
    assert not [name for name in names if name.startswith(("tests", "tools"))]
