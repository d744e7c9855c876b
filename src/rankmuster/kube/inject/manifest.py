"""A whole stream of manifests with the sidecar in every engine's pod template. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.kube.inject.containers import any_gpus
from rankmuster.kube.inject.documents import Document, read, write
from rankmuster.kube.inject.pod import inject
from rankmuster.kube.inject.settings import InjectSettings
from rankmuster.kube.inject.templates import of, templates


@dataclass(frozen=True, slots=True)
class Injected:
    """`done`: templates that have the sidecar now. `left`: objects in which there was nothing to do."""

    text: str
    done: tuple[str, ...]
    left: tuple[str, ...]
    notes: tuple[str, ...]


def inject_text(text: str, name: str, settings: InjectSettings) -> Injected:
    """Raises documents.NotReadable, templates.NotInjectable; then nothing is made of any document."""
    documents = read(text, name)
    done: list[str] = []
    left: list[str] = []
    notes: list[str] = []
    for document in documents:
        made = _one(document, settings, notes)
        done += made
        if not made and document.value is not None:
            left.append(of(document.value))
    return Injected(write(documents), tuple(done), tuple(left), tuple(notes))


def _one(document: Document, settings: InjectSettings, notes: list[str]) -> list[str]:
    found = templates(document.value, settings.grouping)
    gpus = [any_gpus(template) for template in found]
    done: list[str] = []
    for index, template in enumerate(found):
        others = any(has for at, has in enumerate(gpus) if at != index)
        said = inject(template, settings, others_have_gpus=others)
        if said is None:
            notes.append(f"{template.where}: no engine is in it, so it is left as it is")
            continue
        notes += said
        done.append(template.where)
    document.changed = bool(done)
    return done
