"""Rewordings: proposed by an encoder, judged in the light of picture, answer and numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text_corpus import bench, corpus, frame, matches, scan_all

from heldout.errors import InputError
from heldout.overlap import OverlapSettings
from heldout.overlap.images.encoder import Floats
from heldout.overlap.texts._chances import (
    FEW,
    OWN_LIKENESS,
    Chances,
    OtherItems,
    ParaphraseCandidate,
    ParaphraseNull,
)
from heldout.overlap.texts._fields import final_answer
from heldout.overlap.texts._language import is_foreign
from heldout.overlap.texts._questions import (
    amounts,
    prose,
    same_amounts,
    states,
    telling_words,
    varied,
)
from heldout.overlap.texts._reading import (
    counts,
    is_nearest,
    likeliest_chances,
    may_count,
    read_together,
    settle_rewordings,
)
from heldout.overlap.texts._rewordings import OwnPictures
from heldout.overlap.texts.encoders import (
    READER,
    CrossEncoder,
    OnnxTextEncoder,
    can_read,
    carried,
    installed_reader,
    installed_text_encoder,
    knows,
    reader_parts,
)
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.relation import DOUBTFUL_REWORDING
from heldout.overlap.texts.scan import TextShard, scan_text_shard
from heldout.store.schema import make_table

WORDS = TextSearch(methods=("embedding",), encoder="wordllama")
QUESTIONS = Path(__file__).with_name("reworded_questions.json")
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Fay", "Gus", "Hal", "Ivy", "Jon")


def problem(number: int) -> dict[str, str]:
    pears, boxes = 11 + number, 3 + number % 7
    text = f"{NAMES[number % 10]} fills {boxes} boxes with {pears} pears each. How many pears are there?"
    return {"question": text, "answer": str(pears * boxes)}


def reworded(number: int) -> dict[str, str]:
    pears, boxes = 11 + number, 3 + number % 7
    text = f"With {pears} pears in every one of {boxes} boxes, what is the total that {NAMES[number % 10]} packed?"
    return {"id": f"same-{number}", "question": text, "answer": str(pears * boxes)}


def counted(rows: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(row["benchmark_id"], row["corpus_id"]) for row in rows if row["degree"] != "none"}


def test_reworded_problems_are_told_by_answer_and_numbers(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    items = [problem(number) for number in range(60)]
    # The same template with other numbers is nearer to every item than its own rewording is.
    others = [{"id": f"other-{n}", **problem(n + 100)} for n in range(60)]
    leaked = [reworded(number) for number in range(0, 60, 2)]
    result = scan_all(bench(*items), corpus(tmp_path, *leaked, *others), WORDS)
    pairs = counted(matches(result))
    right = {(str(number), f"same-{number}") for number in range(0, 60, 2)}
    assert len(pairs & right) >= 28
    assert not pairs - right


def test_nothing_counts_where_nothing_leaked(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    items = [problem(number) for number in range(60)]
    others = [{"id": f"other-{n}", **reworded(n + 100)} for n in range(60)]
    assert counted(matches(scan_all(bench(*items), corpus(tmp_path, *others), WORDS))) == set()


def test_where_every_item_leaked_other_texts_of_an_item_do_not_count_by_the_same_cut() -> None:
    """The cut is made of the likeliest text of each item; where all have a copy, it is wide."""

    def candidate(item: str, chance: float, *, own: bool = False) -> ParaphraseCandidate:
        row = {"benchmark_id": item, "corpus": "web", "corpus_id": "a", "answer_relation": "same"}
        return ParaphraseCandidate(row, {"corpus_text": ""}, own, p=chance)

    texts = [candidate("a", chance) for chance in (0.0001, 0.004, 0.03)]
    second, beside = candidate("b", 0.03), candidate("a", 0.03, own=True)
    likeliest = likeliest_chances([*texts, second, beside])
    assert likeliest == {"a": 0.0001, "b": 0.03}
    assert [counts(text, likeliest, cut=0.05) for text in texts] == [True, True, False]
    assert counts(second, likeliest, cut=0.05) and not counts(second, likeliest, cut=0.02)
    assert likeliest_chances([*texts, beside], own=True) == {"a": 0.03}
    # Beside the own picture, too: the likeliest by a wider bound than what else is asked there.
    first, other = (replace(beside, p=chance) for chance in (0.06, 0.065))
    there = likeliest_chances([first, other], own=True)
    assert [counts(text, there, cut=0.005) for text in (first, other)] == [True, False]
    assert counts(replace(beside, p=0.02), {"a": 0.001}, cut=0.005)
    impossible = replace(second, possible=False)
    assert likeliest_chances([impossible]) == {"b": 1.0}
    assert not counts(impossible, likeliest, cut=0.05)


def test_a_yes_beside_the_own_picture_tells_little_however_seldom_a_corpus_says_yes() -> None:
    """ "Is this a T1 weighted image?" is no rewording of "Are the ventricles of abnormal size?" for its "no"."""
    items = [{"question": "Are the ventricles of abnormal size?", "answer": "no"}]
    items += [{"question": "Which organ is enlarged here?", "answer": "spleen"}]
    items += [{"question": "How many ribs are shown in this picture?", "answer": "17"}]
    index, _ = build_text_index(bench(*items), None)

    def candidate(item: str, answer: str, *, own: bool) -> ParaphraseCandidate:
        same = items[int(item)]["answer"] == answer
        row = {"benchmark_id": item, "answer_relation": "same" if same else "different"}
        evidence = {
            "corpus_answers": [answer],
            "near": True,
            "benchmark_text": "",
            "corpus_text": "",
        }
        return ParaphraseCandidate(row, evidence, own)

    spoken = [*["axial"] * 90, *["yes"] * 4, *["no"] * 4, "spleen"]
    for own in (True, False):
        chances = Chances([candidate("0", answer, own=own) for answer in spoken], index)
        # Alone, texts with one answer are mostly about one thing, and a rare answer says less.
        assert chances.of(candidate("1", "spleen", own=own)) == pytest.approx(0.02 if own else 0.1)
        assert own or chances.of(candidate("2", "17", own=own)) == pytest.approx(1 / 100)
        expected = 5 / 10 if own else 0.1
        assert chances.of(candidate("0", "no", own=own)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("place", "p", "possible_only"),
    [(10, 1.0, False), (60, 0.016, True), (90, 0.004, False), (99, 0.0004, False)],
)
def test_beside_the_own_picture_a_rare_answer_does_not_make_up_for_unlike_words(
    place: int, p: float, possible_only: bool
) -> None:
    """``place``: how many of a hundred other questions about the picture are less like it."""
    null = ParaphraseNull([0.4 + 0.001 * k for k in range(100)], (0.9, 0.72))
    entry = ParaphraseCandidate({}, {}, own=True, similarity=0.5, score=0.4 + 0.001 * place)
    entry.judge_beside(null, 0.04)
    assert entry.p == pytest.approx(p, rel=0.15, abs=4e-4)
    assert (OWN_LIKENESS[0] < entry.likeness <= OWN_LIKENESS[1]) is possible_only


BLUE = "Is there a blue diamond in the picture?"


@pytest.mark.parametrize(
    ("text", "other", "cosine", "another"),
    [
        (BLUE, "Is the black diamond above the blue diamond?", 0.9, True),  # one more thing
        (BLUE, "Is the blue diamond large?", 0.8, True),  # not near enough
        ("Is the heart enlarged?", "Is the heart abnormally large?", 0.88, False),
        ("Is the heart larger than the ring?", "Is the heart above the ring?", 0.9, True),
        (BLUE, "Does the picture show a blue diamond?", 0.5, False),  # the same in other words
    ],
)
def test_a_question_that_the_benchmark_asks_of_the_picture_is_mostly_another_one(
    text: str, other: str, cosine: float, another: bool
) -> None:
    shared = {"answer": "yes"}
    index, _ = build_text_index(
        bench({"question": text, **shared}, {"question": other, **shared}), None
    )
    index = replace(index, clusters=("a.png", "a.png"))
    evidence = {"benchmark_text": text, "corpus_text": other}
    entry = ParaphraseCandidate({"benchmark_id": index.ids[0]}, evidence, True, similarity=cosine)
    assert OtherItems(index).has(entry, 0.85) is another
    assert not OtherItems(index).has(replace(entry, own=False), 0.85)
    unasked = ParaphraseCandidate(entry.row, {**evidence, "corpus_text": f"{other} Why?"}, True)
    assert not OtherItems(index).has(unasked, 0.85)


def test_a_question_with_one_word_changed_varies_its_own_item_and_rewords_no_other() -> None:
    ours = "What is composed of nests of malignant cells that recapitulate squamous cells?"
    theirs = "What is not composed of granulation tissue, inflammatory cells and a crust?"
    row = {"benchmark_id": "a", "corpus": "web", "corpus_id": "b", "answer_relation": "same"}
    row["corpus_field"] = "question"
    evidence = {"benchmark_text": ours, "corpus_text": theirs, "generic": False, "short": False}
    entry = ParaphraseCandidate(row, evidence, own=False, score=0.7)
    first = {entry.document: 0.7}  # of the items that it does not contradict
    assert may_count(entry) and is_nearest(entry, first, nearest=0.75)
    assert not is_nearest(entry, first, nearest=1.1)  # the item that it was made from


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Abdomen: enlarged spleen.", True),
        ("A chest film of an adult, taken lying down", True),
        ("Is the spleen enlarged", False),
        ("Look at the film. Name the organ that is too large.", False),
        ("\u8fd9\u662f\u4ec0\u4e48\uff1f", False),
    ],
)
def test_a_caption_states_and_a_question_asks(text: str, stated: bool) -> None:
    assert states(text) is stated


def test_a_caption_of_the_own_picture_rewords_no_question(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    items = [{"question": "Is the spleen enlarged on this film of the abdomen?", "answer": "yes"}]
    own = OwnPictures({"own": (0,)})
    search = TextSearch(methods=("embedding",), encoder="wordllama", threshold=0.3)
    caption = {"id": "own", "text": "Film of the abdomen: the spleen is enlarged."}
    source = corpus(tmp_path, caption)
    assert counted(matches(scan_all(bench(*items), source, search, own))) == set()
    source = corpus(tmp_path, {**caption, "text": "Does the film show an enlarged spleen?"})
    assert counted(matches(scan_all(bench(*items), source, search, own))) == {("0", "own")}


def test_a_rewording_in_capitals_is_proposed_like_any_other(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    items = [problem(number) for number in range(60)]
    others = [{"id": f"other-{n}", **problem(n + 100)} for n in range(60)]
    leaked = [reworded(number) for number in range(0, 60, 2)]
    loud = [{**row, "question": row["question"].upper()} for row in leaked]
    pairs = counted(matches(scan_all(bench(*items), corpus(tmp_path, *loud, *others), WORDS)))
    assert len(pairs) >= 28


def test_rows_that_a_corpus_repeats_hide_no_rewording(tmp_path: Path) -> None:
    """Nor do several rewordings of one item, with its answer."""
    search = TextSearch.installed(None)
    if search.reader is None:
        pytest.skip("no package carries the reader")
    asked = json.loads(QUESTIONS.read_text())
    items = [{"question": each["text"], "answer": each["answer"]} for each in asked]
    ways = ("{}", "{}", "{}", "{}", "Please tell me: {}", "{} Say it in a word.")
    leaked = [
        {
            "id": f"{n}-{k}",
            "question": way.format(asked[n]["reworded"]),
            "answer": asked[n]["answer"],
        }
        for n in range(0, len(asked), 2)
        for k, way in enumerate(ways)
    ]
    found = {}
    for name, rows in (("once", leaked[:: len(ways)]), ("repeated", leaked)):
        pairs = counted(matches(scan_all(bench(*items), corpus(tmp_path, *rows), search)))
        found[name] = {item for item, _ in pairs}
    assert len(found["once"]) > 0.8 * len(asked) / 2
    assert found["repeated"] >= found["once"]


@pytest.mark.parametrize("benchmark_size", [60, 6], ids=["with a null", "too small for one"])
def test_what_a_threshold_leaves_out_is_counted(tmp_path: Path, benchmark_size: int) -> None:
    pytest.importorskip("wordllama")
    items = [problem(number) for number in range(benchmark_size)]
    leaked = [reworded(number) for number in range(0, benchmark_size, 2)]
    index, _ = build_text_index(bench(*items), WORDS)
    source = corpus(tmp_path, *leaked)
    (shard,) = source.shards()
    proposed = frame(
        scan_text_shard(index, source, TextShard.of(shard, OwnPictures())).tables["text_matches"]
    )
    below = {}
    for threshold in (None, 0.3, 0.999):
        asked = replace(index, search=replace(WORDS, threshold=threshold))
        _, records = settle_rewordings(
            proposed, frame(make_table("matches", [])), asked, quiet=True
        )
        (record,) = records.values()
        below[threshold] = record["below_threshold"]
    assert below[None] == below[0.3] == 0
    assert below[0.999] >= 0.9 * len(leaked)


def test_questions_with_the_same_options_are_told_apart_by_the_question(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    colours, textures = ("red", "green", "black", "purple"), ["dotted", "plain", "striped"]
    shapes = ("circle", "square", "hexagon", "crescent", "triangle", "ring", "heart", "cross")
    things = [f"{colour} {shape}" for colour in colours for shape in shapes]
    ask = "Which texture does the {} have?"
    items = [
        {"question": ask.format(thing), "options": tuple(textures), "answer": "dotted"}
        for thing in things
    ]
    options = ["striped", "dotted", "plain"]
    rows = [
        {"id": "varied", "question": ask.format("orange circle"), "options": options},
        {
            "id": "reworded",
            "question": "The surface of the red heart looks how?",
            "options": options,
        },
    ]
    rows = [{**row, "answer": "dotted"} for row in rows]
    result = scan_all(bench(*items), corpus(tmp_path, *rows), WORDS)
    assert "varied" not in {there for _, there in counted(matches(result))}


def test_texts_in_a_script_that_the_encoder_cannot_read_are_counted_and_not_compared(
    tmp_path: Path,
) -> None:
    pytest.importorskip("wordllama")
    items = [
        {"question": "Is the heart enlarged?", "answer": "yes"},
        {"question": "\u5fc3\u810f\u662f\u5426\u589e\u5927\uff1f", "answer": "\u662f"},
    ]
    rows = [
        {"id": "a", "question": "\u80ba\u90e8\u5065\u5eb7\u5417\uff1f", "answer": "yes"},
        {"id": "b", "question": "Does the heart look too large?", "answer": "yes"},
    ]
    search = TextSearch(methods=("embedding",), encoder="wordllama", threshold=0.01)
    result = scan_all(bench(*items), corpus(tmp_path, *rows), search)
    assert counted(matches(result)) == {("0", "b")}
    assert result.counts["text_other_language"] == 1
    index, _ = build_text_index(bench(*items), search)
    assert index.unreadable == 1
    assert can_read(items[1]["question"], "transformers:BAAI/bge-m3")


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("Welchen Knoten machen Seeleute f\u00fcr ein festes Auge am Ende eines Taus?", True),
        ("Quelle est la capitale du pays dans lequel il est n\u00e9 ?", True),
        (
            "\u00bfCu\u00e1ntas manzanas le quedan a Mar\u00eda despu\u00e9s de comer tres de las que compr\u00f3?",
            True,
        ),
        ("Hoeveel boeken staan er op de plank van het kastje?", True),
        ("What did Charles de Gaulle say about the role of the army?", False),
        ("Mona Lisa, Leonardo da Vinci, Musee du Louvre", False),
        ("yes", False),
        ("No, no, no. I do not come as a man.", False),
    ],
)
def test_other_languages_in_latin_letters_are_told(text: str, foreign: bool) -> None:
    assert is_foreign(text) is foreign
    assert knows(text, "wordllama", "bge-small+ms-marco") is not foreign
    assert knows(text, "transformers:BAAI/bge-m3")
    assert can_read(text, "wordllama")  # compared all the same


def test_no_english_question_of_real_benchmarks_is_in_another_language(shared_data: Path) -> None:
    rad = json.loads((shared_data / "vqa_rad/vqa_rad_public.json").read_text())
    slake = json.loads((shared_data / "slake/official_test.json").read_text())
    columns = (
        [(row["question"], str(row["answer"])) for row in rad],
        [(row["question"], row["answer"]) for row in slake if row["q_lang"] == "en"],
    )
    texts = [text for rows in columns for row in rows for text in (*row, " ".join(row))]
    assert len(texts) > 6_000
    assert not [text for text in texts if is_foreign(text)]


ASKED = (
    ("Is the heart enlarged?", "Does the picture show a heart that is too large?"),
    ("Is there a fracture of a rib?", "Can a broken rib be seen?"),
)


def test_beside_its_own_picture_a_short_question_counts_with_its_answer(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    items = [{"question": ours, "answer": "yes"} for ours, _ in ASKED]
    rows = [
        {"id": f"own-{n}", "question": theirs, "answer": "yes"}
        for n, (_, theirs) in enumerate(ASKED)
    ]
    own = OwnPictures({f"own-{n}": (n,) for n in range(len(ASKED))})
    search = TextSearch(methods=("embedding",), encoder="wordllama", threshold=0.4)
    source = corpus(tmp_path, *rows)
    beside = counted(matches(scan_all(bench(*items), source, search, own)))
    assert beside == {("0", "own-0"), ("1", "own-1")}
    contradicted = [{**row, "answer": "no"} for row in rows]
    source = corpus(tmp_path, *contradicted)
    assert counted(matches(scan_all(bench(*items), source, search, own))) == set()


def test_where_there_is_no_null_a_rare_answer_does_not_make_up_for_other_words(
    tmp_path: Path,
) -> None:
    pytest.importorskip("wordllama")
    items = [
        {"question": "What structure is marked by the arrow?", "answer": "aorta"},
        {"question": "Which organ does the surgeon touch?", "answer": "liver"},
    ]
    rows = [
        {"id": "other", "question": "Which vessel is dilated?", "answer": "aorta"},
        {"id": "own", "question": "What organ is touched by the surgeon?", "answer": "liver"},
    ]
    own = OwnPictures({"other": (0,), "own": (1,)})
    search = TextSearch(methods=("embedding",), encoder="wordllama", reader="wordllama")
    source = corpus(tmp_path, *rows)
    assert counted(matches(scan_all(bench(*items), source, search, own))) == {("1", "own")}
    none = ParaphraseNull([], (0.72, 0.72))
    assert none.p(0.6, 0.6, 0.02) == 1.0 > none.p(0.8, 0.8, 0.02)


def test_a_long_answer_does_not_displace_its_question(tmp_path: Path) -> None:
    """It is searched as a text of its own, may be nearer to the item, and rewords no question."""
    pytest.importorskip("wordllama")
    asked = "Why are noble gases chemically inert at room temperature?"
    item = {"question": asked, "answer": "full shells"}
    answer = "Noble gases are chemically inert at room temperature for their shells."
    row = {"id": "a", "question": "What keeps neon from reacting?", "answer": answer}
    source = corpus(tmp_path, row)
    index, _ = build_text_index(bench(item), WORDS)
    (shard,) = source.shards()
    (found,) = matches(scan_text_shard(index, source, TextShard.of(shard, OwnPictures())))
    assert found["corpus_field"] == "question"


def test_texts_that_share_hardly_a_word_are_read_unless_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free rewordings share few words with their item, and the first encoder reads words alone."""
    pytest.importorskip("wordllama")
    item = {"question": "At what speed does light travel in a vacuum?", "answer": "299792458 m/s"}
    text = "How many cakes did Grandmother bake on Sunday morning?"
    rows = [{"id": "same", "question": text, "answer": item["answer"]}]
    rows += [{"id": "other", "question": "Who painted the ceiling of the chapel?", "answer": "he"}]
    source = corpus(tmp_path, *rows)

    def proposed() -> set[str]:
        index, _ = build_text_index(bench(item), WORDS)
        (shard,) = source.shards()
        found = matches(scan_text_shard(index, source, TextShard.of(shard, OwnPictures())))
        assert all(row["similarity"] < 0.3 for row in found)
        return {row["corpus_id"] for row in found}

    assert proposed() == {"same", "other"}
    monkeypatch.setattr("heldout.overlap.texts.index._READABLE", 0)
    assert proposed() == {"same"}  # the item's answer is reason enough


