"""What users asked and engines answered: request logs of vLLM, SGLang and others, OpenAI bodies, token ids.

vLLM writes `Received request cmpl-...: prompt: '...', params: SamplingParams(...), prompt_token_ids: [...]` and
`Generated response ...: output: '...'`; SGLang `Receive: obj=GenerateReqInput(text='...', input_ids=[...])` and
`Finish: ... out={'text': '...'}`; both log bodies of requests that they refuse.
"""

from __future__ import annotations

import re

from rankmuster.collect.strip import line_spans
from rankmuster.collect.strip.shapes import MASK
from rankmuster.collect.strip.values import Value, bracketed, closing_quote, quoted

MAX_CONTINUED = 1000
"""Lines over which one text that is not closed is followed: a page of a document that somebody pasted."""

_NAMES = (
    rb"(?:\w{1,20}_)?prompts?(?:_text|_str)?|messages|chat_history|conversation|(?:generated|output|input|completion)_texts?"
    rb"|(?:prompt|input|output|new|all|multi_modal)?_?token_ids|(?:input|output|prompt)_ids|reasoning_content|tool_calls"
)
_ANYWHERE = re.compile(rb"(?<![A-Za-z0-9])(?:" + _NAMES + rb")\\*[\"']?\s{0,4}[:=]\s{0,4}", re.IGNORECASE)
_IN_REQUESTS = re.compile(
    rb"(?<![A-Za-z0-9])(?:"
    + _NAMES
    + rb"|texts?|contents?|inputs?|outputs?|delta|query|queries|documents?|instructions?|arguments|thinking|reasoning"
    rb"|stop|bad_words|guided_\w{1,20}|json_schema|structured_outputs|suffix|system|image_data|audio_data|video_data"
    rb"|image_url|url|body|data)\\*[\"']?\s{0,4}[:=]\s{0,4}",
    re.IGNORECASE,
)
_REQUEST_MARKS = (
    b"received request", b"generated response", b"reqinput(", b'"role"', b"'role'", b'\\"role\\"', b"samplingparams(",
    b"sampling_params", b"cmpl-", b"newrequestdata(", b"/v1/chat", b"/v1/completions", b"request body", b"raw request",
    b"generationrequest(", b"generate request",
)  # fmt: skip
_NEEDLES = (b"prompt", b"messages", b"_ids", b"token_ids", b"_text", b"chat_history", b"conversation", b"_content",
            b"tool_calls")  # fmt: skip
_PLAIN = re.compile(rb"(?:none|null|true|false|nan|[-+]?[0-9.]{1,20}|\*\*\*)(?=[\s,;)\]}\"']|$)", re.IGNORECASE)
_CARRIER = re.compile(
    rb"(?:\([^\s()]{1,60}(?: rank=\d+)? pid=\d+\) |\d{4}-\d\d-\d\dT[\d:.+Z-]{8,30} (?:stdout|stderr) [FP] "
    rb"|[\w.-]{1,60} {0,8}\| |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,64} [^\s\[]{1,64}\[\d+\]: ){0,3}"
)
"""What vLLM, container runtimes, compose and journald put before every line, of one text too."""
_NOTHING = (b"", b"none", b"null", MASK)
_NEW_RECORD = re.compile(
    rb"\s*(?:\x1b\[[0-9;]*m)*(?:\([^()\n]{1,80}\)\s*)?(?:\[?\d{4}[-/]\d\d[-/]\d\d|\[?\d\d[-:]\d\d[ :]"
    rb"|(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b|\[rank\d|\[?[EWIFC]\d{4}[ :]|\S{1,80}:\d+:\d+ \[|Traceback"
    rb"|<\d{1,2}>|\[\s*\d+\.\d+\]|  File \")"
)


def scrub_prompts(data: bytes) -> bytes:
    """`data` with users' texts and token ids masked; the number of lines stays."""
    lowered = data.lower()
    spans = line_spans.with_any(lowered, (*_NEEDLES, *_REQUEST_MARKS))
    pieces: list[bytes] = []
    at = 0
    for start, end in spans:
        if start < at:  # a part of a text that began on an earlier line
            continue
        requests = any(mark in lowered[start:end] for mark in _REQUEST_MARKS)
        line, open_quote = _line(data[start:end], requests)
        pieces += (data[at:start], line)
        at = end
        if open_quote:
            more, at = _continued(data, end, open_quote)
            pieces.append(more)
    return b"".join(pieces) + data[at:] if pieces else data


def _line(line: bytes, requests: bool) -> tuple[bytes, bytes]:
    """(the line with its texts masked, the delimiter of one that goes on in the next line or nothing)."""
    pieces: list[bytes] = []
    at = 0
    names = _IN_REQUESTS if requests else _ANYWHERE
    while (name := names.search(line, at)) is not None:
        value = quoted(line, name.end()) or bracketed(line, name.end())
        if value is None:
            if requests or not name.group().lower().lstrip(b"_").startswith(b"prompt"):
                # in a request's own record what is not quoted is a setting
                pieces.append(line[at : name.end()])
                at = name.end()
                continue
            plain = _PLAIN.match(line, name.end())
            end = plain.end() if plain else len(line)
            pieces += (line[at : name.end()], line[name.end() : end] if plain else _masked(line[name.end() :]))
            at = end
            continue
        pieces += (line[at : value.start], _inside(line, value))
        if not value.closed and value.quote:
            return b"".join((*pieces, value.quote)), value.quote
        at = value.after if value.closed else len(line)
        if value.closed:
            pieces.append(line[value.end : value.after])
    return b"".join(pieces) + line[at:], b""


def _inside(line: bytes, value: Value) -> bytes:
    content = line[value.start : value.end]
    return content if content.strip().lower() in _NOTHING else MASK


def _masked(rest: bytes) -> bytes:
    return MASK + (b"\r" if rest.endswith(b"\r") else b"") if rest.strip() else rest


def _continued(data: bytes, at: int, delimiter: bytes) -> tuple[bytes, int]:
    """(the lines of a text that goes on, masked one by one, where it ends). `at`: the line end before the first."""
    pieces: list[bytes] = []
    slashes, quote = len(delimiter) - 1, delimiter[-1:]
    for _ in range(MAX_CONTINUED):
        if at >= len(data):
            break
        end = data.find(b"\n", at + 1)
        end = len(data) if end < 0 else end
        carrier = _CARRIER.match(data, at + 1, end)
        text = carrier.end() if carrier else at + 1
        line = data[text:end]
        if _NEW_RECORD.match(line):
            break
        closing = closing_quote(line, 0, slashes, quote)
        if closing is not None:
            pieces.append(data[at:text] + MASK)
            return b"".join(pieces), text + closing[1]
        pieces.append(data[at:text] + _masked(line))
        at = end
    return b"".join(pieces), at
