"""A line without end is looked at as far as any line is: no word is sought a hundred times in what nobody shows."""

from __future__ import annotations

import time

import pytest

from rankmuster.evidence import kernel_log, text
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.node_path_readers import for_node_paths

LINE = b'{"schema":"rankmuster.benchmark/1","x":"' + b"a" * (64 << 20) + b'"}'


def test_a_document_on_one_line_is_given_up_early() -> None:
    began = time.process_time()
    assert [one.name for one in for_node_paths() if one.recognises(Blob("runs.json", LINE))] == []
    assert time.process_time() - began < 3  # some 6 s where every word is sought in all of it


def test_words_at_its_beginning_are_seen() -> None:
    begun = b"NVRM: Xid (PCI:0000:3b:00): 79, " + b"a" * (1 << 20)
    assert kernel_log.READER.recognises(Blob("kernel.log", begun))


@pytest.mark.parametrize("end", [b"\n", b"\r"])
def test_lines_behind_a_long_one_are_still_read(end: bytes) -> None:
    data = b"a" * (1 << 20) + end + b"kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus" + end
    assert text.seen(data) is data
    assert kernel_log.READER.recognises(Blob("kernel.log", data))
