"""Impact of leaks on scores: subsets, figures, published values, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from impact_run import line, make_run, write

from heldout.benchmark.grading import grade, letter
from heldout.cli.impact import _sentence
from heldout.detect.impact import Impact, study_impact
from heldout.detect.impact.impact import blocks, matched_draws
from heldout.errors import InputError
from heldout.evidence import leaks_of
from heldout.stats import cluster_rate_interval, holm
from heldout.store import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Forty images with two questions: ten leaked (five with the same, five with another label), five
    more near-identical."""
    items = [{"benchmark_id": f"{n}{k}", "cluster": f"i{n}"} for n in range(40) for k in "ab"]
    matches: list[dict[str, Any]] = []
    for n in range(10):
        label = "same" if n < 5 else "different"
        matches += [{"benchmark_id": f"{n}{k}", "label_relation": label} for k in "ab"]
    for n in range(10, 15):
        matches += [
            {"benchmark_id": f"{n}{k}", "relation": "look-alike", "degree": "soft"} for k in "ab"
        ]
    matches.append({"benchmark_id": "20a", "relation": "unrelated", "degree": "none"})
    return make_run(tmp_path / "run", items, matches)


def right(n: int) -> bool:
    """Same label: always right; other label: never; the rest alternates."""
    return n < 5 or (n >= 10 and n % 2 == 0)


def test_the_published_table_by_hand(run: Run, tmp_path: Path) -> None:
    rows = [{"id": f"{n}{k}", "correct": right(n)} for n in range(40) for k in "ab"]
    impact = study_impact(run, [write(tmp_path / "m.jsonl", rows)]).impacts[0]
    assert impact.model == "m"
    assert line(impact, "original", "").value == pytest.approx(20 / 40)
    names = ("non-leaked", "leaked", "same label", "different label")
    hard = {name: line(impact, name, "copy") for name in names}
    assert [(one.items, one.clusters) for one in hard.values()] == [
        (60, 30),
        (20, 10),
        (10, 5),
        (10, 5),
    ]
    assert [one.value for one in hard.values()] == pytest.approx([0.5, 0.5, 1.0, 0.0])
    assert hard["same label"].gain == pytest.approx(0.5)
    assert hard["same label"].interval is not None  # 5 of 5 is no certainty
    assert hard["same label"].interval.low < 0.6
    assert hard["same label"].gain_interval is None  # five images are too few for a difference
    # A rate has one interval, whichever command prints it.
    rated = [(right(n), f"i{n}") for n in range(10, 40) for _ in "ab"]
    assert hard["non-leaked"].interval == cluster_rate_interval(*zip(*rated, strict=True))
    soft = line(impact, "non-leaked", "soft")
    assert (soft.items, soft.value) == (50, pytest.approx(12 / 25))
    assert line(impact, "leaked", "soft").items == 10
    shown = [one.subset for one in impact.lines if one.leakage == "soft"]
    assert shown == ["non-leaked", "leaked", "random"]
    owed = {one.leakage: one for one in impact.owed}
    assert owed["copy"].value == pytest.approx(0.0)
    assert owed["copy"].interval is not None
    assert owed["soft"].value == pytest.approx(15 / 30 - 12 / 25)  # hard leaks in neither
    assert owed["soft"].interval is None  # five images, however many others leaked hard


def test_kinds_are_told_by_one_word_each(tmp_path: Path) -> None:
    """Hard and soft are degrees of likeness; a proven copy is a copy, whatever its degree."""
    other = {"relation": "look-alike"}
    matches: list[dict[str, Any]] = [
        {"benchmark_id": "0", "degree": "none", "relation": "transformed copy"},
        {"benchmark_id": "1", "degree": "hard", "relation": "undecided"},
        {"benchmark_id": "2", "degree": "hard", **other},
        {"benchmark_id": "2", "degree": "soft", **other},
        {"benchmark_id": "3", "degree": "soft", **other},
        {"benchmark_id": "4", "degree": "none", **other},
    ]
    items = [{"benchmark_id": f"{n}"} for n in range(6)]
    run = make_run(tmp_path / "run", items, matches)
    found = blocks([f"{n}" for n in range(6)], leaks_of(run))
    assert [(one.leakage, np.flatnonzero(one.leaked).tolist()) for one in found] == [
        ("copy", [0]),
        ("undecided", [1]),
        ("hard", [2]),
        ("soft", [3]),
    ]
    assert np.flatnonzero(found[0].clean).tolist() == [2, 3, 4, 5]  # what is undecided is not clean
    assert np.flatnonzero(found[-1].clean).tolist() == [4, 5]
    assert np.flatnonzero(found[1].compared).tolist() == [1, 2, 3, 4, 5]  # the copy in neither


