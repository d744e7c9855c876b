"""ApprovedRelease: a record of the release gate. Its `document` is the record itself; the rest is for people."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rankmuster.kube.crd.base import Shape

MOST_DOCUMENT = 1 << 20
"""Characters: an object has to fit into etcd's 1.5 MiB."""


class ReleaseSpec(Shape):
    """`release`: whose record it is. `number`: its place in the chain, from 1. `previous`: hash of the one before it.
    `images`: of the containers, by digest where they are pinned. `to`: the approval that a roll-back or a measure is
    about. `document`: the record itself (rankmuster.release/1), which alone is believed."""

    release: Annotated[str, Field(max_length=63)]
    number: Annotated[int, Field(ge=1)]
    kind: Literal["approval", "served", "rollback"]
    made_at: str
    by: Annotated[str, Field(max_length=253)]
    reason: Annotated[str, Field(max_length=1024)] = ""
    hash: Annotated[str, Field(max_length=128)]
    previous: Annotated[str, Field(max_length=128)] | None = None
    to: Annotated[str, Field(max_length=128)] | None = None
    images: Annotated[tuple[Annotated[str, Field(max_length=1024)], ...], Field(max_length=64)] = ()
    versions: dict[str, Annotated[str, Field(max_length=253)]] = Field(default_factory=dict)
    document: Annotated[str, Field(max_length=MOST_DOCUMENT)]