def test_a_text_that_ends_with_a_line_feed_is_read_once(tmp_path: Path) -> None:
    items = [{"question": "Is the heart enlarged?", "answer": "yes"}]
    rows = [{"id": "a", "text": "The heart of this patient is of normal size.\n"}]
    search = TextSearch(methods=("exact",))
    result = scan_all(bench(*items), corpus(tmp_path, *rows), search)
    assert result.counts["text_documents"] == 1


def test_items_that_show_or_ask_for_a_program_are_counted() -> None:
    code = "def rotate(items, k):\n    return items[-k:] + items[:-k]\n"
    items = [
        {"question": code},
        {"question": "Which function rotates a list by k places?", "answer": code},
        {"question": "What is a function that calls itself?", "answer": "recursive"},
    ]
    index, _ = build_text_index(bench(*items), TextSearch(methods=("exact",)))
    assert index.programs == 2


def test_more_candidates_of_programs_are_read() -> None:
    """They share few words with their rewordings: those of HumanEval are among the nearest 40, not the nearest 24."""
    asked = [
        "def rotate_{}(items, k):\n    return items[-k:] + items[:-k]\n",
        "What is in picture {}?",
    ]
    proposed = [
        build_text_index(
            bench(*({"question": text.format(k)} for k in range(164))),
            TextSearch(methods=("exact",)),
        )[0].proposed
        for text in asked
    ]
    assert proposed == [40, 24]


