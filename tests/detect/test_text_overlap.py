"""text-overlap: findings from tables, and real splits counted by kind."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from heldout.benchmark import Benchmark, items_table, read_benchmark
from heldout.corpus import Corpus, open_corpus
from heldout.detect import text_overlap, texts_missed
from heldout.engine import open_engine
from heldout.evidence import KINDS, count_kinds, text_kinds
from heldout.overlap import scan
from heldout.overlap.texts._ledger import collect_text
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.relation import GENERIC, untestable_items
from heldout.overlap.texts.scan import search_text
from heldout.store import SCHEMAS, Run, make_table


def frame(table: Any) -> pl.DataFrame:
    made = pl.from_arrow(table)
    assert isinstance(made, pl.DataFrame)
    return made


def items(clusters: str) -> pl.DataFrame:
    rows = [
        {
            "benchmark_id": str(k),
            "cluster": cluster,
            "question": f"what is {chr(97 + k)}",
            "answer": "a",
        }
        for k, cluster in enumerate(clusters)
    ]
    return frame(make_table("items", rows))


def match(item: int, degree: str, method: str = "embedding") -> dict[str, Any]:
    return {
        "benchmark_id": str(item),
        "corpus": "c",
        "corpus_id": "x",
        "method": method,
        "field": "question",
        "similarity": 0.9,
        "degree": degree,
        "relation": "same question",
        "answer_relation": "unknown",
        "evidence": "{}",
    }


def query(item: int, pairs: int, best: float) -> dict[str, Any]:
    return {
        "benchmark_id": str(item),
        "corpus": "c",
        "method": "embedding",
        "pairs": pairs,
        "same_answer": 0,
        "other_answer": 0,
        "max_similarity": best,
        "corpus_id": "x",
    }


def test_the_published_fields_and_the_evidence_stand_side_by_side() -> None:
    matches = frame(
        make_table("text_matches", [match(0, "soft"), match(1, "none"), match(1, "none")])
    )
    queries = frame(
        make_table(
            "text_queries",
            [query(0, 1, 0.9), query(1, 3, 0.95), query(2, 0, 0.5), query(3, 0, 0.3)],
        )
    )
    (finding,) = text_overlap(
        items("abcd"),
        matches,
        queries,
        benchmark="b",
        corpus="c",
        documents=9,
        methods=["embedding"],
    )
    assert (finding.statistic.value, finding.n, finding.effect.value) == (1, 4, 0.25)
    published = finding.details["published"]
    assert (published["pairs"], published["hit_queries"], published["hit_rate"]) == (4, 2, 0.5)
    assert published["hits_per_query"]["mean"] == 2.0
    assert published["max_similarity"]["median"] == pytest.approx(0.7)
    assert published["max_similarity_of_hits"]["mean"] == pytest.approx(0.925)
    assert published["overlap_at"] == {
        "0.80": 2,
        "0.85": 2,
        "0.88": 2,
        "0.90": 2,
        "0.95": 1,
        "1.00": 0,
    }
    assert sum(published["histogram"]["items"]) == 4
    assert finding.p is None and finding.blind_to


def test_intervals_go_by_cluster() -> None:
    matches = frame(make_table("text_matches", [match(k, "hard", "exact") for k in range(10)]))
    none = frame(SCHEMAS["text_queries"].empty_table())
    common: dict[str, Any] = {"benchmark": "b", "corpus": "c", "documents": 1, "methods": ["exact"]}
    (alone,) = text_overlap(items("abcdefghijklmnopqrst"), matches, none, **common)
    (shared,) = text_overlap(items("a" * 10 + "b" * 10), matches, none, **common)
    assert alone.effect.value == shared.effect.value == 0.5
    assert shared.effect.high - shared.effect.low > 1.3 * (alone.effect.high - alone.effect.low)


def test_nothing_found_is_a_finding_too() -> None:
    empty = (frame(SCHEMAS[name].empty_table()) for name in ("text_matches", "text_queries"))
    (finding,) = text_overlap(
        items("ab"), *empty, benchmark="b", corpus="c", documents=5, methods=["exact"]
    )
    assert (finding.statistic.value, finding.direction) == (0, "none")
    assert finding.details["published"]["hits_per_query"] is None


def one_finding_each(rows: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
    """Details per method, of items that are in no corpus."""
    table = frame(make_table("items", [{"cluster": row["benchmark_id"], **row} for row in rows]))
    empty = (frame(SCHEMAS[name].empty_table()) for name in ("text_matches", "text_queries"))
    made = text_overlap(
        table,
        *empty,
        benchmark="b",
        corpus="c",
        documents=5,
        methods=["exact", "ngram", "edit"],
        **given,
    )
    return {finding.id.rsplit("/", 1)[1]: finding for finding in made}


def test_nothing_found_is_said_of_the_items_a_method_could_find() -> None:
    long = "Which vascular structure is most likely occluded in this patient with acute aphasia?"
    rows: list[dict[str, Any]] = [
        {"benchmark_id": "long", "question": long, "answer": "artery"},
        {"benchmark_id": "short", "question": "is bone seen?", "answer": "yes"},
        {"benchmark_id": "unanswered", "question": "is fat seen?", "answer": None},
        {"benchmark_id": "generic", "question": "Does section 1 show it?", "answer": "yes"},
        {"benchmark_id": "too", "question": "Does section 2 show it?", "answer": "no"},
        {"benchmark_id": "wordless", "question": None, "answer": None},
    ]
    found = one_finding_each(rows)
    assert {name: one.n for name, one in found.items()} == {"exact": 2, "ngram": 1, "edit": 1}
    assert found["exact"].details["eligible"] == 2
    assert found["exact"].minimum_detectable_effect == pytest.approx(1 - 0.05**0.5)
    assert found["ngram"].minimum_detectable_effect == pytest.approx(0.95)
    assert found["ngram"].details["untestable"] == {
        "have no words": 1,
        GENERIC: 2,
        "have too few or too common words": 2,
    }
    assert (
        found["edit"].details["untestable"]["have fewer than 20 or more than 2,000 characters"] == 1
    )
    assert found["exact"].details["published"]["queries"] == 5
    together = found["edit"].details["all_methods"]
    assert (together["items"], together["eligible"]) == (5, 2)
    assert together["eligible_inside_longer_texts"] == 1
    # Where the corpus answers nothing, a short question is never evidence.
    assert one_finding_each(rows, answered=False)["exact"].n == 1


def test_what_one_method_misses_and_another_finds_is_not_missed() -> None:
    rows = [{"benchmark_id": "a", "question": "What is to be seen below?", "answer": "a lung"}]
    found = list(one_finding_each(rows).values())
    alone, together = texts_missed(found[:1]), texts_missed(found)
    assert alone == found[0].blind_to  # equal texts: any edit is missed
    assert not set(alone) & set(together)
    assert any("8 words" in missed for missed in together)  # runs of words look inside longer texts


def test_items_of_one_template_can_be_found_by_their_numbers_and_answer() -> None:
    asked = (
        "Which vascular structure at level {} is most likely occluded in this patient with aphasia?"
    )
    rows = [
        {
            "benchmark_id": str(k),
            "question": asked.format(k),
            "answer": f"artery {k // 2 if k < 2 else k}",
        }
        for k in range(5)
    ]  # the first two have one answer: neither is told apart by it
    found = one_finding_each(rows)
    assert {name: one.n for name, one in found.items()} == {"exact": 3, "ngram": 0, "edit": 3}
    assert one_finding_each(rows, answered=False)["exact"].n == 0


def test_items_that_stand_there_whole_are_counted_once_over_all_methods() -> None:
    whole = {"relation": "same item", "answer_relation": "same"}
    found = [
        {**match(0, "hard", "exact"), **whole},
        {**match(0, "hard", "edit"), **whole},
        {**match(1, "hard", "edit"), **whole},
        {**match(2, "soft", "exact"), **whole},
        {**match(3, "hard", "ngram"), "relation": "contained"},
        match(4, "hard", "exact"),  # the question, and nobody knows what the answer is
    ]
    matches = frame(make_table("text_matches", found))
    none = frame(SCHEMAS["text_queries"].empty_table())
    made = text_overlap(
        items("abcdef"),
        matches,
        none,
        benchmark="b",
        corpus="c",
        documents=9,
        methods=["exact", "ngram", "edit"],
    )
    assert [finding.details["hard"] for finding in made] == [1, 0, 2]
    together = made[0].details["all_methods"]
    assert (together["hard"], together["evident"]) == (2, 5)


def search(benchmark: Benchmark, corpus: Corpus, folder: Path, encoder: str | None) -> Run:
    run = Run.create(folder)
    with run.writing(), open_engine("local", 1) as engine:
        run.write_table("items", items_table(benchmark))
        index, _ = build_text_index(benchmark, TextSearch(encoder=encoder))
        result = search_text(index, corpus, run, "text", {}, engine, True)
        assert not result.failed
        collect_text(run, [result.stage], nearest=5, read=5)
    return run


def words(text: object) -> str:
    return " ".join(re.findall(r"[^\W_]+", str(text).lower()))


def plain(answer: object) -> str:
    return " ".join(str(answer).lower().split()).rstrip(" .?!")


def recount(test: list[dict[str, Any]], train: list[dict[str, Any]], image: str) -> dict[str, int]:
    """The four kinds of identical questions, with nothing of ours: dictionaries and a loop."""
    asked = defaultdict(list)
    for row in train:
        asked[words(row["question"])].append((row[image], plain(row["answer"])))
    counted = dict.fromkeys(KINDS, 0)
    for row in test:
        pairs = asked[words(row["question"])]
        answer = plain(row["answer"])
        counted[KINDS[0]] += any(i == row[image] and a == answer for i, a in pairs)
        counted[KINDS[1]] += any(i == row[image] for i, a in pairs)
        counted[KINDS[3]] += any(i != row[image] and a == answer for i, a in pairs)
        counted[KINDS[4]] += any(i != row[image] for i, a in pairs)
    return {kind: counted[kind] for kind in (KINDS[0], KINDS[1], KINDS[3], KINDS[4])}


def test_vqa_rads_split_by_kind_is_what_a_recount_by_hand_gives(
    shared_data: Path, tmp_path: Path
) -> None:
    folder = shared_data / "vqa_rad"
    test, train = folder / "mevf_testset.json", folder / "mevf_trainset.json"
    pytest.importorskip("wordllama")
    benchmark = read_benchmark(test, images=folder / "images")
    corpus = open_corpus(train, name="train", images=folder / "images")
    run = search(benchmark, corpus, tmp_path / "run", "wordllama")
    with run.writing(), open_engine("local", 1) as engine:
        scan(benchmark, [corpus], run, engine, hashes=False, quiet=True)
    kinds = text_kinds(frame(run.read_table("text_matches")), frame(run.read_table("matches")))
    found = count_kinds(kinds, "train")
    by_hand = recount(json.loads(test.read_text()), json.loads(train.read_text()), "image_name")
    assert {kind: found[kind] for kind in by_hand} == by_hand
    assert by_hand == {KINDS[0]: 16, KINDS[1]: 16, KINDS[3]: 54, KINDS[4]: 81}
    assert (
        found["paraphrase candidate, same image"] > 40
    )  # VQA-RAD has 143 rephrased test questions


def test_slakes_english_split_by_kind_is_what_a_recount_by_hand_gives(
    shared_data: Path, tmp_path: Path
) -> None:
    test, train = (shared_data / f"slake/official_{name}.json" for name in ("test", "train"))
    corpus = open_corpus(f"{train}#lang=en", name="train")
    run = search(read_benchmark(f"{test}#lang=en"), corpus, tmp_path / "run", None)
    # The English splits share no picture, so no text match is about the same one.
    no_copies = frame(SCHEMAS["matches"].empty_table())
    kinds = text_kinds(frame(run.read_table("text_matches")), no_copies)
    found = count_kinds(kinds, "train")
    english = [
        [row for row in json.loads(path.read_text()) if row["q_lang"] == "en"]
        for path in (test, train)
    ]
    by_hand = recount(english[0], english[1], "img_name")
    assert {kind: found[kind] for kind in by_hand} == by_hand
    assert by_hand == {KINDS[0]: 0, KINDS[1]: 0, KINDS[3]: 938, KINDS[4]: 999}
    (finding,) = text_overlap(
        *(frame(run.read_table(name)) for name in ("items", "text_matches", "text_queries")),
        benchmark="slake",
        corpus="train",
        documents=4919,
        methods=["exact"],
    )
    # The rule that says beforehand what can be found, against what was found.
    table, queries = (frame(run.read_table(name)) for name in ("items", "text_queries"))
    untestable = untestable_items(table, queries, ["exact", "ngram", "edit"], answered=True)
    evident = frame(run.read_table("text_matches")).filter(pl.col("degree") != "none")
    pairs = evident.select("method", "benchmark_id").unique().rows()
    assert len(pairs) > 50
    assert not [pair for pair in pairs if pair[1] in untestable.get(pair[0], {})]
    # Nearly every question is in the training split, and nearly none identifies its item.
    assert finding.details["published"]["hit_queries"] == 999
    assert finding.statistic.value < 120
