"""NCCL's XML dumps: what the path is made of, read from whole, cut and hostile files."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.nccl_topology import READER
from rankmuster.model.nccllog import NcclTopology
from rankmuster.model.problem import ProblemKind

SYSTEM = """\
<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:18:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s" link_width="16">
      <pci busid="0000:1b:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="10" tclass="0x068000"/>
          <nvlink target="0000:08:00.0" count="8" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:1a:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="1" speed="10000" port="0" guid="0x0" maxconn="65536" gdr="0"/>
    </nic>
  </cpu>
</system>
"""
GRAPHS = """\
<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="12" speedinter="12" typeintra="NVL" typeinter="PIX" \
samechannels="1">
    <channel>
      <net dev="0"/>
      <gpu dev="0"/>
      <gpu dev="1"/>
    </channel>
  </graph>
  <graph id="1" pattern="1" crossnic="0" nchannels="4" typeintra="SYS" typeinter="PHB" samechannels="0"/>
</graphs>
"""


def read(content: str) -> Reading:
    return READER.read(Blob("topo.xml", content.encode()))


def test_a_topology_gives_gpus_with_their_links_and_nets_with_their_speed() -> None:
    assert read(SYSTEM).observations == (
        NcclTopology("topo.xml", ((0, "0000:1b:00.0", 18),), (("mlx5_0", 400.0, True), ("eth0", 10.0, False)), ()),
    )


def test_graphs_give_the_types_of_their_paths_and_no_devices() -> None:
    assert read(GRAPHS).observations == (NcclTopology("topo.xml", (), (), ("NVL/PIX", "SYS/PHB")),)


def test_a_cut_file_gives_what_stood_before_the_cut() -> None:
    reading = read(SYSTEM[: SYSTEM.index('<net name="eth0"')])
    (found,) = reading.observations
    assert isinstance(found, NcclTopology)
    assert len(found.gpus) == 1
    assert [p.kind for p in reading.problems] == [ProblemKind.DAMAGED]
    assert "1 GPUs, 1 nets" in reading.problems[0].message


@pytest.mark.parametrize(
    "head",
    [
        '<!DOCTYPE system [<!ENTITY a "aaaaaaaaaa">]>\n',
        '<?xml version="1.0"?><!doctype system SYSTEM "file:///etc/passwd">\n',
    ],
)
def test_a_document_type_is_refused_unread(head: str) -> None:
    reading = read(head + SYSTEM)
    assert reading.observations == ()
    assert [p.kind for p in reading.problems] == [ProblemKind.REFUSED]


def test_an_encoding_named_in_the_file_changes_nothing() -> None:
    assert read('<?xml version="1.0" encoding="utf-7"?>' + SYSTEM).known == 3


def test_endless_nesting_ends_early() -> None:
    began = time.process_time()
    reading = read('<system version="1">' + "<pci>" * 500_000)
    assert time.process_time() - began < 2.0
    assert "deeper" in reading.problems[0].message


def test_gigantic_numbers_are_not_believed() -> None:
    (found,) = read(SYSTEM.replace("400000", "4" * 5000)).observations
    assert isinstance(found, NcclTopology)
    assert found.nets[0] == ("mlx5_0", 0.0, True)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (SYSTEM, True),
        (GRAPHS, True),
        ('<?xml version="1.0"?>\n<!-- by hand -->\n' + SYSTEM, True),
        ("<!-- a --><!-- b -->" * 400 + "<nothing>", False),
        ('<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "x.dtd">\n<nvidia_smi_log><system x=""/>', False),
        ('a page about <system version="1">', False),
        ("", False),
    ],
)
def test_it_is_known_by_its_content(content: str, expected: bool) -> None:
    assert READER.recognises(Blob("x", content.encode())) is expected


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1500), st.integers(0, 1500), st.binary(max_size=30))
def test_damage_of_any_kind_is_survived(end: int, begin: int, noise: bytes) -> None:
    blob = Blob("x", SYSTEM[:end].encode() + noise + GRAPHS[begin:].encode())
    READER.recognises(blob)
    assert isinstance(READER.read(blob), Reading)