def test_a_number_rewords_nothing(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    search = TextSearch(methods=("embedding",), encoder="wordllama", threshold=0.01)
    items = [{"question": "What is fifteen plus 15 minus 15?", "answer": "15"}]
    rows = [{"id": "a", "text": "15"}, {"id": "b", "question": "15", "answer": "15"}]
    assert counted(matches(scan_all(bench(*items), corpus(tmp_path, *rows), search))) == set()


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        ("She sells 48/2 = 24 clips.\n#### 1,072", "1072"),
        (r"Therefore $x = \boxed{17}$", "17"),
        ("There are two cats and one dog. The answer is 3.", "3"),
        ("42", ""),
    ],
)
def test_the_result_of_a_worked_solution(solution: str, answer: str) -> None:
    assert final_answer(solution) == answer


def test_solutions_in_other_words_with_one_result_agree(tmp_path: Path) -> None:
    question = "How many clips did Natalia sell altogether in April and in May of that year?"
    items = [{"question": question, "answer": "24 in May, and 48 before.\n#### 72"}]
    rows = [{"id": "a", "question": question, "answer": "48 + 24 = 72\n#### 72"}]
    result = scan_all(bench(*items), corpus(tmp_path, *rows), TextSearch(methods=("exact",)))
    assert [(row["relation"], row["answer_relation"]) for row in matches(result)] == [
        ("same item", "same")
    ]


