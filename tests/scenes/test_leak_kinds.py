"""Each kind of leak and decoy is what its name says, whatever was drawn, in both worlds."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from heldout.scenes import FILMS, KINDS, SCENES, LeakKind, LeakWorld
from heldout.scenes.leaks import CorpusSample, Target, encode, paraphrased

BY_NAME = {kind.name: kind for kind in KINDS}
DRAWS = 5
SIDE = 224


@pytest.fixture(scope="module", params=[SCENES, FILMS], ids=lambda world: world.name)
def targets(request: pytest.FixtureRequest) -> list[Target]:
    world: LeakWorld = request.param
    made = []
    for seed in range(DRAWS):
        rng = np.random.default_rng((5, seed))
        thing = world.draw(rng)
        data = encode(world.render(thing, SIDE), "png")
        question = world.ask(thing, rng, 6)[seed]
        made.append(Target(f"{seed}.png", data, thing, f"{seed}-0", question, world))
    return made


def draws(targets: list[Target], name: str) -> Iterator[tuple[Target, CorpusSample]]:
    for seed, target in enumerate(targets):
        yield target, BY_NAME[name].make(target, np.random.default_rng(seed))


def pictures(target: Target, sample: CorpusSample) -> tuple[np.ndarray, np.ndarray]:
    """The original and the corpus' picture."""
    assert sample.data is not None
    return pixels(target.data), pixels(sample.data)


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.found_by in ("bytes", "pixels")], ids=lambda k: k.name
)
def test_an_exact_leak_is_exact_in_bytes_or_in_pixels_alone(
    targets: list[Target], kind: LeakKind
) -> None:
    for target, sample in draws(targets, kind.name):
        original, theirs = pictures(target, sample)
        assert (sample.data == target.data) == (kind.found_by == "bytes")
        assert np.array_equal(original, theirs)
        if kind.words is None:
            assert sample.caption and sample.metadata is None
        else:
            assert sample.metadata is not None
            said, question = sample.metadata, target.question
            assert (said["answer"] == question.answer) == (kind.label_relation == "same")
            assert (said["question"] == question.question) == (kind.words == "exact")


def test_transformed_copies_hold_the_pictures_own_pixels(targets: list[Target]) -> None:
    for target, sample in draws(targets, "flipped"):
        original, theirs = pictures(target, sample)
        assert np.array_equal(theirs[:, ::-1], original)
    for target, sample in draws(targets, "rotated by quarter turns"):
        original, theirs = pictures(target, sample)
        turns = int(sample.detail.removeprefix("by ").removesuffix("°")) // 90
        assert np.array_equal(np.rot90(original, turns), theirs)
    for target, sample in draws(targets, "cropped"):
        original, theirs = pictures(target, sample)
        assert contains(original, theirs)
        assert 0.45 < theirs.size / original.size < 0.85
    for target, sample in draws(targets, "inside a compound figure"):
        original, theirs = pictures(target, sample)
        assert theirs.shape[0] > 2 * SIDE and contains(theirs, original)


def test_changed_copies_still_show_the_picture(targets: list[Target]) -> None:
    for target, sample in draws(targets, "JPEG re-encoded"):
        original, theirs = pictures(target, sample)
        assert sample.extension == "jpg" and 0 < np.abs(theirs - original).mean() < 5
    for target, sample in draws(targets, "resized"):
        original, theirs = pictures(target, sample)
        assert theirs.shape != original.shape
        back = Image.fromarray(theirs.astype(np.uint8)).resize(
            (SIDE, SIDE), Image.Resampling.BICUBIC
        )
        assert np.abs(np.asarray(back).astype(int) - original).mean() < 6
    for target, sample in draws(targets, "watermarked"):
        original, theirs = pictures(target, sample)
        assert 0.005 < (theirs != original).any(axis=2).mean() < 0.5  # words, not another picture
    for target, sample in draws(targets, "rotated by a few degrees"):
        original, theirs = pictures(target, sample)
        degrees = int(sample.detail.split("°")[0].removeprefix("by "))
        back = Image.fromarray(theirs.astype(np.uint8)).rotate(-degrees, Image.Resampling.BICUBIC)
        middle = np.s_[70:154, 70:154]  # what no corner was turned into
        assert 3 <= abs(degrees) <= 30
        assert np.abs(np.asarray(back).astype(int)[middle] - original[middle]).mean() < 8