def test_graver_leaks_are_not_counted_twice(tmp_path: Path) -> None:
    """Sixty images leaked hard and are easy (93 %), two leaked softly and are not (50 %)."""
    names = [(n, k) for n in range(200) for k in range(5)]
    items = [{"benchmark_id": f"{n}-{k}", "cluster": f"{n}"} for n, k in names]
    near = {"relation": "look-alike", "degree": "soft"}
    matches = [{"benchmark_id": f"{n}-{k}", **(near if n > 59 else {})} for n, k in names if n < 62]
    rows = [
        {"id": f"{n}-{k}", "correct": int((5 * n + k) % 15 > 0 if n < 60 else (5 * n + k) % 2)}
        for n, k in names
    ]
    run = make_run(tmp_path / "run", items, matches)
    impact = study_impact(run, [write(tmp_path / "m.jsonl", rows)]).impacts[0]
    owed = {one.leakage: one for one in impact.owed}
    assert owed["copy"].value > 0.1
    assert owed["copy"].interval is not None and owed["copy"].interval.low > 0
    assert (owed["copy"].compared, owed["soft"].compared) == (1000, 700)
    assert owed["soft"].value == pytest.approx(0.0, abs=0.001)
    assert (owed["soft"].interval, owed["soft"].p, owed["soft"].leaked_clusters) == (None, None, 2)
    told = _sentence(owed["soft"], 1000, 1)
    assert "graver leaks" in told and "clusters leaked (2)" in told


def test_random_subsets_have_the_leaked_items_and_clusters(run: Run, tmp_path: Path) -> None:
    rows = [{"id": f"{n}{k}", "correct": right(n)} for n in range(40) for k in "ab"]
    path = write(tmp_path / "m.jsonl", rows)
    impact = study_impact(run, [path]).impacts[0]
    random = line(impact, "random", "copy")
    assert (random.items, random.clusters) == (20, 10)
    assert random.sd is not None and random.sd > 0
    assert study_impact(run, [path]).impacts[0].lines == impact.lines
    assert study_impact(run, [path], seed=1).impacts[0].lines != impact.lines


@pytest.mark.parametrize("each", [(1,) * 60, (5,) * 12, (4, 1, 1, 3, 2), (9, 9, 2)])
def test_draws_match_the_leaked_set_cluster_for_cluster(each: tuple[int, ...]) -> None:
    sizes = [9, 9, 9, *[5] * 90]  # leaks that split clusters, that take them whole, and both
    codes = np.repeat(np.arange(len(sizes)), sizes)
    leaked = np.zeros(len(codes), dtype=bool)
    for code, count in enumerate(each):
        leaked[np.flatnonzero(codes == code)[:count]] = True
    assert sorted(np.bincount(codes[leaked])) == sorted(each)
    drawn = matched_draws([f"{c}" for c in codes], leaked, 20, np.random.default_rng(0))
    for mask in drawn:
        counts = np.bincount(codes[mask])
        assert sorted(counts[counts > 0]) == sorted(each)
    assert len({mask.tobytes() for mask in drawn}) > 1


def test_every_item_is_as_likely_drawn_where_clusters_are_alike() -> None:
    codes = np.repeat(np.arange(20), 4)
    leaked = (codes < 5) & (np.arange(80) % 4 < 2)
    drawn = matched_draws([f"{c}" for c in codes], leaked, 4000, np.random.default_rng(0))
    rate = np.mean(drawn, axis=0)  # standard error .005 around 10 of 80
    assert np.abs(rate - 0.125).max() < 0.025


