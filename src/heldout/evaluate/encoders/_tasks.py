"""The four tasks: items and rows in, measures by item out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heldout.corpus import Corpus, EmbeddingCorpus, open_corpus
from heldout.errors import InputError
from heldout.evaluate.encoders._items import STAGE, Asked, AskedItems, read_class_names
from heldout.evaluate.encoders._probe import fit_probe, training_features
from heldout.evaluate.encoders._ranks import (
    CUTS,
    Floats,
    Pairing,
    alike,
    class_rows,
    tied,
    zero_shot,
)
from heldout.evaluate.encoders._saved_rows import UNUSABLE, EncodedRows, read_class_rows
from heldout.evaluate.encoders.result import TaskResult
from heldout.evaluate.encoders.settings import EncoderSettings, EncoderTask, prompts, read_templates
from heldout.store import Dropped


def zero_shot_task(asked: AskedItems, settings: EncoderSettings, rows: EncodedRows) -> TaskResult:
    details: dict[str, Any] = {}
    if rows.saved is not None:
        assert settings.class_embeddings is not None
        names, classes = read_class_rows(settings.class_embeddings)
        if classes.shape[1] != rows.pictures.shape[1]:
            raise InputError(
                f"class_embeddings {settings.class_embeddings}: its rows have {classes.shape[1]} numbers, "
                f"those of {rows.spec} {rows.pictures.shape[1]}: they are of different encoders"
            )
    else:
        templates = read_templates(settings.templates)
        called = _classes(asked, settings)
        names = list(called)
        texts = [prompts(form, called[name]) for name in names for form in templates]
        distinct = list(dict.fromkeys(texts))
        place = {text: number for number, text in enumerate(distinct)}
        prompt_rows = rows.texts(distinct, "class prompts")
        classes = class_rows(prompt_rows[[place[text] for text in texts]], len(templates))
        details["templates"] = len(templates)
    if len(names) < 2:
        raise InputError(f"task zero-shot: expected two classes or more, found {len(names)}")
    items, dropped = _labelled(asked, names, "class not among the candidates")
    places = {name: number for number, name in enumerate(names)}
    hits = zero_shot(rows.of(items), classes, [places[item.label or ""] for item in items])
    details["classes"] = len(names)
    task_result = _result(EncoderTask.ZERO_SHOT, items, hits, details, dropped)
    task_result.remarks += _same_rows(rows.pictures, "pictures")
    if same := tied(classes):
        task_result.remarks.append(
            f"the prompts of {same:,} of {len(names):,} classes have an equal row in another class: these "
            f"classes have the same embedding, and their pictures count as missed at rank 1"
        )
    return task_result


def _classes(asked: AskedItems, settings: EncoderSettings) -> dict[str, str]:
    if settings.class_names is not None:
        return read_class_names(settings.class_names)
    labels = sorted({item.label for item in asked.items if item.label})
    return {label: label.replace("_", " ") for label in labels}


def probe_task(asked: AskedItems, settings: EncoderSettings, rows: EncodedRows) -> TaskResult:
    if rows.run is None:
        raise InputError("task probe: training features are kept in a run folder; give one")
    corpus = _corpus(settings)
    if rows.encoder is None and not isinstance(corpus, EmbeddingCorpus):
        raise InputError(
            f"train {settings.train}: a probe on saved rows needs saved training rows (img_emb/*.npy "
            f"with a label column); this is {corpus.reader}"
        )
    features = training_features(
        corpus, settings, rows.encoder, rows.run, rows.engine, quiet=rows.quiet
    )
    if features.features.dimension != rows.pictures.shape[1]:
        raise InputError(
            f"train {settings.train}: its rows have {features.features.dimension} numbers, the "
            f"benchmark's {rows.pictures.shape[1]}: they are of different encoders"
        )
    items, dropped = _labelled(asked, features.classes, "class not in the training set")
    probe = fit_probe(
        features.features,
        len(features.classes),
        settings.strengths,
        iterations=settings.iterations,
        seed=settings.seed,
    )
    scores = probe.scores(rows.of(items))
    places = {name: number for number, name in enumerate(features.classes)}
    right = np.array([places[item.label or ""] for item in items])
    own = scores[np.arange(len(items)), right]
    # Itself among them; a tie is lost, and so is what is not a number.
    ranks = (~(scores < own[:, None])).sum(axis=1)
    hits = {
        f"top-{cut}": (ranks <= cut).astype(float).tolist()
        for cut in CUTS
        if len(features.classes) > cut
    }
    details = {
        "classes": len(features.classes),
        "training pictures": len(features.features),
        "strength": probe.strength,
        "converged": probe.converged,
        "validation": {
            f"{strength:g}": round(value, 5) for strength, value in probe.validation.items()
        },
    }
    result = _result(EncoderTask.PROBE, items, hits, details, [*features.dropped, *dropped])
    result.remarks += _same_rows(rows.pictures, "pictures")
    return result


def _corpus(settings: EncoderSettings) -> Corpus:
    assert settings.train is not None
    name, equals, source = settings.train.partition("=")
    named = bool(equals) and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
    if named and not Path(settings.train).exists():
        return open_corpus(source, name=name)
    return open_corpus(settings.train)


def retrieval_task(asked: AskedItems, rows: EncodedRows, task: EncoderTask) -> TaskResult:
    dropped: list[Dropped] = []
    saved = rows.saved
    items = []
    captions: list[tuple[str, ...]] = []
    for item in asked.items:
        own = item.captions if saved is None else tuple(filter(None, [saved.captions.get(item.id)]))
        if own:
            items.append(item)
            captions.append(own)
        elif saved is not None and item.id in saved.unusable_texts:
            dropped.append(Dropped(STAGE, item.id, "unusable text embedding", UNUSABLE))
        else:
            dropped.append(Dropped(STAGE, item.id, "no caption", f"it takes no part in {task}"))
    pairing = Pairing.of([rows.place[item.picture] for item in items], captions, len(rows.pictures))
    if len(pairing.texts) < 2:
        raise InputError(f"task {task}: expected two captions or more, found {len(pairing.texts)}")
    if saved is None:
        texts = rows.texts(pairing.texts, "captions")
    else:
        first = {
            own[0]: saved.texts[asked.id]
            for asked, own in reversed(list(zip(items, captions, strict=True)))
        }
        texts = np.stack([first[text] for text in pairing.texts])
    details = {
        "captions": len(pairing.texts),
        "pictures": sum(len(array) > 0 for array in pairing.captions_of),
    }
    measures: dict[str, dict[str, float]] = defaultdict(dict)
    if task is EncoderTask.IMAGE_TO_TEXT:
        for name, by_picture in pairing.image_to_text(rows.pictures, texts).items():
            for item in items:
                measures[name][item.id] = by_picture[rows.place[item.picture]]
    else:
        place = {text: number for number, text in enumerate(pairing.texts)}
        for name, by_text in pairing.text_to_image(rows.pictures, texts).items():
            for item, own in zip(items, captions, strict=True):
                # Of an item with several captions each is a query; the item has their mean.
                measures[name][item.id] = float(np.mean([by_text[place[text]] for text in own]))
    remarks = [*_same_rows(rows.pictures, "pictures"), *_same_rows(texts, "captions")]
    return TaskResult(task, dict(measures), details, dropped, remarks)


def _same_rows(rows: Floats, what: str) -> list[str]:
    """A sentence where an encoder gives most inputs the same embedding."""
    if not (same := alike(rows)):
        return []
    return [
        f"{same:,} of {len(rows):,} {what} have the same row: the encoder does not distinguish them, so "
        f"neither scores nor differences are evidence of leaks"
    ]


def _labelled(
    asked: AskedItems, names: Sequence[str], otherwise: str
) -> tuple[list[Asked], list[Dropped]]:
    known = set(names)
    items = [item for item in asked.items if item.label in known]
    dropped = [
        Dropped(STAGE, item.id, otherwise, f"'{item.label}'")
        if item.label
        else Dropped(STAGE, item.id, "no label", f"column {asked.label_column} is empty")
        for item in asked.items
        if item.label not in known
    ]
    if not items:
        first = next((item.label for item in asked.items if item.label), None)
        raise InputError(
            f"no item has a class among the {len(names):,} candidates: the first item's is '{first}', the "
            f"first candidate is '{names[0]}'"
        )
    return items, dropped


def _result(
    task: EncoderTask,
    items: Sequence[Asked],
    hits: dict[str, list[float]],
    details: dict[str, Any],
    dropped: list[Dropped],
) -> TaskResult:
    ids = [item.id for item in items]
    measures = {name: dict(zip(ids, values, strict=True)) for name, values in hits.items()}
    return TaskResult(task, measures, details, dropped)
