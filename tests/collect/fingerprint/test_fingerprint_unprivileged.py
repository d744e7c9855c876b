"""Without root, half of what matters may not be read: it is unknown then, never "off"."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from node_tree import ACS_ON, config_space, put, switched_node

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.fingerprint.pci_tree import read_tree
from rankmuster.evidence.pci_config import acs_redirects
from rankmuster.model.unknown import Unknown


def test_the_first_64_bytes_say_nothing_of_acs():
    """That is all that the kernel gives without CAP_SYS_ADMIN, of a file that says to be of 4096."""
    found = acs_redirects(config_space(ACS_ON)[:64], 4096, "0000:10:01.0")
    assert isinstance(found, Unknown)
    assert "64 of 4096 bytes" in found.reason
    assert "root" in found.reason


@pytest.mark.parametrize(
    ("config", "size", "expected"),
    [
        (config_space(ACS_ON), 4096, True),
        (config_space(0x40), 4096, False),  # direct translation alone redirects nothing
        (config_space(None), 4096, False),
        (config_space(None, 256), 256, False),
        (b"\0" * 64, 256, False),  # a conventional device has no extended capabilities at all
        (b"\0" * 4096, 4096, False),
    ],
)
def test_acs_is_read_from_the_list_of_capabilities(config, size, expected):
    assert acs_redirects(config, size, "x") is expected


@pytest.mark.parametrize(
    "config",
    [
        b"\xff" * 4096,  # a device that has fallen off the bus
        config_space(ACS_ON)[:0x152],
        config_space(None)[:0x100] + b"\x01\x00\x02\x10" + b"\0" * 3836,  # a list that leads back to its beginning
        config_space(None)[:0x100] + b"\x01\x00\x02\x05" + b"\0" * 3836,  # and one that leads out of the space
    ],
)
def test_a_damaged_space_is_unknown(config):
    assert isinstance(acs_redirects(config, 4096, "x"), Unknown)


def test_a_file_that_may_not_be_read_is_unknown(tmp_path):
    node = switched_node(tmp_path, 1)
    config = Path(os.path.realpath(node.sys / "bus/pci/devices/0000:10:01.0")) / "config"
    config.unlink()
    tree = {device.address: device for device in read_tree(node.sys, Deadline.after(5.0))}
    assert isinstance(tree["0000:10:01.0"].acs_redirects, Unknown)
    assert tree["0000:9a:00.0"].acs_redirects is False


@pytest.mark.skipif(os.geteuid() != 0, reason="to become somebody else takes root")
def test_nobody_gets_an_answer_too(tmp_path):
    """The whole as a user without rights, over this machine's own files; what is refused is unknown."""
    program = (
        "import os, time; from rankmuster.collect.fingerprint import take;"
        "from rankmuster.collect.machine import Machine; os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        "path = take(Machine(), deadline_s=8.0, environ={}, now=time.time, pid=1);"
        "print(type(path.nccl_settings).__name__, type(path.container.shm_bytes).__name__, path.sources[0])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("Unknown Unknown"), ran.stdout


def test_a_link_that_leads_nowhere_is_no_device(tmp_path):
    node = switched_node(tmp_path, 1)
    (node.sys / "bus/pci/devices/0000:ee:00.0").symlink_to("../../../devices/pci0000:ee/0000:ee:00.0")
    put(node.sys / "bus/pci/devices/odd", "")
    tree = {device.address: device for device in read_tree(node.sys, Deadline.after(5.0))}
    assert "odd" not in tree
    assert isinstance(tree["0000:ee:00.0"].numa, Unknown)