def test_direction_is_that_of_the_family(run: Run, tmp_path: Path) -> None:
    """One model among many that differs by luck is not called."""
    rng = np.random.default_rng(3)
    rows: list[dict[str, Any]] = [
        {"id": f"{n}{k}", "model": f"m{m}", "loglik": rng.normal() + 0.6 * (m == 0 and n < 10)}
        for m in range(20)
        for n in range(40)
        for k in "ab"
    ]
    study = study_impact(run, [write(tmp_path / "m.jsonl", rows)])
    tested = [one for impact in study.impacts for one in impact.owed if one.p is not None]
    assert len(tested) == 20
    raw = [one for one in tested if one.p is not None and one.p < 0.05]
    assert raw and all(
        one.interval is not None and one.interval.low * one.interval.high > 0 for one in raw
    )
    assert [one.p_adjusted for one in tested] == holm([one.p for one in tested if one.p])
    directions = [finding["direction"] for finding in study.as_json()["findings"]]
    assert directions == ["none"] * 20
    alone = study_impact(
        run,
        [
            write(
                tmp_path / "a.jsonl",
                [
                    {
                        **row,
                        "model": "a",
                        "loglik": row["loglik"] + 3.0 * (int(row["id"][:-1]) < 10),
                    }
                    for row in rows[:80]
                ],
            )
        ],
    ).as_json()["findings"]
    assert [finding["direction"] for finding in alone] == ["seen"]


def test_retrieval_and_log_likelihood(run: Run, tmp_path: Path) -> None:
    ranks = [{"id": f"{n}{k}", "rank": 1 if n < 10 else 7} for n in range(40) for k in "ab"]
    impact = study_impact(run, [write(tmp_path / "r.jsonl", ranks)]).impacts[0]
    assert [line(impact, "leaked", "copy", f"R@{k}").value for k in (1, 5, 10)] == [1.0, 1.0, 1.0]
    assert [line(impact, "non-leaked", "copy", f"R@{k}").value for k in (1, 5, 10)] == [
        0.0,
        0.0,
        1.0,
    ]
    likely = [{"id": f"{n}{k}", "loglik": -float(n)} for n in range(40) for k in "ab"]
    impact = study_impact(run, [write(tmp_path / "l.jsonl", likely)]).impacts[0]
    assert line(impact, "leaked", "copy", "log-likelihood").value == pytest.approx(-4.5)
    assert impact.owed[0].value == pytest.approx(-19.5 - -24.5)
    assert impact.owed[0].interval is not None
    assert impact.owed[0].interval.low > 0


