"""Whole audits, and what a run folder says when it is used again in another way."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import heldout
from command_line import run_inside
from heldout.audit import audit_overlap
from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.errors import InputError
from heldout.evidence import COPIES
from heldout.report import ExportSettings, export, outline_of
from heldout.store import Run
from heldout.verdict import benchmark_verdict, recommend, rung_words

Picture = Callable[..., bytes]


@pytest.fixture
def bench(tmp_path: Path, picture: Picture) -> Path:
    folder = tmp_path / "bench"
    (folder / "images").mkdir(parents=True)
    rows = []
    for number in range(6):
        (folder / f"images/{number}.png").write_bytes(picture(number))
        rows.append(
            {
                "id": str(number),
                "image": f"{number}.png",
                "question": "What is it?",
                "answer": "a" * (number + 1),
                "lang": "en" if number % 2 else "zh",
            }
        )
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def audit(bench: Path, run: Path, *against: str, **settings: Any) -> list[tuple[str, str]]:
    corpora = []
    for text in against:
        name, _, source = text.partition("=")
        corpora.append(open_corpus(source, name=name))
    with LocalEngine(1) as engine:
        settings = {"text": False, "replace": True, **settings}
        found = audit_overlap(read_benchmark(bench), corpora, run, engine, quiet=True, **settings)
    return [(claim.cell.corpus or "", claim.status) for claim in found.conclusion.claims]


def write_tar(path: Path, images: list[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for number, data in enumerate(images):
            member = tarfile.TarInfo(f"{number:04d}.png")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def test_a_run_speaks_of_the_corpora_of_its_last_call(
    bench: Path, tmp_path: Path, picture: Picture
) -> None:
    write_tar(tmp_path / "leaky/0.tar", [picture(i) for i in range(3)])
    write_tar(tmp_path / "other/0.tar", [picture(50 + i) for i in range(3)])
    run, leaky, other = tmp_path / "run", f"leaky={tmp_path}/leaky", f"other={tmp_path}/other"
    assert audit(bench, run, leaky) == [("leaky", "survives")]
    assert audit(bench, run, other) == [("other", "clean")]
    assert audit(bench, run, leaky, other) == [("leaky", "survives"), ("other", "clean")]
    stages = Run.open(run).manifest()["stages"]
    assert [stage["reused"] for stage in stages.values()] == [1, 1]  # nothing was scanned again


def test_a_narrower_search_does_not_replace_a_wider_one_unasked(
    bench: Path, tmp_path: Path, picture: Picture
) -> None:
    write_tar(tmp_path / "leaky/0.tar", [picture(i) for i in range(3)])
    write_tar(tmp_path / "other/0.tar", [picture(50 + i) for i in range(3)])
    run, leaky, other = tmp_path / "run", f"leaky={tmp_path}/leaky", f"other={tmp_path}/other"
    wide = {"text": True, "encoder": "pixels", "replace": False}
    before = audit(bench, run, leaky, other, **wide)
    for against, narrower in (
        ([other], {}),
        ([leaky, other], {"exact": True, "encoder": None}),
        ([leaky, other], {"encoder": "none"}),
        ([leaky, other], {"text": False}),
    ):
        with pytest.raises(InputError, match="would lose.* setting replace "):
            audit(bench, run, *against, **{**wide, **narrower})
    assert audit(bench, run, leaky, other, **wide) == before


def test_one_run_folder_holds_one_benchmark(bench: Path, tmp_path: Path, picture: Picture) -> None:
    write_tar(tmp_path / "c/0.tar", [picture(1)])
    audit(bench, tmp_path / "run", f"c={tmp_path}/c")
    bench.rename(tmp_path / "renamed")
    with pytest.raises(InputError, match="'bench'.*'renamed'"):
        audit(tmp_path / "renamed", tmp_path / "run", f"c={tmp_path}/c")


def test_a_cut_archive_withholds_clean(bench: Path, tmp_path: Path, picture: Picture) -> None:
    """The leak lies in the part that is gone: one lost tar is not one lost item."""
    path = tmp_path / "c/0.tar"
    write_tar(path, [picture(100 + i) for i in range(300)] + [picture(0)])
    assert audit(bench, tmp_path / "whole", f"c={path.parent}") == [("c", "survives")]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert audit(bench, tmp_path / "cut", f"c={path.parent}") == [("c", "qualified")]


def test_another_selection_of_a_table_is_not_the_old_result(bench: Path, tmp_path: Path) -> None:
    run, table = tmp_path / "run", bench / "test.jsonl"
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    for row in rows:
        row["image"] = row["image"] if row["lang"] == "en" else "none.png"
    (bench / "other").mkdir()
    corpus = bench / "train.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert audit(table, run, f"c={corpus}#lang=zh") == [("c", "not testable")]
    assert audit(table, run, f"c={corpus}#lang=en") == [("c", "survives")]


def test_images_that_were_missing_are_looked_for_again(
    bench: Path, tmp_path: Path, picture: Picture
) -> None:
    corpus = tmp_path / "c"
    corpus.mkdir()
    (corpus / "train.jsonl").write_text(
        '{"id": 1, "image": "a.png", "question": "q", "answer": "b"}\n'
    )
    assert audit(bench, tmp_path / "run", f"c={corpus}") == [("c", "not testable")]
    (corpus / "a.png").write_bytes(picture(3))
    assert audit(bench, tmp_path / "run", f"c={corpus}") == [("c", "survives")]


@pytest.mark.parametrize(
    "answers",
    [
        {"answer": "B", "options": ["x", "CT"]},  # letters
        {"answer": ["CT", "a CT scan"]},  # several accepted
        {"answer": 1, "options": ["x", "CT"]},  # positions
    ],
)
def test_a_benchmark_compared_with_itself_agrees_with_its_own_answers(
    tmp_path: Path, picture: Picture, answers: dict[str, Any]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {"id": str(i), "image": {"bytes": picture(i), "path": None}, "question": f"q{i}", **answers}
        for i in range(4)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "test.parquet")
    audit(tmp_path / "test.parquet", tmp_path / "run", f"self={tmp_path}/test.parquet")
    matches = Run.open(tmp_path / "run").frame("matches").filter(pl.col("relation").is_in(COPIES))
    assert [(m["modality"], m["label_relation"]) for m in matches.to_dicts()] == [
        ("full", "same")
    ] * 4


def test_a_corpus_of_which_every_shard_fails_gets_a_report(
    bench: Path, tmp_path: Path, picture: Picture
) -> None:
    write_tar(tmp_path / "c/0.tar", [picture(0)])
    corpus = open_corpus(tmp_path / "c", name="c")
    (tmp_path / "c/0.tar").chmod(0)
    corpus = _Failing(corpus)
    run = Run.create(tmp_path / "run")
    with LocalEngine(1) as engine:
        found = audit_overlap(read_benchmark(bench), [corpus], run, engine, text=False, quiet=True)
    assert found.conclusion.claims[0].status == "not testable"
    assert found.report.exists()
    assert [row["reason"] for row in run.read_table("dropped").to_pylist()] == ["shard failed"]


class _Failing:
    """A corpus whose reader has a bug: every shard raises."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.name, self.source, self.reader = inner, inner.name, inner.source, "bad"

    def shards(self) -> Any:
        return self.inner.shards()

    def count_shards(self) -> int | None:
        return 1

    def read(self, shard: Any) -> Any:
        raise RuntimeError("a bug")


