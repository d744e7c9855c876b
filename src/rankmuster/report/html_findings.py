"""Findings and the evidence they rest on, tied together by anchors: finding -> reference -> picture, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankmuster.model.plane import Plane
from rankmuster.model.verdict import FindingRecord, Verdict
from rankmuster.report.page import Markup, join, link, prose, text

MAX_FINDINGS = 200
MAX_REFERENCES = 24
"""References listed under one finding."""

MAX_EVIDENCE = 600
"""References in the page's list of evidence."""


@dataclass(frozen=True, slots=True)
class Anchors:
    """What of the verdict has a place on the page. `order`: the findings shown, those that led to the verdict first."""

    order: tuple[FindingRecord, ...]
    left: int
    evidence: Mapping[str, int]  # reference -> number of its anchor
    evidence_left: int

    def for_plane(self, *planes: Plane) -> str | None:
        """The anchor of the first finding that rests on one of those planes, leading ones first."""
        for number, finding in enumerate(self.order, start=1):
            if finding.plane in planes:
                return f"finding-{number}"
        return None

    def leading(self) -> str | None:
        """The anchor of the first finding that led to the verdict."""
        return "finding-1" if self.order and self.order[0].led_to_verdict else None


def anchors(verdict: Verdict) -> Anchors:
    """Number findings and references, capped."""
    ordered = sorted(verdict.findings, key=lambda finding: not finding.led_to_verdict)
    shown = tuple(ordered[:MAX_FINDINGS])
    references: dict[str, int] = {}
    every = set()
    for finding in shown:
        for reference in finding.evidence[:MAX_REFERENCES]:
            every.add(reference)
            if reference not in references and len(references) < MAX_EVIDENCE:
                references[reference] = len(references) + 1
    return Anchors(shown, len(ordered) - len(shown), references, len(every) - len(references))


def source_of(reference: str) -> str:
    """The file of a reference: `flight/x#751` -> `flight/x`."""
    return reference.rsplit("#", 1)[0]


def _references(finding: FindingRecord, places: Anchors) -> Markup:
    shown = []
    for reference in finding.evidence[:MAX_REFERENCES]:
        number = places.evidence.get(reference)
        body = f"<code>{text(reference, 200)}</code>"
        shown.append(body if number is None else f'<a href="#evidence-{number}">{body}</a>')
    left = len(finding.evidence) - len(shown)
    if left > 0:
        shown.append(f"and {left} more")
    return Markup(f" · rests on {', '.join(shown)}") if shown else Markup("")


def _finding(number: int, finding: FindingRecord, places: Anchors) -> Markup:
    plane = f" · plane {text(finding.plane.value)}" if finding.plane is not None else ""
    lead = ' class="lead"' if finding.led_to_verdict else ""
    return Markup(
        f'<article class="finding" id="finding-{number}"><p{lead}>{prose(finding.statement)}</p>'
        f'<p class="refs">{text(finding.detector)}{plane}{_references(finding, places)}</p></article>'
    )


def findings_section(places: Anchors) -> Markup:
    """Those that led to the verdict, then the others."""
    parts = ['<section aria-labelledby="why"><h2 id="why">Why</h2>']
    if not places.order:
        parts.append('<p class="soft">No detector concluded anything.</p>')
    for led, heading in ((True, "Led to the verdict"), (False, "Also seen")):
        numbered = [
            (number, finding) for number, finding in enumerate(places.order, start=1) if finding.led_to_verdict is led
        ]
        if numbered:
            parts.append(f"<h3>{heading}</h3>")
            parts += [_finding(number, finding, places) for number, finding in numbered]
    if places.left:
        parts.append(f'<p class="soft">{places.left} more findings are in the JSON form only.</p>')
    parts.append("</section>")
    return Markup("\n".join(parts))


def evidence_section(places: Anchors, pictures: Mapping[str, str]) -> Markup:
    """Every reference once, with the findings that cite it and the picture that draws its file.

    `pictures`: source file -> anchor of the picture.
    """
    if not places.evidence:
        return Markup("")
    cited: dict[str, list[int]] = {}
    for number, finding in enumerate(places.order, start=1):
        for reference in dict.fromkeys(finding.evidence):
            cited.setdefault(reference, []).append(number)
    lines = []
    for reference, number in places.evidence.items():
        by = ", ".join(link(f"finding-{finding}", f"finding {finding}") for finding in cited[reference][:12])
        picture = pictures.get(source_of(reference))
        drawn = f" · {link(picture, 'picture')}" if picture is not None else ""
        lines.append(
            Markup(f'<li id="evidence-{number}"><code>{text(reference, 300)}</code> <small>{by}{drawn}</small></li>')
        )
    left = (
        f'<p class="soft">{places.evidence_left} more references are in the JSON form only.</p>'
        if places.evidence_left
        else ""
    )
    return Markup(
        '<section aria-labelledby="evidence"><h2 id="evidence">Evidence</h2>'
        '<p class="soft">Files as named in the bundle; after # the line, or the collective\'s sequence number.</p>'
        f'<ol class="evidence">{join(lines)}</ol>{left}</section>'
    )