def test_a_recoloured_copy_has_other_colours_everywhere_and_the_same_edges(
    targets: list[Target],
) -> None:
    for target, sample in draws(targets, "recoloured"):
        original, theirs = pictures(target, sample)
        assert np.abs(theirs - original).mean() > 2, sample.detail
        strong = [np.hypot(*np.gradient(one.mean(axis=2))) for one in (original, theirs)]
        assert np.corrcoef(*(one.ravel() for one in strong))[0, 1] > 0.5, sample.detail


def test_decoys_of_pictures_are_other_pictures(targets: list[Target]) -> None:
    for target, sample in draws(targets, "one attribute changed"):
        original, theirs = pictures(target, sample)
        assert 0 < (theirs != original).any(axis=2).mean() < 0.4  # one thing, not another picture
    for target, sample in draws(targets, "same view of another subject"):
        original, theirs = pictures(target, sample)
        assert (theirs != original).any(axis=2).mean() > 0.4  # another one's paper or grain
        coarse = [
            np.asarray(Image.fromarray(one.astype(np.uint8)).convert("L").resize((6, 6)))
            for one in (original, theirs)
        ]
        assert np.corrcoef(*(one.ravel().astype(float) for one in coarse))[0, 1] > 0.5


def test_the_same_view_of_another_subject_keeps_what_is_there(targets: list[Target]) -> None:
    for seed, target in enumerate(targets):
        other = target.world.other_subject(target.thing, np.random.default_rng(seed))
        if target.world is FILMS:
            assert other.patient != target.thing.patient
            assert (other.view, other.lesions) == (target.thing.view, target.thing.lesions)
        else:
            moved = zip(target.thing.objects, other.objects, strict=True)
            assert all((a.shape, a.colour, a.size) == (b.shape, b.colour, b.size) for a, b in moved)
            assert other.background.grain != target.thing.background.grain


def test_words_that_leak_alone_have_no_picture_or_another_one(targets: list[Target]) -> None:
    for name in ("question and answer alone", "question reworded, alone"):
        for target, sample in draws(targets, name):
            assert sample.data is None and sample.metadata is not None
            expected = target.question.question
            if name.startswith("question reworded"):
                expected = paraphrased(expected)
                assert expected != target.question.question
            assert sample.metadata["question"] == expected
            assert sample.metadata["answer"] == target.question.answer
    for target, sample in draws(targets, "question and answer beside another picture"):
        assert sample.metadata is not None and sample.data is not None
        assert sample.metadata["question"] == target.question.question
        theirs = pixels(sample.data)
        assert theirs.shape != (SIDE, SIDE, 3) or not np.array_equal(theirs, pixels(target.data))


def test_decoys_of_words_ask_another_picture_or_another_thing(targets: list[Target]) -> None:
    for target, sample in draws(targets, "same question of another picture"):
        assert sample.metadata is not None and sample.data is not None
        assert sample.metadata["question"] == target.question.question
        same = sample.metadata["answer"] == target.question.answer
        assert sample.detail == ("same answer" if same else "another answer")
    for target, sample in draws(targets, "another question in like words"):
        assert sample.metadata is not None and sample.data is None
        ours = target.question.question.split()
        theirs = sample.metadata["question"].split()
        assert sum(a != b for a, b in zip(ours, theirs, strict=True)) == 1


@pytest.mark.parametrize("world", [SCENES, FILMS], ids=lambda world: world.name)
def test_every_question_has_like_words_and_other_words(world: LeakWorld) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        thing = world.draw(rng)
        for question in world.ask(thing, rng, 6):
            target = Target("a.png", b"", thing, "a-0", question, world)
            for name in ("another question in like words", "question reworded, alone"):
                said = BY_NAME[name].make(target, rng).metadata
                assert said is not None and said["question"] != question.question


def contains(whole: np.ndarray, part: np.ndarray) -> bool:
    height, width = part.shape[:2]
    for top, left in np.argwhere((whole == part[0, 0]).all(axis=2)):
        if np.array_equal(whole[top : top + height, left : left + width], part):
            return True
    return False
