"""Captures that were made in another language than English, or with decimal commas: named, and not read.

`lscpu` and `df` translate their words, and some wrappers print numbers with the locale's comma: `26,562 GB/s` would be
26 or 26562 to a guess. Whoever captures again with LC_ALL=C gets what every reader knows. A listing of a whole fabric
is of no node either, and is named in the same way.
"""

from __future__ import annotations

import re

from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.text import head
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

_ARCHITECTURE: tuple[str, ...] = (
    "Architektur",
    "Architecture ",
    "Arquitectura",
    "Arquitetura",
    "Architettura",
    "Architectuur",
)
_ARCHITECTURE += ("Архитектура", "架构", "架構", "アーキテクチャ", "아키텍처")  # as the tool writes them
_FILE_SYSTEM: tuple[str, ...] = (
    "Dateisystem",
    "Sys. de fichiers",
    "Système de fichiers",
    "S.ficheros",
    "Sist. Arq.",
    "Bestandssysteem",
)
_FILE_SYSTEM += ("Файл.система", "文件系统", "檔案系統", "ファイルシス", "파일 시스템")  # as above


def _words(words: tuple[str, ...]) -> str:
    return "|".join(re.escape(word) for word in words)


LOCALE = (
    (re.compile(r"^\s*Link \d{1,3}: \d{1,4},\d{1,6} GB/s", re.M), "NVLink speeds with a decimal comma"),
    (re.compile(rf"^(?:{_words(_ARCHITECTURE)})\s{{0,4}}[:\uff1a]\s*\S", re.M), "lscpu in another language"),
    (re.compile(rf"^(?:{_words(_FILE_SYSTEM)})\s+\S", re.M), "df in another language"),
    (re.compile(r"^\S{1,200}\s+\d{1,5},\d[KMGTP]\s.{0,200}/dev/shm\s*$", re.M), "df with a decimal comma"),
    (re.compile(r"(?:[Ss]peed\s?[=:]?\s?)\d{1,3},\d ?GT/s"), "PCIe speeds with a decimal comma"),
)
FABRIC = (
    (re.compile(r"^switchguid=0x[0-9a-f]{16}", re.M), "ibnetdiscover"),
    (re.compile(r"^VM_hostname \S{1,80}\s*\r?\n[0-9a-f]{16}\s*$", re.M), "GUIDs of many hosts"),
)


def _found(blob: Blob, signs: tuple[tuple[re.Pattern[str], str], ...]) -> list[str]:
    text = head(blob.data)
    return list(dict.fromkeys(what for sign, what in signs if sign.search(text)))


def _recognises(blob: Blob) -> bool:
    return bool(_found(blob, LOCALE) or _found(blob, FABRIC))


def _read(blob: Blob) -> Reading:
    foreign = _found(blob, LOCALE)
    if foreign:
        message = (
            f"{' and '.join(foreign)}: it was captured in another locale and was not read, since a guess at its "
            "numbers could be wrong; capture it again with LC_ALL=C"
        )
    else:
        message = (
            f"a listing of a whole fabric ({' and '.join(_found(blob, FABRIC))}), which tells nothing of a node; give "
            "ibv_devinfo or ibstat of the node"
        )
    return Reading((), (Problem(ProblemKind.REFUSED, blob.path, message),), 1)


PART = Reader("foreign-capture", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
