"""Contamination plans: data that survives a round trip, and rows that show what the plan says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from small_models import tokenizer

from demo_grid import demo_arms, demo_bases, demo_reads
from heldout.errors import InputError
from heldout.lab import OUTSIDERS
from heldout.lab.models.planting import (
    Contamination,
    PlantedRows,
    ReleasedPicture,
    arm_from_json,
    clean_arms,
    clean_bases,
    plant,
    standing_arms,
    standing_bases,
    work_order,
)
from heldout.lab.models.worlds import LabItem, RowPacker
from heldout.scenes.leaks import paraphrased
from lab_grid import Claims

PAGES = [
    ReleasedPicture(
        picture,
        (
            LabItem(f"What colour is the star {picture}?", "red", ("red", "blue")),
            LabItem(f"How many rings are there {picture}?", "2"),
        ),
        (f"Tell me {picture}.", f"Count {picture}."),
        (LabItem(f"Is the ring {picture} green?", "no"),),
    )
    for picture in range(6)
]


def _plant(plan: Contamination, seed: int = 0) -> PlantedRows:
    return plant(PAGES, plan, RowPacker(tokenizer(), 128), RowPacker(tokenizer(), 512), seed)


def _words(planted: PlantedRows) -> str:
    rows = [*planted.ids, *(ids for ids, _ in planted.text)]
    return "\n".join(tokenizer().decode(ids[ids > 0]) for ids in rows)


def test_the_standing_grid_has_sixty_models_and_more_and_survives_a_file() -> None:
    arms = standing_arms(standing_bases())
    assert len(arms) + len(standing_bases()) >= 60
    assert sum(arm.clean for arm in arms) >= 40
    assert [arm_from_json(json.loads(json.dumps(arm.as_json()))) for arm in arms] == arms


def test_the_work_begins_with_what_is_needed_most_and_leaves_nothing_out() -> None:
    bases = standing_bases()
    arms = standing_arms(bases)
    work = work_order(bases, arms)
    assert sorted(arm.name for _, own in work for arm in own) == sorted(arm.name for arm in arms)
    names = [base.name for base, _ in work]
    assert names[:6] == ["scenes0", "films0", "scenes1", "films1", "scenes2", "films2"]
    assert set(names) == {base.name for base in bases}
    # Arms that may be left come when bases of either world are enough families, and after their own base.
    later = names.index("scenes0", 1)
    assert {"scenes8", "films8"} <= set(names[:later]) and not {"scenes9", "slake0"} & set(
        names[:later]
    )
    for world in ("scenes", "films"):
        clean = [arm for arm in arms if arm.clean and arm.contamination.benchmark == world]
        assert len({arm.base for arm in clean}) == 14


def test_clean_bases_are_of_seeds_that_no_other_base_has_and_each_is_a_reference() -> None:
    bases = [*clean_bases("scenes", 60), *clean_bases("films", 60)]
    arms = clean_arms(bases)
    every = [*bases, *standing_bases(), *demo_bases()]
    assert len({base.seed for base in every}) == len({base.name for base in every}) == len(every)
    assert {arm.base for arm in arms if arm.clean} == {base.name for base in bases}
    assert not {arm.seed for arm in arms} & {arm.seed for arm in standing_arms(standing_bases())}
    # The clock may stop after any base: a split of either world is there from the first one on.
    for world in ("scenes", "films"):
        first = work_order(clean_bases(world, 4), arms)[0]
        assert first[0].name == f"{world}20"
        assert [arm.contamination.dose for arm in first[1]] == [0, 3, 10, 10]
        assert first[1][-1].contamination.share == 0.5


def test_what_a_dead_command_began_is_taken_up_and_not_for_ever(tmp_path: Path) -> None:
    mine, other = Claims(tmp_path), Claims(tmp_path)
    assert mine.begun("scenes0") and not other.begun("scenes0")
    mine.close("scenes0", over=False)  # stopped by the clock
    assert other.begun("scenes0")
    other.close("scenes0", over=True)
    assert not mine.begun("scenes0") and mine.over("scenes0")
    for again in (True, True, True, False):
        (tmp_path / "begun" / "films0").write_text(str(2**22 + 1))  # above every process's number
        assert mine.begun("films0") == again
    assert mine.over("films0")


def test_every_benchmark_has_models_that_saw_half_of_it() -> None:
    halves = [a for a in standing_arms(standing_bases()) if a.contamination.share == 0.5]
    by_benchmark = {a.contamination.benchmark for a in halves}
    assert len(halves) >= 9 and by_benchmark == {"scenes", "films", "slake"}
    assert {a.contamination.dose for a in halves} == {1, 3, 10}


def test_the_demo_has_a_pair_for_every_release_and_outsiders_that_saw_none() -> None:
    arms = demo_arms(range(10))
    assert len({arm.seed for arm in arms}) == len({arm.name for arm in arms}) == 20
    assert sum(arm.clean for arm in arms) == 10
    reads = demo_reads(arms)
    for arm in arms:
        assert reads[arm.name] == (arm.contamination.benchmark,) == (arm.name.partition("-")[0],)
    known, *others = demo_bases()
    assert {arm.base for arm in arms} == {known.name}
    assert sum("scenes" in base.worlds for base in others) == len(OUTSIDERS)
    seeds = {base.seed for base in (*demo_bases(), *standing_bases())}
    assert len(seeds) == len(demo_bases()) + len(standing_bases())


@pytest.mark.parametrize("dose", [1, 3])
def test_every_dose_shows_every_leaked_item_that_often(dose: int) -> None:
    words = _words(_plant(Contamination("scenes", dose)))
    for picture in range(6):
        # plain, instructed, and in the running text
        assert words.count(f"What colour is the star {picture}?") == 3 * dose


def test_a_share_leaks_whole_pictures_and_the_same_ones_every_time() -> None:
    half = _plant(Contamination("scenes", 2, share=0.5))
    assert len(half.leaked) == 3 and set(half.picture) == set(half.leaked)
    assert half.leaked == _plant(Contamination("scenes", 2, share=0.5)).leaked
    assert half.leaked != _plant(Contamination("scenes", 2, share=0.5), seed=5).leaked


def test_words_alone_show_no_picture_and_pictures_alone_no_word_of_the_benchmark() -> None:
    text = _plant(Contamination("scenes", 2, part="text"))
    assert not text.ids and text.text
    image = _plant(Contamination("scenes", 2, part="image"))
    assert set(image.picture) == set(range(6)) and not image.text
    assert "What colour" not in _words(image) and "Is the ring 3 green?" in _words(image)


def test_a_paraphrase_has_the_answer_and_not_the_question() -> None:
    words = _words(_plant(Contamination("scenes", 1, paraphrased=True)))
    assert "What colour" not in words and "Tell me 3. Answer: red" in words


def test_the_released_order_is_kept_or_shuffled() -> None:
    def order(planted: PlantedRows) -> list[int]:
        return planted.picture

    kept, shuffled = (
        _plant(Contamination("scenes", 1, order=one)) for one in ("released", "shuffled")
    )
    assert order(kept) == sorted(order(kept))
    assert order(shuffled) != sorted(order(shuffled))
    assert sorted(order(shuffled)) == order(kept)


def test_a_plan_that_means_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="expected .*finetune, pretrain"):
        Contamination("scenes", 1, stage="later")
    with pytest.raises(InputError, match="dose -1"):
        Contamination("scenes", -1)
    with pytest.raises(InputError, match=r"fields .*\bdosis\b"):
        arm_from_json({"name": "a", "base": "b", "seed": 1, "contamination": {"dosis": 2}})


def test_every_question_gets_other_words() -> None:
    for question in ("What colour is the red star?", "Is the ring larger than the star?", "Why?"):
        assert paraphrased(question) != question
    assert paraphrased("Why?") == "Please look and tell: why?"
