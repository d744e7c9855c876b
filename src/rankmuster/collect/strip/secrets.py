"""Secrets in free text: known token formats, values behind telling names, userinfo and signatures in URLs, addresses of
people. What is masked stays recognisable as masked (`***`), and the line around it stays."""

from __future__ import annotations

import base64
import binascii
import re

from rankmuster.collect.strip import line_spans
from rankmuster.collect.strip.key_names import CORE, NEEDLES
from rankmuster.collect.strip.shapes import MASK, TOKENS, looks_secret
from rankmuster.collect.strip.values import bracketed, quoted

_COLOUR = rb"(?:\x1b\[[\d;]{0,12}m){0,3}"
"""Loggers for screens colour names and values apart."""
_NAMED = re.compile(
    rb"(?P<name>"
    + CORE
    + rb")(?:"
    + rb"\\*[\"'`]?\s{0,2},?\s{0,2}\\*[\"']?value\\*[\"']?\s{0,2}[:=]\s{0,2}"  # {name: HF_TOKEN, value: ...}
    + rb"|\\*[\"'`]?\]?"
    + _COLOUR
    + rb"\s{0,4}(?:=>|:=|[:=])\s{0,4}"
    + _COLOUR
    + rb"|\s(?:provided|given|supplied|used)\s{0,2}:\s{0,4}"
    + rb"|\\*[\"']\s{0,2},\s{0,2}(?=b?\\*[\"'])|(?P<cli>\s{1,4}))",
)
"""On a line in lower case: ignoring case is several times as slow."""
_VARIABLE = re.compile(
    rb"(?<![A-Za-z0-9_])(?:[A-Z][A-Z0-9_]{0,40}_)?(?:(?<=_)KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:S|_[A-Z0-9_]{1,24})?"
    rb"\\*[\"']?\s{0,2}[:=]\s{0,2}"
)
_BARE_KEY = re.compile(rb"(?<![A-Za-z0-9])[kK]ey\\*[\"']?\s{0,2}[:=]\s{0,2}")
_TABLED = re.compile(
    rb"(?<![A-Za-z0-9_])(?:(?:setenv|export|ENV|set\s-\w{1,4})\s{1,4}(?:[A-Z][A-Z0-9_]{0,40}_)?(?:KEY|TOKEN|SECRET|PASSWORD)\s{1,4}"
    rb"|[A-Z][A-Z0-9_]{0,40}_(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)(?:\s{0,8}(?:->|\|)\s{0,8}|\t\s{0,40}|\s{2,40}))(?=\S)"
)
"""Tables of variables, and shells that set them without a sign between."""
_TABLED_NEEDLES = (b"_KEY", b"TOKEN", b"SECRET", b"PASSW")
_BARE = re.compile(rb"[^\s,;&\"'`\])}>|\x1b]+")
_BARE_PASSWORD = re.compile(rb"[^\s\"'`\x1b]+")
_PASSWORD_TAIL = b",;)]}>"
_TRIVIAL = re.compile(
    rb"(?:none|null|nil|true|false|yes|no|on|off|set|unset|undefined|unknown|required|optional|invalid|missing|empty|\*{3,}|"
    rb"\$\{\w{1,80}\}|\$\([\w ]{1,80}\)|\$[A-Z_][A-Z0-9_]{0,80}|%[sdr]|<\w{0,40}>|\.{3}|[|>][-+]?\d?)",
    re.IGNORECASE,
)
_NUMBER = re.compile(rb"0x[0-9a-fA-F]{1,8}|[-+]?\d[\d,_]{0,30}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,4})?(?:%|[a-zA-Z/]{0,4})")
_ALWAYS = (b"pass", b"secret", b"pwd", b"pin")
_HEADERS = (b"authori", b"proxy", b"cookie", b"set-cookie", b"set_cookie")
_SCHEME = re.compile(rb"(?:bearer|basic|digest|token|negotiate|apikey|aws4-hmac-sha256|ntlm)(?=\s)", re.IGNORECASE)
_HEADER_END = re.compile(rb"[\"'\r]|$")
_SPACE = re.compile(rb"[ \t]{0,8}")
_WORD_BEFORE = 80

