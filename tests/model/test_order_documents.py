"""Items as one running text, and who else might have come before an item."""

from __future__ import annotations

from heldout.benchmark.benchmark import Example
from heldout.image import ImageRef, InlineBytes
from heldout.model.item_scores import (
    ALTERNATIVES,
    BLOCK,
    alternatives,
    item_text,
    joint_request,
    neighbour_request,
)

PICTURE = ImageRef("p", InlineBytes(b"", "p"))
ONE = Example("1", (PICTURE,), "Is it\nblue?", answer=" yes ")
TWO = Example("2", (), None, answer="no")


def test_items_read_alike_wherever_they_stand() -> None:
    assert item_text(ONE) == "Question: Is it blue?\nAnswer: yes\n\n"
    assert item_text(TWO) == "no\n\n"
    there, back = joint_request("a", [ONE, TWO]), joint_request("b", [TWO, ONE])
    assert sorted(there.target) == sorted(back.target)
    assert not there.turn
    assert there.images == ()
    assert joint_request("a", [ONE, TWO], interleaved=True).images == (PICTURE,)
    assert joint_request("a", [ONE, ONE], interleaved=True).images == (PICTURE,)  # once for both
    assert joint_request("a", [ONE, TWO, ONE], interleaved=True).images == (PICTURE, PICTURE)


def test_only_the_item_itself_is_scored_after_its_neighbour() -> None:
    request = neighbour_request("n", ONE, TWO)
    assert request.target == item_text(TWO)
    assert request.content[0].text == item_text(ONE)  # type: ignore[union-attr]


def test_alternatives_keep_the_image_where_the_predecessor_does() -> None:
    clusters = [name for name in "abcdefghijklmnopqrst" for _ in range(4)]
    found = alternatives(clusters, seed=3)
    assert set(found) == set(range(1, len(clusters)))
    order = sorted(set(clusters))
    for place, others in found.items():
        assert len(others) == ALTERNATIVES
        assert place not in others
        assert place - 1 not in others
        if clusters[place] == clusters[place - 1]:
            assert {clusters[other] for other in others} == {clusters[place]}
        else:
            assert clusters[place] not in {clusters[other] for other in others}
            gaps = [
                abs(order.index(clusters[other]) - order.index(clusters[place])) for other in others
            ]
            assert max(gaps) < BLOCK
    assert alternatives(clusters, seed=3) == found
    assert alternatives(clusters, seed=4) != found


def test_a_pair_of_questions_on_one_image_has_nobody_to_compare_with() -> None:
    assert set(alternatives(["a", "a"])) == set()
    assert set(alternatives(["a", "b"])) == set()
    assert set(alternatives(["a", "b", "c"])) == {1, 2}
