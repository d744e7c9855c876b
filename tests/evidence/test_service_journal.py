"""A fabric manager that was restarted, or that saw a switch fail, must not go unseen."""

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.service_journal import READER
from rankmuster.model.kernel import ServiceEvent, ServiceEventKind, SXid
from rankmuster.model.stamp import StampKind


def observe(text: str, path: str = "journal.txt"):
    return READER.read(Blob(path, text.encode())).observations


def test_a_restart_of_the_fabric_manager_is_a_stop_and_a_start():
    events = observe(
        "systemd[1]: Stopped nvidia-fabricmanager.service.\nsystemd[1]: Started nvidia-fabricmanager.service.\n"
    )
    assert [(e.service, e.kind) for e in events] == [
        ("nvidia-fabricmanager", ServiceEventKind.STOPPED),
        ("nvidia-fabricmanager", ServiceEventKind.STARTED),
    ]


@pytest.mark.parametrize(
    ("text", "service", "kind"),
    [
        ("Started nvidia-imex.service - NVIDIA IMEX service.", "nvidia-imex", "started"),
        ("Starting NVIDIA fabric manager service...", "nvidia-fabricmanager", "starting"),
        ("Stopping kubelet: The Kubernetes Node Agent...", "kubelet", "stopping"),
        ("Failed to start openibd.service - openibd - configure Mellanox devices.", "openibd", "failed"),
        ("Dependency failed for nvidia-dcgm.service.", "nvidia-dcgm", "failed"),
        ("nvidia-persistenced.service: Failed with result 'exit-code'.", "nvidia-persistenced", "failed"),
        (
            "nvidia-fabricmanager.service: Main process exited, code=killed, status=9/KILL",
            "nvidia-fabricmanager",
            "failed",
        ),
        ("slurmd.service: Scheduled restart job, restart counter is at 5.", "slurmd", "restarted"),
        ("containerd.service: A process of this unit has been killed by the OOM killer.", "containerd", "error"),
        ("opensm.service: Start request repeated too quickly.", "opensm", "failed"),
    ],
)
def test_what_systemd_says_of_services_that_bear(text, service, kind):
    (event,) = observe(f"Nov 29 10:00:00 a1 systemd[1]: {text}")
    assert (event.service, event.kind.value, event.origin.host) == (service, kind, "a1")
    assert event.origin.stamp.kind is StampKind.LOCAL_NO_YEAR


@pytest.mark.parametrize(
    "text",
    [
        "Started Session 12 of user root.",
        "Started cron.service - Regular background program processing daemon.",
        "Finished Daily apt upgrade and clean activities.",
        "nvidia-fabricmanager.service: Main process exited, code=exited, status=0/SUCCESS",
    ],
)
def test_the_rest_of_the_journal_is_left(text):
    assert observe(f"Nov 29 10:00:00 a1 systemd[1]: {text}") == ()


def test_systemd_in_dmesg_is_read_too():
    (event,) = observe("[   12.500000] systemd[1]: Started nvidia-persistenced.service.")
    assert (event.kind, event.origin.stamp.kind) == (ServiceEventKind.STARTED, StampKind.UPTIME)


def test_the_fabric_managers_own_log_names_the_switch_and_the_port():
    text = (
        "[Feb 27 2025 15:10:01] [INFO] [tid 1808] multicast group 1 is allocated.\n"
        "[Feb 27 2025 15:10:02] [ERROR] [tid 12727] detected NVSwitch "
        "fatal error 20034 on fid 0 on NVSwitch pci bus id "
        "00000000:86:00.0 physical id 3 port 33\n"
        "[Feb 27 2025 15:10:03] [ERROR] [tid 12727] failed to find "
        "the GPU handle 1 in the multicast team request setup 2\n"
    )
    switch, error = observe(text)
    assert isinstance(switch, SXid)
    assert (switch.code, switch.bus_id, switch.link, switch.fatal, switch.effect) == (
        20034,
        "0000:86:00",
        33,
        True,
        "partition",
    )
    assert switch.origin.stamp.kind is StampKind.LOCAL
    assert isinstance(error, ServiceEvent)
    assert (error.service, error.kind) == ("nvidia-fabricmanager", ServiceEventKind.ERROR)
    assert READER.read(Blob("x", text.encode())).known == 3


def test_the_same_through_the_journal():
    (switch,) = observe(
        "Nov 29 10:00:00 a1 nv-fabricmanager[9]: detected NVSwitch "
        "non-fatal error 12028 on fid 0 on NVSwitch pci bus id "
        "00000000:86:00.0 physical id 3 port 61"
    )
    assert (switch.origin.host, switch.effect, switch.fatal) == ("a1", "hang", False)


def test_imex_writes_the_same_shape_and_is_told_apart():
    (event,) = observe("[Feb 27 2025 15:10:02] [ERROR] [tid 1] IMEX node 3 lost its connection")
    assert event.service == "nvidia-imex"


def test_persistenced_without_devices_is_an_error():
    (event,) = observe(
        "nvidia-persistenced: Failed to query NVIDIA devices. Please ensure that the NVIDIA device files exist"
    )
    assert (event.service, event.kind) == ("nvidia-persistenced", ServiceEventKind.ERROR)
