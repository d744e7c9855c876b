"""A whole part that could not be read, as that part with every value Unknown for the same reason."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.model.node_path import ContainerFacts, CpuFacts, SoftwareFacts
from rankmuster.model.unknown import Unknown


def cpu(part: CpuFacts | Unknown) -> CpuFacts:
    """The part, or one of which nothing is known."""
    return CpuFacts(part, part, part, part, part) if isinstance(part, Unknown) else part


def software(part: SoftwareFacts | Unknown, image_digest: str | Unknown) -> SoftwareFacts:
    """The same; the image's digest comes from elsewhere."""
    if isinstance(part, Unknown):
        return SoftwareFacts(image_digest, part, part, part, part, part)
    return replace(part, image_digest=image_digest)


def container(reason: Unknown) -> ContainerFacts:
    """All of it unknown."""
    return ContainerFacts(reason, reason, reason, reason, reason, reason, reason, reason)
