"""The table at the top of text_claims.py, from texts to status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from heldout.benchmark import Benchmark, Example, items_table
from heldout.corpus import open_corpus
from heldout.detect import joined_leakage, text_overlap
from heldout.evidence import join_leaks
from heldout.overlap import CondensedMatches
from heldout.overlap.texts.index import METHODS, TextSearch, build_text_index
from heldout.overlap.texts.normalise import settle_degrees
from heldout.overlap.texts.scan import scan_text_shard
from heldout.verdict import NOTHING_TO_COMPARE, Claim, is_leak, source_claim, text_claim
from heldout.verdict.required import settled_by

LONG = [
    "Which vascular structure is most likely occluded in this patient with acute aphasia?",
    "What does the arrow in the upper left lobe of the second radiograph point to?",
    "How many calcified nodules are visible below the diaphragm in the coronal section?",
    "Which stain was used for the fibrous tissue that surrounds the central granuloma?",
]
STOCK = [
    "What does the arrow in this image point to?",
    "What is the most likely diagnosis in this patient?",
    "Which of the following is the most likely diagnosis?",
    "Is there any evidence of free air under the diaphragm?",
]
ORGANS = ["bone", "liver", "heart", "spleen", "kidney", "colon", "trachea", "pleura"]
SHORT = [f"is the {organ} seen?" for organ in ORGANS]
PAGE = {"text": "Nothing of this was ever asked in any exam about pictures."}


def asked(*questions: str) -> list[dict[str, Any]]:
    return [
        {"question": question, "answer": f"finding {chr(97 + k)}"}
        for k, question in enumerate(questions)
    ]


def frame(table: Any) -> pl.DataFrame:
    made = pl.from_arrow(table)
    assert isinstance(made, pl.DataFrame)
    return made


def claim(
    folder: Path,
    ours: list[dict[str, Any]],
    theirs: list[dict[str, Any]],
    methods: tuple[str, ...] = METHODS[:4],
    pictured: bool = True,
    whole: int = 0,
    encoder: str | None = "an encoder",
    programs: int = 0,
    settled: dict[str, Any] | None = None,
    **lost: int,
) -> Claim:
    """One search, and the claim about it; ``lost`` are counts of what could not be read."""
    examples = [Example(str(k), **row) for k, row in enumerate(ours)]
    benchmark = Benchmark("bench", tuple(examples))
    path = folder / "web.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in theirs))
    corpus = open_corpus(path, name="web")
    index, _ = build_text_index(benchmark, TextSearch(methods=methods))
    (shard,) = corpus.shards()
    result = scan_text_shard(index, corpus, shard)
    queries = frame(result.tables["text_queries"])
    matches = settle_degrees(frame(result.tables["text_matches"]), queries)
    items = frame(items_table(benchmark))
    found = text_overlap(
        items,
        matches,
        queries,
        benchmark="bench",
        corpus="web",
        methods=methods,
        documents=result.counts["text_documents"],
        answered=result.counts["text_answers"] > 0,
    )
    leaked = join_leaks(CondensedMatches.of([]), matches)
    joined = joined_leakage(items, leaked, benchmark="bench", corpus="web")
    by_modality = {**joined.details["by_modality"], "full": whole}
    joined = joined.model_copy(update={"details": {**joined.details, "by_modality": by_modality}})
    counts = {**result.counts, **lost}
    scanned = {
        "counts": counts,
        "failed": {},
        "encoder": encoder,
        "rewordings": {"programs": programs, **(settled or {})},
    }
    return text_claim(found, joined, {}, scanned, pictured=pictured)


def test_advice_does_not_send_to_pictures_where_there_are_none(tmp_path: Path) -> None:
    same = [{"question": SHORT[0], "answer": "yes"}] * 4
    there = claim(tmp_path, same, [{"text": "a page"}])
    assert "compare their pictures" in there.next_step
    bare = claim(tmp_path, same, [{"text": "a page"}], pictured=False)
    assert (bare.status, there.status) == ("not testable", "not testable")
    assert "compare their pictures" not in bare.next_step


def test_items_that_leaked_whole_are_removed_even_where_words_alone_tell_nothing(
    tmp_path: Path,
) -> None:
    same = [{"question": SHORT[0], "answer": "yes"}] * 4
    made = claim(tmp_path, same, [{"text": "a page"}], whole=3)
    assert (made.rule, made.status) == ("words/leaked-whole", "survives")
    assert made.next_step.startswith("remove these items")


def inside(question: str) -> dict[str, str]:
    return {"text": f"An unrelated page. {question} Discuss it with your tutor next week."}


def test_question_and_answer_word_for_word_survive(
    tmp_path: Path, wording: Callable[..., None]
) -> None:
    made = claim(tmp_path, asked(*LONG), [*asked(*LONG[:2]), PAGE])
    assert made.status == "survives"
    assert made.why.startswith("2 items ")
    wording(made)
    assert "chance" not in made.why
    half = claim(tmp_path, asked(*LONG), [*asked(*LONG[:2]), PAGE], **{"unread .tar": 1})
    assert half.status == "survives"
    assert "lower bound" in half.why


@pytest.mark.parametrize(
    "theirs",
    [
        [{"question": LONG[0]}],  # no answer
        [{"text": LONG[0]}],
        [{"question": LONG[0], "answer": "something else"}],
        [inside(LONG[0])],
        [{"question": LONG[0].replace("occluded", "ocluded"), "answer": "finding a"}],
    ],
)
def test_without_the_same_words_and_the_same_answer_people_must_read(
    tmp_path: Path, theirs: list[dict[str, Any]]
) -> None:
    made = claim(tmp_path, asked(*LONG), theirs)
    assert made.status == "qualified"
    assert made.rule == "words/like-words"
    # Pictures, or other words, would not say what these are.
    assert settled_by(made)[0].startswith("similar words: ") and "--kind texts" in made.next_step
    assert not [text for text in settled_by(made) if "pictures" in text]


def test_other_options_are_another_item(tmp_path: Path) -> None:
    row = {"question": LONG[0], "answer": "artery", "options": ("artery", "vein", "nerve")}
    ours = [row, *asked(*LONG[1:])]
    assert claim(tmp_path, ours, [row]).status == "survives"
    other = {**row, "options": ("artery", "bone", "muscle")}
    assert claim(tmp_path, ours, [other]).status == "qualified"


def test_stock_questions_on_unrelated_pages_do_not_survive(tmp_path: Path) -> None:
    made = claim(tmp_path, asked(*STOCK, *LONG), [inside(question) for question in STOCK])
    assert made.status == "qualified"
    assert "4 by runs" in made.sentence


def test_nothing_found_is_clean_where_the_items_could_have_been_found(
    tmp_path: Path, wording: Callable[..., None]
) -> None:
    made = claim(tmp_path, asked(*LONG), [PAGE])
    assert made.status == "clean"
    assert "of 4 items" in made.why
    # 4 of 5 is the share that is asked for, 4 of 6 is less.
    answered = [PAGE, {"question": "Who is there?", "answer": "nobody"}]
    assert claim(tmp_path, asked(*LONG, *SHORT[:1]), answered).status == "clean"
    fewer = claim(tmp_path, asked(*LONG, *SHORT[:2]), answered)
    assert fewer.status == "qualified"
    assert "4 of its 6 items" in fewer.sentence
    wording(made, fewer)
    assert "pictures" in fewer.next_step


def test_nothing_is_clean_where_nobody_looked_for_rewordings(
    tmp_path: Path, wording: Callable[..., None]
) -> None:
    searched = claim(tmp_path, asked(*LONG), [PAGE])
    unsearched = claim(tmp_path, asked(*LONG), [PAGE], encoder=None)
    assert (searched.status, unsearched.status) == ("clean", "qualified")
    assert unsearched.rule == "words/rewordings-unsearched"
    wording(unsearched)
    assert "heldout[text]" in unsearched.next_step
    (control,) = [control for control in unsearched.controls if control.name == "rewordings"]
    assert control.outcome == "missing"


def test_nothing_is_clean_where_texts_are_in_a_language_that_was_not_compared(
    tmp_path: Path, wording: Callable[..., None]
) -> None:
    made = claim(tmp_path, asked(*LONG), [PAGE], text_other_language=1)
    assert made.status == "qualified"
    assert ": 1 of 1 texts" in made.sentence
    assert "language" in made.why
    wording(made)
    assert "multilingual" in made.next_step


def test_nothing_is_clean_where_rewritten_programs_would_mostly_be_missed(
    tmp_path: Path, wording: Callable[..., None]
) -> None:
    made = claim(tmp_path, asked(*LONG), [PAGE], programs=3)
    assert (made.status, made.rule) == ("qualified", "words/rewordings-unsearched")
    wording(made)
    assert "--judge-all" in made.next_step
    assert settled_by(made) == [f"rewordings: {made.next_step}"]
    both = claim(tmp_path, asked(*LONG), [PAGE], programs=3, text_other_language=1)
    assert {"language", "programs"} <= set(both.sentence.split())
    language = claim(tmp_path, asked(*LONG), [PAGE], text_other_language=1)
    assert settled_by(language) == [f"rewordings: {language.next_step}"]


def test_nothing_is_clean_where_a_benchmark_is_too_small_to_tell_rewordings(
    tmp_path: Path, wording: Callable[..., None]
) -> None:
    settled = {"too_few": True, "null": {"alone": 4}}
    made = claim(tmp_path, asked(*LONG), [PAGE], settled=settled)
    assert (made.status, made.rule) == ("qualified", "words/rewordings-unsearched")
    (control,) = [control for control in made.controls if control.name == "rewordings"]
    assert control.outcome == "missing"
    wording(made)
    assert "--judge-all" in made.next_step
    assert settled_by(made) == [f"rewordings: {made.next_step}"]
    enough = {"too_few": False, "null": {"alone": 30}}
    assert claim(tmp_path, asked(*LONG), [PAGE], settled=enough).status == "clean"


def test_nothing_is_clean_below_a_threshold_that_somebody_set(
    tmp_path: Path, wording: Callable[..., None]
) -> None:
    made = claim(tmp_path, asked(*LONG), [PAGE], settled={"threshold": 0.99, "below_threshold": 3})
    assert (made.status, made.rule) == ("qualified", "words/rewordings-unsearched")
    wording(made)
    assert settled_by(made) == [f"rewordings: {made.next_step}"]
    enough = {"threshold": 0.5, "below_threshold": 0}
    assert claim(tmp_path, asked(*LONG), [PAGE], settled=enough).status == "clean"


def test_short_questions_inside_pages_are_not_testable(
    tmp_path: Path, wording: Callable[..., None]
) -> None:
    pages = [{"text": f"Quiz. {question} finding. More words follow here."} for question in SHORT]
    made = claim(tmp_path, asked(*SHORT), pages)
    assert made.status == "not testable"
    wording(made)
    assert "of the 8 items" in made.sentence
    assert not made.idle  # there were words on both sides: the question stays open
    # Beside questions with answers, equal ones would have shown; inside pages still none.
    structured = claim(tmp_path, asked(*SHORT), [*pages, *asked("Who is there?")])
    assert structured.status == "qualified"
    assert "None of its 8" in structured.sentence


def test_a_search_that_looks_inside_nothing_is_not_clean(tmp_path: Path) -> None:
    assert claim(tmp_path, asked(*LONG), [PAGE], ("exact", "edit")).status == "qualified"
    assert claim(tmp_path, asked(*LONG), [PAGE], ("provenance",)).status == "not testable"


def test_a_half_read_corpus_is_not_clean(tmp_path: Path, wording: Callable[..., None]) -> None:
    made = claim(tmp_path, asked(*LONG), [PAGE], **{"unread .tar": 1})
    assert made.status == "qualified"
    assert made.rule == "words/parts-unread"
    wording(made)


def test_a_side_without_words_has_nothing_to_compare(tmp_path: Path) -> None:
    made = claim(tmp_path, [{}, {}], [PAGE])
    assert (made.status, made.idle, made.why) == ("not testable", True, "one side has no text")
    made = claim(tmp_path, asked(*LONG), [{"id": "x"}])
    assert (made.status, made.idle, made.why) == ("not testable", True, "one side has no text")
    # Its pictures may show words, where it has pictures.
    assert "--ocr" in made.next_step
    assert "--ocr" not in claim(tmp_path, asked(*LONG), [{"id": "x"}], pictured=False).next_step
    # No encoder and no longer text would settle it: controls that ask for them are not named.
    assert [control.name for control in made.controls] == ["corpus coverage", NOTHING_TO_COMPARE]
    assert settled_by(made, audited=False) == []


def test_items_without_text_are_not_among_those_whose_texts_were_read(tmp_path: Path) -> None:
    for theirs, numbers in (
        ([PAGE, PAGE, {"id": "x"}], ["2", "1"]),
        ([{"id": "x"}, {"id": "y"}], ["2"]),
    ):
        coverage = claim(tmp_path, asked(*LONG), theirs).controls[0]
        assert (coverage.name, re.findall(r"\d+", coverage.reason)) == ("corpus coverage", numbers)


def test_a_shared_article_is_a_claim_of_its_own(
    tmp_path: Path, wording: Callable[..., None]
) -> None:
    items = [
        {"question": text, "metadata": {"source": f"PMC{k}12345"}} for k, text in enumerate(LONG)
    ]
    pages = [{"text": "A page about PMC112345, and about little else."}, PAGE]
    examples = [Example(str(k), **row) for k, row in enumerate(items)]
    benchmark = Benchmark("bench", tuple(examples))
    path = tmp_path / "web.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in pages))
    index, _ = build_text_index(benchmark, TextSearch(methods=("provenance",)))
    corpus = open_corpus(path, name="web")
    (shard,) = corpus.shards()
    result = scan_text_shard(index, corpus, shard)
    matches = frame(result.tables["text_matches"])
    (finding,) = text_overlap(
        frame(items_table(benchmark)),
        matches,
        frame(result.tables["text_queries"]),
        benchmark="bench",
        corpus="web",
        methods=("provenance",),
        documents=2,
    )
    scanned = {"counts": result.counts, "failed": {}}
    made = source_claim(finding, matches, len(items), scanned)
    assert made is not None and not is_leak(made)
    assert (made.rule, made.status) == ("sources/source-named", "qualified")
    assert made.sentence.startswith(f"1 item of {len(items)} (")
    wording(made)
    assert source_claim(finding, matches.clear(), len(items), scanned) is None
