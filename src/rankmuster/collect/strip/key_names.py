"""Names behind which a secret stands: `HF_TOKEN`, `--api-key`, `"clientSecret"`, `Authorization`.

`key` alone is no such name (stores, caches and headers have keys), nor is a plural of tokens that counts them.
"""

from __future__ import annotations

import re

_KEYS_OF = (
    b"access account admin aes anthropic api auth azure client cohere consumer curve deploy encrypt encryption fernet "
    b"gemini google hmac license master mistral openai private registration root rsa secret service session shared "
    b"sign signing ssh ssl storage subscription tls user webhook wandb"
).split()
_TOKENS_OF = b"access api auth bearer hf refresh secret session".split()
_FORMS = (
    *(word + rb"[-_ ]?keys?(?:[-_]?(?:ids?|values?|data|material|phrase))?" for word in _KEYS_OF),
    # a count of tokens (`#new-token: 512, token usage: 0.1`) is in every other line of an engine's log
    rb"token(?![a-z]|\s(?:usage|pass|id)\b|:\s\d{1,12}(?:\.\d{1,6})?(?:[\s,;)]|$))(?:[-_](?:secret|value|id(?!s)))?",
    *(word + rb"[-_]?tokens(?![a-z])" for word in _TOKENS_OF),
    rb"secrets?(?![a-z])(?:[-_]?(?:value|id|string|data))?",
    rb"pass(?:word|wd|phrase|code)s?(?:[-_]?(?:hash|value))?",
    rb"pwd(?<=[-_;&?]pwd)",
    rb"pass(?<=[-_;&?]pass)(?![a-z])",
    rb"pass(?<=[\"']pass)(?=\\*[\"'])",
    rb"pat(?<=[-_]pat)(?![a-z])",
    rb"credentials?(?:[-_]?(?:value|json|data|string))?",
    rb"cred(?<=[-_]cred)s?(?![a-z])",
    rb"proxy[-_]authori[sz]ation",
    rb"authori[sz]ation",
    rb"auth(?<![a-z]auth)(?:[-_]?(?:header|basic|string|secret|value|info))?(?![a-z])",
    rb"set[-_]cookies?(?![a-z])",
    rb"cookies?(?![a-z])",
    rb"jwt(?<![a-z]jwt)(?:[-_]?\w{1,12})?",
    rb"session[-_]?(?:id|token)(?![a-z])",
    rb"csrf[-_]?(?:id|token)(?![a-z])",
    rb"xsrf[-_]?(?:id|token)(?![a-z])",
    rb"connection[-_]?string",
    rb"dsn(?<![a-z]dsn)(?![a-z])",
    rb"dockerconfigjson",
    rb"dockercfg",
    rb"identitytoken",
    rb"sharedaccesssignature",
    rb"sig(?<=[&?]sig)(?:nature)?(?![a-z])",
    rb"signature(?<=[-_]signature)",
)
CORE = rb"(?:" + b"|".join(_FORMS) + rb")"
"""As an expression without groups, for text in lower case. Each form begins with a letter, and what must stand before
it is looked at after it: so the search skips most bytes, and is ten times as fast."""

NEEDLES = (
    b"key", b"token", b"secret", b"pass", b"pwd", b"cred", b"auth", b"cookie", b"jwt", b"session", b"csrf", b"xsrf",
    b"connection", b"dsn", b"dockerc", b"signature", b"sig=", b"_pat", b"-pat",
)  # fmt: skip
"""Lower-case texts of which each name of `CORE` holds one."""

_COUNTS = re.compile(
    r"(?:_|^)(?:eos|bos|pad|unk|sep|cls|mask|image|video|audio|stop|special|max|min|num|per|ms)_token$"
)
_NAME = re.compile(CORE)
_WORDS = re.compile(
    r"(?:^|[_.-])(?:api)?keys?(?:$|[_.-])|token(?!iz|s\b|s_|s$|_?count)|secret|passw|passphrase|passcode|(?:^|_)pwd$(?<!^pwd)|"
    r"credential|(?:^|_)creds?(?:$|_)|(?:^|_)auth(?:$|_)|authori|cookie|jwt|(?:^|_)pat$|(?:^|_)pass$|private|signature|"
    r"apikey|dsn$|connection_?string",
    re.IGNORECASE,
)


def names_secret(name: str) -> bool:
    """Whether a variable or option of this name may hold a secret. Errs towards yes: it decides about names that an
    allow-list let through already."""
    lowered = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().lstrip("-").replace("-", "_")
    if _COUNTS.search(lowered):
        return False
    return _WORDS.search(lowered) is not None or _NAME.search(lowered.encode("utf-8", "replace")) is not None
