"""Picture flagged, score in the tail, answer right: counted by hand, and against chance by cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from heldout.detect import DetectSettings, ScoreTables
from heldout.detect.triple_hits import highest, triple_hits
from heldout.model.scoring import forget_detections
from heldout.overlap.nearness.nearest import ITSELF
from heldout.report._models import model_sections
from heldout.report._reproduce import templates
from heldout.store import SCHEMAS, Run, make_table
from heldout.verdict import examine, save_examination

QUICK = DetectSettings(permutations=199)
MODEL, CORPUS, ENCODER = "m", "web", "e"


def _frame(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    frame = pl.from_arrow(make_table(name, rows))
    assert isinstance(frame, pl.DataFrame)
    return frame


def tables_of(
    clusters: list[int],
    near: list[float],
    scores: list[float],
    right: list[bool] | None = None,
    leaked: frozenset[str] = frozenset(),
    answered: frozenset[str] = frozenset(),
) -> ScoreTables:
    """Items whose picture (one per cluster) has nearest similarity ``near``; the null is 0 … .5."""
    items = [
        {
            "benchmark_id": f"q{place}",
            "position": place,
            "cluster": f"c{code}",
            "question": f"what is {place}?",
            "options": [],
            "answer": "a" * (1 + place % 7),
            "image_names": [f"{code}.png"],
            "image_digests": [f"d{code}"],
            "metadata": "{}",
        }
        for place, code in enumerate(clusters)
    ]
    row = {"corpus": CORPUS, "encoder": ENCODER, "neighbour": "x"}
    nearest = [
        {
            **row,
            "role": "null",
            "name": "corpus",
            "picture": f"n{i}",
            "similarity": i / 10_000,
            "related": f"n{i}",
            "neighbour": f"x{i}",
        }
        for i in range(5_000)
    ] + [
        {
            **row,
            "role": "benchmark",
            "name": "benchmark",
            "picture": f"d{code}",
            "similarity": value,
            "related": f"d{code}",
        }
        for code, value in enumerate(near)
    ]
    facts = {
        "corpus": CORPUS,
        "encoder": ENCODER,
        "alpha": 0.01,
        "corpus_pictures": 5_000,
        "null": {"source": ITSELF, "duplicates": 1.0, "seed": 0},
        "controls": [],
        "counts": {},
        "problem": "",
    }
    made = [
        {
            "benchmark_id": f"q{place}",
            "model": MODEL,
            "tokens": [],
            "logprobs": [],
            "mu": [],
            "sigma": [],
            "sum_logprob": value,
            "n_tokens": 1,
            "span_ok": True,
        }
        for place, value in enumerate(scores)
    ]
    answers = (
        None
        if right is None
        else _frame(
            "answers",
            [
                {
                    "benchmark_id": f"q{place}",
                    "model": MODEL,
                    "variant": "original",
                    "draw": 0,
                    "options": [],
                    "gold": "yes",
                    "outcome": "right" if good else "wrong",
                }
                for place, good in enumerate(right)
            ],
        )
    )
    return ScoreTables(
        "b",
        _frame("items", items),
        _frame("scores", made),
        answers=answers,
        leaked={CORPUS: leaked} if leaked else {},
        answered={CORPUS: answered} if answered else {},
        nearest=_frame("nearest", nearest),
        calibration={"one": facts},
    )


def test_hits_by_hand() -> None:
    """100 pictures of one question; ten are near, ten score high, every other one is right."""
    clusters = list(range(100))
    near = [0.9 if i < 10 else 0.1 for i in clusters]
    scores = [-float(i) / 100 if 5 <= i < 15 else -9.0 - i / 100 for i in clusters]
    right = [i % 2 == 0 for i in clusters]
    found, items = triple_hits(tables_of(clusters, near, scores, right), QUICK)
    at = {round(one.alpha, 3): one for one in found}
    assert 0.001 not in at  # α of a hundred items is none
    tenth = at[0.1]
    assert (tenth.flagged, tenth.in_tail, tenth.answered, tenth.n) == (10, 10, 50, 100)
    # 6, 8 of the near ones; of the five right items in the tail, a tenth by chance.
    assert (tenth.hits, tenth.ids) == (2, ("q6", "q8"))
    assert tenth.expected == pytest.approx(5 * 10 / 100)
    assert tenth.expected_low == 0 <= tenth.expected <= tenth.expected_high
    assert tenth.low < 2 < tenth.high
    assert tenth.answer == "answered right"
    assert tenth.score == "loss"  # no mu and sigma were recorded
    first = at[0.01]
    assert (first.in_tail, first.hits) == (1, 0)  # q5 is the highest, and wrong
    kept = {row["benchmark_id"]: row for row in items.to_dicts()}
    assert set(kept) == {"q6", "q8"}
    assert kept["q6"]["alpha"] == pytest.approx(0.0316, abs=1e-4)  # the second highest of the tail
    assert kept["q6"]["similarity"] == pytest.approx(0.9)


def test_rows_that_no_outcome_could_make_significant_cost_the_others_nothing() -> None:
    clusters = list(range(100))
    near = [0.9 if i < 10 else 0.1 for i in clusters]
    found, _ = triple_hits(tables_of(clusters, near, [-float(i) for i in clusters]), QUICK)
    at = {round(one.alpha, 2): one for one in found}
    # One item in the tail meets ten near pictures by chance in a tenth of all draws.
    assert at[0.01].smallest_p == pytest.approx(0.1)
    assert at[0.01].p is not None and at[0.01].p_adjusted is None
    assert at[0.01].reading == "too few items to tell"
    tested = [one for one in found if one.p_adjusted is not None]
    assert len(tested) < len(found)
    assert at[0.1].p is not None and at[0.1].p_adjusted is not None
    assert at[0.1].p_adjusted <= at[0.1].p * len(tested)
    assert at[0.1].reading == "more than chance"


def test_without_answers_two_marks_are_left_and_leaked_answers_are_a_row_of_their_own() -> None:
    clusters = list(range(100))
    near = [0.9 if i < 10 else 0.1 for i in clusters]
    scores = [-float(i) for i in clusters]
    plain, _ = triple_hits(tables_of(clusters, near, scores), QUICK)
    assert {one.answer for one in plain} == {"any answer"}
    assert {one.flag for one in plain} == {"near"}
    both = tables_of(
        clusters, near, scores, [True] * 100, frozenset({"q0", "q1"}), frozenset({"q1"})
    )
    found, _ = triple_hits(both, QUICK)
    assert {(one.flag, one.answer) for one in found} == {
        (flag, answer)
        for flag in ("near", "copy")
        for answer in ("answered right", "answer in the corpus")
    }
    copied = next(
        one
        for one in found
        if one.flag == "copy" and one.answer == "answer in the corpus" and one.alpha == 0.1
    )
    assert (copied.flagged, copied.hits, copied.encoder) == (2, 1, None)


def test_items_that_were_not_asked_are_left_out() -> None:
    clusters = list(range(100))
    tables = tables_of(clusters, [0.9] * 100, [-float(i) for i in clusters], [True] * 60)
    found, _ = triple_hits(tables, QUICK)
    assert {one.n for one in found} == {60}


def test_the_tail_is_never_more_than_alpha() -> None:
    scores = np.asarray([3.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    assert highest(scores, 0.1).sum() == 1
    assert highest(scores, 0.2).sum() == 1  # three share the second place
    assert highest(scores, 0.4).sum() == 4
    assert not highest(scores, 0.05).any()


def _clean(seed: int, *, planted: bool = False) -> ScoreTables:
    """Pictures that are near together, easy together and right together; nothing to do with each other."""
    rng = np.random.default_rng([seed, 3])
    sizes = rng.integers(1, 7, 120)
    codes = np.repeat(np.arange(120), sizes)
    near = rng.uniform(0.2, 0.55, 120)
    easy = rng.normal(size=120)[codes] + 0.5 * rng.normal(size=len(codes))
    if planted:
        easy = easy + 3.0 * (near > 0.47)[codes]
    right = easy + 0.5 * rng.normal(size=len(codes)) > 0
    return tables_of(codes.tolist(), near.tolist(), easy.tolist(), right.tolist())


def test_clean_tables_raise_no_alarm_at_any_alpha() -> None:
    rounds, alarms, single = 20, 0, 0
    for seed in range(rounds):
        found, _ = triple_hits(_clean(seed), QUICK.model_copy(update={"seed": seed}))
        alarms += any(one.reading in ("more than chance", "fewer than chance") for one in found)
        last = next(one for one in found if one.alpha == 0.1)
        single += last.p is not None and last.p <= 0.05
    most = stats.binom.ppf(0.995, rounds, 0.05)
    assert alarms <= most
    assert single <= most


def test_a_model_that_knows_the_near_pictures_has_more_than_chance() -> None:
    found, _ = triple_hits(_clean(1, planted=True), QUICK.model_copy(update={"permutations": 4999}))
    last = next(one for one in found if one.alpha == 0.1)
    assert last.reading == "more than chance"
    assert last.hits > last.expected_high
    told = last.as_json()
    assert told["reading"] == "more than chance"
    assert told["ids"] == list(last.ids)[:50]


def test_a_run_keeps_the_items_and_its_page_shows_them(tmp_path: Path) -> None:
    clusters = list(range(100))
    near = [0.9 if i < 10 else 0.1 for i in clusters]
    tables = tables_of(clusters, near, [-float(i) / 100 for i in clusters], [True] * 100)
    run = Run.create(tmp_path / "run", command=["test"])
    run.update("inputs", {"benchmark": {"name": "b", "fingerprint": "cafe"}})
    for name in ("items", "scores", "answers", "nearest"):
        run.write_table(name, getattr(tables, name).to_arrow().cast(SCHEMAS[name]))
    run.update("calibration", dict(tables.calibration))
    run.update("models", {MODEL: {"backend": "made up"}})
    save_examination(run, examine(ScoreTables.load(run), ["order-trend"], QUICK))
    assert run.read_table("triple_hits").num_rows == 10
    (section,) = model_sections(run)
    last = section["hits"][-1]
    assert (last["alpha"], last["hits"], last["expected"]) == (0.1, 10, 1.0)
    page = templates().get_template("model_items.html.j2").render(model=section)
    assert "q0, q1, q2, q3, q4 and 5 more" in page
    forget_detections(run)
    assert not run.table_path("triple_hits").exists()  # of scores that may have changed
