"""An admission as terminal text, JSON, JUnit XML and HTML: complete, inert, and never greener than the answer."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from admitted import PROFILE, admission, check, fill, run_of, taken
from rankmuster.admission.past_store import StorePast
from rankmuster.admission.plan import Outcome
from rankmuster.model.admission import AdmissionRecord, CheckGroup, CheckState, Decision
from rankmuster.report import admission_html, admission_json, admission_junit, admission_text
from rankmuster.report.admission_words import DECISIONS, STANDINGS, STATES, span_text
from rankmuster.report.size_words import size_words
from rankmuster.store.history import History

HOSTILE = "<script>alert(1)</script>\x1b[31m\x00\u202e]]>&\"'\ud800\ufffe"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[Decision, Outcome]:
    """One real admission of each answer."""
    url = tmp_path_factory.mktemp("reports") / "history.db"
    fill(url)
    with History.open(str(url)) as history:
        past = StorePast(history)
        return {
            Decision.PASS: admission([run_of("nt_ar_1.txt")], past),
            Decision.FAIL: admission([run_of("ar_ll.txt")], past, settings={"NCCL_PROTO": "LL"}),
            Decision.PROVISIONAL: admission([run_of("nt_ar_1.txt")]),
            Decision.ERROR: admission([replace(run_of("ar_1.txt"), measurements=())], past),
        }


def hostile(record: AdmissionRecord) -> AdmissionRecord:
    bad = check(HOSTILE, CheckState.FAIL, subject=HOSTILE, statement=HOSTILE, advice=HOSTILE, evidence=(HOSTILE,))
    unknown = check(HOSTILE, CheckState.UNKNOWN, CheckGroup.NETWORK, statement=HOSTILE)
    return replace(
        record, nodes=(HOSTILE,), reasons=(HOSTILE,), checks=(bad, unknown), notes=(HOSTILE,), profile=HOSTILE
    )


def text_of(record: AdmissionRecord, width: int = 80) -> str:
    paper = io.StringIO()
    admission_text.render(record, Console(file=paper, width=width, force_terminal=False))
    return paper.getvalue()


@pytest.mark.parametrize("decision", list(Decision))
def test_the_terminal_begins_with_the_answer_and_the_reason(
    decision: Decision, outcomes: dict[Decision, Outcome]
) -> None:
    record = outcomes[decision].record
    assert record.decision is decision
    first = text_of(record).splitlines()[0]
    assert first.startswith(f"{decision.value.upper()}: node7: ")
    assert record.reasons[0][:60] in first
    assert record.hash in text_of(record)


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_terminal_keeps_to_its_width(width: int, outcomes: dict[Decision, Outcome]) -> None:
    for outcome in outcomes.values():
        lines = text_of(outcome.record, width).splitlines()
        wide = [line for line in lines[1:] if len(line) > width and not line.startswith("record sha256:")]
        assert wide == []


@pytest.mark.parametrize("width", [40, 80])
def test_at_a_screen_the_first_line_is_wrapped_too(width: int, outcomes: dict[Decision, Outcome]) -> None:
    for outcome in outcomes.values():
        paper = io.StringIO()
        screen = Console(file=paper, width=width, force_terminal=True, no_color=True, color_system=None)
        admission_text.render(outcome.record, screen)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", paper.getvalue())
        assert [line for line in plain.splitlines() if len(line) > width] == []


def test_a_name_of_undecodable_bytes_is_json_that_everybody_reads(outcomes: dict[Decision, Outcome]) -> None:
    record = replace(outcomes[Decision.PASS].record, notes=("ho\udcffst",))
    assert json.loads(admission_json.render(record))["notes"] == ["ho\\udcffst"]


def test_the_terminal_says_how_each_regime_stands(outcomes: dict[Decision, Outcome]) -> None:
    text = text_of(outcomes[Decision.FAIL].record, 120)
    assert re.search(r"\* all_reduce, plateau +below +46\.\d % of the class, refused below", text)
    assert "latency alone refuses nobody" in text


def test_foreign_text_is_inert_on_the_terminal(outcomes: dict[Decision, Outcome]) -> None:
    text = text_of(hostile(outcomes[Decision.FAIL].record))
    assert not set(text) & {"\x1b", "\x00", "\u202e"}


def test_json_is_the_schema_and_holds_everything(outcomes: dict[Decision, Outcome]) -> None:
    for decision, outcome in outcomes.items():
        document = json.loads(admission_json.render(outcome.record))
        assert list(document)[:2] == ["schema", "decision"]
        assert document["schema"] == "rankmuster.admission/1"
        assert document["decision"] == decision.value
        assert len(document["checks"]) == len(outcome.record.checks)
        assert document["hash"] == outcome.record.hash
    plateau = json.loads(admission_json.render(outcomes[Decision.FAIL].record))["judgements"][2]
    assert (plateau["operation"], plateau["regime"], plateau["standing"]) == ("all_reduce", "plateau", "below")
    assert plateau["cells"][0]["cell"]["size_bytes"] == 1 << 24


def suites(record: AdmissionRecord) -> ET.Element:
    return ET.fromstring(admission_junit.render(record))  # our own text


@pytest.mark.parametrize(
    ("decision", "tag"),
    [
        (Decision.PASS, None),
        (Decision.FAIL, "failure"),
        (Decision.PROVISIONAL, "error"),
        (Decision.ERROR, "error"),
    ],
)
def test_junit_is_as_red_as_the_answer(decision: Decision, tag: str | None, outcomes: dict[Decision, Outcome]) -> None:
    """A CI system that counts failures and errors must not go green on a provisional admission."""
    root = suites(outcomes[decision].record)
    bad = int(root.get("failures", "")) + int(root.get("errors", ""))
    assert (bad == 0) is (decision is Decision.PASS)
    (case,) = root.findall("./testsuite[@name='Decision']/testcase")
    assert [child.tag for child in case] == ([tag] if tag else [])
    if tag:
        assert case[0].get("type") == decision.value
        assert case[0].get("message", "")[:40] in outcomes[decision].record.reasons[0]


def test_junit_counts_what_it_holds(outcomes: dict[Decision, Outcome]) -> None:
    for outcome in outcomes.values():
        root = suites(outcome.record)
        cases = root.findall("./testsuite/testcase")
        assert int(root.get("tests", "")) == len(cases)
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(root.get(name, "")) == len(root.findall(f"./testsuite/testcase/{tag}")), name
            for suite in root.findall("./testsuite"):
                assert int(suite.get(name, "")) == len(suite.findall(f"./testcase/{tag}"))
        assert len(cases) == len(outcome.record.checks) + 1


@pytest.mark.parametrize(
    ("state", "tag"),
    [
        (CheckState.FAIL, "failure"),
        (CheckState.HUNG, "failure"),
        (CheckState.ERROR, "error"),
        (CheckState.UNKNOWN, "skipped"),
        (CheckState.WARN, "system-out"),
        (CheckState.PASS, "system-out"),
    ],
)
def test_junit_by_state(state: CheckState, tag: str, outcomes: dict[Decision, Outcome]) -> None:
    record = replace(outcomes[Decision.PASS].record, checks=(check("xid", state, subject="GPU 2"),))
    (case,) = suites(record).findall("./testsuite[@name='Hardware']/testcase")
    assert case.get("name") == "xid: GPU 2"
    assert [child.tag for child in case] == [tag]


def test_junit_is_well_formed_whatever_a_machine_says(outcomes: dict[Decision, Outcome]) -> None:
    text = admission_junit.render(hostile(outcomes[Decision.FAIL].record))
    root = ET.fromstring(text.encode())  # our own text
    assert len(root.findall(".//failure")) == 2
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", text)


class Page(HTMLParser):
    """Tags as they nest; what is left open at the end is a fault."""

    VOID = frozenset({"meta", "br", "line", "rect", "circle", "path"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.targets += [value[1:] for name, value in attrs if name == "href" and value and value.startswith("#")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("decision", list(Decision))
def test_the_page_is_whole_without_scripts_and_loads_nothing(
    decision: Decision, outcomes: dict[Decision, Outcome]
) -> None:
    outcome = outcomes[decision]
    text = admission_html.render(outcome.record, outcome.compared)
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    assert not re.search(r"""(?:src|href)=["'](?!#)""", text)
    assert len(page.ids) == len(set(page.ids))
    assert set(page.targets) <= set(page.ids)
    assert DECISIONS[decision].word in text