@pytest.mark.parametrize(("options", "relation"), [((), "different"), (("one", "two"), "unknown")])
def test_a_number_points_to_an_option_only_where_there_are_options(
    tmp_path: Path, options: tuple[str, ...], relation: str
) -> None:
    question = "Which of the numbers on the board was written by the teacher in the morning?"
    items = [{"question": question, "answer": "one", "options": options}]
    rows = [{"id": "a", "question": question, "answer": "2"}]
    (match,) = matches(
        scan_all(bench(*items), corpus(tmp_path, *rows), TextSearch(methods=("exact",)))
    )[:1]
    assert match["answer_relation"] == relation


def test_numbers_and_telling_words() -> None:
    assert amounts("three of 1,200 in 2.50") == {"3", "1200", "2.5"}
    assert amounts("√(3² + 4²)") == {"3", "4"}  # a superscript ended the search
    assert same_amounts("twelve eggs and 3 hens", "a dozen eggs, three hens")
    assert not same_amounts("12 eggs and 3 hens", "14 eggs and 5 hens")
    assert amounts("twenty-five of twelve hundred and fifty, two dozen a day") == {
        "25",
        "1250",
        "24",
    }
    assert amounts("1.5 million, 2,5 m, one of them in 1.2.3") == {"1500000", "2.5"}
    assert amounts("seventy, five or ninety-nine thousand 200") == {"70", "5", "99000", "200"}
    assert telling_words("Is there a green hexagon in the picture?") == {"green", "hexagon"}


