"""Network addresses in free text: which stay, and what stands for the others.

The instance's own addresses stay, since the diagnosis joins planes by them. Others get a pseudonym that is an address
too (RFC 2544's 198.18.0.0/15, RFC 3849's 2001:db8::/32), so that every parser still works, and that is the same on
every node, so that merged bundles still join. 2^17 pseudonyms stand for 2^32 addresses: two may coincide.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from rankmuster.collect.wishes import AddressMode

_V4 = re.compile(rb"(?<![0-9A-Za-z.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z])(?!\.[0-9])")
_NCCL_V4 = re.compile(rb"(?<![0-9A-Za-z_.])((?:[0-9]{1,3}\.){3}[0-9]{1,3})<[0-9]{1,5}>")
# Global unicast is 2000::/3, which keeps times, PCI addresses, GUIDs and C++ names out.
_V6 = re.compile(rb"(?<![0-9A-Za-z_:.])[23][0-9A-Fa-f]{3}:(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{0,4}(?![0-9A-Za-z_:])")
_NCCL_V6 = re.compile(rb"(?<![0-9A-Za-z_:.])([23][0-9A-Fa-f]{3}:[0-9A-Fa-f:]{2,40})<[0-9]{1,5}>")
_PRIVATE_V6 = re.compile(
    rb"(?<![0-9A-Za-z_:.])f[cd][0-9A-Fa-f]{2}:(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{0,4}(?![0-9A-Za-z_:])"
)
_MAPPED = re.compile(
    rb"(?<![0-9A-Za-z_])((?:0{1,4}:){5}|::)([fF]{4}:)([0-9A-Fa-f]{1,4}):([0-9A-Fa-f]{1,4})(?![0-9A-Za-z_:])"
)
_OWN_GID = re.compile(
    rb"Gids?\s{0,2}:{0,2}(?:[fF]{4}:)?((?:[0-9]{1,3}\.){3}[0-9]{1,3}|[23][0-9A-Fa-f]{3}:[0-9A-Fa-f:]{2,40})"
)
"""As NCCL names the two ends of a connection: `localGid ::ffff:10.0.0.7 remoteGids::ffff:10.0.0.8`."""
_VERSION_BEFORE = re.compile(
    rb"(?:version|\bver|release|nccl|cudnn|cuda|cublas|driver|firmware|\bfw|torch|python|kernel|build|plugin|ofed|ucx|"
    rb"[=~<>!]=|\bv|[A-Za-z]-?py\d?)[\s:='\"(\[,-]{0,4}$",
    re.IGNORECASE,
)
_VERSION_AFTER = re.compile(
    rb"(?:\+|-(?:py|cp|\d{1,3}(?![\d.]))|\.(?:dist-info|so|whl|tar|zip|deb|rpm|el\d|x86_64|post|dev|rc))"
)
_BEFORE = 32
"""Bytes before an address in which a word that makes it a version stands."""

_PUBLIC_HOLES = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
    )
)  # fmt: skip
"""Not public (IANA's special-purpose registry); written out since Python's own list differs by version."""
_MOSTLY_PRIVATE = (b"10.", b"127.", b"192.168.", b"0.", b"169.254.")
"""Of `_PUBLIC_HOLES`, what a look at the text decides: logs of servers hold little else."""
_TELL_NOTHING = tuple(
    ipaddress.IPv4Network(text)
    for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "198.18.0.0/15", "224.0.0.0/3")
)


def _bits(networks: Iterable[ipaddress.IPv4Network]) -> tuple[tuple[int, int], ...]:
    """(base, mask) of each: ten times as fast as asking the network."""
    return tuple((int(network.network_address), int(network.netmask)) for network in networks)


_PUBLIC_HOLES_BITS, _TELL_NOTHING_BITS = _bits(_PUBLIC_HOLES), _bits(_TELL_NOTHING)
_DOCUMENTATION = ipaddress.IPv6Network("2001:db8::/32")
_V4_BASE = int(ipaddress.IPv4Address("198.18.0.0"))
_V6_BASE = int(_DOCUMENTATION.network_address)


@dataclass(frozen=True)
class Addresses:
    """The rule. `own`: the instance's own addresses, as text; `key`: what makes pseudonyms of one instance differ from
    another's (its name), the same on all of its nodes."""

    mode: AddressMode = AddressMode.FOREIGN
    own: frozenset[str] = frozenset()
    key: bytes = b""

    def scrub(self, data: bytes) -> bytes:
        """`data` with the addresses replaced that may not stay. Those that NCCL writes with a port (`10.0.0.7<4971>`)
        are the instance's own: only its members talk so. The GIDs of its connections are, too."""
        if self.mode is AddressMode.KEEP:
            return data
        own = self.own
        if self.mode is AddressMode.FOREIGN:
            forms = (*((_NCCL_V4, _NCCL_V6) if b"<" in data else ()), *((_OWN_GID,) if b"Gid" in data else ()))
            found = {match.group(1) for form in forms for match in form.finditer(data)}
            own = own | {text.decode() for text in found}
        spoken = _Spoken(self, frozenset(canonical(text) for text in own))
        data = _V4.sub(spoken.v4, data)
        if b":" not in data:
            return data
        data = _V6.sub(spoken.v6, data)
        if self.mode is AddressMode.ALL:
            data = _PRIVATE_V6.sub(spoken.v6, data)
        return _MAPPED.sub(spoken.mapped, data)

    def pseudonym(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
        """What stands for an address."""
        digest = hmac.new(self.key or b"rankmuster", address.packed, hashlib.sha256).digest()
        if isinstance(address, ipaddress.IPv4Address):
            return str(ipaddress.IPv4Address(_V4_BASE + int.from_bytes(digest[:4], "big") % (1 << 17)))
        return str(ipaddress.IPv6Address(_V6_BASE + int.from_bytes(digest[:12], "big")))


class _Spoken:
    """One pass over one text: remembers what it decided, since logs name the same addresses thousands of times."""

    def __init__(self, rule: Addresses, own: frozenset[str]) -> None:
        self._rule = rule
        self._own = own
        self.replacement = functools.lru_cache(maxsize=65_536)(self._replacement)

    def v4(self, match: re.Match[bytes]) -> bytes:
        text = match.group()
        replacement = self.replacement(text)
        if replacement is None or _is_version(match):
            return text
        return replacement

    def v6(self, match: re.Match[bytes]) -> bytes:
        return self.replacement(match.group()) or match.group()

    def mapped(self, match: re.Match[bytes]) -> bytes:
        """IPv4 in an IPv6 GID: `0000:0000:0000:0000:0000:ffff:0a00:0001`."""
        high, low = int(match.group(3), 16), int(match.group(4), 16)
        inner = self.replacement(str(ipaddress.IPv4Address(high << 16 | low)).encode())
        if inner is None:
            return match.group()
        number = int(ipaddress.IPv4Address(inner.decode()))
        return b"%s%s%04x:%04x" % (match.group(1), match.group(2), number >> 16, number & 0xFFFF)

    def _replacement(self, text: bytes) -> bytes | None:
        """None: it stays."""
        if self._rule.mode is AddressMode.FOREIGN and text.startswith(_MOSTLY_PRIVATE):
            return None
        try:
            address = ipaddress.ip_address(text.decode())
        except ValueError:
            return None
        if str(address) in self._own:
            return None
        if isinstance(address, ipaddress.IPv4Address):
            holes = _TELL_NOTHING_BITS if self._rule.mode is AddressMode.ALL else _PUBLIC_HOLES_BITS
            number = int(address)
            if any(number & mask == base for base, mask in holes):
                return None
        elif address in _DOCUMENTATION:
            return None
        return self._rule.pseudonym(address).encode()


def _is_version(match: re.Match[bytes]) -> bool:
    data, start, end = match.string, match.start(), match.end()
    if _VERSION_AFTER.match(data, end):
        return True
    line = data.rfind(b"\n", max(start - _BEFORE, 0), start) + 1
    return _VERSION_BEFORE.search(data[max(start - _BEFORE, line) : start]) is not None


def canonical(text: str) -> str:
    """An address in its usual spelling; anything else as it is."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text
