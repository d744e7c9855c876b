"""What a secret looks like by itself: the token formats of the usual issuers, and strings too random to be a setting.

Formats as their issuers document them (prefix and alphabet); lengths are lower bounds, since issuers lengthen them.
Every expression begins with a literal or is bounded, so that a hostile line costs linear time.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter

MASK = b"***"
"""Stands in the place of what was taken out. It matches no rule, so that scrubbing twice changes nothing more."""

LONG_RANDOM = 24
"""Characters of a string without structure from which on it counts as random: 24 of base64 are 144 bits, as short as
issuers make tokens; names and settings of that length have separators."""
LONG_HEX = 32
"""Hex digits from which on a string counts as random: a 128-bit key. UUIDs have dashes and are told apart."""
ENTROPY_BITS = 3.5
"""Shannon entropy per character: joined English words stay near 3, 24 of random base64 are above 4."""

_EDGE = rb"(?<![A-Za-z0-9_])"

TOKENS: tuple[tuple[tuple[bytes, ...], re.Pattern[bytes]], ...] = tuple(
    (tuple(needle.lower() for needle in needles), re.compile(_EDGE + rb"(?:" + form + rb")"))
    for needles, form in (
        ((b"eyj",), rb"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,3}"),  # JWT, JWE
        ((b"hf_", b"api_org_"), rb"(?:hf|api_org)_[A-Za-z0-9]{12,}"),  # Hugging Face
        (
            (b"sk-", b"sk_live_", b"sk_test_", b"rk_live_", b"rk_test_"),
            rb"sk-[A-Za-z0-9_-]{12,}|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}",
        ),  # OpenAI, Stripe
        (
            (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_"),
            rb"gh[opusr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}",
        ),
        (
            (b"glpat-", b"gldt-", b"glrt-", b"glcbt-", b"glptt-", b"glft-", b"glimt-", b"glagent-", b"glsoat-"),
            rb"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[A-Za-z0-9_.-]{12,}",
        ),
        ((b"xox", b"xapp-"), rb"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}"),  # Slack
        ((b"aiza",), rb"AIza[A-Za-z0-9_-]{20,}"),  # Google
        ((b"ya29.", b"1//0"), rb"ya29\.[A-Za-z0-9_-]{8,}|1//0[A-Za-z0-9_-]{20,}"),  # Google OAuth
        ((b"gocspx-",), rb"GOCSPX-[A-Za-z0-9_-]{12,}"),
        (
            (b"akia", b"asia", b"aroa", b"abia", b"acca"),
            rb"(?:AKIA|ASIA|AROA|ABIA|ACCA)[A-Z0-9]{12,}",
        ),  # AWS key ids
        ((b"npm_",), rb"npm_[A-Za-z0-9]{20,}"),
        ((b"pypi-",), rb"pypi-[A-Za-z0-9_-]{32,}"),
        ((b"nvapi-",), rb"nvapi-[A-Za-z0-9_-]{12,}"),  # NVIDIA
        ((b"dckr_",), rb"dckr_(?:pat|oat)_[A-Za-z0-9_-]{12,}"),
        ((b"sg.",), rb"SG\.[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]{12,}"),  # SendGrid
        ((b"hvs.", b"hvb.", b"hvr."), rb"hv[sbr]\.[A-Za-z0-9_-]{16,}"),  # Vault
        ((b"gsk_", b"xai-", b"pplx-", b"r8_", b"tgp_v1_"), rb"(?:gsk_|xai-|pplx-|r8_|tgp_v1_)[A-Za-z0-9_-]{16,}"),
        ((b"glsa_", b"glc_"), rb"gl(?:sa|c)_[A-Za-z0-9_=+/]{16,}"),  # Grafana
        ((b"dapi",), rb"dapi[0-9a-f]{24,}(?:-\d)?"),  # Databricks
        ((b"dop_v1_", b"doo_v1_"), rb"do[opr]_v1_[0-9a-f]{24,}"),
        ((b"shpat_", b"shpca_", b"shppa_", b"shpss_"), rb"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{16,}"),
        ((b"atatt", b"atctt"), rb"AT[AC]TT3x[A-Za-z0-9_=-]{16,}"),  # Atlassian
        ((b"lin_api_",), rb"lin_api_[A-Za-z0-9]{16,}"),
        ((b"age-secret-key-",), rb"AGE-SECRET-KEY-1[A-Z0-9]{20,}"),
        ((b"sha256~",), rb"sha256~[A-Za-z0-9_-]{20,}"),  # OpenShift
        ((b"kubeconfig-", b"token-"), rb"(?:kubeconfig-(?:user|u)-|token-)[a-z0-9]{4,12}:[a-z0-9]{40,}"),  # Rancher
        ((b"hooks.slack.com",), rb"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/-]{8,}"),
        ((b"/webhooks/",), rb"discord(?:app)?\.com/api/webhooks/[A-Za-z0-9_/-]{8,}"),
        ((b"webhook.office.com",), rb"webhook\.office\.com/[A-Za-z0-9@_/.-]{8,}"),
        ((b"q~",), rb"[A-Za-z0-9_.~-]{3}\dQ~[A-Za-z0-9_.~-]{31,40}"),  # Entra application secret
        ((b"wandb_v1_",), rb"wandb_v1_[A-Za-z0-9_]{20,}"),
        ((b"/bot",), rb"bot\d{6,12}:[A-Za-z0-9_-]{30,}"),  # Telegram
    )
)
"""(what to look for in the lower-cased text, the expression). Finding the needle first is much cheaper."""

_NEEDLE = re.compile(b"|".join(re.escape(needle) for needles, _ in TOKENS for needle in needles))
_SHORTEST = 12
"""Characters of the shortest token of `TOKENS`, and more than a random string that counts has."""
_CHUNK = re.compile(r"[A-Za-z0-9_+=~-]{20,}")
_UUID = re.compile(r"(?:GPU-|MIG-)?[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f])")
_HEX = re.compile(r"(?:0x)?[0-9A-Fa-f]+")
_USERINFO = re.compile(r"://[^\s/@]{1,512}@")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")


def mask_tokens(text: str) -> str:
    """`text` (a file's name) with tokens of known forms masked, and nothing else changed."""
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) < _SHORTEST or _NEEDLE.search(raw.lower()) is None:
        return text
    for _, expression in TOKENS:
        raw = expression.sub(MASK, raw)
    return raw.decode("utf-8", "surrogateescape")


