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


def _names(words: bytes, *more: bytes) -> re.Pattern[bytes]:
    """Names before `:` or `=`, for lines in lower case. Each begins with a letter, and that it is not the end of
    another word is looked at behind it: so a search skips most bytes."""
    plain = (word + rb"(?<![a-z0-9]" + word + rb")" for word in words.split())
    return re.compile(rb"(?:" + b"|".join((*plain, *more)) + rb")\\*[\"']?\s{0,4}[:=]\s{0,4}")


_WORDS = (
    b"prompt prompts prompt_text prompts_text prompt_str messages chat_history conversation generated_text "
    b"generated_texts output_text output_texts input_text input_texts completion_text completion_texts decoded_text "
    b"decoded_texts output_strs prompt_ids input_ids output_ids reasoning_content tool_calls model_output input_value"
)
_FORMS = (
    rb"token_ids(?<![a-z0-9]token_ids)(?<!stop_token_ids)",
    rb"content(?<=[\"']content)(?=\\*[\"'])",
    rb"arguments(?<=[\"']arguments)(?=\\*[\"'])",
)
_ANYWHERE = _names(_WORDS, *_FORMS)
_IN_REQUESTS = _names(
    _WORDS
    + b" text texts content contents input inputs output outputs delta query queries document documents instruction "
    b"instructions arguments thinking reasoning stop bad_words json_schema structured_outputs suffix system image_data "
    b"audio_data video_data image_url url body data",
    *_FORMS,
    rb"guided_\w{1,20}",
)
_REQUEST_MARKS = (
    b"received request", b"generated response", b"reqinput(", b'"role"', b"'role'", b'\\"role\\"', b"samplingparams(",
    b"sampling_params", b"cmpl-", b"newrequestdata(", b"/v1/chat", b"/v1/completions", b"request body", b"raw request",
    b"generationrequest(", b"generate request", b"request.received", b"request.finished", b'"choices"', b"'choices'",
    b"requestoutput(", b"completionoutput(", b"corerequest(", b"batchstr", b"batchtoken", b"/v1/embeddings",
    b"/v1/responses", b"/v1/messages", b"/v1/rerank", b"/v1/score", b"responsesrequest(", b"outputtext(",
    b"functioncall(", b"message(role", b"role='user'", b"role='assistant'", b"role='system'", b"role='tool'",
    b'"inputs"',
)  # fmt: skip
_NEEDLES = (b"prompt", b"messages", b"_ids", b"token_ids", b"_text", b"chat_history", b"conversation", b"_content",
            b"tool_calls", b"model_output", b"output_strs", b"input_value", b'content"', b"content'", b"content\\",
            b'arguments"', b"arguments'", b"arguments\\")  # fmt: skip
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
    requests = line_spans.with_any(lowered, _REQUEST_MARKS)
    asked = {start for start, _ in requests}
    spans = sorted({*requests, *line_spans.with_any(lowered, _NEEDLES)})
    pieces: list[bytes] = []
    at = 0
    for start, end in spans:
        if start < at:  # a part of a text that began on an earlier line
            continue
        line, open_quote = _line(data[start:end], lowered[start:end], start in asked)
        if not open_quote and line == data[start:end]:
            continue
        pieces += (data[at:start], line)
        at = end
        if open_quote:
            more, at = _continued(data, end, open_quote)
            pieces.append(more)
    return b"".join(pieces) + data[at:] if pieces else data


def _line(line: bytes, lowered: bytes, requests: bool) -> tuple[bytes, bytes]:
    """(the line with its texts masked, the delimiter of one that goes on in the next line or nothing)."""
    pieces: list[bytes] = []
    at = 0
    names = _IN_REQUESTS if requests else _ANYWHERE
    while (name := names.search(lowered, at)) is not None:
        value = quoted(line, name.end()) or bracketed(line, name.end())
        if value is None:
            if requests or not name.group().startswith(b"prompt") or lowered.endswith(b"_", 0, name.start()):
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
