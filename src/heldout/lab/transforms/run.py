"""``heldout lab transforms``: the study of every encoder, its page, and its part of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from heldout.benchmark import Benchmark
from heldout.corpus import open_corpus
from heldout.engine import open_engine
from heldout.errors import InputError, require
from heldout.lab.settings import TransformSettings
from heldout.lab.transforms.cascade import PairJudge, judge_by_registration
from heldout.lab.transforms.page import write_studies
from heldout.lab.transforms.queries import collect
from heldout.lab.transforms.result import TransformStudy, keep_robustness, refuse_another_encoder
from heldout.lab.transforms.study import study_transforms
from heldout.overlap import Encoder, degrees_of, open_encoder, parts
from heldout.store import Run


def run_transforms(
    benchmark: Benchmark,
    out: Path,
    settings: TransformSettings | None = None,
    *,
    run: Run | None = None,
    engine: str = "local",
    workers: int | None = None,
    command: str = "",
    quiet: bool = False,
) -> tuple[list[TransformStudy], Path]:
    """How well copies are found after every transform.

    Args:
        benchmark: Its images are the queries.
        out: Folder for the page and its tables.
        settings: What is studied.
        run: A run of ``heldout overlap`` whose report is to show the result.
        engine: Where the work runs.
        workers: Processes; default: one per core.
        command: The command that the page names.
        quiet: Show no progress.

    Returns:
        A study of each encoder, and the page.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"out {out}: it is a file; expected the name of a folder")
    settings = settings or TransformSettings()
    judge = _judge() if settings.verify else None
    others = [open_corpus(source) for source in settings.among]
    collection = collect(benchmark, among=others, group=settings.group)
    with open_engine(engine, workers) as chosen:
        studies = [
            study_transforms(
                collection,
                encoder,
                settings.model_copy(update={"degrees": _degrees(encoder, settings)}),
                views=encoder.encode_views,
                parts=parts,
                judge=judge,
                engine=chosen,
                quiet=quiet,
            )
            for encoder in _opened(settings.encoders, run)
        ]
    paths = write_studies(studies, out, command=command)
    for folder in (out, *([run.path] if run is not None else [])):
        keep_robustness(studies, folder, command)
    return studies, paths[0]


def _judge() -> PairJudge:
    require("cv2", "vision", "judging pairs by registration")
    from heldout.overlap import cheap_features, register

    return judge_by_registration(register, prepare=cheap_features)


def _degrees(encoder: Encoder, settings: TransformSettings) -> dict[str, float] | None:
    """The degrees to measure: those of the settings, or those measured for the encoder."""
    if settings.degrees is not None:
        return settings.degrees
    degrees = degrees_of(encoder.identity)
    return None if degrees is None else {"hard": degrees.hard, "soft": degrees.soft}


def _opened(names: Sequence[str], run: Run | None) -> Iterator[Encoder]:
    """One encoder at a time: some fill the memory."""
    for name in names:
        encoder = open_encoder(name)
        if run is not None:
            refuse_another_encoder(run, encoder.identity)
        yield encoder
