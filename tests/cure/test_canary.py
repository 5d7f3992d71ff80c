"""Canaries: planted items whose right answers are drawn, and the exact test of answers to them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import stats
from typer.testing import CliRunner

import heldout
from heldout.cli.app import app
from heldout.cure import CanaryKey, PlantedCanaries, check_canary, false_positive_probability
from heldout.cure.canary import Canary, drawn_place
from heldout.errors import InputError
from heldout.stats import binomial_band


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    rng = np.random.default_rng(0)
    rows = []
    for n in range(12):
        pixels = rng.integers(0, 256, (60, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{n}.png")
        options = ["liver", "lung", "heart"] if n % 2 else []
        rows.append(
            {
                "id": f"q-{n:03d}",
                "image": f"{n}.png",
                "question": f"What is shown in picture {n}?",
                "options": options,
                "answer": "lung",
                "organ": "chest",
            }
        )
    path = folder / "bench.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def planted(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> PlantedCanaries:
    return heldout.canary(
        bench, out=tmp_path_factory.mktemp("made") / "release", seed=5, quiet=True
    )


def _answered(
    planted: PlantedCanaries, folder: Path, reply: Callable[[Canary], str], name: str = "m"
) -> Path:
    rows = [
        {"id": canary.id, "prediction": reply(canary), "model": name}
        for canary in planted.key.canaries
    ]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _right(canary: Canary) -> str:
    return "ABCD"[canary.target]


# The exact probability


@pytest.mark.parametrize("options", [2, 4, 7])
def test_items_alone_have_the_binomial_tail(options: int) -> None:
    for hits in range(11):
        tail = stats.binom.sf(hits - 1, 10, 1 / options)
        assert false_positive_probability(hits, 10, 0, 0, options) == pytest.approx(tail)
        assert false_positive_probability(0, 0, hits, 10, options) == pytest.approx(tail)


def test_known_values() -> None:
    assert false_positive_probability(0, 24, 0, 8, 4) == 1.0
    assert false_positive_probability(24, 24, 8, 8, 4) == pytest.approx(4.0**-32)
    assert false_positive_probability(1, 1, 0, 0, 4) == 0.25
    # One item and one mark: one of the two is as good as the other.
    assert false_positive_probability(1, 1, 0, 1, 4) == pytest.approx(1 - 9 / 16)
    assert false_positive_probability(300, 300, 0, 0, 26) == pytest.approx(0.0, abs=1e-300)


def test_the_probability_is_of_all_results_that_are_as_extreme() -> None:
    """Summed up over all results, in another way than the function does."""
    items, marks, options = 5, 3, 3
    one = [stats.binom.sf(k - 1, items, 1 / options) for k in range(items + 1)]
    other = [stats.binom.sf(k - 1, marks, 1 / options) for k in range(marks + 1)]
    for hits, activated in product(range(items + 1), range(marks + 1)):
        observed = one[hits] * other[activated]
        expected = sum(
            stats.binom.pmf(h, items, 1 / options) * stats.binom.pmf(a, marks, 1 / options)
            for h, a in product(range(items + 1), range(marks + 1))
            if one[h] * other[a] <= observed * (1 + 1e-9)
        )
        found = false_positive_probability(hits, items, activated, marks, options)
        assert found == pytest.approx(expected)


def test_a_model_that_never_saw_the_key_is_flagged_as_often_as_the_probability_says() -> None:
    """One fixed model, which likes A and knows nothing; only keys are drawn."""
    rng = np.random.default_rng(3)
    items, marks, options = 24, 8, 4
    replies = {f"item {n}": int(rng.choice(4, p=(0.7, 0.1, 0.1, 0.1))) for n in range(items)}
    favourites = [int(rng.choice(4, p=(0.7, 0.1, 0.1, 0.1))) for _ in range(marks)]
    keys = 1500
    found = []
    for seed in range(keys):
        hits = sum(drawn_place(seed, name, options) == place for name, place in replies.items())
        activated = sum(
            drawn_place(seed, f"mark {mark}", options) == place
            for mark, place in enumerate(favourites)
        )
        found.append(false_positive_probability(hits, items, activated, marks, options))
    for level in (0.2, 0.05, 0.01):
        below = [p for p in np.unique(found) if p <= level]
        attained = max(below)  # p takes few values; at each of them its level is exact
        low, high = binomial_band(keys, attained)
        assert low <= sum(p <= attained for p in found) <= high


def test_right_places_are_drawn_evenly_and_by_the_seed_alone() -> None:
    places = Counter(drawn_place(seed, "item x", 4) for seed in range(4000))
    assert stats.chisquare([places[k] for k in range(4)]).pvalue > 1e-3
    assert drawn_place(2**127, "mark 0", 4) == drawn_place(2**127, "mark 0", 4)
    both = Counter(
        (drawn_place(seed, "mark 0", 2), drawn_place(seed, "mark 1", 2)) for seed in range(4000)
    )
    assert stats.chisquare(list(both.values())).pvalue > 1e-3


# Planting


def test_the_benchmark_is_released_whole_with_canaries_among_its_items(
    bench: Path, planted: PlantedCanaries
) -> None:
    before, after = heldout.read_benchmark(bench), planted.benchmark
    ids = {canary.id for canary in planted.key.canaries}
    assert len(ids) == 24 + 8 * 4
    assert len(after) == len(before) + len(ids)
    assert planted.differences == ()
    kept = [example for example in after if example.id not in ids]
    assert [e.id for e in kept] == [e.id for e in before]  # in their order
    assert [e.images[0].read() for e in kept] == [e.images[0].read() for e in before]
    ends = [example.id in ids for example in after]
    assert ends != sorted(ends)
    assert ends != sorted(ends, reverse=True)
    for example in after:
        if example.id in ids:
            assert example.metadata == {"organ": "chest"}  # as the items around it
            assert len(example.id) == len("q-000")
    assert not list(planted.source.parent.rglob("*key*"))


def test_released_answers_are_those_of_the_key(planted: PlantedCanaries) -> None:
    by_id = {example.id: example for example in planted.benchmark}
    for canary in planted.key.canaries:
        assert by_id[canary.id].options == canary.options
        assert by_id[canary.id].answer_index == canary.target
    for group in planted.key.marks.values():
        assert len({canary.target for canary in group}) == 1


def test_what_is_asked_tells_nothing_about_what_is_right(bench: Path, tmp_path: Path) -> None:
    """Places over many keys, by the place that a clue in the question or options could name."""
    places: Counter[int] = Counter()
    for seed in range(30):
        made = heldout.canary(
            bench, out=tmp_path / str(seed), seed=seed, items=20, marks=0, quiet=True
        )
        for canary in made.key.canaries:
            alphabetical = sorted(canary.options).index(canary.options[canary.target])
            places[alphabetical] += 1
    assert stats.chisquare([places[k] for k in range(4)]).pvalue > 1e-3


def test_a_mark_is_the_same_in_all_its_pictures_and_the_rest_is_untouched(
    bench: Path, planted: PlantedCanaries
) -> None:
    originals = [np.asarray(e.images[0].open()) for e in heldout.read_benchmark(bench)]
    by_id = {example.id: example for example in planted.benchmark}
    stamps: dict[int, set[bytes]] = {}
    for canary in planted.key.canaries:
        pixels = np.asarray(by_id[canary.id].images[0].open())
        differing = [(pixels != other).any(2) for other in originals]
        changed = min(differing, key=lambda mask: int(mask.sum()))
        if canary.mark is None:
            assert not changed.any()
            continue
        rows, columns = np.nonzero(changed)
        assert np.ptp(rows) < 60 // 8
        assert np.ptp(columns) < 60 // 8
        top, left = (0 if rows.min() < 30 else 54), (0 if columns.min() < 40 else 74)
        stamp = pixels[top : top + 6, left : left + 6]
        stamps.setdefault(canary.mark, set()).add(stamp.tobytes())
    assert [len(kinds) for kinds in stamps.values()] == [1] * 8
    assert len(set.union(*stamps.values())) == 8


def test_the_same_seed_makes_the_same_release_and_no_seed_a_new_one(
    bench: Path, planted: PlantedCanaries, tmp_path: Path
) -> None:
    again = heldout.canary(bench, out=tmp_path / "again", seed=5, quiet=True)
    assert again.key == planted.key
    assert again.source.read_bytes() == planted.source.read_bytes()
    first, second = (
        heldout.canary(bench, out=tmp_path / name, items=2, marks=0, quiet=True) for name in "ab"
    )
    assert first.key.seed != second.key.seed


def test_a_key_is_kept_apart_and_never_written_over(bench: Path, tmp_path: Path) -> None:
    made = heldout.canary(bench, out=tmp_path / "r", items=2, marks=0, quiet=True)
    assert made.key_file == tmp_path / "r.key.json"
    assert made.key_file.stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="never written over"):
        heldout.canary(bench, out=tmp_path / "s", key=made.key_file, quiet=True)
    with pytest.raises(InputError, match="would be released"):
        heldout.canary(bench, out=tmp_path / "t", key=tmp_path / "t" / "k.json", quiet=True)
    assert not (tmp_path / "s").exists()


def test_benchmarks_without_pictures_get_items_alone(tmp_path: Path) -> None:
    path = tmp_path / "words.jsonl"
    path.write_text(
        "".join(
            json.dumps({"question": f"What is {n}?", "answer": str(n)}) + "\n" for n in range(5)
        )
    )
    with pytest.raises(InputError, match="^marks: "):
        heldout.canary(path, out=tmp_path / "r", quiet=True)
    made = heldout.canary(path, out=tmp_path / "r", marks=0, items=6, quiet=True)
    assert len(made.benchmark) == 11
    with pytest.raises(InputError, match="^items: "):
        heldout.canary(path, out=tmp_path / "s", marks=0, items=0)


# Testing


def test_who_trained_on_the_release_is_flagged_and_who_did_not_is_not(
    planted: PlantedCanaries, tmp_path: Path
) -> None:
    trained = _answered(planted, tmp_path, _right, "trained")
    (verdict,) = check_canary(planted.key_file, trained).verdicts
    assert (verdict.hits, verdict.activated, verdict.unanswered) == (24, 8, 0)
    assert verdict.p == pytest.approx(4.0**-32)
    assert verdict.flagged
    assert ": 24 of 24 random-choice items" in verdict.sentence
    (verdict,) = check_canary(
        planted.key_file, _answered(planted, tmp_path, lambda _: "A")
    ).verdicts
    assert verdict.p > 0.001
    assert not verdict.flagged
    expected = sum(canary.target == 0 for canary in planted.key.items)
    assert verdict.hits == expected


def test_one_kind_of_memory_is_enough(planted: PlantedCanaries, tmp_path: Path) -> None:
    for kind in (True, False):  # marks alone, items alone

        def reply(canary: Canary, kind: bool = kind) -> str:
            return _right(canary) if (canary.mark is not None) == kind else "A"

        path = _answered(planted, tmp_path, reply)
        (verdict,) = check_canary(planted.key_file, path).verdicts
        assert verdict.flagged, kind


def test_half_of_a_marks_items_are_enough_to_activate_it(
    planted: PlantedCanaries, tmp_path: Path
) -> None:
    counts: Counter[int | None] = Counter()

    def reply(canary: Canary) -> str:
        counts[canary.mark] += 1
        return _right(canary) if counts[canary.mark] <= 3 else "ABCD"[(canary.target + 1) % 4]

    (verdict,) = check_canary(planted.key_file, _answered(planted, tmp_path, reply)).verdicts
    assert verdict.activated == 8


def test_replies_that_lack_or_cannot_be_read_count_as_missed(
    planted: PlantedCanaries, tmp_path: Path
) -> None:
    path = _answered(planted, tmp_path, lambda c: _right(c) if c.mark is None else "no idea")
    (verdict,) = check_canary(planted.key_file, path).verdicts
    assert (verdict.hits, verdict.activated, verdict.unanswered) == (24, 0, 32)
    assert verdict.marks == 8
    rows = path.read_text().splitlines()
    path.write_text("\n".join(rows[:10]) + "\n")
    (fewer,) = check_canary(planted.key_file, path).verdicts
    assert fewer.items == 24
    assert fewer.p > verdict.p


def test_several_models_are_corrected_together(planted: PlantedCanaries, tmp_path: Path) -> None:
    texts = [
        _answered(planted, tmp_path, reply, name).read_text()
        for name, reply in (("one", _right), ("two", lambda _: "B"))
    ]
    path = tmp_path / "both.jsonl"
    path.write_text("".join(texts))
    test = check_canary(planted.key_file, path)
    assert test.models["model"].to_list() == ["one", "two"]
    assert test.models["flagged"].to_list() == [True, False]
    assert test.models["corrected"][0] == pytest.approx(2 * 4.0**-32)
    (alone,) = check_canary(planted.key_file, path, model="one").verdicts
    assert alone.corrected == alone.p


def test_a_changed_key_is_refused(planted: PlantedCanaries, tmp_path: Path) -> None:
    answers = _answered(planted, tmp_path, lambda _: "A")
    content = json.loads(planted.key_file.read_text())
    for canary in content["canaries"]:
        canary["right"] = "A"
    changed = tmp_path / "key.json"
    changed.write_text(json.dumps(content))
    with pytest.raises(InputError, match="it was changed"):
        check_canary(changed, answers)
    del content["digest"]
    changed.write_text(json.dumps(content))
    with pytest.raises(InputError, match="it was changed"):
        check_canary(changed, answers)
    key = CanaryKey(
        planted.key.benchmark,
        planted.key.seed,
        4,
        planted.key.released,
        tuple(Canary(c.id, c.options, 0, c.mark) for c in planted.key.canaries),
    )
    key.write(changed)  # with a digest that fits it: who always says A would be flagged
    with pytest.raises(InputError, match="seed draws"):
        check_canary(changed, answers)
    with pytest.raises(InputError, match="published digest"):
        check_canary(changed, answers, digest=planted.key.digest)
    (tmp_path / "not.json").write_text("[1]")
    with pytest.raises(InputError, match="^key "):
        check_canary(tmp_path / "not.json", answers)


def test_a_key_that_names_an_item_twice_is_refused(
    planted: PlantedCanaries, tmp_path: Path
) -> None:
    key, path = planted.key, tmp_path / "key.json"
    one = key.items[0]
    replace(key, canaries=(one,) * 12).write(path)
    with pytest.raises(InputError, match=one.id):
        check_canary(path, _answered(planted, tmp_path, _right))


def test_what_could_flag_nobody_does_not_say_that_nothing_shows(
    bench: Path, planted: PlantedCanaries, tmp_path: Path
) -> None:
    call = ["canary", "plant", str(bench), "--out", str(tmp_path / "few"), "--items", "3"]
    done = CliRunner().invoke(app, [*call, "--marks", "0", "--seed", "2", "--quiet"])
    assert "too few" in done.output
    key = CanaryKey.read(tmp_path / "few.key.json")
    few = replace(planted, key=key)
    answers = _answered(few, tmp_path, _right)
    (verdict,) = check_canary(key, answers).verdicts
    assert (verdict.flagged, verdict.least) == (False, 4.0**-3)
    assert "cannot be told" in verdict.sentence
    (loose,) = check_canary(key, answers, level=0.05).verdicts
    assert loose.flagged
    (wrong,) = check_canary(key, _answered(few, tmp_path, lambda _: ""), level=0.05).verdicts
    assert (wrong.p, wrong.unanswered) == (1.0, 3)
    assert wrong.sentence.startswith("Nothing shows")
    assert "3 planted items have no readable reply" in wrong.sentence


def test_answers_of_a_run_are_read_as_they_were_asked(
    bench: Path, planted: PlantedCanaries, tmp_path: Path
) -> None:
    recorded = _answered(planted, tmp_path, _right)
    run = heldout.ask(planted.source, recorded=recorded, name="m", run=tmp_path / "run").run
    (verdict,) = check_canary(planted.key_file, run).verdicts
    assert verdict.flagged
    assert verdict.p == pytest.approx(4.0**-32)
    other = heldout.canary(bench, out=tmp_path / "other", seed=6, quiet=True)
    with pytest.raises(InputError, match="a planted item"):
        check_canary(other.key_file, run)


def test_the_command_plants_and_tests(bench: Path, tmp_path: Path) -> None:
    def call(*words: object) -> str:
        done = CliRunner().invoke(app, ["canary", *map(str, words)])
        assert done.exit_code == 0, done.output
        return done.output

    told = call("plant", bench, "--out", tmp_path / "r", "--seed", 1, "--quiet")
    assert "24 random-choice items and 8 marks" in told
    key = CanaryKey.read(tmp_path / "r.key.json")
    assert key.digest in told
    rows = [{"id": c.id, "prediction": "ABCD"[c.target]} for c in key.canaries]
    path = tmp_path / "suspect.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = call("test", path, "--key", tmp_path / "r.key.json", "--digest", key.digest)
    assert "flagged" in told
    assert "suspect trained on" in told
    document = json.loads(call("test", path, "--key", tmp_path / "r.key.json", "--json"))
    assert document["models"][0]["hits"] == 24
