"""The easiest items with their ids: by hand, and in the order of the published lists."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from heldout.detect import DetectSettings, ScoreTables
from heldout.detect.easiest import TopItems, easiest_items
from heldout.detect.item_scores import MIN_K_PLUS_PLUS
from heldout.lab.power.planted_scores import BASELINE, MODELS, PLANTED, TARGET, planted_scores
from heldout.store import make_table


def _by(found: list[TopItems], model: str, score: str) -> TopItems:
    return next(one for one in found if (one.model, one.score) == (model, score))


def test_every_model_and_score_has_its_top_items() -> None:
    tables = planted_scores(3, dose=3.0)
    found = easiest_items(tables, PLANTED)
    assert {one.model for one in found} == set(MODELS)
    scores = {one.score for one in found if one.model == TARGET}
    assert scores == {
        "loss",
        "min-k",
        "min-k++",
        "zlib",
        "max-renyi-k",
        "image-membership",
        "perplexity-ratio",
        "Δ of min-k++",
    }
    mine = _by(found, TARGET, "min-k++")
    values = MIN_K_PLUS_PLUS.score(tables, tables.scored(TARGET), PLANTED)
    assert not isinstance(values, str)
    ids = np.asarray(tables.items["benchmark_id"].to_list())
    order = np.argsort(-values)[: PLANTED.top]
    assert [one.benchmark_id for one in mine.items] == ids[order].tolist()
    assert [one.score for one in mine.items] == pytest.approx(values[order].tolist())
    assert [one.rank for one in mine.items] == list(range(1, PLANTED.top + 1))
    first = mine.items[0]
    row = tables.items.row(int(order[0]), named=True)
    assert (first.question, first.answer, first.cluster, first.position) == (
        row["question"],
        row["answer"],
        row["cluster"],
        row["position"],
    )


def test_an_item_says_in_whose_top_set_it_stands_too() -> None:
    tables = planted_scores(3)
    copy = tables.scores.filter(pl.col("model") == TARGET).with_columns(model=pl.lit(BASELINE))
    others = tables.scores.filter(pl.col("model") != BASELINE)
    alike = replace(tables, scores=pl.concat([others, copy]))
    mine = _by(easiest_items(alike, PLANTED), TARGET, "min-k++")
    assert all(BASELINE in one.also_in for one in mine.items)
    assert all(TARGET not in one.also_in for one in mine.items)


def _tables(columns: dict[str, dict[str, float]], texts: dict[str, tuple[str, str]]) -> ScoreTables:
    items = [
        {
            "benchmark_id": name,
            "position": place,
            "cluster": name,
            "question": question,
            "options": [],
            "answer": answer,
            "image_names": [],
            "image_digests": [],
            "metadata": "{}",
        }
        for place, (name, (question, answer)) in enumerate(texts.items())
    ]
    scores = [
        {
            "benchmark_id": name,
            "model": model,
            "tokens": ["t"],
            "logprobs": [-1.0],
            "mu": [-1.0 - value],
            "sigma": [1.0],
            "sum_logprob": -1.0,
            "n_tokens": 1,
            "span_ok": True,
        }
        for model, column in columns.items()
        for name, value in column.items()
    ]
    frames: list[Any] = [
        pl.from_arrow(make_table("items", items)),
        pl.from_arrow(make_table("scores", scores)),
    ]
    return ScoreTables("b", *frames)


def test_items_that_tie_with_the_last_one_are_counted() -> None:
    texts = {f"q{i}": ("?", "yes") for i in range(6)}
    column = dict(zip(texts, [3.0, 2.0, 1.0, 1.0, 1.0, 0.0], strict=True))
    (mine,) = [
        one
        for one in easiest_items(_tables({"m": column}, texts), DetectSettings(top=3))
        if one.score == "min-k++"
    ]
    assert [one.benchmark_id for one in mine.items] == ["q0", "q1", "q2"]
    assert mine.tied_out == 2
    assert all(one.delta is None for one in mine.items)  # one model is no cohort


def test_the_published_ten_of_llava_on_pathvqa_come_out(shared_data: Path) -> None:
    path = shared_data.parent / "golden/medvlm/llava_pathvqa_anomaly.summary.json"
    published = json.loads(path.read_text())["top_anomalous"]
    texts = {one["example_id"]: (one["prompt"], one["answer"]) for one in reversed(published)}
    own = {one["example_id"]: one["mink_llava"] for one in published}
    # Of three others one lies above and one below the published median.
    others = {one["example_id"]: one["mink_others_median"] for one in published}
    columns = {
        "llava": own,
        "b": others,
        "a": {name: value - 5 for name, value in others.items()},
        "c": {name: value + 5 for name, value in others.items()},
    }
    found = _by(easiest_items(_tables(columns, texts), DetectSettings()), "llava", "Δ of min-k++")
    assert [one.benchmark_id for one in found.items] == [one["example_id"] for one in published]
    assert [one.score for one in found.items] == pytest.approx([one["delta"] for one in published])
    assert [one.question for one in found.items] == [one["prompt"] for one in published]
    assert found.items[0].answer == "cellulitis"
