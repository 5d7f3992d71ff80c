"""Calibrate a near search: measure every corpus' null and controls, and write them to the run."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.benchmark import Benchmark
from heldout.corpus import Corpus, corpus_fingerprint
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.overlap.calibration.measure import (
    CalibrationPlan,
    Measured,
    failed,
    measure,
    write_measured,
)
from heldout.overlap.embeddings import (
    benchmark_pictures,
    embed_benchmark,
    embed_corpus,
    pictures_of,
    whole_pictures,
)
from heldout.overlap.encoders import open_encoder
from heldout.overlap.near import NearSearch
from heldout.store import Run


def calibrate(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    *,
    near: NearSearch | None,
    plan: CalibrationPlan,
    quiet: bool = False,
) -> None:
    """After ``scan``. A corpus that cannot be calibrated says why; its scan is kept.

    Without a near search there is nothing to calibrate, and the run says that, too.
    """
    measured: list[Measured] = []
    specs = [] if near is None else list(dict.fromkeys([near.encoder, *plan.encoders]))
    seed = int(run.manifest()["seed"])
    for number, spec in enumerate(specs):
        assert near is not None
        encoder = open_encoder(spec)
        if number:  # the search itself embedded both sides with its own encoder
            embed_benchmark(benchmark, spec, encoder, run, engine, quiet=quiet)
        for corpus in corpora:
            if number:
                embed_corpus(corpus, spec, encoder, run, engine, place=near.embeddings, quiet=quiet)
            try:
                found = measure(
                    run,
                    corpus.name,
                    corpus_fingerprint(corpus),
                    whole_pictures(run, corpus.name, encoder.identity),
                    benchmark_pictures(run, encoder.identity),
                    plan,
                    encoder,
                    images=pictures_of(benchmark),
                    seed=seed,
                    quiet=quiet,
                )
            except InputError as error:
                found = failed(corpus.name, encoder.identity, plan, str(error))
            measured.append(found)
    write_measured(run, measured)
