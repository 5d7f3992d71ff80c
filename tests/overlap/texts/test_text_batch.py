"""Words of many texts in one array: the same as reading them one by one."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import example, given, settings
from hypothesis import strategies as st

from heldout.overlap.texts.edits import NgramIndex
from heldout.overlap.texts.normalise import WordBatch, loose

TEXTS = st.lists(
    st.text(st.sampled_from("ab 12<>&é肺ﬁ½ß؟\x1e\x00\u200b\u0301.\n"), max_size=30), max_size=8
)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
@example(["a\u0301", "a\x00\u0301"])
def test_words_are_those_of_the_loose_profile(texts: list[str]) -> None:
    batch = WordBatch.of(texts)
    words = [loose(text).split() for text in texts]
    assert batch.lengths.tolist() == [len(one) for one in words]
    flat = [word for one in words for word in one]
    by_word: dict[str, set[int]] = defaultdict(set)
    for word, hashed in zip(flat, batch.words.tolist(), strict=True):
        by_word[word].add(hashed)
    assert all(len(hashes) == 1 for hashes in by_word.values())
    assert len({min(h) for h in by_word.values()}) == len(by_word)


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_keys_are_equal_exactly_where_the_words_are(texts: list[str]) -> None:
    keys = WordBatch.of(texts).keys().tolist()
    for text, key in zip(texts, keys, strict=True):
        for other, theirs in zip(texts, keys, strict=True):
            assert (key == theirs) == (loose(text) == loose(other))


def test_no_run_reaches_into_the_next_text() -> None:
    batch = WordBatch.of(["a b c", "d", "", "e f"])
    ((size, hashes, text, place),) = batch.grams([2])
    assert (size, text.tolist(), place.tolist()) == (2, [0, 0, 3], [0, 1, 0])
    assert len(set(hashes.tolist())) == 3


def words(first: int, count: int) -> str:
    letters = "abcdefghij"
    return " ".join(
        "w" + "".join(letters[int(c)] for c in str(k)) for k in range(first, first + count)
    )


def test_containment_is_the_share_of_runs_and_names_the_stretch() -> None:
    index = NgramIndex([words(0, 25)])  # 13 runs of 13 words
    (found,) = index.find(WordBatch.of([f"before {words(0, 19)} after"]))
    assert (found.runs, found.of, found.place, found.words) == (7, 13, 0, 19)
    assert abs(found.containment - 7 / 13) < 1e-9
    assert index.find(WordBatch.of([words(0, 18)])) == []  # 6 of 13 is less than half


def test_a_text_of_eight_to_twelve_words_has_to_be_there_whole() -> None:
    index = NgramIndex([words(0, 9), words(100, 7)])
    documents = [f"x {words(0, 9)} y", words(0, 8), words(100, 7)]
    assert [(f.text, f.document) for f in index.find(WordBatch.of(documents))] == [(0, 0)]


def test_what_many_texts_share_identifies_none_of_them() -> None:
    shared = words(500, 60)  # 48 runs that all 25 texts have, and one run each has alone
    index = NgramIndex([f"{words(1000 + k, 1)} {shared}" for k in range(25)])
    assert index.find(WordBatch.of([shared])) == []
    (found,) = index.find(WordBatch.of([f"{words(1000, 1)} {shared}"]))
    assert (found.text, found.containment) == (0, 1.0)


def test_thirteen_characters_are_a_run_where_there_are_no_spaces() -> None:
    question = "这张图像中最可能受到影响的血管结构是哪一个"
    index = NgramIndex([question])
    assert [f.document for f in index.find(WordBatch.of(["没有关系", f"请问{question}谢谢"]))] == [
        1
    ]