def test_a_baseline_that_cannot_have_seen_it_takes_difficulty_out(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    hardness = {f"{n}{k}": (2.0 if n < 10 else 0.0) + rng.normal() for n in range(40) for k in "ab"}
    files = {}
    for name in ("model", "baseline"):  # leaked items are easier for both
        rows = [{"id": one, "loglik": value + rng.normal() / 3} for one, value in hardness.items()]
        files[name] = write(tmp_path / f"{name}.jsonl", rows)
    naive = study_impact(run, [files["model"]]).impacts[0].owed[0]
    assert naive.interval is not None and naive.interval.low > 0  # would be called contaminated
    against = study_impact(run, [files["model"]], baseline=files["baseline"]).impacts[0]
    assert against.model == "model - baseline"
    assert against.owed[0].interval is not None
    assert against.owed[0].interval.low < 0 < against.owed[0].interval.high


def test_a_difference_of_rates_is_no_rate(run: Run, tmp_path: Path) -> None:
    """Three items made wrong, or three made right, in the baseline: intervals that mirror."""
    ids = [f"{n}{k}" for n in range(40) for k in "ab"]
    right = {one: float(place % 2) for place, one in enumerate(ids)}
    lower = right | dict.fromkeys([one for one in ids if right[one]][:3], 0.0)
    higher = right | dict.fromkeys([one for one in ids if not right[one]][:3], 1.0)
    files = {
        name: write(
            tmp_path / f"{name}.jsonl", [{"id": one, "score": v} for one, v in made.items()]
        )
        for name, made in (("model", right), ("lower", lower), ("higher", higher))
    }
    lines = {
        name: study_impact(run, [files["model"]], baseline=files[name]).impacts[0].lines[0]
        for name in ("lower", "higher")
    }
    down, up = lines["higher"], lines["lower"]
    assert up.value is not None and down.value is not None
    assert up.value == pytest.approx(-down.value)
    assert up.interval is not None and down.interval is not None
    assert up.interval.low == pytest.approx(-down.interval.high)
    assert up.interval.high == pytest.approx(-down.interval.low)
    assert up.interval.low < 0


def test_everything_left_out_has_a_reason(run: Run, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": f"{n}{k}", "score": 0.5} for n in range(39) for k in "ab"]
    rows += [{"id": "39a", "score": float("nan")}, {"id": "stranger", "score": 1.0}]
    study = study_impact(run, [write(tmp_path / "m.jsonl", rows)])
    assert study.impacts[0].items == 78
    reasons = {drop.id: drop.reason for drop in study.dropped["m"]}
    assert reasons == {
        "39a": "not a finite number",
        "39b": "no prediction",
        "stranger": "unknown item",
    }


def test_items_nobody_could_compare_are_not_called_clean(tmp_path: Path) -> None:
    items = [
        {"benchmark_id": f"{n}", "image_digests": [""] if n == 3 else ["x"]} for n in range(20)
    ]
    run = make_run(tmp_path / "run", items, [{"benchmark_id": "0"}])
    rows = [{"id": f"{n}", "correct": 1} for n in range(20)]
    study = study_impact(run, [write(tmp_path / "m.jsonl", rows)])
    assert line(study.impacts[0], "non-leaked", "copy").items == 18
    assert [drop.reason for drop in study.dropped["m"]] == ["image not compared"]


def test_nothing_leaked_and_everything_leaked_are_shown_as_empty(tmp_path: Path) -> None:
    items = [{"benchmark_id": f"{n}"} for n in range(12)]
    rows = [{"id": f"{n}", "correct": n % 2} for n in range(12)]
    path = write(tmp_path / "m.jsonl", rows)
    none = study_impact(make_run(tmp_path / "none", items, []), [path]).impacts[0]
    assert line(none, "leaked", "copy").value is None
    assert line(none, "random", "copy").value is None
    assert none.owed == []
    every = make_run(tmp_path / "all", items, [{"benchmark_id": f"{n}"} for n in range(12)])
    impact = study_impact(every, [path]).impacts[0]
    assert line(impact, "non-leaked", "copy").value is None
    assert impact.owed == []


def test_predictions_are_graded_strictly_and_models_kept_apart(tmp_path: Path) -> None:
    items = [{"benchmark_id": f"{n}", "answer": "no", "options": ["yes", "no"]} for n in range(9)]
    run = make_run(tmp_path / "run", items, [])
    said = ["No.", "not sure", "B", "(b)", "B. no", "B. yes", "A", "yes, no", "NO"]
    path = tmp_path / "p.csv"
    lines = [f'{n},{model},"{text}"\n' for model in ("x", "y") for n, text in enumerate(said)]
    path.write_text("index,model,prediction\n" + "".join(lines))
    study = study_impact(run, [path])
    assert [impact.model for impact in study.impacts] == ["x", "y"]
    assert line(study.impacts[0], "original", "").value == pytest.approx(5 / 9)


@pytest.mark.parametrize(
    ("said", "answer", "options", "right"),
    [
        ("Left lung", "left lung.", (), True),
        ("the left lung", "left lung", (), True),
        ("left lung base", "left lung", (), False),
        ("left or right lung", "left lung", (), False),
        ("C", "ct", ("mri", "us", "ct"), True),
        ("C", "C", ("mri", "us", "ct"), True),
        ("c) CT", "C", ("mri", "us", "ct"), True),
        ("J", "ct", ("mri", "us", "ct"), False),
        ("A cyst", "A", ("cyst", "none"), True),
        ("A mass", "A", ("cyst", "none"), False),
        ("**C**", "ct", ("mri", "us", "ct"), True),
        ("C. MRI", "ct", ("mri", "us", "ct"), False),
        ("", "ct", (), False),
    ],
)
def test_grading_is_that_of_asking(
    said: str, answer: str, options: tuple[str, ...], right: bool
) -> None:
    gold = next((letter(k) for k, one in enumerate(options) if answer in (one, letter(k))), answer)
    assert (grade(said, gold, options).outcome == "right") is right


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("id,correct\n0a,1\n0a,1\n", "'0a' has a prediction in row 1 and another in row 2"),
        ("id,correct\n0a,maybe\n", "row 1: 'correct' is 'maybe'; expected true or false"),
        ("id,score\n0a,high\n", "expected a number"),
        ("id,rank\n0a,0\n", "ranks count 1, 2, 3"),
        ("id,other\n0a,1\n", "expected a column prediction or correct or score or rank"),
        ("name,correct\n0a,1\n", "expected a column with the items' ids"),
        ("id,correct\n,1\n", "row 1: the column 'id' is empty"),
        ("id,correct\nzz,1\n", "ids are like zz; the benchmark's are like 0a"),
        ("id,correct\n", "no row that can be read"),
    ],
)
def test_bad_predictions_get_a_sentence(run: Run, tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=told.replace("(", r"\(")):
        study_impact(run, [path])


