"""A checklist as Markdown: a summary of a pipeline's run, a comment on a merge request."""

from __future__ import annotations

from rankmuster.model.release import Checklist, ItemResult, ItemState
from rankmuster.report.incident_markdown import escaped, prose
from rankmuster.report.release_words import WORDS, headline, moment, short, waiver_words


def render(checklist: Checklist) -> str:
    """A heading, a table of all items, and of each that does not pass what makes it pass."""
    lines = [
        f"## {escaped(headline(checklist))}",
        "",
        f"Checked {moment(checklist.made_at)} by rankmuster {escaped(checklist.version)}.",
        "",
        "| item | | what was found |",
        "|---|---|---|",
        *(_row(one) for one in checklist.results),
    ]
    for one in checklist.results:
        if one.state is not ItemState.PASS:
            lines += _chapter(one)
    lines += ["", "<details><summary>Evidence</summary>", ""]
    for one in checklist.results:
        for proof in one.proofs:
            lines.append(f"- {one.item.value}: {escaped(proof.name)} (`{short('sha256:' + proof.sha256)}`)")
    return "\n".join([*lines, "", "</details>", ""])


def _row(one: ItemResult) -> str:
    words = waiver_words(one)
    told = f"{one.statement} ({words})" if words else one.statement
    return f"| `{one.item.value}` | {WORDS[one.state]} | {escaped(told)} |"


def _chapter(one: ItemResult) -> list[str]:
    lines = ["", f"### `{one.item.value}`: {WORDS[one.state]}", "", prose(one.statement), ""]
    lines += [f"- {prose(detail)}" for detail in one.details]
    if one.note:
        lines += [f"- {prose(one.note)}"]
    if one.todo:
        lines += ["", "To do:", "", *(f"1. {prose(todo)}" for todo in one.todo)]
    return lines