def test_the_page_draws_the_node_over_its_class_at_every_size(outcomes: dict[Decision, Outcome]) -> None:
    outcome = outcomes[Decision.FAIL]
    text = admission_html.render(outcome.record, outcome.compared)
    assert text.count("<figure>") == 2, "out of place and in place"
    assert text.count('class="cross"') >= 2 * 2 * 5, "five sizes of the plateau are below, in both panels of both"
    assert text.count('class="head"') >= 2 * 2 * 11
    assert text.count('class="area"') >= 2 * 4
    assert "256 MiB: 146.7 GB/s, 43 % of the class&#x27;s median" in text
    for size in ("8 KiB", "256 MiB"):
        assert size in text


def test_without_a_history_the_points_stand_alone(outcomes: dict[Decision, Outcome]) -> None:
    text = admission_html.render(outcomes[Decision.PROVISIONAL].record)
    assert 'class="head"' in text
    assert "of the median" not in text


def test_foreign_text_is_inert_on_the_page(outcomes: dict[Decision, Outcome]) -> None:
    text = admission_html.render(hostile(outcomes[Decision.FAIL].record))
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    assert not set(text) & {"\x1b", "\x00", "\u202e"}


def test_a_record_of_nothing_is_shown_too(outcomes: dict[Decision, Outcome]) -> None:
    bare = replace(outcomes[Decision.ERROR].record, checks=(), judgements=(), runs=(), reasons=(), nodes=())
    assert "no node" in text_of(bare)
    assert Page(admission_html.render(bare)).open == []
    assert suites(bare).get("tests") == "1"


