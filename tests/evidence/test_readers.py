"""The registry: a format that is not in it is never read."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from rankmuster import evidence
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.readers import all_readers


def test_every_reader_of_the_package_is_registered_once():
    written: list[Reader] = []
    for info in pkgutil.iter_modules(evidence.__path__):
        module = import_module(f"{evidence.__name__}.{info.name}")
        written.extend(getattr(module, "READERS", ()) or filter(None, [getattr(module, "READER", None)]))
    registered = all_readers()
    assert sorted(reader.name for reader in written) == sorted(reader.name for reader in registered)
    assert len({reader.name for reader in registered}) == len(registered)


def test_documents_are_asked_before_lines():
    kinds = [reader.kind for reader in all_readers()]
    assert kinds == sorted(kinds, key=lambda kind: kind is ReaderKind.LINES)


def test_no_reader_raises_on_nothing_or_noise():
    for data in (b"", b"\0", b"\n", b"{}", b"[]", b"\xff\xfe\x00", b"\x80\x02.", bytes(range(256)) * 40):
        for reader in all_readers():
            reader.recognises(Blob("x", data))
            assert isinstance(reader.read(Blob("x", data)), Reading)
