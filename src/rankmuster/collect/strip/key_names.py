"""Names behind which a secret stands: `HF_TOKEN`, `--api-key`, `"clientSecret"`, `Authorization`.

`key` alone is no such name (stores, caches and headers have keys), nor is a plural of tokens that counts them.
"""

from __future__ import annotations

import re

CORE = (
    rb"(?:api|access|account|admin|auth|client|consumer|deploy|encrypt(?:ion)?|license|master|private|"
    rb"registration|root|secret|service|session|shared|sign(?:ing)?|ssh|ssl|storage|subscription|tls|user|webhook|wandb)"
    rb"[-_ ]?keys?(?:[-_]?(?:ids?|values?|data|material|phrase))?"
    rb"|token(?![A-Za-z])(?:[-_](?:secret|value|id(?!s)))?"
    rb"|(?:access|api|auth|bearer|hf|refresh|secret|session)[-_]?tokens(?![A-Za-z])"
    rb"|secrets?(?![A-Za-z])(?:[-_]?(?:value|id|string|data))?"
    rb"|pass(?:word|wd|phrase|code)s?(?:[-_]?(?:hash|value))?"
    rb"|(?<=[-_;&?])pwd|(?<=[-_;&?])pass(?![A-Za-z])|(?<=[-_])pat(?![A-Za-z])"
    rb"|credentials?(?:[-_]?(?:value|json|data|string))?|(?<=[-_])creds?(?![A-Za-z])"
    rb"|(?:proxy[-_])?authori[sz]ation|(?<![A-Za-z])auth(?:[-_]?(?:header|basic|string|secret|value|info))?(?![A-Za-z])"
    rb"|(?:set[-_])?cookies?(?![A-Za-z])|(?<![A-Za-z])jwt(?:[-_]?\w{1,12})?|x[-_]amz[-_]security[-_]token"
    rb"|(?:session|csrf|xsrf)[-_]?(?:id|token)(?![A-Za-z])|connection[-_]?string|(?<![A-Za-z])dsn(?![A-Za-z])"
    rb"|sharedaccesssignature|(?<=[&?])sig(?:nature)?(?![A-Za-z])|(?:x-amz-|x-goog-|[-_])signature"
)
"""As an expression without groups, for any case."""

NEEDLES = (
    b"key", b"token", b"secret", b"pass", b"pwd", b"cred", b"auth", b"cookie", b"jwt", b"session", b"csrf", b"xsrf",
    b"connection", b"dsn", b"signature", b"sig=", b"_pat", b"-pat",
)  # fmt: skip
"""Lower-case texts of which each name of `CORE` holds one."""

_COUNTS = re.compile(
    r"(?:_|^)(?:eos|bos|pad|unk|sep|cls|mask|image|video|audio|stop|special|max|min|num|per|ms)_token$"
)
_NAME = re.compile(CORE, re.IGNORECASE)
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