def test_every_state_has_a_word_a_sign_and_a_colour_of_its_own() -> None:
    for looks, kinds in ((DECISIONS, Decision), (STATES, CheckState), (STANDINGS, None)):
        assert kinds is None or set(looks) == set(kinds)  # type: ignore[comparison-overlap]
        assert len({look.word for look in looks.values()}) == len(looks)  # type: ignore[attr-defined]
        assert len({look.terminal_sign for look in looks.values()}) == len(looks)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("size", "words"), [(8, "8 B"), (8192, "8 KiB"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB"), (1 << 40, "1024 GiB")]
)
def test_sizes(size: int, words: str) -> None:
    assert size_words(size) == words


def test_spans() -> None:
    assert span_text([1 << 20]) == "1 MiB"
    assert span_text([1 << 24, 1 << 20]) == "1 MiB to 16 MiB"


def test_several_nodes_are_named_in_few_words(outcomes: dict[Decision, Outcome]) -> None:
    record = replace(outcomes[Decision.PASS].record, nodes=("a", "b", "c", "d"))
    assert text_of(record).startswith("PASS: a and 3 more: ")
    assert taken().fingerprint.host == "node7"
    assert PROFILE.key in text_of(record)


def test_pages_are_of_bounded_size(outcomes: dict[Decision, Outcome], tmp_path: Path) -> None:
    record = outcomes[Decision.PASS].record
    many = tuple(check(f"c{number}", CheckState.PASS) for number in range(2_000))
    text = admission_html.render(replace(record, checks=many, runs=record.runs * 60), outcomes[Decision.PASS].compared)
    assert len(text) < 3_000_000
