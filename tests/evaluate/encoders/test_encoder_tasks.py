"""Ranks, prompts, retrieval and probes against what can be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heldout.errors import InputError
from heldout.evaluate.encoders import TEMPLATES
from heldout.evaluate.encoders._items import read_class_names
from heldout.evaluate.encoders._probe import Features, fit_probe
from heldout.evaluate.encoders._ranks import (
    Pairing,
    alike,
    averaged_rows,
    best_ranks,
    class_rows,
    tied,
    zero_shot,
)
from heldout.evaluate.encoders.settings import read_templates


def unit(rows: object) -> np.ndarray:
    made = np.asarray(rows, np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def test_a_rank_counts_wrong_candidates_that_are_as_near() -> None:
    candidates = unit([[1, 0], [1, 0.1], [0, 1], [1, 0]])
    queries = unit([[1, 0], [0, 1]])
    right = [np.array([1]), np.array([2, 0])]
    # The first: two identical ones are nearer. The second: its best is its own.
    assert best_ranks(queries, candidates, right).tolist() == [3, 1]
    # A tie is lost: candidate 3 is candidate 0.
    assert best_ranks(queries[:1], candidates, [np.array([0])]).tolist() == [2]
    # Unless both are right.
    assert best_ranks(queries[:1], candidates, [np.array([0, 3])]).tolist() == [1]


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_not_a_number_is_never_a_hit() -> None:
    candidates = unit(np.eye(3))
    nothing = np.full((1, 3), np.nan, np.float32)
    assert best_ranks(nothing, candidates, [np.array([0, 1])]).tolist() == [4]
    spoilt = np.vstack([nothing, candidates[1:]])
    # As the right candidate it is last, as a wrong one it stands ahead.
    right = [np.array([0]), np.array([1])]
    assert best_ranks(candidates[:2], spoilt, right).tolist() == [4, 2]


def test_rows_that_are_the_same_are_counted() -> None:
    rows = unit(np.random.default_rng(0).normal(size=(9, 4)))
    assert (alike(rows), tied(rows)) == (0, 0)
    rows[:5] = rows[0]
    assert (alike(rows), tied(rows)) == (5, 5)
    rows[4], rows[5] = rows[6], rows[7]
    assert (alike(rows), tied(rows)) == (0, 8)


def test_ranks_do_not_depend_on_how_many_are_compared_at_a_time(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    queries, candidates = unit(rng.normal(size=(23, 5))), unit(rng.normal(size=(31, 5)))
    right = [np.array([n, (n + 7) % 31]) for n in range(23)]
    expected = [
        1
        + sum(
            q @ c >= max(q @ candidates[r] for r in own) - 1e-6
            for n, c in enumerate(candidates)
            if n not in own
        )
        for q, own in zip(queries, right, strict=True)
    ]
    assert best_ranks(queries, candidates, right).tolist() == expected
    monkeypatch.setattr("heldout.evaluate.encoders._ranks._CELLS", 62)
    assert best_ranks(queries, candidates, right).tolist() == expected


def test_zero_shot_takes_the_mean_of_a_class_and_its_prompts() -> None:
    rows = unit([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.1, 1]])
    classes = class_rows(rows, 2)
    assert np.allclose(classes[0], unit([[1, 1, 0]])[0])
    assert zero_shot(unit([[1, 0.9, 0], [0, 1, 0]]), classes, [0, 1]) == {"top-1": [1.0, 0.0]}
    many = unit(np.eye(7))
    found = zero_shot(many[:1] + 0.5 * many[1:2], many, [1])
    assert found == {"top-1": [0.0], "top-5": [1.0]}
    names, averaged = averaged_rows(rows, ["a", "b", "a", "b"])
    assert names == ["a", "b"]
    assert np.allclose(averaged[0], unit([[1, 0, 1]])[0])


def test_retrieval_knows_shared_pictures_and_shared_captions() -> None:
    # Items 0 and 1 show picture 0; items 1 and 2 have the same caption.
    pairing = Pairing.of([0, 0, 1], [("x", "y"), ("z",), ("z",)], 2)
    assert pairing.texts == ["x", "y", "z"]
    assert [own.tolist() for own in pairing.captions_of] == [[0, 1, 2], [2]]
    assert [own.tolist() for own in pairing.pictures_of] == [[0], [0], [0, 1]]
    pictures, texts = unit([[1, 0], [0, 1]]), unit([[1, 0.2], [0.1, 1], [0.2, 1]])
    there = pairing.image_to_text(pictures, texts)
    assert there == {"R@1": {0: 1.0, 1: 0.0}}  # picture 1: the caption y is nearer than z
    back = pairing.text_to_image(pictures, texts)
    assert back == {"R@1": {0: 1.0, 1: 0.0, 2: 1.0}}


def test_a_probe_is_the_minimum_of_its_objective() -> None:
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(3, 6))
    classes = rng.integers(0, 3, 400)
    rows = unit(centres[classes] + 0.9 * rng.normal(size=(400, 6))).astype(np.float16)
    pieces = [rows[:150], rows[150:]]
    places = np.array([(0, n) for n in range(150)] + [(1, n) for n in range(250)])
    features = Features(pieces, places, classes)
    probe = fit_probe(features, 3, [2.0], iterations=1000, seed=0)
    assert probe.converged and probe.validation == {}

    def loss(weights: np.ndarray, intercept: np.ndarray) -> float:
        exact = rows.astype(np.float64)
        exact /= np.linalg.norm(exact, axis=1, keepdims=True)
        scores = exact @ weights + intercept
        each = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(400), classes]
        return float(0.5 * (weights**2).sum() + 2.0 * each.sum())

    best = loss(probe.weights, probe.intercept)
    for _ in range(20):  # convex: no direction leads further down
        step = 1e-2 * rng.normal(size=(7, 3))
        assert loss(probe.weights + step[:6], probe.intercept + step[6]) > best
    # In one piece the same.
    whole = Features([rows], np.array([(0, n) for n in range(400)]), classes)
    again = fit_probe(whole, 3, [2.0], iterations=1000, seed=0)
    assert np.allclose(again.weights, probe.weights, atol=1e-3)


def test_a_probes_strength_is_chosen_on_a_tenth() -> None:
    rng = np.random.default_rng(2)
    centres, classes = rng.normal(size=(4, 8)), rng.integers(0, 4, 300)
    rows = unit(centres[classes] + 0.5 * rng.normal(size=(300, 8)))
    features = Features([rows], np.array([(0, n) for n in range(300)]), classes)
    probe = fit_probe(features, 4, [1e-6, 10.0], iterations=200, seed=0)
    assert probe.strength == 10.0
    assert probe.validation[10.0] > probe.validation[1e-6]
    with pytest.raises(InputError, match=r"training set .*too few"):
        fit_probe(
            Features([rows], features.rows[:12], classes[:12]), 4, [1, 2], iterations=9, seed=0
        )
    with pytest.raises(InputError, match="two classes"):
        fit_probe(
            Features([rows], features.rows[:9], classes[:9] * 0), 1, [1], iterations=9, seed=0
        )


def test_templates_by_name_file_and_by_themselves(tmp_path: Path) -> None:
    assert len(read_templates("imagenet-80")) == len(set(TEMPLATES["imagenet-80"])) == 80
    assert set(TEMPLATES["openai-7"]) <= set(TEMPLATES["imagenet-80"])
    assert read_templates("an x-ray of {}") == ("an x-ray of {}",)
    path = tmp_path / "t.txt"
    path.write_text("# of ours\na {}.\n\nthe {}.\na {}.\n")
    assert read_templates(str(path)) == ("a {}.", "the {}.")
    path.write_text("a {}.\nnothing here\n")
    with pytest.raises(InputError, match="line 2: expected one"):
        read_templates(str(path))
    with pytest.raises(InputError, match="expected .*imagenet-80"):
        read_templates("imagenet-81")


def test_class_names_from_lines_tables_and_json(tmp_path: Path) -> None:
    def read(name: str, text: str) -> dict[str, str]:
        path = tmp_path / name
        path.write_text(text)
        return read_class_names(path)

    assert read("a.txt", "cat\ndog\n") == {"cat": "cat", "dog": "dog"}
    assert read("b.tsv", "label\tname\nn1\tgreat white shark\nn2\ttench\n") == {
        "n1": "great white shark",
        "n2": "tench",
    }
    assert read("c.csv", "n1,shark, great\nn2,tench\n")["n1"] == "shark, great"
    assert read("d.json", '{"0": "tench", "1": "shark"}')["0"] == "tench"
    with pytest.raises(InputError, match="two names"):
        read("e.tsv", "n1\ta\nn1\tb\n")
    with pytest.raises(InputError, match="two classes"):
        read("f.txt", "cat\n")
    with pytest.raises(InputError, match="JSON object of"):
        read("g.json", "[1, 2]")