_BEARER = re.compile(rb"\b(bearer\s{1,4})([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_BASIC = re.compile(rb"\b(basic\s{1,4})([A-Za-z0-9+/]{6,}={0,2})", re.IGNORECASE)
_USERINFO = re.compile(rb"(://)(?!\*{3}@)([^\s/@\"'<>]{1,512})@(?=[^\s@])")
_USERINFO_SLASH = re.compile(
    rb"(://)([^\s/@:\"'<>]{1,128}:(?!\d{1,5}[/\s])[^\s@\"'<>]{1,256})@(?=[\w.-]{1,255}(?:[:/?\s]|$))"
)
_QUERY = re.compile(
    rb"([?&;](?:amp;)?(?:x-(?:amz|goog)-(?:signature|credential|security-token)|sig|signature|policy|key|key-pair-id|code|hmac|"
    rb"tk|awsaccesskeyid|googleaccessid|client_secret|assertion|password|pwd)=)([^&\s\"'<>]+)",
    re.IGNORECASE,
)
_USER_OPTION = re.compile(rb"((?<!\S)(?:-u|--user|--proxy-user)(?:\s{1,4}|=)[\"']?)([^\s:\"']{1,128}:[^\s\"']+)")
_NETRC = re.compile(
    rb"(\blogin\s{1,4}\S{1,200}\s{1,4}password\s{1,4}|^\s{0,16}(?:password|passwd)\s{1,4}(?=\S+\s{0,4}$))(\S+)",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    rb"(\b(?:login|mysql\w{0,8}|mariadb|redis-cli)\s(?:[^\n|;&]{0,200}?\s)?(?:-p\s{0,2}|-a\s{1,2}|--pass\s{1,2}))([^\s-]\S*)"
)
_SIGNED = re.compile(rb"(?<![A-Za-z])([sS]ignature=)([0-9A-Za-z+/=%-]+)")
"""Of an AWS request: the word alone is also one for a kernel's or a function's."""
_SECRET_STRING = re.compile(rb"(Secret(?:Str|Bytes|Text)?\(b?\\*[\"'])([^\"'\\]+)")
_ELEMENT = re.compile(rb"(<[\w:.-]{0,40}" + CORE + rb"[\w:.-]{0,20}>)([^<]{1,4096})(?=</)", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"(" + CORE + rb"\\*[\"']\s{1,4}value\s{0,2}=\s{0,2}\\*[\"'])([^\"'\\]+)", re.IGNORECASE)
_LOGIN_HEX = re.compile(rb"(\blogin\b.{0,200}?)(?<![0-9a-f])([0-9a-f]{40})(?![0-9a-f])")
"""Weights & Biases' keys are bare SHA-1s, as commits are: only where somebody logs in with one."""
_ENCODED = re.compile(rb"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/]{24,}={0,2}(?![A-Za-z0-9+/=_-])")
_SSHPASS = re.compile(rb"(sshpass\s{1,4}-p\s{0,4})(\S+)")
_AWS_ID = re.compile(rb"(?:AKIA|ASIA)[A-Z0-9*]|aws", re.IGNORECASE)
_AWS_SECRET = re.compile(rb"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_EMAIL = re.compile(
    rb"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])"
)
_EMAIL_MASK = b"***@masked.invalid"
_NO_TOP_LEVEL = (
    b".so",
    b".service",
    b".slice",
    b".scope",
    b".socket",
    b".timer",
    b".target",
    b".mount",
    b".py",
    b".cpp",
)

_ADDRESS_NEEDLES = (b"@", b"?", b"&")
_NO_NAMES = {b"token": b"si_/", b"key": b"sew", b"pass": b"ie", b"auth": b"e", b"connection": b" .:sf,\n"}
"""What makes other words of these: engines write `tokens/s` every ten seconds, and pages hold `token_ids`."""
_WORD_NEEDLES = (
    *NEEDLES, b"keys", b"token_value", b"token_secret", b"token_id\"", b"token_id=", b"api_tokens", b"hf_tokens",
    b"access_tokens", b"auth_tokens", b"session_tokens", b"bearer", b"basic", b"-u ", b"--user", b"--proxy-user",
    b"akia", b"asia", b"login", b"mysql", b"mariadb", b"redis-cli",
)  # fmt: skip
_VARIABLE_NEEDLES = (b"TOKEN_", b"KEY_", b"SECRET_", b"PASSWORD_", b"_KEY")
"""In the case that variables have."""


def scrub_secrets(data: bytes) -> bytes:
    """`data` with secrets masked; linear in its size, and no line is added or lost."""
    return _spoken(_ENCODED.sub(_encoded, data))


def scrub_words(text: str) -> str:
    """The same for a sentence of our own: it quotes what programs said and were given, which may hold anything."""
    return scrub_secrets(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _encoded(match: re.Match[bytes]) -> bytes:
    """Base64 of a text that holds a secret (a dumped environment, a registry's logins, a private key): masked whole."""
    text = match.group().rstrip(b"=")
    head = base64.b64decode(text[:16])
    if not (head.isascii() and head.decode("ascii").replace("\n", "").replace("\t", "").isprintable()):
        return match.group()  # nearly every digest, and every path
    try:
        inner = base64.b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error:  # a remainder of one sign, of a text that was cut
        inner = base64.b64decode(text[: len(text) & ~3])
    hidden = b"PRIVATE KEY" in inner or b'"auths"' in inner or _spoken(inner) != inner
    return MASK if hidden else match.group()


def _spoken(data: bytes) -> bytes:
    lowered = data.lower()
    for needles, expression in TOKENS:
        present = [needle for needle in needles if needle in lowered]
        if present:
            data = line_spans.edit(
                data,
                line_spans.with_any(lowered, present),
                lambda line, form=expression: _tokens(line, form),  # type: ignore[misc]
            )
            lowered = data.lower()
    data = line_spans.edit(data, line_spans.with_any(lowered, _ADDRESS_NEEDLES), _addressed)
    lowered = data.lower()
    spans = {*line_spans.with_any(lowered, _WORD_NEEDLES, _NO_NAMES), *line_spans.with_any(data, _VARIABLE_NEEDLES)}
    return line_spans.edit(data, sorted(spans), _worded)


def _tokens(line: bytes, expression: re.Pattern[bytes]) -> bytes:
    changed = expression.sub(MASK, line)
    return _AWS_SECRET.sub(MASK, changed) if changed != line and b"AKIA" in expression.pattern else changed


def _addressed(line: bytes) -> bytes:
    """What stands in URLs, and e-mail addresses."""
    if b"://" in line and b"@" in line:
        line = _USERINFO_SLASH.sub(rb"\1***@", _USERINFO.sub(rb"\1***@", line))
    if b"=" in line:
        line = _QUERY.sub(rb"\1***", line)
    return _EMAIL.sub(_email, line) if b"@" in line else line


def _email(match: re.Match[bytes]) -> bytes:
    address = match.group()
    # a link's host behind masked userinfo, versioned symbols and systemd's units look alike
    if address.lower().endswith(_NO_TOP_LEVEL) or match.string[max(match.start() - 3, 0) : match.start()].endswith(
        b"//"
    ):
        return address
    return _EMAIL_MASK


def _worded(line: bytes) -> bytes:
    """What stands behind a telling word."""
    lowered = line.lower()
    if b"bearer" in lowered:
        line = _BEARER.sub(_bearer, line)
    if b"basic" in lowered:
        line = _BASIC.sub(_basic, line)
    if b"-u" in lowered:
        line = _USER_OPTION.sub(rb"\1***", line)
    if b"sshpass" in lowered:
        line = _SSHPASS.sub(rb"\1***", line)
    if b"login" in lowered:
        line = _LOGIN_HEX.sub(rb"\1***", _NETRC.sub(rb"\1***", line))
    elif b"passw" in lowered:
        line = _NETRC.sub(rb"\1***", line)
    if b"login" in lowered or b"mysql" in lowered or b"mariadb" in lowered or b"redis-cli" in lowered:
        line = _LOGIN.sub(rb"\1***", line)
    if b"credential=" in lowered:
        line = _SIGNED.sub(rb"\1***", line)
    if b"secret" in lowered:
        line = _SECRET_STRING.sub(rb"\1***", line)
    if b"</" in lowered:
        line = _ELEMENT.sub(rb"\1***", line)
    if b"value=" in lowered:
        line = _ATTRIBUTE.sub(rb"\1***", line)
    line = _named(line, _NAMED, lowered=True)
    if any(needle in line for needle in _TABLED_NEEDLES):
        line = _named(line, _TABLED)
    if any(needle in line for needle in _VARIABLE_NEEDLES):
        line = _named(line, _VARIABLE)
    if b"key" in lowered:
        line = _named(line, _BARE_KEY, only_random=True)
    return line


def _bearer(match: re.Match[bytes]) -> bytes:
    token = match.group(2)
    return match.group(1) + MASK if re.search(rb"[0-9._~+/=-]|[a-z][A-Z]", token) else match.group()


def _basic(match: re.Match[bytes]) -> bytes:
    """`Basic` is a word too: only what decodes to `user:password` is one of these."""
    try:
        decoded = base64.b64decode(match.group(2) + b"=" * (-len(match.group(2)) % 4), validate=True)
    except (binascii.Error, ValueError):
        return match.group()
    return match.group(1) + MASK if b":" in decoded else match.group()


def _named(line: bytes, names: re.Pattern[bytes], *, only_random: bool = False, lowered: bool = False) -> bytes:
    """The line with the values behind these names masked. `lowered`: the names are looked for in lower case."""
    pieces: list[bytes] = []
    at = 0
    searched = line.lower() if lowered else line
    while (match := names.search(searched, at)) is not None:
        groups = match.groupdict()
        if groups.get("cli") is not None and not (_is_option(line, match) or _names_next(line, match)):
            # the separator may begin the next name
            pieces.append(line[at : match.end("name")])
            at = match.end("name")
            continue
        start, end, after = _value(line, match.end(), (groups.get("name") or b"key").lower())
        secret = line[start:end]
        keep = (
            not secret.strip()
            or _TRIVIAL.fullmatch(secret.strip())
            or (only_random and not looks_secret(secret.decode("utf-8", "replace")))
        )
        pieces += (line[at:start], secret if keep else MASK, line[end:after])
        at = after
    return b"".join(pieces) + line[at:]


def _is_option(line: bytes, match: re.Match[bytes]) -> bool:
    """Whether a name that only white space parts from what follows is an option of a command (`--api-key X`)."""
    start = match.start()
    first = max(start - _WORD_BEFORE, 0)
    # never from the line's beginning: on a line of megabytes without a blank that would take quadratic time
    word = max(line.rfind(b" ", first, start), line.rfind(b"\t", first, start), first - 1)
    begun = line[word + 1 : match.end("name")].lstrip(b"\"'(`$")
    return begun.startswith(b"-") and line[match.end() : match.end() + 1] not in (b"-", b"")


def _names_next(line: bytes, match: re.Match[bytes]) -> bool:
    """Whether a quoted value follows a name that is no word for anything else (`the API key 'X' is invalid`)."""
    sure = match.group("name").endswith((b"key", b"password", b"passwd", b"secret"))
    return sure and line[match.end() : match.end() + 1] in (b"'", b'"')


def _value(line: bytes, at: int, name: bytes) -> tuple[int, int, int]:
    """(start, end, where to go on) of what is to be masked of the value at `at`."""
    found = quoted(line, at) or bracketed(line, at)
    if found is not None:
        content = line[found.start : found.end]
        if _counts(content, name):
            return at, at, found.after
        return found.start, found.end, found.after
    if name.startswith(_HEADERS) and (name.endswith((b"cookie", b"cookies")) or _SCHEME.match(line, at)):
        ending = _HEADER_END.search(line, at)
        end = ending.start() if ending else len(line)
        return at, end, end
    scheme = _SCHEME.match(line, at)
    if scheme is not None:
        space = _SPACE.match(line, scheme.end())
        at = space.end() if space else scheme.end()
    password = name.startswith(_ALWAYS)
    bare = (_BARE_PASSWORD if password else _BARE).match(line, at)
    if bare is None or _counts(bare.group().rstrip(b".,;)"), name):
        return at, at, at if bare is None else bare.end()
    end = at + len(bare.group().rstrip(_PASSWORD_TAIL)) if password else bare.end()
    return at, end, max(end, at)


def _counts(value: bytes, name: bytes) -> bool:
    """Whether it is a number, where the name may also be that of a count or time (`token usage`, `session_id`)."""
    return not name.startswith(_ALWAYS) and _NUMBER.fullmatch(value.strip()) is not None
