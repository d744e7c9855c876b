"""Archives within evidence: gzip, zstd and tar in any nesting, told by magic number, bounded, never written to disk."""

from __future__ import annotations

from collections.abc import Iterator

from rankmuster.evidence import plain_bytes
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.packed_stream import Allowance, PackedStream, packing_of
from rankmuster.evidence.tar_members import BLOCK, Member, MemberKind, TarDamage, looks_like_tar, members
from rankmuster.model.problem import Problem, ProblemKind

MAX_MEMBER_BYTES = 128 * 1024 * 1024
"""Of one unpacked file, as of one that is not packed (folder.MAX_FILE_BYTES)."""
MAX_DEPTH = 3
"""Archives within archives; a bundle that holds a node's tar.gz that holds packed logs needs 3."""
_NAMED = 5
"""Names listed in one problem."""


def printable(name: str) -> str:
    """A file's name as it may stand in a report: no control characters, no broken encoding."""
    return name if name.isprintable() else "".join(c if c.isprintable() else "?" for c in name)


def unpack(blob: Blob, allowance: Allowance) -> Iterator[Blob | Problem]:
    """The blob itself, or the files in it, each as soon as it is unpacked.

    Paths: `bundle.tar.gz!llm-0/logs/rank0.log` for members (also where a member's name is absolute or climbs: it is
    only a name); a lone compressed file keeps its own path. A damaged or oversized archive yields what could be had,
    then a Problem.
    """
    yield from _unpack(blob, allowance, MAX_DEPTH)


def _unpack(blob: Blob, allowance: Allowance, depth: int) -> Iterator[Blob | Problem]:
    packing = packing_of(blob.data)
    if packing is None and not looks_like_tar(blob.data[:BLOCK]):
        yield blob
        return
    if depth == 0:
        message = f"archives nested more than {MAX_DEPTH} deep are not unpacked; unpack it and give its folder"
        yield Problem(ProblemKind.REFUSED, blob.path, message)
        return
    stream = PackedStream(blob.data, packing, allowance)
    if looks_like_tar(stream.peek(BLOCK)):
        yield from _tar(blob.path, stream, allowance, depth)
        return
    data = stream.read(MAX_MEMBER_BYTES)
    longer = not stream.damage and not stream.refused and bool(stream.peek(1))
    if longer and plain_bytes.is_log(data):
        data, size = _both_ends(data, stream)
        yield Problem(ProblemKind.DAMAGED, blob.path, plain_bytes.left_out(size))
    elif longer:
        message = f"unpacks to more than {MAX_MEMBER_BYTES >> 20} MiB; only the beginning was read"
        yield Problem(ProblemKind.DAMAGED, blob.path, message)
    yield from _stopped(blob.path, stream, f"{len(data)} unpacked bytes were used")
    if data:
        yield from _unpack(Blob(blob.path, data), allowance, depth - 1)
    elif not stream.damage and not stream.refused:
        yield Blob(blob.path, b"")


def _both_ends(beginning: bytes, stream: PackedStream) -> tuple[bytes, int]:
    """(the first and last of a packed log, its size): the end is the part that matters."""
    half = plain_bytes.MAX_LOG_BYTES // 2
    head, tail, size = beginning[:half], beginning[-half:], len(beginning)
    while piece := stream.read(half):
        tail = (tail + piece)[-half:]
        size += len(piece)
    return plain_bytes.two_ends(head, tail), size


def _tar(path: str, stream: PackedStream, allowance: Allowance, depth: int) -> Iterator[Blob | Problem]:
    passed: dict[MemberKind, list[str]] = {}
    files = 0
    damage = None
    try:
        for member in members(stream.read, MAX_MEMBER_BYTES):
            allowance.members_left -= 1
            if allowance.members_left < 0:
                message = f"too many archive members; the {files} before {printable(member.name)!r} were used"
                yield Problem(ProblemKind.REFUSED, path, message)
                break
            if member.kind is not MemberKind.FILE:
                passed.setdefault(member.kind, []).append(printable(member.name))
                continue
            files += 1
            yield from _member(path, member, allowance, depth)
    except TarDamage as error:
        damage = str(error)
    for kind, names in passed.items():
        listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        message = f"{len(names)} archive member(s) that are a {kind.value} were not followed: {listed}"
        yield Problem(ProblemKind.REFUSED, path, message)
    if stream.damage or stream.refused:
        yield from _stopped(path, stream, f"{files} file(s) before that were used")
    elif damage:
        message = f"the archive is damaged: {printable(damage)}; {files} file(s) before that were used"
        yield Problem(ProblemKind.DAMAGED, path, message)


def _member(path: str, member: Member, allowance: Allowance, depth: int) -> Iterator[Blob | Problem]:
    name = f"{path}!{printable(member.name.removeprefix('./'))}"
    if member.size > MAX_MEMBER_BYTES and len(member.data) == MAX_MEMBER_BYTES:
        message = f"larger than {MAX_MEMBER_BYTES >> 20} MiB; only the beginning was read"
        yield Problem(ProblemKind.DAMAGED, name, message)
    elif len(member.data) < member.size:
        message = f"the archive ends inside it: {len(member.data)} of {member.size} bytes were used"
        yield Problem(ProblemKind.DAMAGED, name, message)
        if not member.data:
            return
    yield from _unpack(Blob(name, member.data), allowance, depth - 1)


def _stopped(path: str, stream: PackedStream, used: str) -> Iterator[Problem]:
    if stream.refused:
        yield Problem(ProblemKind.REFUSED, path, f"not unpacked to its end: {stream.refused}; {used}")
    elif stream.damage:
        yield Problem(ProblemKind.DAMAGED, path, f"packed data is damaged: {stream.damage}; {used}")
