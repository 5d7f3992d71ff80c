"""Training mixtures as a file: sources with weights and filters, each a corpus of its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import heldout
from command_line import run_inside
from heldout.audit import audit_overlap, run_audit
from heldout.corpus import CorpusItem, open_recipe, suggested_recipe
from heldout.errors import InputError
from heldout.store import Dropped

# As LLaVA's mixture of 665,000: one table whose pictures lie in folders by their source, and text alone.
TEN = (
    "coco",
    "gqa",
    "ocr_vqa",
    "textvqa",
    "vg",
    "docvqa",
    "chartqa",
    "pathvqa",
    "slake",
    "sharegpt",
)


@pytest.fixture
def mixture(tmp_path: Path, picture) -> Path:
    """A benchmark of six pictures, and a recipe of ten sources. coco holds four of them, vg one of these."""
    (tmp_path / "bench").mkdir()
    rows = [{"id": f"b{n}", "image": f"{n}.png", "question": f"What? {n}"} for n in range(6)]
    for number in range(6):
        (tmp_path / "bench" / f"{number}.png").write_bytes(picture(number))
    (tmp_path / "bench" / "test.json").write_text(json.dumps([r | {"answer": "a"} for r in rows]))
    talks = []
    for place, name in enumerate(TEN[:-1]):
        (tmp_path / "mix" / name).mkdir(parents=True)
        for number in range(5):
            leaked = name == "coco" and number < 4, name == "vg" and number < 1
            seed = number if any(leaked) else 1000 * (place + 1) + number
            (tmp_path / "mix" / name / f"{number}.png").write_bytes(picture(seed))
            turns = [{"from": "human", "value": "<image>\nSay."}, {"from": "gpt", "value": "Yes."}]
            talks.append(
                {"id": f"{name}{number}", "image": f"{name}/{number}.png", "conversations": turns}
            )
    (tmp_path / "mix" / "train.json").write_text(json.dumps(talks))
    (tmp_path / "mix" / "chat.jsonl").write_text('{"text": "some words that nobody asked"}\n')
    sources = [
        {"name": name, "source": "mix/train.json", "where": {"image": f"{name}/*"}}
        for name in TEN[:-1]
    ]
    sources[4]["weight"] = 3
    sources.append({"name": "sharegpt", "source": "mix/chat.jsonl", "weight": 0.5})
    path = tmp_path / "corpora.yaml"
    path.write_text(yaml.safe_dump({"corpora": sources}))
    return path


def items(corpus) -> list[CorpusItem | Dropped]:
    return [item for shard in corpus.shards() for item in corpus.read(shard)]


def test_a_recipe_is_as_many_corpora_as_it_has_sources(mixture: Path) -> None:
    corpora = open_recipe(mixture)
    assert [corpus.name for corpus in corpora] == list(TEN)
    for corpus in corpora[:-1]:
        names = [item.image.name for item in items(corpus)]
        assert names == [f"{corpus.name}/{number}.png" for number in range(5)]
    assert len({shard.key for corpus in corpora for shard in corpus.shards()}) == 10


def test_a_search_reports_by_source_with_weights(mixture: Path, tmp_path: Path) -> None:
    result = audit_overlap(
        tmp_path / "bench", mixture, tmp_path / "run", exact=True, text=False, workers=1, quiet=True
    )
    sources = {row["name"]: row for row in result.sources.to_dicts()}
    assert list(sources) == list(TEN)
    assert {name: row["leaked_items"] for name, row in sources.items() if row["leaked_items"]} == {
        "coco": 4,
        "vg": 1,
    }
    assert sources["vg"]["exposures"] == 3
    assert sources["coco"]["exposures"] == 4
    assert sources["vg"]["share"] == pytest.approx(15 / (8 * 5 + 15 + 0.5))
    assert set(result.leaks["corpus"]) == {"coco", "vg"}


def test_rows_and_items_are_those_of_the_verdict(mixture: Path, tmp_path: Path) -> None:
    """Two items on one picture make one row; a question without its answer is no leak."""
    bench = tmp_path / "bench" / "test.json"
    rows = json.loads(bench.read_text())
    rows.append({"id": "b6", "image": "0.png", "question": "And what else?", "answer": "b"})
    rows[5]["question"] = "Which organ is seen on the left side of this picture?"
    bench.write_text(json.dumps(rows))
    words = rows[5]["question"]
    (tmp_path / "mix" / "chat.jsonl").write_text(json.dumps({"text": words}) + "\n")
    result = audit_overlap(
        tmp_path / "bench", mixture, tmp_path / "run", exact=True, workers=1, quiet=True
    )
    sources = {row["name"]: row for row in result.sources.to_dicts()}
    assert (sources["coco"]["leaked_items"], sources["coco"]["leaked_rows"]) == (5, 4)
    assert "sharegpt" in set(result.leaks["corpus"])
    assert sources["sharegpt"]["leaked_items"] == 0
    gate = heldout.gate(result.run, out=tmp_path / "gate", clean=True)
    assert gate.rows == sum(row["leaked_rows"] for row in sources.values())
    (cleaned,) = gate.cleaned  # coco and vg are rows of one file, which is written once
    assert (cleaned.removed, cleaned.kept) == (5, 40)
    ids = {row["id"] for row in json.loads(cleaned.path.read_text())}
    assert not {"coco0", "vg0"} & ids


def test_an_audit_takes_a_mixture_for_its_sources(mixture: Path, tmp_path: Path) -> None:
    audit = {
        "benchmarks": [{"name": "bench", "source": "bench/test.json"}],
        "corpora": [{"name": "mix", "source": "corpora.yaml"}],
        "search": {"exact": True, "text": False, "workers": 1},
    }
    path = tmp_path / "audit.yaml"
    path.write_text(yaml.safe_dump(audit))
    done = run_audit(path, quiet=True)
    cells = {cell.cell.corpus: cell.status for cell in done.overall.cells}
    assert list(cells) == [f"mix-{name}" for name in TEN]
    assert cells["mix-coco"] == cells["mix-vg"] == "survives"
    page = (done.runs["bench"] / "report.html").read_text()
    assert "The training mixture, source by source" in page
    recipe = yaml.safe_load(mixture.read_text())
    recipe["corpora"][4]["weight"] = 7  # vg; nothing is searched again
    mixture.write_text(yaml.safe_dump(recipe))
    again = run_audit(path, quiet=True)
    assert again.made == ["bench/report"]
    written = json.loads((done.runs["bench"] / "sources.json").read_text())["sources"]
    assert next(row["exposures"] for row in written if row["name"] == "mix-vg") == 7
    audit["corpora"].append({"name": "mix-vg", "source": "mix/train.json"})
    path.write_text(yaml.safe_dump(audit))
    with pytest.raises(InputError, match="two corpora would be called mix-vg"):
        run_audit(path, quiet=True)


def test_parts_of_a_mixture_are_merged_by_source(mixture: Path, tmp_path: Path) -> None:
    quick = {"exact": True, "text": False, "workers": 1, "quiet": True}
    audit_overlap(tmp_path / "bench", mixture, tmp_path / "whole", **quick)
    parts = [tmp_path / f"part{number}" for number in (1, 2)]
    for number, run in enumerate(parts, start=1):
        audit_overlap(tmp_path / "bench", mixture, run, part=f"{number}/2", **quick)
    merged = heldout.merge(parts, tmp_path / "run", workers=1, quiet=True)
    written = [
        (each / "sources.json").read_bytes() for each in (tmp_path / "whole", merged.run.path)
    ]
    assert written[0] == written[1]
    assert dict(merged.sources.select("name", "exposures").iter_rows())["vg"] == 3


def test_the_command_line_prints_sources(mixture: Path, tmp_path: Path) -> None:
    done = run_inside(
        "overlap",
        tmp_path / "bench",
        "--against",
        f"mix={mixture}",
        "--out",
        tmp_path / "run",
        "--exact",
        "--no-text",
    )
    assert done.returncode == 0, done.stderr
    table = done.stdout.partition("by source")[2]
    assert table.index("mix-coco") < table.index("mix-vg") < table.index("mix-sharegpt")


def test_a_source_of_which_no_row_counts_is_said(mixture: Path, tmp_path: Path) -> None:
    recipe = yaml.safe_load(mixture.read_text())
    recipe["corpora"][1]["where"] = {"image": "GQA/*"}
    mixture.write_text(yaml.safe_dump(recipe))
    done = run_inside(
        "overlap", tmp_path / "bench", "--against", mixture, "--out", tmp_path / "run", "--exact"
    )
    assert done.returncode == 0, done.stderr
    assert "row counts in gqa" in done.stdout
    assert "row counts in gqa" in (tmp_path / "run" / "report.html").read_text()


def test_a_column_that_no_row_has_is_said(mixture: Path) -> None:
    recipe = yaml.safe_load(mixture.read_text())
    recipe["corpora"] = [recipe["corpora"][0] | {"where": {"licence": "cc*"}}]
    mixture.write_text(yaml.safe_dump(recipe))
    (problem,) = items(open_recipe(mixture)[0])
    assert isinstance(problem, Dropped)
    assert (problem.reason, problem.scope) == ("no such column", "many")
    assert "licence" in problem.detail


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corpora: []", "corpora: expected a list"),
        ("sources: 3", "expected a recipe"),
        ("corpora: [{name: a}]", "source"),
        (
            "corpora: [{name: a, source: x.json}, {name: b, source: x.json, weight: -1}]",
            r"source 2 \(b\): weight: .*; got -1",
        ),
        (
            "corpora: [{name: a, source: x.json, where: [1]}]",
            r"source 1 \(a\): where: expected names",
        ),
        ("corpora: [x.json]", "source 1: expected"),
        ("corpora: [{name: a, source: nowhere.json}]", "a: .*does not exist"),
        ("corpora: [{name: a, source: x}, {name: a, source: y}]", "two sources are called a"),
        ("corpora: {", "YAML"),
        ("!!python/object/apply:os.system [echo]", "YAML"),
    ],
)
def test_mistakes_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "corpora.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        open_recipe(tmp_path / "corpora.yaml")
    assert "corpora.yaml" in str(caught.value)


def test_rows_of_embeddings_are_not_chosen(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 4), np.float16))
    recipe = {"corpora": [{"name": "a", "source": "x.npy", "where": {"id": "*"}}]}
    (tmp_path / "corpora.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.raises(InputError, match="embeddings"):
        open_recipe(tmp_path / "corpora.yaml")


def test_a_folder_of_several_data_sets_suggests_a_recipe(tmp_path: Path) -> None:
    folder = tmp_path / "mix"
    (folder / "chats").mkdir(parents=True)
    row = json.dumps({"question": "Which lamp is lit?", "answer": "the red one"}) + "\n"
    for name in ("chats/a.jsonl", "rows-00.jsonl", "rows-01.jsonl", "more: rows.jsonl"):
        (folder / name).write_text(row)
    recipe = tmp_path / "mix/corpora.yaml"
    recipe.write_text(suggested_recipe(str(folder)))
    names = [corpus.name for corpus in open_recipe(recipe)]
    assert names == ["chats", "more: rows", "rows"]
    for corpus in open_recipe(recipe)[::2]:
        items = [item for shard in corpus.shards() for item in corpus.read(shard)]
        assert len(items) == (2 if corpus.name == "rows" else 1)
    assert suggested_recipe(str(folder / "chats")) == ""
