"""evaluate_encoder: every task of a dual encoder on a benchmark, item by item."""

from __future__ import annotations

from pathlib import Path

from heldout.benchmark import Benchmark
from heldout.engine import Engine, LocalEngine
from heldout.errors import InputError
from heldout.evaluate.encoders._items import AskedItems, asked_items
from heldout.evaluate.encoders._saved_rows import UNUSABLE, EncodedRows, encoded_rows
from heldout.evaluate.encoders._tasks import probe_task, retrieval_task, zero_shot_task
from heldout.evaluate.encoders.result import EncoderEvaluation
from heldout.evaluate.encoders.settings import EncoderSettings, EncoderTask
from heldout.store import Run

ZERO_SHOT, PROBE, IMAGE_TO_TEXT, TEXT_TO_IMAGE = EncoderTask


def evaluate_encoder(
    benchmark: Benchmark,
    settings: EncoderSettings,
    run: Run | None = None,
    engine: Engine | None = None,
    *,
    quiet: bool = False,
) -> EncoderEvaluation:
    """Zero-shot classification, a linear probe and retrieval both ways, as far as they can be done.

    Args:
        benchmark: Pictures with classes, captions, or both.
        settings: Encoder, tasks and how they are done.
        run: Run folder that keeps what was embedded; a killed call goes on there. A probe needs one.
        engine: Where the encoder runs; default: this process.
        quiet: Show no progress.
    """
    asked = asked_items(benchmark, settings)
    rows = encoded_rows(benchmark, asked, settings, run, engine or LocalEngine(1), quiet=quiet)
    tasks, skipped = _possible(settings, asked, rows)
    encoder_evaluation = EncoderEvaluation(
        rows.identity,
        encoder_name(settings.encoder),
        benchmark.name,
        [],
        list(asked.dropped),
        skipped,
    )
    for task in tasks:
        if task is ZERO_SHOT:
            encoder_evaluation.tasks.append(zero_shot_task(asked, settings, rows))
        elif task is PROBE:
            encoder_evaluation.tasks.append(probe_task(asked, settings, rows))
        else:
            encoder_evaluation.tasks.append(retrieval_task(asked, rows, task))
    return encoder_evaluation


def encoder_name(spec: str) -> str:
    """The display name of an encoder: a folder's own name, or the model's name."""
    kind, _, name = spec.partition(":")
    return Path(name).resolve().name if name and Path(name).is_dir() else name or kind


def _possible(
    settings: EncoderSettings, asked: AskedItems, rows: EncodedRows
) -> tuple[list[EncoderTask], dict[str, str]]:
    """Tasks to do; and the other tasks, unless they were asked for, with the reason why they cannot be done."""
    problems: dict[EncoderTask, str] = {}
    labelled = asked.label_column is not None and any(item.label for item in asked.items)
    if not labelled:
        why = "items have no class: name its column as label"
        problems |= {ZERO_SHOT: why, PROBE: why}
    if settings.train is None:
        problems[PROBE] = "no training set: name its corpus as train"
    spoken = asked.caption_column is not None and any(item.captions for item in asked.items)
    if rows.saved is not None:
        if settings.class_embeddings is None:
            problems[ZERO_SHOT] = (
                "saved rows need saved class prompts: name them as class_embeddings"
            )
        if not rows.saved.texts:
            why = "the folder has no text_emb/*.npy"
            if rows.saved.unusable_texts:
                why = f"no text row can be used: {UNUSABLE}"
            problems |= dict.fromkeys((IMAGE_TO_TEXT, TEXT_TO_IMAGE), why)
    else:
        if not spoken:
            why = "items have no caption: name its column as caption"
            problems |= dict.fromkeys((IMAGE_TO_TEXT, TEXT_TO_IMAGE), why)
        try:
            assert rows.encoder is not None
            _ = rows.encoder.text_identity
        except InputError as error:
            problems |= dict.fromkeys((ZERO_SHOT, IMAGE_TO_TEXT, TEXT_TO_IMAGE), str(error))
    wanted = settings.tasks or tuple(EncoderTask)
    if settings.tasks is not None:
        for task in wanted:
            if task in problems:
                raise InputError(f"task {task}: {problems[task]}")
    possible = [task for task in wanted if task not in problems]
    if not possible:
        message = "; ".join(f"{task}: {why}" for task, why in problems.items())
        raise InputError(f"no task can be done ({message})")
    return possible, {task.value: problems[task] for task in wanted if task in problems}