def test_bad_arguments_get_a_sentence(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", [{"id": "0a", "correct": 1}])
    with pytest.raises(InputError, match="^metric f1"):
        study_impact(run, [path], metric="f1")
    with pytest.raises(InputError, match="a column rank"):
        study_impact(run, [path], metric="retrieval")
    with pytest.raises(InputError, match="no column 'gold'"):
        study_impact(run, [path], mapping={"correct": "gold"})
    with pytest.raises(InputError, match="does not exist"):
        study_impact(run, [tmp_path / "gone.csv"])
    with pytest.raises(InputError, match="predictions of 'p'"):
        study_impact(run, [path, path])
    with pytest.raises(InputError, match="no finished scan"):
        study_impact(Run.create(tmp_path / "new"), [path])


# Flagged less unflagged, nats per token, computed from the published file.
GAPS = {
    "CheXagent-8b": -0.22,
    "LLaVA-OneVision-7B": 0.03,
    "InternVL3-8B": -0.14,
    "Qwen2.5-VL-7B": 0.27,
    "BLIP-2": 0.03,
}


def test_slake_inflation_as_published(shared_data: Path, tmp_path: Path) -> None:
    """The published per-item log-probabilities of five models, 247 of 1,061 items flagged."""
    published = shared_data.parent / "golden/medvlm/slake_en_overlap_inflation.json"
    if not published.exists():
        pytest.skip(f"published results are not at {published}")
    records = json.loads(published.read_text())["records"]
    official = json.loads((shared_data / "slake/official_test.json").read_text())
    image = {str(row["qid"]): row["img_name"] for row in official}
    ids = [one["example_id"].rpartition("::")[2] for one in records]
    flagged = [one["flagged"] for one in records]
    items = [{"benchmark_id": one, "cluster": image[one]} for one in ids]
    near = {"relation": "look-alike", "degree": "soft", "modality": "none"}
    run = make_run(
        tmp_path / "run",
        items,
        [{"benchmark_id": one, **near} for one, hit in zip(ids, flagged, strict=True) if hit],
    )
    rows = [
        {"id": one, "model": model, "mean_logprob": value}
        for one, record in zip(ids, records, strict=True)
        for model, value in record["mean_logprob"].items()
    ]
    study = study_impact(run, [write(tmp_path / "p.jsonl", rows)])
    assert len(study.impacts) == 5
    hit = np.array(flagged)
    for impact in study.impacts:
        values = np.array([record["mean_logprob"][impact.model] for record in records])
        leaked = line(impact, "leaked", "soft", "log-likelihood")
        clean = line(impact, "non-leaked", "soft", "log-likelihood")
        assert (leaked.items, clean.items) == (247, 814)
        assert leaked.value == pytest.approx(values[hit].mean())
        assert clean.value == pytest.approx(values[~hit].mean())
        owed = next(one for one in impact.owed if one.leakage == "soft")
        assert owed.value == pytest.approx(values.mean() - values[~hit].mean())
        assert owed.interval is not None
        assert owed.leaked_clusters == 19  # 247 questions about 19 images
        gap = round(float(values[hit].mean() - values[~hit].mean()), 2)
        assert gap == GAPS[impact.model]
    check_qwen(study.impacts, run, tmp_path, rows)


def check_qwen(impacts: Sequence[Impact], run: Run, folder: Path, rows: Sequence[Any]) -> None:
    """The figures of docs/impact.md: by itself, among the five, and less a model that saw nothing."""
    name, control = "Qwen2.5-VL-7B", "BLIP-2"
    among = next(one for one in impacts if one.model == name).owed[0]
    files = [
        write(folder / f"{one}.jsonl", [row for row in rows if row["model"] == one])
        for one in (name, control)
    ]
    against = study_impact(run, files[:1], baseline=files[1]).impacts[0].owed[0]
    for owed, value, low, high, p, adjusted in (
        (among, 0.063, 0.006, 0.119, 0.031, 0.156),
        (against, 0.056, -0.007, 0.119, 0.079, 0.079),
    ):
        assert owed.interval is not None
        shown = (owed.value, owed.interval.low, owed.interval.high, owed.p, owed.p_adjusted)
        assert shown == pytest.approx((value, low, high, p, adjusted), abs=5.1e-4)
