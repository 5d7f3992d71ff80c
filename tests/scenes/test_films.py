"""Films: same film same pixels, one change at a time, and answers that are true of the film."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from heldout.scenes.films import (
    FILM_ATTRIBUTES,
    ZONES,
    Film,
    Lesion,
    ask_film,
    other_patient,
    random_film,
    render_film,
    vary_film,
)


def _pixels(film: Film, size: int = 96) -> np.ndarray:
    return np.asarray(render_film(film, size)).astype(int)


def test_a_film_is_the_same_picture_every_time_and_another_patient_is_not() -> None:
    film = random_film(np.random.default_rng(3))
    assert (_pixels(film) == _pixels(film)).all()
    other = other_patient(film, np.random.default_rng(4))
    assert replace(other, patient=film.patient) == film
    assert np.abs(_pixels(other) - _pixels(film)).mean() > 5


@pytest.mark.parametrize("attribute", FILM_ATTRIBUTES)
def test_a_twin_differs_in_one_thing_and_stays_the_same_patient(attribute: str) -> None:
    film = Film("chest", 7, "L", (Lesion("nodule", ZONES[0]),), "heart", "tube")
    twin = vary_film(film, np.random.default_rng(1), attribute)
    changed = [
        one.name for one in fields(Film) if getattr(film, one.name) != getattr(twin, one.name)
    ]
    field = {"lesion": "lesions", "zone": "lesions", "organ": "enlarged"}.get(attribute, attribute)
    assert changed == [field]


def test_a_lesion_that_goes_leaves_the_rest_of_the_picture_as_it_was() -> None:
    film = Film(
        "chest",
        11,
        "R",
        (Lesion("cavity", "left upper zone"), Lesion("nodule", "right lower zone")),
    )
    without = replace(film, lesions=film.lesions[1:])
    moved = np.argwhere(np.abs(_pixels(film) - _pixels(without)).sum(-1) > 0)
    assert len(moved) > 10
    # The patient's left is the picture's right.
    assert moved[:, 1].min() > 48 and moved[:, 0].max() < 48


def test_questions_are_true_of_their_film_and_twins_can_change_the_answer() -> None:
    answers: dict[str, int] = {}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        film = random_film(rng)
        for asked in ask_film(film, rng, 6):
            assert asked.probe.answer(film) == asked.answer
            assert not asked.options or asked.options.count(asked.answer) == 1
            if asked.question == "How many lesions are there?":
                assert asked.answer == str(len(film.lesions))
            if asked.answer in ("yes", "no"):
                answers[asked.answer] = answers.get(asked.answer, 0) + 1
    assert 0.3 < answers["yes"] / sum(answers.values()) < 0.7


def test_the_first_question_of_a_film_is_of_any_format() -> None:
    first = []
    for seed in range(90):
        rng = np.random.default_rng(seed)
        asked = ask_film(random_film(rng), rng, 6)[0]
        first.append(
            "choice" if asked.options else "yes/no" if asked.answer in ("yes", "no") else "open"
        )
    assert all(first.count(kind) > 15 for kind in ("choice", "yes/no", "open"))


def test_a_film_without_room_cannot_move_a_lesion() -> None:
    full = Film("head", 1, "L", tuple(Lesion("nodule", zone) for zone in ZONES))
    with pytest.raises(ValueError, match="zone"):
        vary_film(full, np.random.default_rng(0), "zone")
