"""The HTML page is one safe file that answers at a glance and ties its pictures to its findings."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

from rankmuster.model.fault import Role, Subkind
from rankmuster.model.job import Group, Job, Rank
from rankmuster.model.verdict import FindingRecord, Verdict
from rankmuster.report.html import render

VOID = {"meta", "br", "link", "input", "img", "hr"}


class Page(HTMLParser):
    """What a browser would see: every tag must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def check_safe(page: Page) -> None:
    """No script, no handler, no address beyond the page; every link within it arrives; ids are unique."""
    assert not page.tags.keys() & {"script", "iframe", "object", "embed", "link", "img", "form", "base"}
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    ids = Counter(page.values("id"))
    assert [name for name, count in ids.items() if count > 1] == []
    for _, name, value in page.attributes:
        if name in ("href", "src", "xlink:href", "action", "srcset", "data"):
            assert value.startswith("#")
            assert value[1:] in ids
        if name in ("aria-labelledby", "aria-describedby"):
            assert set(value.split()) <= set(ids)
    assert page.values("content")[0] == "default-src 'none'; style-src 'unsafe-inline'"


def test_the_heading_names_the_culprit_and_where_it_is(verdict: Verdict, job: Job) -> None:
    page = Page(render(verdict, job))
    start = page.text.index("Culprit: rank 2")
    assert "host 10.0.0.7, pid 1519, GPU 2" in page.text[start : start + 120]
    for word in ("collective_desync/missing_enter", "confirmed", "stopped", "process group"):
        assert word in page.text


def test_it_is_safe_and_whole(verdict: Verdict, job: Job) -> None:
    text = render(verdict, job)
    check_safe(Page(text))
    assert "http://" not in text
    assert "https://" not in text
    assert not re.search(r"@import|expression\(|javascript:", text)
    assert set(re.findall(r"url\(([^)]*)\)", text)) <= {"#p-started", "#p-entered", "#p-failed", "#p-overwritten"}


HOSTILE = [
    '<script>alert(1)</script>"onload="x',
    "</style><img src=x onerror=alert(1)>",
    '<svg/onload=alert(1)>\'><a href="javascript:x">',
    "]]><!--",
    "&lt;script&gt; `</code><script>`",
    "\x1b[31m\x00\udcff",
]


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_words_anywhere_are_only_words(by_hand: SimpleNamespace, word: str) -> None:
    job = by_hand.job(host=word, group=word)
    table = replace(job.dumps[0].columns, ops=(f"nccl:{word}",))
    job = replace(job, dumps={**job.dumps, 0: replace(job.dumps[0], columns=table, source=f"flight/{word}")})
    text = render(by_hand.verdict(word, word, word), job)
    page = Page(text)
    check_safe(page)
    assert text.encode("utf-8")
    assert "\x1b" not in text
    calm = Page(render(by_hand.verdict(), by_hand.job()))
    assert set(page.tags) == set(calm.tags)


def test_pictures_have_words_and_tables_have_headers(verdict: Verdict, job: Job) -> None:
    text = render(verdict, job)
    page = Page(text)
    assert page.tags["figure"] == page.tags["figcaption"] > 4
    assert page.tags["table"] == page.tags["caption"] == 2
    assert "col" in page.values("scope")
    assert "row" in page.values("scope")
    pictures = re.findall(r'<svg viewBox="0 0 1\d{3}.*?</svg>', text, flags=re.S)
    assert len(pictures) == page.tags["figure"]
    for picture in pictures:
        assert "<desc" in picture
        assert "<title" in picture


def test_the_missing_cell_is_marked_and_links_to_its_finding(verdict: Verdict, job: Job) -> None:
    text = render(verdict, job)
    box = re.search(r'<a href="#(finding-\d+)">\s*<rect class="m-missing".*?</a>', text, flags=re.S)
    assert box is not None
    assert "#751" in box.group()
    target = text.index(f'id="{box.group(1)}"')
    assert "Rank 2 has nothing outstanding" in text[target : target + 300]
    assert text.count('<rect class="m-missing"') == 2  # the cell and its legend
    assert "missing on 2" in text


def test_findings_evidence_and_pictures_are_tied_both_ways(verdict: Verdict, job: Job) -> None:
    text = render(verdict, job)
    found = re.search(r'<li id="(evidence-\d+)"><code>flight/nccl_trace_rank_0#751</code>.*?</li>', text)
    assert found is not None
    assert f'href="#{found.group(1)}"' in text
    assert 'href="#finding-1"' in found.group()
    assert 'href="#group-0"' in found.group()
    assert '<figure id="group-0"' in text


