"""What is evidence survives scrubbing byte for byte: every packed case and every public report is diagnosed alike."""

# ruff: noqa: E501  # lines as programs write them

from __future__ import annotations

import io
import re
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.collect.strip.addresses import Addresses
from rankmuster.collect.strip.text import Scrubber, scrub
from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather, load
from rankmuster.report import json_form

TESTS = Path(__file__).parents[2]
CASES = sorted((TESTS / "cases").glob("*/input.tar.zst"))
REPORTS = sorted(path.parent / "input" for path in (TESTS / "reports").glob("*/truth.json"))
_FOREIGN = re.compile(rb"(?:[0-9]{1,3}\.){3}[0-9]{1,3}")


def texts(archive: Path) -> Iterator[Blob]:
    """What of a packed case is put as text, and would be scrubbed."""
    unpacked = zstandard.ZstdDecompressor().stream_reader(archive.read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
        for member in tar:
            file = tar.extractfile(member)
            if file is not None:
                data = file.read()
                if b"\0" not in data[:4096] and not data.startswith(b"\x80"):
                    yield Blob(member.name, data)


@pytest.mark.parametrize("archive", CASES, ids=lambda path: path.parent.name)
def test_no_text_of_a_captured_case_is_changed(archive: Path) -> None:
    """Byte for byte, and so the verdict too."""
    changed = [blob.path for blob in texts(archive) if scrub(blob.data) != blob.data]
    assert changed == []


def test_no_report_is_diagnosed_differently() -> None:
    different = []
    for folder in REPORTS:
        blobs = [Blob(str(p.relative_to(folder)), p.read_bytes()) for p in sorted(folder.rglob("*")) if p.is_file()]
        scrubbed = [replace(blob, data=scrub(blob.data)) for blob in blobs]
        if [blob.data for blob in blobs] == [blob.data for blob in scrubbed]:
            continue
        if json_form.render(diagnose(gather(blobs)).verdict) != json_form.render(diagnose(gather(scrubbed)).verdict):
            different.append(folder.parent.name)
    assert different == []


EVIDENCE = (
    "NCCL version 2.28.9.1+cuda12.9",
    "NCCL version 2.28.9.1",
    "nvidia-nccl-cu12==2.28.9.1, cudnn 9.10.2.21, driver version: 570.86.15.1",
    "libcudnn.so.9.10.2.21 loaded from /usr/lib/nvidia_cudnn_cu12-9.10.2.21.dist-info",
    "n1:5890:5934 [0] NCCL INFO comm 0x5581e0 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 9b000 commId 0x3f2a9c1b3f2a9c1b",
    "n1:5890:5934 [0] NCCL INFO NET/Socket : Using [0]eth0:44.1.2.3<0>",
    "n1:5890:5934 [0] NCCL WARN NET/IB : Got completion from peer 44.1.2.3<55921> with status=12 (Send) "
    "localGid ::ffff:44.1.2.3 remoteGids::ffff:44.1.2.4",
    "[rank3]:[E1129 20:00:00.123456789 ProcessGroupNCCL.cpp:683] [Rank 3] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=751, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600021 milliseconds",
    "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 3/4 clients joined. key: worker/0",
    "NVRM: GPU at PCI:0000:9b:00: GPU-9f3d2c1a-1111-2222-3333-444455556666",
    "NVRM: Xid (PCI:0000:9b:00): 79, pid=1519, name=python3, GPU has fallen off the bus.",
    "(EngineCore pid=7) INFO 11-29 20:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 3 reqs",
    "[2026-11-29 20:00:00 TP3] Decode batch, #running-req: 5, #token: 812, token usage: 0.01, cuda graph: True",
    "frame #5: c10d::ProcessGroupNCCL::Watchdog::runLoop() + 0x5f (0x7f00deadbeef in /opt/lib/libtorch_cuda.so)",
    "GID 3: 0000:0000:0000:0000:0000:ffff:0a00:0001 fe80:0000:0000:0000:b8ce:f603:00aa:bbcc",
    "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "peer 10.0.0.7:29500 fe80::b8ce:f6ff:fe03:1 fd00::1 127.0.0.1 0.0.0.0 255.255.255.0 169.254.3.1 192.0.2.2",
    "RuntimeError: Basic authentication is off; bearer tokens are not used; the key is missing",
    "memcpy@GLIBC_2.14 nvidia-persistenced@0.service root@node7 user@1000.service",
    "gen_ai max_num_batched_tokens=8192, tokenizer='m', skip_tokenizer_init=False, eos_token_id=2",
    '{"time": 1795986475.43, "host": "192.0.2.2", "gpu": 0, "nvlink_tx_kib": 12333897, "pids": [5890]}',
    "mlx5_core 0000:0c:00.0: cmd_work_handler:1234:(pid 12): token: 0x3a, status",
    "pkey=0x8001 qkey: 0x80010000 rkey=0x1234 lkey: 0x5678 stop_token_ids=[1, 2]",
    "Barrier token=7 epoch=3; session id: 42; sync token: 17 seq 751; Ring token pass: rank 0 -> 1",
    "commit 0123456789abcdef0123456789abcdef01234567 in /usr/lib/python3/vllm/v1/worker/gpu/model/runner",
    "auth failed for user root from 10.0.0.1; credential helper not found; password file not found",
    "NCCL WARN Bootstrap: authentication token mismatch 0xdeadbeef from 10.0.0.8<33333>",
    'vllm:prompt_tokens_total{engine="0",model_name="m"} 8342.0',
)  # fmt: skip


@pytest.mark.parametrize("line", EVIDENCE, ids=lambda line: line[:30])
def test_evidence_stays_as_it_is(line: str) -> None:
    assert scrub(line.encode()) == line.encode()


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_scrubbed_once_and_for_all(data: bytes) -> None:
    once = scrub(data)
    assert scrub(once) == once
    assert once.count(b"\n") == data.count(b"\n")


_WORDS = st.sampled_from(
    ["prompt", "'", '"', "\\", ":", "=", " ", "\n", "token", "api_key", "[", "]", "{", "}", "(", "secret", "Bearer ",
     "Authorization", "***", "1.2.3.4", "44.5.6.7", ",", "text", "cmpl-", "-----BEGIN PRIVATE KEY-----", "key", "None",
     "-----END PRIVATE KEY-----", "AAAABBBBCCCCDDDDEEEE1234", "--", "://", "@", "user", "a.b", "<0>", "?", "&", "sig=",
     "hf_aaaaaaaaaaaaaaaaaaaa", "password", "b'", "cookie", "12", "2001:4860::", "::ffff:", "0808:0808", "é", "\r"]
)  # fmt: skip


@given(st.lists(_WORDS, max_size=30))
@settings(max_examples=600, deadline=None)
def test_any_mixture_of_what_rules_look_for_is_scrubbed_once_and_for_all(words: list[str]) -> None:
    data = "".join(words).encode()
    once = scrub(data)
    assert scrub(once) == once
    assert once.count(b"\n") == data.count(b"\n")


HOSTILE = {
    "letters": b"a" * (8 << 20),
    "backslashes": b"prompt: '" + b"\\" * (8 << 20),
    "open quotes": b"prompt:'" * (1 << 20),
    "brackets": b"prompt: " + b"[" * (4 << 20),
    "names": b"token=" * (1 << 20),
    "schemes": b"token: bearer " * (1 << 19),
    "keys": b"-----BEGIN PRIVATE KEY-----\n" * (1 << 18),
    "addresses": b"1.1.1.1." * (1 << 20),
    "colons": b"2001:" * (1 << 20),
    "users": b"://a:b" * (1 << 20),
    "mails": b"a@b.c." * (1 << 20),
    "unfinished": b"prompt: 'abc\n" * (1 << 19),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_megabytes_take_linear_time(data: bytes) -> None:
    """A quadratic rule would take hours; the bound is generous, since machines that run tests are busy."""
    begun = time.process_time()
    scrub(data[: 1 << 20])
    assert time.process_time() - begun < 60


def test_wide_text_is_scrubbed_in_its_own_encoding() -> None:
    line = "api_key=planted-key é\r\nNCCL INFO\r\n"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        assert scrub(line.encode(encoding)).decode(encoding) == "api_key=*** é\r\nNCCL INFO\r\n"


def test_a_text_over_several_lines_keeps_its_lines_and_ends_at_the_next_record() -> None:
    log = (
        b"INFO 11-29 20:00:00 [a.py:1] Received request cmpl-1: prompt: 'one\ntwo\n\nthree\n"
        b"INFO 11-29 20:00:01 [a.py:1] Engine 000: Running: 1 reqs\n"
    )
    assert scrub(log) == (
        b"INFO 11-29 20:00:00 [a.py:1] Received request cmpl-1: prompt: '***'\n***\n\n***\n"
        b"INFO 11-29 20:00:01 [a.py:1] Engine 000: Running: 1 reqs\n"
    )


@pytest.mark.parametrize("carrier", [b"(APIServer pid=7) ", b"2026-11-29T20:00:00.000Z stderr F ", b"vllm-1  | "])
def test_a_text_over_several_lines_is_masked_behind_what_is_put_before_each(carrier: bytes) -> None:
    log = [b"INFO 11-29 20:00:00 [a.py:1] x: prompt: 'one", b"two", b"three', n=1", b"INFO 11-29 20:00:01 [a.py:1] y"]
    after = scrub(b"\n".join(carrier + line for line in log)).split(b"\n")
    assert [line.removeprefix(carrier) for line in after[1:]] == [b"***", b"***, n=1", log[3]]


def test_a_foreign_address_has_one_name_on_all_nodes() -> None:
    first = Scrubber(Addresses(key=b"llm-0"))(b"from 44.5.6.7:1 and 44.5.6.7:2")
    second = Scrubber(Addresses(key=b"llm-0"))(b"to 44.5.6.7 port 3")
    name = first.split()[1].split(b":")[0]
    assert first == b"from %s:1 and %s:2" % (name, name)
    assert second == b"to %s port 3" % name
    assert name.startswith((b"198.18.", b"198.19."))


def test_the_instances_own_addresses_stay() -> None:
    rule = Scrubber(Addresses(own=frozenset({"44.5.6.7", "2607:F8B0::1"})))
    assert rule(b"44.5.6.7 44.5.6.8 2607:f8b0::1").split()[::2] == [b"44.5.6.7", b"2607:f8b0::1"]
    assert b"44.5.6.8" not in rule(b"44.5.6.7 44.5.6.8 2607:f8b0::1")


def test_a_cases_logs_can_be_read_with_all_addresses_replaced() -> None:
    """Mode `all`: parsers still work, and planes still join as long as every text is scrubbed."""
    from rankmuster.collect.strip.addresses import AddressMode

    rule = Scrubber(Addresses(AddressMode.ALL, key=b"x"))
    archive = TESTS / "cases" / "link-cut-two-nodes" / "input.tar.zst"
    before = diagnose(load(archive)).verdict
    after = diagnose(gather(replace(blob, data=rule(blob.data)) for blob in texts(archive))).verdict
    assert not any(b"10.77.0." in rule(blob.data) for blob in texts(archive))
    assert after.class_ == before.class_
    assert all(rule(rule(blob.data)) == rule(blob.data) for blob in texts(archive))


def test_one_line_of_megabytes_takes_linear_time() -> None:
    """Looking back from each name to the line's beginning takes sixteen times as long for four times as much."""

    def seconds(size: int) -> float:
        begun = time.process_time()
        scrub(b"prompt: 1, " * (size // 11))
        return time.process_time() - begun

    small = min(seconds(1 << 20) for _ in range(2))
    assert seconds(4 << 20) < 8 * small + 0.5
