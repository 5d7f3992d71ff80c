"""Text search over several shards: it resumes, and shards change nothing but the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from text_corpus import LONG, LONG_OPTIONS, bench, frame

from heldout.benchmark import Benchmark
from heldout.corpus import open_corpus
from heldout.engine import open_engine
from heldout.overlap.texts import scan as search_module
from heldout.overlap.texts._ledger import collect_text
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.scan import search_text
from heldout.store import Run

BENCHMARK = bench(
    {"question": LONG, "answer": LONG_OPTIONS[1]},
    {"question": "Is the lung healthy?", "answer": "yes"},
    {"question": "Is there any mass in the lung?", "answer": "no"},
)


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"id": "leak", "question": LONG, "answer": LONG_OPTIONS[1]}]
    found += [
        {"id": f"h{k}", "question": "is the lung healthy", "answer": "no" if k % 3 else "yes"}
        for k in range(30)
    ]
    found += [{"id": f"m{k}", "question": f"Is there a mass in liver {k}?"} for k in range(30)]
    return found


def put(path: Path, part: list[dict[str, Any]]) -> None:
    columns = {name: [row.get(name) for row in part] for name in ("id", "question", "answer")}
    pq.write_table(pa.table(columns), path)


def write(folder: Path, shards: int) -> Path:
    folder.mkdir()
    every = rows()
    for shard in range(shards):
        put(folder / f"part-{shard}.parquet", every[shard::shards])
    return folder


def run_search(
    benchmark: Benchmark, folder: Path, run: Run, search: TextSearch | None = None
) -> dict[str, pl.DataFrame]:
    index, _ = build_text_index(benchmark, search)
    corpus = open_corpus(folder, name="corpus")
    with run.writing(), open_engine("local", 1) as engine:
        result = search_text(
            index, corpus, run, "corpus", {"b": benchmark.fingerprint}, engine, True
        )
        assert result.failed == {}
        collect_text(run, [result.stage], nearest=5, read=5)
    return {name: frame(run.read_table(name)) for name in ("text_matches", "text_queries")}


def test_shards_change_nothing_but_the_work(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    search = TextSearch(encoder="wordllama", threshold=0.5)
    tables = []
    for shards in (1, 4):
        folder = write(tmp_path / f"corpus{shards}", shards)
        found = run_search(BENCHMARK, folder, Run.create(tmp_path / f"run{shards}"), search)
        queries = found["text_queries"].sort("benchmark_id", "method")
        tables.append(
            queries.select("benchmark_id", "method", "pairs", "same_answer", "other_answer")
        )
        kept = found["text_matches"].group_by("benchmark_id", "method").len()
        assert kept["len"].max() <= 20
        embedding = found["text_matches"].filter(pl.col("method") == "embedding")
        assert embedding.group_by("benchmark_id").len()["len"].max() <= 10  # nearest, own answer
    assert tables[0].equals(tables[1])


def test_a_question_the_corpus_answers_otherwise_is_no_evidence(tmp_path: Path) -> None:
    found = run_search(BENCHMARK, write(tmp_path / "c", 3), Run.create(tmp_path / "run"))
    matches = found["text_matches"].filter(pl.col("method") == "exact")
    by_item = {
        one: set(matches.filter(pl.col("benchmark_id") == one)["degree"]) for one in ("0", "1")
    }
    # Each shard alone had "same item, soft" for the lung; all of them say it is asked of everything.
    assert by_item == {"0": {"hard"}, "1": {"none"}}
    assert "same item" in set(matches.filter(pl.col("benchmark_id") == "1")["relation"])


def test_a_second_search_reads_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = write(tmp_path / "c", 3), Run.create(tmp_path / "run")
    before = run_search(BENCHMARK, folder, run)
    read: list[str] = []
    real = search_module.scan_text_shard

    def watched(index: Any, corpus: Any, shard: Any, **settings: Any) -> Any:
        read.append(shard.id)
        return real(index, corpus, shard, **settings)

    monkeypatch.setattr(search_module, "scan_text_shard", watched)
    after = run_search(BENCHMARK, folder, run)
    assert read == []
    assert after["text_matches"].equals(before["text_matches"])
    put(folder / "part-1.parquet", [{"id": "new", "question": LONG, "answer": "?"}])
    changed = run_search(BENCHMARK, folder, run)
    assert len(read) == 1 and "part-1" in read[0]
    assert any(one.endswith("new") for one in changed["text_matches"]["corpus_id"])


def test_other_settings_are_another_search(tmp_path: Path) -> None:
    folder, run = write(tmp_path / "c", 2), Run.create(tmp_path / "run")
    assert "edit" in set(run_search(BENCHMARK, folder, run)["text_queries"]["method"])
    only = run_search(BENCHMARK, folder, run, TextSearch(methods=("exact",)))
    assert set(only["text_queries"]["method"]) == {"exact"}
