"""Item scores by hand: what each formula says of two small answers."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from heldout.detect import DetectSettings, Finding, NotTestable, ScoreTables, run_detectors
from heldout.detect.item_scores import MEMBERSHIP
from heldout.detect.tables import covariate, strata
from heldout.errors import InputError
from heldout.lab.power.planted_scores import PLANTED, planted_scores

BY_NAME = {one.name: one for one in MEMBERSHIP}
LOGPROBS = [[-1.0, -4.0, -2.0, -3.0, -5.0], [-0.5]]
MU = [[-2.0, -2.0, -2.0, -2.5, -3.0], [-1.0]]
SIGMA = [[1.0, 0.5, 1.0, 2.0, 4.0], [0.25]]


@pytest.fixture
def tables() -> ScoreTables:
    items = pl.DataFrame(
        {
            "benchmark_id": ["a", "b"],
            "position": [0, 1],
            "cluster": ["x", "y"],
            "question": ["is it?", "what is it?"],
            "options": [[], []],
            "answer": ["no", "left lung"],
            "metadata": ['{"origin": "fresh"}', '{"origin": "public"}'],
        },
        schema_overrides={"options": pl.List(pl.String)},
    )
    scores = pl.concat(
        [
            pl.DataFrame(
                {
                    "benchmark_id": ["a", "b"],
                    "model": [model] * 2,
                    "tokens": [["t"] * 5, ["t"]],
                    "logprobs": LOGPROBS,
                    "mu": MU,
                    "sigma": SIGMA,
                    "sum_logprob": [-15.0 - shift * 5, -0.5 - shift],
                    "n_tokens": [5, 1],
                    "span_ok": [True, True],
                },
                schema_overrides={"n_tokens": pl.Int32},
            )
            for model, shift in (("m", 0.0), ("reference", 2.0))
        ]
    )
    return ScoreTables("toy", items, scores)


def _scores(name: str, tables: ScoreTables, settings: DetectSettings | None = None) -> np.ndarray:
    found = BY_NAME[name].score(tables, tables.scored("m"), settings or DetectSettings())
    assert not isinstance(found, str), found
    return found


def test_formulas(tables: ScoreTables) -> None:
    assert _scores("loss", tables) == pytest.approx([-3.0, -0.5])
    assert _scores("min-k", tables) == pytest.approx([-5.0, -0.5])  # a fifth of five tokens is one
    assert _scores("min-k", tables, DetectSettings(share=0.4)) == pytest.approx([-4.5, -0.5])
    assert _scores("min-k++", tables) == pytest.approx([-4.0, 2.0])
    assert _scores("max-renyi-k", tables) == pytest.approx([-3.0, -1.0])
    sizes = [len(zlib.compress(text)) for text in (b"no", b"left lung")]
    assert _scores("zlib", tables) == pytest.approx([-15.0 / sizes[0], -0.5 / sizes[1]])
    ratio = _scores("perplexity-ratio", tables, DetectSettings(reference="reference"))
    assert ratio == pytest.approx([2.0, 2.0])


def test_what_was_not_recorded_is_not_made_up(tables: ScoreTables) -> None:
    empty = pl.lit([], dtype=pl.List(pl.Float64))
    bare = replace(tables, scores=tables.scores.with_columns(mu=empty, sigma=empty))
    for name in ("min-k++", "max-renyi-k"):
        told = BY_NAME[name].score(bare, bare.scored("m"), DetectSettings())
        assert isinstance(told, str)
        assert "not recorded" in told
    none = BY_NAME["perplexity-ratio"].score(tables, tables.scored("m"), DetectSettings())
    assert isinstance(none, str)
    mixed = replace(
        tables, identities={"m": {"dtype": "float16"}, "reference": {"dtype": "float32"}}
    )
    told = BY_NAME["perplexity-ratio"].score(
        mixed, mixed.scored("m"), DetectSettings(reference="reference")
    )
    assert isinstance(told, str)
    assert "across backends" in told


def test_a_certain_model_does_not_blow_up_min_k_plus_plus(tables: ScoreTables) -> None:
    flat = tables.scores.with_columns(sigma=pl.col("sigma").list.eval(pl.element() * 0.0))
    assert np.isfinite(_scores("min-k++", replace(tables, scores=flat))).all()


def test_strata_come_from_metadata_or_from_the_answers(tables: ScoreTables) -> None:
    frame = tables.scored("m").frame
    assert covariate(frame, "answer_type") == ["CLOSED", "OPEN"]
    assert covariate(frame, "answer_length") == ["1 word", "2-3 words"]
    assert strata(frame, ("answer_type", "origin")) == ["CLOSED / fresh", "OPEN / public"]
    assert strata(frame, ()) is None
    with pytest.raises(InputError, match="'modality'.*origin"):
        covariate(frame, "modality")


def test_an_unseen_group_that_is_not_there_is_said() -> None:
    with pytest.raises(InputError, match="'origin'.* fresh, public"):
        run_detectors(
            planted_scores(0), ["loss"], PLANTED.model_copy(update={"unseen": ("origin", "new")})
        )


def test_every_item_finding_stands_beside_the_blind_one() -> None:
    (finding, *_) = BY_NAME["loss"].find(
        planted_scores(0), PLANTED.model_copy(update={"permutations": 199})
    )
    assert isinstance(finding, Finding)
    assert 0.3 < finding.details["blind_auc"] < 0.7  # words of suspect and unseen items are alike


def test_blind_sees_sets_that_words_tell_apart() -> None:
    tables = planted_scores(0)
    words = [
        f"{question} {'today' if 'fresh' in metadata else 'once'}"
        for question, metadata in zip(
            tables.items["question"], tables.items["metadata"], strict=True
        )
    ]
    marked = replace(tables, items=tables.items.with_columns(question=pl.Series(words)))
    (finding, *_) = BY_NAME["loss"].find(marked, PLANTED.model_copy(update={"permutations": 199}))
    assert isinstance(finding, Finding)
    assert finding.details["blind_auc"] > 0.95


def test_two_rows_for_one_item_are_refused(tables: ScoreTables) -> None:
    twice = replace(tables, scores=pl.concat([tables.scores, tables.scores.head(1)]))
    with pytest.raises(InputError, match=r"scores .*two rows.* of m\b"):
        twice.scored("m")


def test_too_few_clusters_are_not_testable(tables: ScoreTables) -> None:
    settings = DetectSettings(unseen=("origin", "fresh"))
    for outcome in BY_NAME["loss"].find(tables, settings):
        assert isinstance(outcome, NotTestable)
        assert "too few" in outcome.reason
