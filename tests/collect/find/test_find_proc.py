"""/proc as it comes: odd names, foreign users, titles over variables, and what a process can put there on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_proc import FakeProc, vllm
from hypothesis import given
from hypothesis import strategies as st

from rankmuster.collect.proc import Proc
from rankmuster.collect.proc_text import parse_command, parse_environ, parse_stat, parse_status


def test_a_name_may_hold_anything() -> None:
    rest = b"S 1 2 3 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 7 0 12345 0 0"
    for name in (b"a) S 9 9 (b", b")", b"", b"(((", b"x\n) Z 1", "ü".encode(), b"\xff\xfe"):
        stat = parse_stat(b"42 (" + name + b") " + rest)
        assert stat is not None
        assert (stat.pid, stat.state, stat.parent, stat.threads, stat.start_ticks) == (42, "S", 1, 7, 12345)
        assert stat.comm == name.decode("utf-8", "replace")


@pytest.mark.parametrize(
    "data", [b"", b"42", b"42 (x", b"42 (x) S 1", b"x (x) " + b"1 " * 30, b"42 (x) S " + b"y " * 30]
)
def test_what_is_no_stat_is_nothing(data: bytes) -> None:
    assert parse_stat(data) is None


@given(st.binary(max_size=300))
def test_nothing_in_proc_can_break_a_parser(data: bytes) -> None:
    parse_stat(data)
    parse_environ(data)
    parse_status(data)
    parse_command(data)


def test_variables_are_what_getenv_gives() -> None:
    data = b"A=1\0A=2\0B=x=y\0C\0=D\0 E=1\0F.G=1\0H=\xff\0VLLM::Worker=1\0"
    assert parse_environ(data) == {"A": "1", "B": "x=y", "H": "\ufffd"}
    assert parse_environ(bytes(500)) == {}


def test_a_title_is_followed_by_nuls() -> None:
    assert parse_command(b"VLLM::Worker_TP0" + bytes(30)) == ("VLLM::Worker_TP0",)
    assert parse_command(b"python\0\0-x\0") == ("python", "", "-x")
    assert parse_command(bytes(30)) == ()


def test_pids_of_every_namespace() -> None:
    status = parse_status(b"Name:\tx\nUid:\t1000\t0\t0\t0\nNSpid:\t4711\t20\t1\n")
    assert status is not None
    assert (status.uid, status.pids) == (1000, (4711, 20, 1))
    old = parse_status(b"Pid:\t7\nUid:\t0\t0\t0\t0\n")
    assert old is not None
    assert old.pids == (7,)


def test_what_has_gone_is_none(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    assert proc.stat(1) is None
    assert proc.environ(1) is None
    assert proc.link(1, "root") is None
    assert list(proc.mapped_files(1)) == []
    assert Proc(tmp_path / "none").pids() == []


def test_a_proc_that_is_none(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.root = tmp_path / "nothing-here"
    found = fake.find()
    assert found.targets == ()
    assert any("lists no process" in note for note in found.notes)


def test_hostile_processes_break_nothing(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    vllm(fake, 100, "-tp", "2", workers=["VLLM::Worker_TP0", "VLLM::Worker_TP1"])
    fake.add(300, 301, ["python"], comm=") R 1 (")
    fake.add(301, 300, ["python"])  # a circle of parents
    fake.add(302, 302, ["VLLM::Worker_TP99999999999"], titled=True)
    fake.add(303, 1, ["python"], {"RANK": "-1", "WORLD_SIZE": "9" * 400, "MASTER_PORT": "x"})
    fake.add(304, 1, ["python"], {"RANK": "5", "WORLD_SIZE": "2"})
    fake.add(305, 1, ["python"], {"RANK": "0", "WORLD_SIZE": "\u0664"})  # a digit, and no number of Linux's
    fake.add(306, 1, ["sglang::scheduler_TP" + "1" * 5000], titled=True)
    fake.add(307, 1, ["\udcff\udcfe::Worker"])
    fake.add(308, 1, ["vllm", "serve", "--port", "99999999", "--tensor-parallel-size", "1000000", "-pp", "1000000"])
    fake.add(309, 1, ["python", "-m"])
    fake.add(310, 1, [""])
    (fake.root / "311").mkdir()
    (fake.root / "312").write_text("a file")
    (fake.root / "313").mkdir()
    (fake.root / "313" / "stat").write_bytes(b"\0" * 100)
    (fake.root / "313" / "environ").mkdir()
    found = fake.find()
    good = next(
        target for target in found.targets if target.name == "vllm-8000" or 100 in {p.pid for p in target.processes}
    )
    assert [process.rank for process in good.workers] == [0, 1]
    assert all(p.rank is None or 0 <= p.rank < 1_000_000 for target in found.targets for p in target.processes)


def test_a_pid_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = FakeProc(tmp_path / "proc").find(4711)
    assert found.targets == ()
    assert any("4711" in note for note in found.notes)


def test_a_server_cannot_send_us_to_another_host(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.add(100, 1, ["vllm", "serve", "m", "--host", "evil.example", "--port", "80"])
    fake.add(101, 1, ["vllm", "serve", "m", "--host=169.254.169.254", "--port=81"])
    fake.add(102, 1, ["vllm", "serve", "m", "--host", "10.0.0.7", "--port", "82"])
    trie = "Main:\n     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n"
    (fake.root / "102/net").mkdir()
    (fake.root / "102/net/fib_trie").write_text(trie)
    urls = [target.metrics_urls for target in fake.find().targets]
    assert urls == [
        ("http://127.0.0.1:80/metrics",),
        ("http://127.0.0.1:81/metrics",),
        ("http://10.0.0.7:82/metrics", "http://127.0.0.1:82/metrics"),
    ]


def test_a_pods_server_is_asked_at_the_pods_address(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.add(100, 1, ["vllm", "serve", "m"], network="net:[2]")
    (fake.root / "100/net").mkdir()
    (fake.root / "100/net/fib_trie").write_text("     |-- 10.1.0.9\n        /32 host LOCAL\n")
    (fake.root / "100/net/if_inet6").write_text(
        "fd000000000000000000000000000009 02 40 00 80 eth0\nfe80" + "0" * 28 + " 02 40 20 80 eth0\n"
    )
    (fake.root / "self/ns").mkdir(parents=True)
    (fake.root / "self/ns/net").symlink_to("net:[1]")
    (target,) = fake.find().targets
    assert target.metrics_urls == ("http://10.1.0.9:8000/metrics", "http://[fd00::9]:8000/metrics")


def test_nccl_and_the_engines_version(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    root = tmp_path / "container"
    packages = root / "opt/venv/lib/python3.12/site-packages"
    (packages / "vllm-0.33.0.dist-info").mkdir(parents=True)
    (packages / "vllm_flash_attn-9.dist-info").mkdir()
    libraries = "/opt/venv/lib/python3.12/site-packages/torch/lib/"
    fake.add(100, 1, ["vllm", "serve", "m"], links={"root": str(root)}, mapped=[libraries + "libtorch_cuda.so"])
    (target,) = fake.find().targets
    assert target.engine_version == "0.33.0"
    assert target.nccl_loaded is None  # torch can be built with NCCL inside
    assert target.processes[0].root == fake.root / "100/root"


def test_without_nccl_or_torch_there_is_none(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.add(100, 1, ["vllm", "serve", "m"], mapped=["/usr/lib/libc.so.6"])
    assert fake.find().targets[0].nccl_loaded is False


def test_a_pod_s_thousands_of_variables_hide_no_rank(tmp_path: Path) -> None:
    many = "".join(f"SERVICE_{n}_PORT=tcp://10.0.0.1:{n}\0" for n in range(60_000))
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "environ").write_bytes(f"{many}RANK=3\0WORLD_SIZE=8\0".encode())
    found = Proc(tmp_path).environ(7)
    assert found is not None
    assert (found["RANK"], found["WORLD_SIZE"]) == ("3", "8")