def test_from_python_with_a_folder_of_its_own(
    bench: Path,
    tmp_path: Path,
    picture: Picture,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_tar(tmp_path / "c/0.tar", [picture(0), picture(1), picture(77)])
    monkeypatch.chdir(tmp_path)
    result = heldout.overlap(
        bench, against=["c1=c", open_corpus("c", name="<b>")], workers=1, quiet=True
    )
    assert result.run.path == Path("heldout-runs/overlap-bench-1")
    assert str(result.run.path) in capsys.readouterr().err
    copies = result.matches.filter(pl.col("relation").is_in(COPIES))
    assert set(copies["benchmark_id"]) == {"0", "1"}
    assert result.leaks.filter(pl.col("corpus") == "c1").height >= 2
    assert set(result.claims["corpus"]) == {"c1", "<b>"}
    assert {"survives"} <= set(result.claims["status"])
    assert result.findings.filter(pl.col("corpus") == "c1")["value"].max() == pytest.approx(1 / 3)
    command = result.run.manifest()["commands"][-1]
    assert command[:2] == ["python", "-c"] and "heldout.overlap(" in command[2]
    assert "<b>" not in result._repr_html_() and "survives" in result._repr_html_()

    mapped = read_benchmark(bench, mapping={"question": "question"})
    other = heldout.overlap(mapped, "c", "other", workers=1, text=False, quiet=True)
    assert other.text_matches.is_empty()
    assert "heldout.read_benchmark(" in other.run.manifest()["commands"][-1][2]

    clean = heldout.sanitize(read_benchmark(bench), run=result.run, quiet=True)
    assert clean.out == Path("heldout-runs/sanitize-bench-1")
    assert set(clean.removed["benchmark_id"]) == {"0", "1"} and clean.kept.height == 4
    assert len(read_benchmark(clean.sources["clean"])) == 4
    gate = heldout.gate(result.run.path)
    assert not gate.passed and gate.removed.height == gate.rows == 4
    for made in (result, result.run, result.conclusion, clean, gate):
        assert "\n" not in repr(made) and len(repr(made)) < 200
    assert str(result.run.path) in repr(result) and "survives 2" in repr(result)
    assert str(result.run.path) in repr(result.run)
    rates = heldout.matrix([result.run.path])
    assert rates.filter(pl.col("kind") == "copy")["leaked"].to_list() == [2, 2, 2, 2]


def test_settings_are_named_in_errors(bench: Path, tmp_path: Path) -> None:
    for values, start in (
        ({"alpha": 0.7}, "alpha: "),
        ({"encodr": "pixels"}, "encodr: "),
        ({"judge": "http://h/v1", "text": False}, "judge: "),
        ({"encoder": "pixl"}, "encoder: "),
        ({"text_encoder": "nobody"}, "text_encoder: "),
        ({"encoder": "pixels", "second_encoders": ["pixl"]}, "second_encoders: "),
        ({"engine": "moon"}, "engine: "),
        ({"null": "x"}, "null: "),
        ({"controls": ["x:y"], "encoder": "pixels"}, "controls: "),
    ):
        with pytest.raises(InputError, match=f"^{start}"):
            heldout.overlap(bench, against=[bench], run=tmp_path / "run", **values)
    assert not (tmp_path / "run").exists()


def test_the_recorded_call_makes_the_same_run(
    bench: Path, tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tar(tmp_path / "c/0.tar", [picture(0)])
    monkeypatch.chdir(tmp_path)
    named = read_benchmark(bench, name="mine")
    run = heldout.overlap(named, "c", workers=1, seed=3, exact=True, quiet=True).run
    (*_, call), manifest = run.manifest()["commands"][-1], run.manifest()
    kept = run.path.rename("kept")
    exec(call.replace("heldout.overlap(", "heldout.overlap(quiet=True, workers=1, benchmark="))
    again = Run.open(run.path).manifest()
    for key in ("seed", "inputs"):
        assert again[key] == manifest[key]
    assert again["inputs"]["benchmark"]["name"] == "mine" and kept.is_dir()
    # A run that is passed on records what was done with it, too.
    heldout.overlap(named, "c", run, workers=1, exact=True, quiet=True, text=False, replace=True)
    assert "text=False" in run.manifest()["commands"][-1][2]


def test_what_is_no_benchmark_or_corpus_is_one_sentence(bench: Path, tmp_path: Path) -> None:
    run, unknown = tmp_path / "run", object()
    with pytest.raises(InputError, match="^against: no corpus"):
        heldout.overlap(bench, [], run)
    for benchmark, corpus, named in (
        (bench, unknown, "a data frame.*builtins.object"),
        (bench, None, "NoneType"),
        (bench, [None], "NoneType"),
        (unknown, bench, "a data frame.*builtins.object"),
        (None, bench, "NoneType"),
    ):
        with pytest.raises(InputError, match=named) as error:
            heldout.overlap(benchmark, corpus, run)
        assert len(str(error.value)) < 250 and "\n" not in str(error.value)
    assert not run.exists()


@pytest.mark.parametrize("verb", ["evaluate", "synth", "train"])
def test_a_verb_without_a_folder_makes_one_once_its_settings_are_right(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    needed = {
        "evaluate": {"suite": "nothing.yaml", "models": ["m"]},
        "synth": {"source": "nothing", "stages": ["ingest"]},
    }
    needed["train"] = {"data": "nothing.jsonl", "model": "nothing", "against": ["nothing.json"]}
    with pytest.raises(InputError, match=r"^\w+: .*setting is needed"):
        getattr(heldout, verb)()
    with pytest.raises(InputError, match="nothing"):
        getattr(heldout, verb)(**needed[verb])
    assert not list(Path().glob("heldout-runs/*"))


def test_answers_that_nobody_compared_are_not_called_absent(
    bench: Path, tmp_path: Path, picture: Picture
) -> None:
    write_tar(tmp_path / "c/0.tar", [picture(0), picture(1)])
    for name, question, answer in (("same", "Why?", "no"), ("other", "这是什么器官？", "肺")):
        folder = tmp_path / name
        (folder / "images").mkdir(parents=True)
        (folder / "images/0.png").write_bytes(picture(0))
        row = {"id": "0", "image": "0.png", "question": question, "answer": answer}
        (folder / "train.jsonl").write_text(json.dumps(row) + "\n")
    against = [f"{name}={tmp_path / name}" for name in ("c", "same", "other")]
    result = heldout.overlap(bench, against, tmp_path / "run", workers=1, exact=True, quiet=True)
    verdict = benchmark_verdict(result.run, "bench", {})
    compared = {cell.cell.corpus: cell.answers_compared for cell in verdict.cells}
    assert compared == {"c": False, "same": True, "other": False}
    assert [cell.as_json()["answers_compared"] for cell in verdict.cells] == [*compared.values()]
    assert {
        finding.cell.corpus
        for finding in result.conclusion.findings
        if finding.unit == "questions with their answer"
    } == {"same"}
    sentences = {
        claim.cell.corpus: claim.sentence
        for claim in result.conclusion.claims
        if claim.id.startswith("overlap/")
    }
    assert "no answer fields" in sentences["c"] and "another script" in sentences["other"]
    assert "0 of these questions" in sentences["same"]
    assert "not compared" in rung_words("same image", answers_compared=False)
    advice = [entry["sentence"] for entry in recommend([verdict]) if entry["kind"] == "items"]
    assert "not compared" in advice[0]
    alone = heldout.overlap(bench, against[0], tmp_path / "2", workers=1, exact=True, quiet=True)
    advice = [
        entry["sentence"]
        for entry in recommend([benchmark_verdict(alone.run, "bench", {})])
        if entry["kind"] == "items"
    ]
    assert "were not compared" in advice[0] and "without the answer" not in advice[0]


def test_words_that_were_not_compared_have_no_rate(
    bench: Path, tmp_path: Path, picture: Picture
) -> None:
    write_tar(tmp_path / "c/0.tar", [picture(0), picture(1)])
    against = f"c={tmp_path / 'c'}"
    result = heldout.overlap(bench, against, tmp_path / "run", workers=1, exact=True, quiet=True)
    words = next(claim for claim in result.conclusion.claims if claim.id == "text/c")
    assert words.status == "not testable" and not words.findings
    assert "text-overlap" not in set(result.findings["detector"])
    kept = json.loads((result.run.path / "findings.json").read_text())["findings"]
    assert not [finding for finding in kept if finding["detector"] == "text-overlap"]
    assert "could have" not in (result.run.path / "report.md").read_text().partition("words")[2]


def test_a_limit_reads_the_first_items_of_every_corpus(
    bench: Path, tmp_path: Path, picture: Picture
) -> None:
    words = ["overlap", bench, "--against", f"web={bench / 'images'}", "--exact", "--no-text"]
    done = run_inside(*words, "--limit", "2", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    matches = Run.open(tmp_path / "run").read_table("matches")
    assert sorted(set(matches["corpus_id"].to_pylist())) == ["0.png", "1.png"]
    strangers = tmp_path / "strangers"
    strangers.mkdir()
    for number in range(20, 24):
        (strangers / f"{number}.png").write_bytes(picture(number))
    # What lies behind the limit was not read: nothing is called clean of it.
    assert audit(bench, tmp_path / "whole", f"web={strangers}") == [("web", "clean")]
    assert audit(bench, tmp_path / "first", f"web={strangers}#limit=2") == [("web", "qualified")]
    (claim,) = json.loads((tmp_path / "first/claims.json").read_text())["claims"]
    assert "first 2 items" in claim["sentence"] and "limit" in claim["next_step"]
    title, _, lead, *_ = (tmp_path / "first/report.md").read_text().splitlines()
    assert title.endswith("Nothing found in the part that was read.") and "first 2 items" in lead
    first = Run.open(tmp_path / "first")
    (row,), (step,) = outline_of(first).rows, outline_of(first).steps
    assert row.number.startswith("nothing found; only the first 2") and "web" in step["sentence"]
    assert "nothing found" in export(first.path, settings=ExportSettings(to="badge")).text
    # A corpus that ends before the limit was read whole.
    assert audit(bench, tmp_path / "all", f"web={strangers}#limit=9") == [("web", "clean")]
    refused = run_inside(*words, "--limit", "2", "--gate", "--out", tmp_path / "gate")
    assert refused.returncode == 2 and "limit" in refused.stderr