def test_states_differ_by_pattern_and_word_not_by_colour_alone(verdict: Verdict, job: Job) -> None:
    text = render(verdict, job)
    for words in ("finished", "started, not finished", "entered, not finished", "missing"):
        assert f">{words}</li>" in text
    assert ".m-started{fill:url(#p-started)" in text
    assert "◆ rank 2" in text


def test_the_fault_is_marked_on_every_picture_of_the_common_axis(verdict: Verdict, job: Job) -> None:
    text = render(verdict, job)
    common = text[text.index('id="timeline"') :]
    pictures = common.count("<figure")
    assert pictures == 6  # in flight, RAS, engine, three of the GPUs
    assert common.count('class="fault"') == pictures


def test_ras_counts_show_who_is_behind_by_how_much(verdict: Verdict, job: Job) -> None:
    text = render(verdict, job)
    ras = text[text.index('<figure id="ras"') :]
    ras = ras[: ras.index("</figure>")]
    assert "−5" in ras
    assert ras.count("ring-culprit") == 3
    assert ras.count('class="dot"') == 9


def test_a_rank_that_entered_another_operation_is_shown_as_differing(
    verdict: Verdict, job: Job, by_hand: SimpleNamespace
) -> None:
    same = {rank: by_hand.dump(rank, by_hand.columns(755, 750)) for rank in (0, 1, 3)}
    other = by_hand.columns(755, 750, ops=("nccl:all_reduce", "nccl:all_gather"))  # odd numbers gather
    views = {key: replace(view, issued=755) for key, view in job.views.items()}
    first = verdict.first_divergence
    assert first is not None
    mismatch = replace(
        verdict,
        subclass=Subkind.OP_MISMATCH,
        first_divergence=replace(first, missing=(), entered=(0, 1, 2, 3)),
    )
    text = render(mismatch, replace(job, dumps={**same, 2: by_hand.dump(2, other)}, views=views))
    check_safe(Page(text))
    assert ">differs</text>" in text
    assert "all_gather differs on 2" in text


def test_a_large_job_is_bounded_and_says_what_was_left_out(verdict: Verdict, job: Job) -> None:
    members = tuple(range(512))
    ranks = tuple(Rank(rank, f"10.0.{rank // 8}.1", 9000 + rank, rank % 8) for rank in members)
    dumps = {rank: replace(job.dumps[2 if rank == 2 else 0], rank=rank, source=f"f/{rank}") for rank in members}
    groups = tuple(Group(key, str(key), f"group{key}", members) for key in range(40))
    big = replace(job, ranks=ranks, dumps=dumps, groups=groups, views={}, dump_facts={}, world_size=512)
    many = tuple(
        FindingRecord(detector="d", statement=f"s{n}", evidence=tuple(f"a/{n}#{i}" for i in range(100)))
        for n in range(1000)
    )
    text = render(replace(verdict, findings=many), big)
    assert len(text) < 1_000_000
    page = Page(text)
    check_safe(page)
    assert "496 of 512 ranks" in page.text
    assert "800 more findings" in page.text
    assert "more references are in the JSON form only" in page.text
    assert "◆ rank 2" in page.text


def test_nothing_known_is_still_a_page(blind_verdict: Verdict, empty_job: Job) -> None:
    page = Page(render(blind_verdict, empty_job))
    check_safe(page)
    assert "No culprit can be named" in page.text
    assert "No rank is known" in page.text
    assert page.tags["figure"] == 0


def test_a_job_without_dumps_still_draws_the_other_planes(verdict: Verdict, job: Job) -> None:
    page = Page(render(verdict, replace(job, dumps={}, dump_facts={}, views={}, groups=())))
    check_safe(page)
    assert page.tags["figure"] == 5


def test_two_suspects_are_both_in_the_heading(verdict: Verdict, job: Job) -> None:
    both = tuple(replace(suspect, role=Role.SUSPECT) for suspect in verdict.suspects[:2])
    assert "Suspects: ranks 0, 1" in Page(render(replace(verdict, suspects=both), job)).text


def test_the_same_input_gives_the_same_page(verdict: Verdict, job: Job) -> None:
    assert render(verdict, job) == render(verdict, job)


def test_dumps_without_entries_or_times_still_render(verdict: Verdict, job: Job, by_hand: SimpleNamespace) -> None:
    bare = replace(by_hand.columns(0, 0, first=1), groups=())
    zeros = np.zeros(16, dtype=np.int64)
    timeless = replace(by_hand.columns(755, 750), created_ns=zeros, completed_ns=zeros, started_ns=zeros)
    for columns in (bare, timeless):
        dumps = {rank: by_hand.dump(rank, columns) for rank in job.dumps}
        check_safe(Page(render(verdict, replace(job, dumps=dumps, dump_facts={}, views={}))))
