"""One shard of documents against a benchmark: what matches, by which method, and what it counts."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from text_corpus import LONG, LONG_OPTIONS, bench, corpus, found, ids, matches, scan_all

from heldout.corpus import CorpusItem
from heldout.errors import InputError
from heldout.overlap.texts._fields import document_texts
from heldout.overlap.texts._ledger import LISTED
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.scan import scan_text_shard

QUESTION = "What do beekeepers blow into a hive before they open it in summer?"
FILLER = "Report 7: the town council repaired a bridge near the old depot."
ITEM = {"question": LONG, "options": LONG_OPTIONS, "answer": LONG_OPTIONS[1]}


def test_the_same_item_is_hard_evidence_and_says_in_which_profile(tmp_path: Path) -> None:
    rows = [
        {"id": "copy", "question": LONG, "options": list(LONG_OPTIONS), "answer": LONG_OPTIONS[1]},
        {"id": "shouted", "question": LONG.upper(), "answer": LONG_OPTIONS[1].upper()},
        {"id": "other answer", "question": LONG, "answer": "basilar artery"},
        {"id": "unrelated", "question": "What colour is the cat on the table of the kitchen?"},
    ]
    result = scan_all(bench(ITEM), corpus(tmp_path, *rows))
    assert found(result, "exact") == {
        ("0", "copy", "same item", "hard"),
        ("0", "shouted", "same item", "hard"),
        ("0", "other answer", "same question", "soft"),
    }
    by_id = {row["corpus_id"]: row for row in matches(result, "exact")}
    assert by_id["copy"]["field"] == "question+options+answer"
    assert by_id["copy"]["evidence"]["profile"] == "strict"
    assert by_id["shouted"]["evidence"]["profile"] == "published"
    assert by_id["other answer"]["answer_relation"] == "different"


@pytest.mark.parametrize(
    "row",
    [
        {"title": QUESTION, "text": FILLER},
        {"qestion": QUESTION, "anser": "pipe smoke", "text": FILLER},
        {"text": FILLER, "meta": {"quiz": {"q": QUESTION, "a": "pipe smoke"}}},
        {"text": None, "meta": json.dumps({"ask": [QUESTION]})},
        {"text": FILLER, "turns": [{"said": "Hello."}, {"said": f"Tell me. {QUESTION}"}]},
    ],
    ids=["beside the text", "misspelt", "nested", "JSON", "list"],
)
def test_columns_that_no_reader_knows_are_read(tmp_path: Path, row: dict[str, Any]) -> None:
    benchmark = bench({"question": QUESTION, "answer": "pipe smoke"})
    rows = matches(scan_all(benchmark, corpus(tmp_path, {"id": "r", **row})))
    answered = {"same"} if "pipe smoke" in json.dumps(row) else set()
    assert {each["answer_relation"] for each in rows} == {"unknown", *answered}


def test_what_is_read_already_is_not_read_again(tmp_path: Path) -> None:
    row = {
        "id": "r",
        "question": QUESTION,
        "answer": "smoke",
        "lang": "en",
        "title": QUESTION[5:30],
    }
    (shard,) = corpus(tmp_path, row).shards()
    (item,) = corpus(tmp_path, row).read(shard)
    assert isinstance(item, CorpusItem)
    assert [document.text for document in document_texts(item)] == [QUESTION]


@pytest.mark.parametrize(
    ("row", "texts"),
    [
        ({"whose": "grey cat", "kind": "cat", "n": 3}, ["grey cat"]),
        ({"text": FILLER, "whose": "grey cat"}, [FILLER]),
        (
            {"meta": '{"said": "Half \\ud83d over"}'},
            ["Half ? over"],
        ),
        ({"text": FILLER, "meta": "[" * 5000}, [FILLER]),
        ({"text": FILLER, "meta": {"a": {"b": {"c": {"d": {"e": QUESTION}}}}}}, [FILLER]),
        ({"text": FILLER, "boxes": list(range(999)), "note": QUESTION}, [FILLER, QUESTION]),
    ],
    ids=["no other words", "two words", "surrogates", "not JSON", "too deep", "numbers"],
)
def test_of_unknown_columns_their_words_are_read(
    tmp_path: Path, row: dict[str, Any], texts: list[str]
) -> None:
    source = corpus(tmp_path, {"id": "r", **row})
    (shard,) = source.shards()
    (item,) = source.read(shard)
    assert isinstance(item, CorpusItem)
    assert [document.text for document in document_texts(item)] == texts


def test_options_may_stand_in_another_order(tmp_path: Path) -> None:
    row = {
        "id": "a",
        "question": LONG,
        "options": [*reversed(LONG_OPTIONS)],
        "answer": LONG_OPTIONS[1],
    }
    (match,) = matches(scan_all(bench(ITEM), corpus(tmp_path, row)), "exact")
    assert (match["relation"], match["field"]) == ("same item", "question+options+answer")
    assert match["evidence"]["options"] == "same"


def test_options_alone_are_listed_and_count_for_nothing(tmp_path: Path) -> None:
    row = {"id": "a", "question": "Which one is it?", "options": list(LONG_OPTIONS), "answer": "x"}
    assert found(scan_all(bench(ITEM), corpus(tmp_path, row)), "exact") == {
        ("0", "a", "same options", "none")
    }


def test_a_short_question_counts_only_as_an_exact_item(tmp_path: Path) -> None:
    item = {"question": "Is the lung healthy?", "answer": "yes"}
    rows = [
        {"id": "item", "question": "is the lung healthy", "answer": "Yes."},
        {"id": "no answer", "question": "is the lung healthy?"},
        {"id": "other", "question": "Is the lung healthy?", "answer": "no"},
        {"id": "nearly", "question": "Is the lungs healthy?", "answer": "yes"},
    ]
    result = scan_all(bench(item), corpus(tmp_path, *rows))
    assert found(result, "exact") == {
        ("0", "item", "same item", "soft"),
        ("0", "no answer", "same question", "none"),
        ("0", "other", "same question", "none"),
    }
    assert ("0", "nearly", "edited", "none") in found(result, "edit")


def test_a_question_asked_of_several_pictures_is_never_evidence(tmp_path: Path) -> None:
    benchmark = bench(
        {"question": LONG, "answer": "a", "cluster": "one"},
        {"question": LONG, "answer": "b", "cluster": "two"},
    )
    result = scan_all(benchmark, corpus(tmp_path, {"id": "x", "question": LONG, "answer": "a"}))
    assert {row["degree"] for row in matches(result)} == {"none"}
    assert {row["relation"] for row in matches(result, "exact")} == {"same item", "same question"}


def test_numbers_and_an_own_answer_tell_items_of_one_template_apart(tmp_path: Path) -> None:
    asked = "Which coloured shape is drawn at column {} and row {} of the large printed grid on page {}?"
    benchmark = bench(
        *(
            {
                "question": asked.format(k, k + 3, k * 7),
                "answer": f"teal disc {k}",
                "cluster": str(k),
            }
            for k in range(4)
        ),
        {"question": asked.format(9, 9, 9), "answer": "no", "cluster": "9"},
        {"question": asked.format(8, 8, 8), "answer": "no", "cluster": "8"},
    )
    rows = [
        {"id": "copy", "question": asked.format(2, 5, 14), "answer": "teal disc 2"},
        {"id": "other numbers", "question": asked.format(40, 5, 14), "answer": "teal disc 1"},
        {"id": "other answer", "question": asked.format(3, 6, 21), "answer": "red star"},
        {"id": "unanswered", "question": asked.format(0, 3, 0)},
        {"id": "common answer", "question": asked.format(9, 9, 9), "answer": "no"},
    ]
    result = scan_all(benchmark, corpus(tmp_path, *rows))
    counting = [row for row in matches(result) if row["degree"] != "none"]
    assert {(row["benchmark_id"], row["corpus_id"]) for row in counting} == {("2", "copy")}
    assert {(row["relation"], row["degree"]) for row in counting} == {("same item", "soft")}
    assert {row["method"] for row in counting} == {
        "exact",
        "edit",
    }  # runs of words mask the numbers


def test_renumbered_is_not_identical(tmp_path: Path) -> None:
    question = "Is this slice of the upper abdomen a T1 weighted magnetic resonance image?"
    row = {"id": "x", "question": question.replace("T1", "T2"), "answer": "yes"}
    result = scan_all(bench({"question": question, "answer": "yes"}), corpus(tmp_path, row))
    assert found(result, "exact") == set()
    assert found(result, "edit") == {("0", "x", "renumbered", "soft")}
    assert found(result, "ngram") == {("0", "x", "renumbered", "soft")}


@pytest.mark.parametrize(("answer", "degree"), [("112", "soft"), (None, "none")])
def test_a_problem_with_other_numbers_counts_with_its_answer_only(
    tmp_path: Path, answer: str | None, degree: str
) -> None:
    question = (
        "How many litres of water fill an aquarium of 80 by 35 by 40 centimetres to the brim?"
    )
    row = {"id": "x", "question": question.replace("80 by 35", "70 by 40"), "answer": answer}
    result = scan_all(bench({"question": question, "answer": "112"}), corpus(tmp_path, row))
    assert found(result, "edit") == {("0", "x", "renumbered", degree)}


def test_a_count_with_other_numbers_to_choose_from_is_not_contained(tmp_path: Path) -> None:
    item = {
        "question": "How many blue objects are there?",
        "options": ("3", "6", "1", "4"),
        "answer": "1",
    }
    row = {**item, "id": "x", "options": ["5", "2", "1", "3"]}
    (match,) = matches(scan_all(bench(item), corpus(tmp_path, row)), "ngram")
    assert (match["relation"], match["degree"]) == ("renumbered", "soft")


def test_a_page_that_contains_the_question_is_found_by_its_runs(tmp_path: Path) -> None:
    page = f"Welcome. <p>{LONG}</p> Think about it. " + "More text follows here. " * 30
    result = scan_all(bench(ITEM), corpus(tmp_path, {"id": "page", "text": page}))
    (match,) = matches(result, "ngram")
    assert (match["relation"], match["degree"], match["corpus_field"]) == (
        "contained",
        "hard",
        "text",
    )
    assert match["evidence"]["shared"].startswith("which vascular structure is most likely")
    assert matches(result, "exact") == matches(result, "edit") == []


def test_a_long_template_with_another_word_in_it_is_not_contained(tmp_path: Path) -> None:
    question = f"Look left. {LONG} Consider the hemisphere, and all that the report says of it."
    row = {"id": "x", "text": question.replace("left", "right")}
    result = scan_all(bench({"question": question}), corpus(tmp_path, row))
    assert found(result, "ngram") == {("0", "x", "same template, other subject", "none")}


def test_a_caption_is_compared_with_free_text(tmp_path: Path) -> None:
    caption = "Axial computed tomography of the abdomen shows a hypodense lesion in segment four."
    result = scan_all(bench({"answer": caption}), corpus(tmp_path, {"id": "x", "text": caption}))
    assert ("0", "x", "same caption", "hard") in found(result, "exact")


def test_every_pair_is_counted_but_only_the_best_are_listed(tmp_path: Path) -> None:
    rows = [{"id": f"n{k}", "question": LONG, "answer": "something else"} for k in range(60)]
    rows.append({"id": "leak", "question": LONG, "answer": LONG_OPTIONS[1]})
    result = scan_all(bench(ITEM), corpus(tmp_path, *rows))
    listed = matches(result, "exact")
    assert len(listed) == LISTED
    assert "leak" in ids(listed)  # the sixty-first pair, and the one that matters
    (query,) = [r for r in result.tables["text_queries"].to_pylist() if r["method"] == "exact"]
    assert (query["pairs"], query["same_answer"], query["other_answer"]) == (61, 1, 60)


def test_later_turns_of_a_conversation_are_read(tmp_path: Path) -> None:
    talk = [
        {"from": "human", "value": "Hello there"},
        {"from": "gpt", "value": "Hello"},
        {"from": "human", "value": LONG},
        {"from": "gpt", "value": LONG_OPTIONS[1]},
    ]
    result = scan_all(
        bench(ITEM), corpus(tmp_path, {"id": "x", "image": "a.jpg", "conversations": talk})
    )
    assert {m["relation"] for m in matches(result, "exact")} == {"same item"}


def test_the_index_travels_to_workers(tmp_path: Path) -> None:
    index, _ = build_text_index(bench(ITEM))
    source = corpus(tmp_path, {"id": "x", "question": LONG})
    (shard,) = source.shards()
    again = scan_text_shard(pickle.loads(pickle.dumps(index)), source, shard)
    assert again.tables == scan_text_shard(index, source, shard).tables


def test_unknown_methods_are_refused() -> None:
    with pytest.raises(InputError, match="'minhash'"):
        TextSearch(methods=("minhash",))


@pytest.mark.parametrize("method", ["exact", "ngram", "edit"])
def test_lexical_methods_miss_paraphrases(tmp_path: Path, method: str) -> None:
    row = {"id": "x", "question": "In which vessel does this stroke most probably have its origin?"}
    assert matches(scan_all(bench(ITEM), corpus(tmp_path, row)), method) == []


def test_the_scan_misses_translations(tmp_path: Path) -> None:
    row = {
        "id": "x",
        "question": "¿Qué estructura vascular está probablemente afectada en el paciente?",
    }
    assert matches(scan_all(bench(ITEM), corpus(tmp_path, row))) == []


def test_ngrams_miss_a_text_with_a_change_in_every_run(tmp_path: Path) -> None:
    words = LONG.split()
    row = {"id": "x", "text": " ".join([*words[:5], "surely", *words[5:]])}
    assert matches(scan_all(bench({"question": LONG}), corpus(tmp_path, row)), "ngram") == []


def test_a_caption_is_found_where_it_answers_a_question(tmp_path: Path) -> None:
    caption = "Axial computed tomography shows a large hypodense lesion in the right hepatic lobe."
    rows = [
        {"id": "answer", "question": "Describe the image.", "answer": caption},
        {"id": "short", "question": "Is it big?", "answer": "yes, very"},
    ]
    result = scan_all(bench({"question": None, "answer": caption}), corpus(tmp_path, *rows))
    assert found(result, "exact") == {("0", "answer", "same caption", "hard")}
    assert result.counts["text_documents"] == 3  # two questions, one answer that is a text


def test_a_question_is_found_in_an_answer_and_in_text_around_another_question(
    tmp_path: Path,
) -> None:
    talk = [
        {"role": "user", "content": "Give me an exam question."},
        {"role": "assistant", "content": f"Sure! {LONG}"},
    ]
    rows = [
        {"id": "page", "question": "Is it big?", "text": f"Is it big? They also asked: {LONG}"},
        {"id": "chat", "messages": talk},
    ]
    result = scan_all(bench({"question": LONG}), corpus(tmp_path, *rows))
    assert ids(matches(result, "ngram")) == {"page", "chat"}


def test_a_text_that_goes_on_with_the_answer_is_the_item(tmp_path: Path) -> None:
    """Pages and dumps of chats have no columns: question and answer stand in one text."""
    answer = LONG_OPTIONS[1]
    page = "Exercises of the third week, with solutions at the end of each paragraph."
    rows = [
        {"id": "labelled", "text": f"{page} {LONG} Answer: {answer}. More follows."},
        {"id": "shouted", "text": f"{page}\n{LONG.lower()}\nAssistant: {answer.upper()}"},
        {"id": "plain", "text": f"{page} {LONG} {answer}"},
        {"id": "another", "text": f"{page} {LONG} Answer: basilar artery. Not the {answer}."},
        {"id": "longer word", "text": f"{page} {LONG} {answer}oid"},
        {"id": "alone", "text": f"{page} {LONG} {page}"},
    ]
    item = {"question": LONG, "answer": answer}
    listed = matches(scan_all(bench(item), corpus(tmp_path, *rows)), "ngram")
    relations = {row["corpus_id"]: (row["relation"], row["answer_relation"]) for row in listed}
    assert relations == {
        **dict.fromkeys(("labelled", "shouted", "plain"), ("same item", "same")),
        **dict.fromkeys(("another", "longer word", "alone"), ("contained", "unknown")),
    }
    assert {row["degree"] for row in listed} == {"hard"}


@pytest.mark.parametrize(
    ("follows", "relation"),
    [
        ("A. {0}\nB. {1}\nC. {2}", "contained"),
        ("A) {0}\nB) {1}\nC) {2}\nAnswer: B) {1}", "contained"),
        ("A: {0}\nB: {1}", "contained"),
        ("- {0}\n- {1}\n- {2}", "contained"),
        ("{0} or {1}?", "contained"),
        ("{0}, {1}, {2}", "contained"),
        ("A: {0}", "same item"),
        ("Answer: {0}. Next exercise.", "same item"),
    ],
)
def test_a_list_of_options_that_begins_with_the_answer_is_no_answer(
    tmp_path: Path, follows: str, relation: str
) -> None:
    page = "Exercises of the third week, with options after each of them."
    options = ("left middle cerebral artery", "basilar artery", "left carotid artery")
    text = f"{page} {LONG}\n{follows.format(*options)}"
    item = {"question": LONG, "options": options, "answer": options[0]}
    (row,) = matches(scan_all(bench(item), corpus(tmp_path, {"id": "page", "text": text})), "ngram")
    assert row["relation"] == relation


def test_an_option_that_begins_with_the_answer_is_another_answer(tmp_path: Path) -> None:
    options = ("left", "left and right", "2", "2.5")
    for answer, said in (("left", "left and right"), ("2", "2.5"), ("2", "2.7")):
        item = {"question": LONG, "options": options, "answer": answer}
        page = {"id": "page", "text": f"{LONG} Answer: {said}. More exercises follow below."}
        (row,) = matches(scan_all(bench(item), corpus(tmp_path, page)), "ngram")
        assert row["answer_relation"] == "unknown"
