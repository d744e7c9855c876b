"""A capture of /sys/class/net -> `CapturedInterfaces`: one line a file, or two lines an interface.

/sys/class/net/eth0/speed: 100000                  (`grep . /sys/class/net/*/speed`)
/sys/class/net/eth0 up 100000 0                    (operstate, speed, NUMA node of its device)
/sys/devices/pci0000:00/0000:00:03.0/virtio2       (where its device is, on the next line)
"""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.prompts import host_of_prompt
from rankmuster.evidence.text import head, lines
from rankmuster.model.captured_path import CapturedInterfaces
from rankmuster.model.node_path import NicPath, NicPort
from rankmuster.model.plane import Plane
from rankmuster.model.unknown import Unknown

MAX_INTERFACES = 1024
_FILES = ("operstate", "speed", "mtu", "numa_node", "device")
_NOT_BETWEEN_HOSTS = re.compile(
    r"(?:lo|docker|br-|virbr|veth|cni|cali|flannel|cilium|lxc|kube|ifb|dummy|sit|tunl|ip6tnl|gre|erspan|tun|tap|vxlan)"
)
_INTERFACE = r"[A-Za-z][\w.\-@]{0,30}"
_FILE = re.compile(rf"^\s*/sys/class/net/({_INTERFACE})/(?:device/)?(\w{{1,30}})\s?[:=](.{{0,200}})$")
_SHORT = re.compile(
    rf"^\s*/sys/class/net/({_INTERFACE})\s+(up|down|unknown|dormant|lowerlayerdown)((?:\s+-?\d{{1,9}}){{0,2}})\s*$"
)
_DEVICE = re.compile(r"^\s*(/sys/devices/\S{1,600})\s*$")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_SIGN = re.compile(rf"^\s*/sys/class/net/{_INTERFACE}(?:/\w{{1,30}}\s?[:=]|\s+(?:up|down|unknown))", re.MULTILINE)

LEAST_SPEED = 10
"""Mb/s: a single number beside the state is a speed from here on, and may be a NUMA node below."""


def _recognises(blob: Blob) -> bool:
    return _SIGN.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    host = names.host_of(blob.path)
    found: dict[str, dict[str, str]] = {}
    last: str | None = None
    known = 0
    for _, line in lines(blob.data):
        host = host_of_prompt(line) or host
        short, file, device = _SHORT.match(line), _FILE.match(line), _DEVICE.match(line)
        named = short or file
        if named and named.group(1) not in found and len(found) >= MAX_INTERFACES:
            last = None
            continue
        if short:
            last = short.group(1)
            entry = found.setdefault(last, {})
            entry["operstate"] = short.group(2)
            numbers = short.group(3).split()
            if len(numbers) == 2:
                entry["speed"], entry["numa_node"] = numbers
            elif numbers and int(numbers[0]) >= LEAST_SPEED:
                entry["speed"] = numbers[0]
        elif file:
            last = file.group(1)
            entry = found.setdefault(last, {})
            if file.group(2) in _FILES:
                entry[file.group(2)] = file.group(3).strip()
        elif device and last is not None:
            found[last]["device"] = device.group(1)
        else:
            continue
        known += 1
    nics = tuple(_nic(name, said, blob.path) for name, said in found.items() if not _NOT_BETWEEN_HOSTS.match(name))
    return Reading((CapturedInterfaces(blob.path, host, nics),) if known else (), (), known)


def _nic(name: str, said: dict[str, str], source: str) -> NicPath:
    unknown = Unknown(f"{source} does not say it")
    device = said.get("device", "")
    addresses = [part for part in device.split("/") if _ADDRESS.fullmatch(part)]
    virtual = "/virtual/" in device
    speed = said.get("speed", "")
    numa, mtu = said.get("numa_node", ""), said.get("mtu", "")
    port = NicPort(
        port=1,
        state=said.get("operstate") or unknown,
        link_layer="Ethernet",
        rate_gbps=int(speed) / 1000 if re.fullmatch(r"[1-9]\d{0,8}", speed) else unknown,
        mtu=int(mtu) if re.fullmatch(r"\d{1,6}", mtu) else unknown,
        gids=(),
    )
    return NicPath(
        name=name,
        rdma=False,
        address=addresses[-1] if addresses else None if virtual else unknown,
        model="virtual" if virtual else unknown,
        firmware=unknown,
        guid=Unknown("an Ethernet interface has none"),
        numa=int(numa) if re.fullmatch(r"-?\d{1,5}", numa) else unknown,
        netdev=name,
        ports=(port,),
    )


PART = Reader("sys-net", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
