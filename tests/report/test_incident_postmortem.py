"""The post-mortem in Markdown and HTML: all of the journal, nothing that acts, one theme with the other pages."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from test_incident_text import HOSTILE, hostile_story

from incident_story import ID, STORIES, VERDICT, Story, crashed, gave_up, observed, recovered, until_decided
from rankmuster.model.incident import Outcome, Step
from rankmuster.report import incident_html, incident_json, incident_markdown, theme
from rankmuster.report.incident_account import account
from rankmuster.report.incident_figure import figures, tones
from rankmuster.report.page import POLICY

EVERY = {**STORIES, "hostile": hostile_story}


class Parsed(HTMLParser):
    """The tags of a page and the text between them; every tag closed in order."""

    VOID = ("meta", "br", "rect", "line", "circle", "path")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.ids += [str(found["id"])] if "id" in found else []
        self.links += [str(found["href"])] if "href" in found else []
        assert not any(name.startswith("on") or (name in ("src", "style") and "url" in str(v)) for name, v in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def html(story: Story) -> str:
    return incident_html.render(account(ID, story.events), now=story.at + 5)


def markdown(story: Story) -> str:
    return incident_markdown.render(account(ID, story.events), now=story.at + 5)


@pytest.mark.parametrize("story", EVERY.values(), ids=EVERY)
def test_the_page_is_sound_self_contained_and_runs_nothing(story: Callable[[], Story]) -> None:
    page = html(story())
    parsed = Parsed(page)
    assert parsed.open == []
    assert not {"script", "img", "iframe", "link", "object"} & set(parsed.tags)
    assert POLICY.replace("'", "&#x27;") in page
    assert theme.css() in page
    assert len(parsed.ids) == len(set(parsed.ids))
    assert all(link.startswith("#") and link[1:] in parsed.ids for link in parsed.links)
    assert len(page) < 300_000
    for picture in re.findall(r"<svg viewBox.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(picture)


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
@pytest.mark.parametrize("form", [html, markdown])
def test_both_begin_with_the_state_and_what_is_to_do_and_have_every_chapter(
    story: Callable[[], Story], form: Callable[[Story], str]
) -> None:
    text = form(story())
    titles = ["Summary", "Impact", "Timeline", "Root cause", "What was done, and by whom"]
    places = [text.index(f"## {title}" if form is markdown else f">{title}</h2>") for title in titles]
    assert places == sorted(places)
    assert "to do" in text[: places[0]].lower() or "falls to an operator" in text


def test_the_root_cause_has_its_confidence_and_its_blind_planes() -> None:
    text = markdown(recovered()).split("## Root cause")[1].split("\n## ")[0]
    assert "- **Confidence**: confirmed" in text
    assert "blind plane: kernel - software hangs leave nothing there" in text
    assert "silent plane: ras" in text
    assert "culprit: rank 2 (host h-2" in text
    assert "- **By the recovery table**: process\\_group" in text


def test_without_a_verdict_it_says_so_and_one_from_a_file_is_taken() -> None:
    story = until_decided(Story(), verdict=None)
    assert "The journal holds no verdict" in markdown(story)
    given = incident_markdown.render(account(ID, story.events, VERDICT), now=story.at)
    assert "collective\\_desync/missing\\_enter" in given


def test_what_was_done_names_who_did_it_and_what_was_observed_stands_apart() -> None:
    text = markdown(crashed())
    row = next(line for line in text.splitlines() if "| terminate | supervisor:terminate |" in line)
    assert "| h-1:4242 |" in row
    only = markdown(observed())
    assert "Nothing was done." in only
    assert "SIGTERM to 100, 101, 102, 103; then SIGKILL" in only.split("## Only observed")[1]


def test_evidence_has_its_digest_and_skipped_steps_their_reason() -> None:
    text = markdown(gave_up())
    assert f"| /evidence/b1 | sha256:{'ab' * 32} |" in text
    assert "restore (give traffic back): the total deadline has passed" in text.split("## Skipped")[1]


def test_hostile_text_is_escaped_in_markdown() -> None:
    text = markdown(hostile_story())
    assert not set(text) & {chr(code) for code in (0x1B, 7, 0x202E)}
    assert not re.search(r"(?<![\\`])<script", re.sub(r"`[^`]*`", "", text))
    assert len(text) < 200_000
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| From"):
            cells = re.split(r"(?<!\\)\|", line)
            assert len(cells) in (4, 7), line[:200]
    assert not re.search(r"^# head", text, re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [
        "![x](http://evil/y)",
        "[a](b)",
        "<img src=x>",
        "*b* _i_ ~~s~~",
        "1. one",
        "- item",
        "+ x",
        "a | b",
        "www.evil.example",
    ],
)
def test_markup_in_foreign_words_becomes_text(words: str) -> None:
    made = incident_markdown.escaped(words)
    assert made.replace("\\", "") == words
    assert not re.search(r"(?<!\\)[\[\]<>|*_!~]", made)
    assert not re.match(r"[-+]\s|\d+\.\s", made)
    assert not re.search(r"(?<!\\)://|www\.", made)  # no address that a viewer makes a link of


def test_numbers_and_hosts_stay_readable() -> None:
    assert incident_markdown.escaped("14.4 s of 22 s on h-2") == "14.4 s of 22 s on h-2"
    assert incident_markdown.prose("then `rankmuster admit` it") == "then `rankmuster admit` it"


def test_the_picture_shows_each_step_against_its_deadline_and_retests_apart() -> None:
    found = account(ID, recovered().events)
    (first, before), (second, after) = figures(found, found.events[-1].at)
    assert "fault" in first
    assert "After" in second
    assert before.count('class="limit"') == before.count('class="name"')
    assert "stop_traffic done" in before
    assert "retest" in after
    assert "retest" not in before
    rules = theme.css()
    for tone in tones():
        assert f".b-{tone}{{" in rules
    assert 'class="b-culprit"' in figures(account(ID, gave_up().events), 0.0)[0][1]


def test_a_crash_and_an_operator_stand_in_the_picture() -> None:
    found = account(ID, crashed().events)
    assert "another runner" in figures(found, found.events[-1].at)[0][1]


@pytest.mark.parametrize("story", EVERY.values(), ids=EVERY)
def test_as_json_it_is_ascii_without_numbers_that_json_has_not(story: Callable[[], Story]) -> None:
    made = story()
    text = incident_json.render(account(ID, made.events), now=made.at)
    assert text.isascii()
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert found["schema"] == "rankmuster.incident/1"
    assert len(found["events"]) == len(made.events)
    assert found["outcome"] in (None, *(one.value for one in Outcome))


def test_a_resumed_incident_of_many_rounds_stays_bounded() -> None:
    story = until_decided(Story())
    for _ in range(400):
        story.act(Step.CUT, "haproxy-0:cut", note=HOSTILE)
    assert len(html(story)) < 3_000_000
    assert html(story).count("<rect") < 400
