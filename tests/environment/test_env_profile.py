"""Profiles: right names for a version, nothing that it does not read, nothing that contradicts itself."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from itertools import product
from pathlib import Path

import pytest
import yaml
from build_env import NCCLS, TORCHES, profile, settings
from hypothesis import given
from hypothesis import strategies as st

from rankmuster.environment import render
from rankmuster.environment.check import check
from rankmuster.environment.contradiction import Severity
from rankmuster.environment.draft import ProfileName
from rankmuster.environment.place import FIRST_PORT, PORTS, Place, ras_port, safe_part, usable_folder
from rankmuster.environment.profile import Request, make_profile
from rankmuster.environment.read_file import read_bytes
from rankmuster.environment.subsystems import PER_CALL
from rankmuster.environment.table import TABLE
from rankmuster.environment.variable import Engine, Reader
from rankmuster.environment.version import at_least, parse_version
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import FaultClass, Subkind
from rankmuster.model.nccllog import NcclInterface
from rankmuster.model.stamp import unix

NAMES = [name.value for name in ProfileName]


@pytest.mark.parametrize(("name", "torch", "nccl"), list(product(NAMES, TORCHES, NCCLS[::3])))
def test_nothing_is_set_that_this_version_does_not_read(name: str, torch: str, nccl: str) -> None:
    made = profile(name, torch=torch, nccl=nccl)
    for setting in made.settings:
        row = TABLE[setting.name]
        version = {Reader.TORCH: parse_version(torch), Reader.NCCL: parse_version(nccl)}.get(row.reader)
        assert version is None or row.read_by(version)
        assert setting.reason
    assert not {item.name for item in made.left_out} & settings(made).keys()


@pytest.mark.parametrize(("name", "torch", "engine"), list(product(NAMES, TORCHES, [None, *Engine])))
def test_what_is_printed_contradicts_nothing(name: str, torch: str, engine: Engine | None) -> None:
    made = profile(name, torch=torch, engine=engine)
    given = read_bytes(render.as_shell(made).encode(), "printed")
    found = {one.code for one in check(given, parse_version(torch), (2, 28, 9), engine).all
             if one.severity is not Severity.NOTE}  # fmt: skip
    assert found <= ({"nccl2_backend"} if torch == "2.15" else set())


@pytest.mark.parametrize(
    ("torch", "present", "absent"),
    [
        ("2.4", {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_NCCL_TRACE_CPP_STACK"},
         {"TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_INCLUDE_STACK_TRACE"}),
        ("2.7", {"TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_INCLUDE_STACK_TRACE"}, {"TORCH_FR_CPP_STACK"}),
        ("2.8", {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_CPP_STACK"},
         {"TORCH_NCCL_TRACE_CPP_STACK", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}),
        ("2.11", {"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"}, set()),
    ],
)  # fmt: skip
def test_names_are_those_of_the_version(torch: str, present: set[str], absent: set[str]) -> None:
    named = settings(profile(torch=torch)).keys()
    assert present <= named
    assert not absent & named


def test_the_rings_two_copies_get_one_size() -> None:
    made = settings(profile(torch="2.11", buffer=12_345))
    assert made["TORCH_FR_BUFFER_SIZE"] == made["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "12345"


def test_profiles_grow() -> None:
    steady, preprod, incident = (settings(profile(name)) for name in NAMES)
    assert steady["TORCH_NCCL_ENABLE_TIMING"] == "0"
    assert preprod["TORCH_NCCL_ENABLE_TIMING"] == preprod["TORCH_NCCL_DESYNC_DEBUG"] == "1"
    sizes = [int(one["TORCH_FR_BUFFER_SIZE"]) for one in (steady, preprod, incident)]
    assert sizes == sorted(sizes)
    assert not PER_CALL & set(steady["NCCL_DEBUG_SUBSYS"].split(","))
    assert not PER_CALL & set(preprod["NCCL_DEBUG_SUBSYS"].split(","))


@pytest.mark.parametrize("name", NAMES)
def test_trace_is_never_set(name: str) -> None:
    for suspect in (None, *FaultClass, *Subkind):
        assert settings(profile(name, suspect=suspect))["NCCL_DEBUG"] == "INFO"


@pytest.mark.parametrize(
    ("suspect", "word"),
    [
        (FaultClass.COLLECTIVE_DESYNC, "COLL"),
        (FaultClass.TRANSPORT_STALL, "NET"),
        (FaultClass.PERFORMANCE_DEGRADATION, "TUNING"),
        (Subkind.WRONG_PATH, "GRAPH"),
        (Subkind.RESOURCE_LIMIT, "SHM"),
        (Subkind.FABRIC_NOT_READY, "NVLS"),
        (FaultClass.INIT_STUCK, "BOOTSTRAP"),
    ],
)
def test_an_incident_logs_what_fits_the_suspected_class(suspect: FaultClass | Subkind, word: str) -> None:
    assert word in settings(profile("incident", suspect=suspect))["NCCL_DEBUG_SUBSYS"].split(",")


def test_logging_every_call_is_warned_of() -> None:
    made = profile("incident", suspect=FaultClass.COLLECTIVE_DESYNC)
    assert any("logs every call" in warning for warning in made.warnings)
    assert any("TRACE" in hint and "never for good" in hint for hint in made.hints)


@pytest.mark.parametrize("entries", [1, 2000, 20_000, 500_000])
def test_heartbeat_outlasts_the_wait_for_a_dump(entries: int) -> None:
    for name in NAMES:
        made = settings(profile(name, buffer=entries))
        wait = int(made["TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"]) / 1000
        assert int(made["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"]) >= 4 * wait


def test_a_window_is_turned_into_entries_and_said_to_be_an_assumption() -> None:
    made = profile(window=3.0)
    assert settings(made)["TORCH_FR_BUFFER_SIZE"] == "15000"
    assert any("calibrate" in warning for warning in made.warnings)
    assert int(settings(profile(window=86_400.0))["TORCH_FR_BUFFER_SIZE"]) == 1_000_000


@pytest.mark.parametrize(
    ("nccl", "says"),
    [("2.23.4", "no RAS"), ("2.26.3", "during init"), ("2.28.9", "crash"), ("2.32.6", "1996")],
)
def test_ras_is_kept_on_with_the_warning_of_its_version(nccl: str, says: str) -> None:
    made = profile(nccl=nccl)
    assert any(says in warning for warning in made.warnings)
    assert ("NCCL_RAS_ENABLE" in settings(made)) == at_least(parse_version(nccl), (2, 24))


def test_without_an_incarnation_it_is_said_what_gets_lost() -> None:
    assert any("--incarnation" in warning for warning in profile(incarnation=None).warnings)


def test_versions_out_of_the_table_are_said() -> None:
    assert any("newer" in warning for warning in profile(torch="2.19").warnings)
    assert any("newer" in warning for warning in profile(torch="3.0").warnings)
    old = profile(torch="1.13", nccl="2.14")
    assert sum("older" in warning for warning in old.warnings) == 2
    assert {item.name for item in old.left_out} >= {"TORCH_NCCL_DUMP_ON_TIMEOUT", "NCCL_RAS_ADDR"}


def test_the_newer_backend_is_left_in_an_incident_and_warned_of_else() -> None:
    assert settings(profile("incident", torch="2.15"))["TORCH_DIST_USE_NCCL2"] == "0"
    assert any("nccl2" in warning for warning in profile("steady", torch="2.15").warnings)
    assert not any("nccl2" in warning for warning in profile("steady", torch="2.13").warnings)


def test_ray_workers_get_torchs_variables() -> None:
    made = settings(profile(engine=Engine.VLLM))
    prefixes = tuple(made["VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY"].split(","))
    assert all(name.startswith((*prefixes, "NCCL_", "VLLM_")) for name in made)


@pytest.mark.parametrize(
    ("engine", "words"), [(Engine.SGLANG, "--enable-metrics"), (Engine.VLLM, "--watchdog-config"),
                          (Engine.TRTLLM, "return_perf_metrics")]
)  # fmt: skip
def test_an_engines_own_switches_are_named(engine: Engine, words: str) -> None:
    assert any(words in hint for hint in profile(engine=engine).hints)


# ----- place


@given(st.text(min_size=1, max_size=300))
def test_any_name_becomes_a_safe_part_of_a_path(name: str) -> None:
    part = safe_part(name)
    assert part
    assert not part.startswith((".", "-"))
    assert len(part) <= 100
    assert all(c.isascii() and (c.isalnum() or c in "._+=@-") for c in part)


@given(st.text(min_size=1, max_size=120), st.text(min_size=1, max_size=120))
def test_two_names_stay_two(one: str, other: str) -> None:
    assert (one == other) == (safe_part(one) == safe_part(other))


@given(st.text(min_size=1, max_size=100))
def test_a_port_is_in_its_range_and_stays(name: str) -> None:
    assert FIRST_PORT <= ras_port(name) < FIRST_PORT + PORTS
    assert ras_port(name) == ras_port(name)


def test_the_port_of_a_name_never_changes() -> None:
    assert ras_port("llm-0") == 28163
    assert ras_port("llm-0") != ras_port("llm-1")


@pytest.mark.parametrize("folder", ["logs", "", "./x", "/a\nb", "/a\0b", "/" + "x" * 3000])
def test_unusable_folders_are_refused(folder: str) -> None:
    with pytest.raises(ValueError, match="folder"):
        usable_folder(folder)


# ----- forms


def sourced(text: str, home: Path) -> dict[str, str]:
    """What a POSIX shell makes of it."""
    out = subprocess.run(
        ["sh", "-c", 'set -eu; eval "$1"; env -0', "sh", text],
        capture_output=True, check=True, cwd=home, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    return dict(line.split("=", 1) for line in out.stdout.decode().split("\0") if line)


@pytest.mark.parametrize(
    "odd", ["plain", "with blank", "a'b\"c", "$(touch pwned)", "`id`", "50%", "ünïcode", "a;b&c|d"]
)
def test_shell_output_can_be_evaluated_whatever_the_folder_is_called(tmp_path: Path, odd: str) -> None:
    folder = tmp_path / odd
    made = profile("incident", folder=str(folder), instance=f"x {odd}", engine=Engine.VLLM)
    seen = sourced(render.as_shell(made), tmp_path)
    assert {name: seen[name] for name in settings(made)} == settings(made)
    assert Path(made.folders[0]).is_dir()
    assert not (tmp_path / "pwned").exists()
    assert Path(seen["TORCH_FR_DUMP_TEMP_FILE"]).parent.is_dir()


@pytest.mark.parametrize("folder", ["/var/log/x", "/a'b", '/a"b', "/a: b #c", "/a$(X)b", "/ü"])
def test_yaml_is_a_list_for_a_container(folder: str) -> None:
    made = profile("preprod", folder=folder)
    listed = yaml.safe_load(render.as_yaml(made))["env"]
    values = {item["name"]: item["value"].replace("$$(", "$(") for item in listed}
    assert values == settings(made)


def test_a_pod_brings_its_own_incarnation() -> None:
    place = Place("/evidence/$(HOME)", "llm-0", render.REFERENCE, variable=True)
    made = make_profile(Request(ProfileName.STEADY, (2, 11), (2, 28, 9), place))
    listed = yaml.safe_load(render.as_yaml(made))["env"]
    by_name = {item["name"]: item for item in listed}
    assert by_name["POD_UID"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.uid"
    path = by_name["TORCH_FR_DUMP_TEMP_FILE"]["value"]
    assert path == "/evidence/$$(HOME)/llm-0/$(POD_UID)/nccl_trace_rank_"
    names = [item["name"] for item in listed]
    assert names.index("POD_UID") < names.index("TORCH_FR_DUMP_TEMP_FILE")


def test_json_has_a_schema_and_a_reason_for_each() -> None:
    made = profile("steady", engine=Engine.SGLANG)
    document = json.loads(render.as_json(made))
    assert document["schema"] == "rankmuster.env/1"
    assert {item["name"]: item["value"] for item in document["settings"]} == settings(made)
    assert all(item["reason"] for item in document["settings"])


@pytest.mark.parametrize("form", [render.as_shell, render.as_yaml, render.as_json])
def test_every_form_is_read_back_by_the_check(form: object) -> None:
    made = profile("steady")
    (given,) = read_bytes(form(made).encode(), "printed")  # type: ignore[operator]
    assert given.values == settings(made)
    assert given.unknown == frozenset()


def test_a_percent_sign_of_the_folder_is_not_nccls() -> None:
    assert settings(profile(folder="/a%pb"))["NCCL_DEBUG_FILE"].startswith("/a%%pb/")


def test_the_stamps_asked_for_are_read_with_their_zone() -> None:
    """`%3f` and `_` as NCCL fills them in; what is left is strftime's."""
    stamp = settings(profile())["NCCL_DEBUG_TIMESTAMP_FORMAT"].replace("%3f", "250").replace("_", " ")
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    at = datetime.datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=zone)
    line = at.strftime(stamp) + "node7:1810:1810 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n"
    (seen,) = gather([Blob("nccl.log", line.encode())]).of(NcclInterface)
    assert seen.origin.stamp == unix(at.timestamp())