REST = "How long must the dough rest in the refrigerator before it is rolled out?"
RISE = "How long must the dough rise in a warm place before it is baked?"


def test_a_template_about_other_things_needs_the_answer_to_be_a_rewording() -> None:
    assert varied(REST, RISE)
    assert not varied(
        REST, "Before rolling, for what time should you leave the dough in the fridge?"
    )
    assert not varied(
        REST, REST.replace("rolled out", "rolled out by hand")
    )  # nothing was replaced
    program = 'def {}(xs):\n    """{}"""\n    return {}'
    first = program.format("f", "Return the longest of the words that begin with a vowel.", "xs[0]")
    other = program.format("g", "Return the shortest of the words that end with a digit.", "[x]")
    assert varied(first, other)
    evidence = {"benchmark_text": REST, "corpus_text": RISE, "generic": False, "short": False}
    for relation in ("same", "unknown"):
        row = {"benchmark_id": "a", "corpus": "web", "corpus_id": "b", "corpus_field": "question"}
        row["answer_relation"] = relation
        entry = ParaphraseCandidate(row, evidence, own=False, score=0.9)
        assert may_count(entry) is (relation == "same")


def test_a_program_says_in_words_what_it_is_for() -> None:
    program = 'def water_bill(x):\n    """Compute the bill of a home.\n    >>> f(1)\n    2\n    """\n    return x[0]'
    assert prose(program) == "water bill. Compute the bill of a home."
    bare = program.replace("Compute the bill of a home.", "Bill.")
    assert prose(bare) == bare and prose(REST) == REST