def looks_secret(value: str) -> bool:
    """Whether a value, without regard of its name, is likely a secret: a known token, userinfo in a URL, a private key,
    or a long string without structure."""
    if len(value) < _SHORTEST and "://" not in value:
        return False
    raw = value.encode("utf-8", "surrogateescape")
    if _NEEDLE.search(raw.lower()) and any(expression.search(raw) for _, expression in TOKENS):
        return True
    if _USERINFO.search(value) or "PRIVATE KEY" in value:
        return True
    without = _UUID.sub(" ", value)
    if any(_random(chunk) for chunk in _CHUNK.findall(without)):
        return True
    # base64 has slashes, and so have paths: only what no path would look like
    return any(_mixed(chunk) and chunk.count("/") <= len(chunk) // 16 for chunk in _BASE64.findall(without))


def _random(chunk: str) -> bool:
    if _HEX.fullmatch(chunk):
        return len(chunk) >= LONG_HEX
    return len(chunk) >= LONG_RANDOM and _mixed(chunk)


def _mixed(chunk: str) -> bool:
    """Digits between letters of both cases, or letters and digits that keep changing; as diverse as by chance."""
    kinds = [character.isdigit() for character in chunk if character.isalnum()]
    changes = sum(one != other for one, other in itertools.pairwise(kinds))
    cases = any(c.islower() for c in chunk) and any(c.isupper() for c in chunk)
    return changes >= (3 if cases else 6) and entropy(chunk) >= ENTROPY_BITS


def entropy(text: str) -> float:
    """Shannon entropy in bits per character; 0 for an empty text."""
    total = len(text)
    return -sum(n / total * math.log2(n / total) for n in Counter(text).values()) if total else 0.0
