"""What a configuration asks for that can never work, said before anything is begun and not at the first stop. Pure but
for `doubts`, which looks whether files are there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from rankmuster.collect.find.naming import clean
from rankmuster.watch.config import CommandHook, HardwareSource, WatchConfig

ALL = "*"
"""In place of a name: whichever instances run here."""


def objections(config: WatchConfig) -> list[str]:
    """Where it is wrong and what would be right, one sentence each; no URL is repeated, since it may be a secret."""
    found = [text for place, name in _names(config) if (text := _name(place, name))]
    found += [text for place, url in _urls(config) if (text := _url(place, url))]
    found += [
        f"engine.urls.{name} names no page; leave it out, or give an address"
        for name, urls in _given(config)
        if not urls
    ]
    for place, hook in enumerate(config.on_stop.hooks):
        if not isinstance(hook, CommandHook) and _user(hook.url):
            found.append(
                f"on_stop.hooks.{place}.url holds a user or a password; put an Authorization header into header_file"
            )
    if config.hardware.source is HardwareSource.DCGM and not config.hardware.dcgm_url:
        found.append(
            "hardware.source is dcgm, and hardware.dcgm_url is not given; http://127.0.0.1:9400/metrics, perhaps"
        )
    return found


def doubts(config: WatchConfig, bundles: Path) -> list[str]:
    """What would fail at a stop if it stayed as it is now. `bundles`: where the evidence is to go."""
    found = []
    if config.on_stop.collect and not _can_be_made(bundles):
        found.append(
            f"nothing can be written in {bundles}: no evidence of a stop is saved; name another with --bundles"
        )
    pages = dict.fromkeys(place for place, url in _urls(config) if not place.startswith("on_stop.") and _user(url))
    found += [f"{place}: the user and password in an address are not sent" for place in pages]
    for place, hook in enumerate(config.on_stop.hooks):
        if isinstance(hook, CommandHook):
            import shutil  # 1 MB, for those who have hooks

            if shutil.which(hook.command[0]) is None:
                found.append(f"on_stop.hooks.{place}: the program {hook.command[0]} is not there, or may not be run")
        elif hook.header_file is not None and not os.access(hook.header_file, os.R_OK):
            found.append(f"on_stop.hooks.{place}: the header_file {hook.header_file} is not there, or may not be read")
    return found


def _can_be_made(folder: Path) -> bool:
    """Whether it is there and may be written, or may be made where the first of its parents is."""
    try:
        there = next(one for one in (folder, *folder.parents) if one.exists())
        return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    except (OSError, StopIteration):
        return False


def _given(config: WatchConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from config.engine.urls.items()


def _names(config: WatchConfig) -> Iterator[tuple[str, str]]:
    yield from (("instances", name) for name in config.instances)
    yield from (("engine.urls", name) for name in config.engine.urls if name != ALL)
    yield from (("logs.files", name) for name in config.logs.files if name != ALL)


def _name(place: str, name: str) -> str | None:
    """Instances that are found have clean names: another one would never be met, and acts in paths and on terminals."""
    if name and clean(name) == name:
        return None
    if not name:
        return f"{place}: the name of an instance is empty"
    return f"{place}: no instance is called {name!r}: letters, digits and . _ @ : + - stand in a name; {clean(name)!r}?"


def _urls(config: WatchConfig) -> Iterator[tuple[str, str]]:
    for name, urls in config.engine.urls.items():
        yield from ((f"engine.urls.{name}", url) for url in urls)
    if config.hardware.dcgm_url is not None:
        yield "hardware.dcgm_url", config.hardware.dcgm_url
    for place, hook in enumerate(config.on_stop.hooks):
        if not isinstance(hook, CommandHook):
            yield f"on_stop.hooks.{place}.url", hook.url


def _url(place: str, url: str) -> str | None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        good = good and url.isprintable() and " " not in url
    except ValueError:
        good = False
    return (
        None
        if good
        else f"{place}: an address is no http or https URL with a host, such as http://127.0.0.1:8000/metrics"
    )


def _user(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.username is not None or parts.password is not None