class _SharedWords(CrossEncoder):
    """Counts the words that two texts share."""

    def __init__(self) -> None:
        self.identity = "shared words"

    def compare(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        return np.asarray([len(set(a.split()) & set(b.split())) for a, b in pairs], np.float32)


def test_what_a_second_reader_finds_no_nearer_than_different_texts_counts_no_longer() -> None:
    def candidate(text: str, *, own: bool = False) -> ParaphraseCandidate:
        row = {"benchmark_id": "a", "corpus": "web", "corpus_id": "b", "degree": "soft"}
        evidence = {"benchmark_text": "a b c d", "corpus_text": text, "reading": {}}
        return ParaphraseCandidate(row, evidence, own)

    texts = [candidate("a b c x"), candidate("a y"), candidate("z", own=True)]
    different = [("p q r", "p q s")] * FEW
    record = read_together(texts, _SharedWords(), different)
    assert [entry.row["degree"] for entry in texts] == ["soft", "none", "soft"]
    assert record == {"second_reader": "shared words", "second_read": 2, "lowered": 1}
    assert "together" not in texts[2].evidence["reading"]
    few = [candidate("a y")]
    assert read_together(few, _SharedWords(), different[1:])["lowered"] == 0  # no null, no verdict


def test_a_reader_may_have_a_second_part() -> None:
    assert reader_parts("bge-small+ms-marco") == ("bge-small", "ms-marco")
    assert not can_read("\u8fd9\u662f\u4ec0\u4e48", "onnx:x", "bge-small+ms-marco")
    assert OverlapSettings(text_reader="onnx:a+onnx:b").text_reader == "onnx:a+onnx:b"
    for reader in ("bge-small+minilm", "bge-little+ms-marco"):
        with pytest.raises(ValueError, match="there is no (cross-)?encoder"):
            OverlapSettings(text_reader=reader)


def test_beyond_a_small_null_chances_fall_with_its_tail_and_no_further() -> None:
    margins = np.linspace(0.0, 0.05, 40)
    null = ParaphraseNull(margins, (0.9, 0.7))
    least = 1 / 42
    assert null.p(0.05, 0.5) == pytest.approx(2 / 42)
    assert null.p(0.051, 0.5) > 0.5 * least
    assert null.p(0.2, 0.5) == pytest.approx(0.05 * least)
    # One of them stands out as far: so may a different text.
    heavy = ParaphraseNull([*margins[:-1], 0.2], (0.9, 0.7))
    assert heavy.p(0.19, 0.5) == pytest.approx(2 / 42)
    assert heavy.p(0.22, 0.5) > 0.3 * least


def test_settings_name_encoders_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed_text_encoder("none") is None and installed_text_encoder("x:y") == "x:y"
    assert installed_reader("none", "wordllama") is None and installed_reader(None, None) is None
    assert installed_reader(None, "transformers:x") is None  # who names an encoder has chosen
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert installed_text_encoder(None) is None and installed_reader(None, "wordllama") is None


def _tiny(folder: Path, *, first_token: bool) -> Path:
    """A graph that looks words up: unit vectors in three dimensions."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[PAD]": 0, "[UNK]": 1, "red": 2, "blue": 3, "green": 4}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    table = np.zeros((5, 3), np.float32)
    table[2:] = np.eye(3)
    helper, kind = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["hidden"])],
        "tiny",
        [helper.make_tensor_value_info("input_ids", kind.INT64, ["n", "t"])],
        [helper.make_tensor_value_info("hidden", kind.FLOAT, ["n", "t", 3])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "model.onnx")
    if first_token:
        (folder / "1_Pooling").mkdir()
        pooling = json.dumps({"pooling_mode_cls_token": True})
        (folder / "1_Pooling" / "config.json").write_text(pooling)
    return folder


def test_an_exported_model_is_an_encoder(tmp_path: Path) -> None:
    mean = OnnxTextEncoder(_tiny(tmp_path / "mean", first_token=False))
    first = OnnxTextEncoder(_tiny(tmp_path / "first", first_token=True))
    texts = ["red blue", "blue", "green red red"]
    assert np.allclose(mean.embed(texts)[0], [2**-0.5, 2**-0.5, 0], atol=1e-6)
    assert np.allclose(first.embed(texts), [[1, 0, 0], [0, 1, 0], [0, 0, 1]], atol=1e-6)
    assert np.allclose(mean.embed(texts)[1], [0, 1, 0], atol=1e-6)  # padding adds nothing
    assert "mean" in mean.identity and "first token" in first.identity


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tokenizer\.json and model\.onnx"):
        OnnxTextEncoder(tmp_path)


def test_questions_that_many_pictures_share_are_one_pair_of_the_null(tmp_path: Path) -> None:
    """Two templates, forty pictures: the corpus asks something else with the same answer, or one of them."""
    pytest.importorskip("wordllama")
    if carried(READER) is None:
        pytest.skip("no package carries the reader")
    wards, phases = ("surgery", "intensive care", "paediatrics"), ("arterial", "venous", "portal")
    items: list[dict[str, str]] = []
    rows: list[dict[str, str]] = []
    own: dict[str, tuple[int, ...]] = {}
    for k in range(40):
        items += [
            {
                "question": "Which ward most likely ordered this examination?",
                "answer": wards[k % 3],
            },
            {
                "question": "Which contrast phase was this study acquired in?",
                "answer": phases[k % 3],
            },
        ]
        rows += [
            {
                "id": f"w{k}",
                "question": "To which ward should the patient go next?",
                "answer": wards[k % 3],
            },
            {
                "id": f"p{k}",
                "question": "When does the lesion enhance most?",
                "answer": phases[k % 3],
            },
        ]
        own |= {f"{kind}{k}": (2 * k, 2 * k + 1) for kind in "wp"}
    result = scan_all(
        bench(*items), corpus(tmp_path, *rows), TextSearch.installed(None), OwnPictures(own)
    )
    counted = [row for row in matches(result, "embedding") if row["degree"] == "soft"]
    assert not [row for row in counted if DOUBTFUL_REWORDING not in row["evidence"]["reading"]]
