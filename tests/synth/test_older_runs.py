"""Runs of older versions hold characters that no later stage may stumble over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from item_serving import ItemServer
from made_items import figure, five, item, write_run

import heldout
from heldout.model import Reply
from heldout.store import Run
from heldout.synth import SynthStage
from heldout.synth.ledger import journal_path, table_path

NUL, HALF = "\0", "\ud83d"


def _stain(run: Run, stage: SynthStage) -> None:
    """NUL behind every id and into every text of a table, as it was written."""
    path = table_path(run, stage)
    table = pq.read_table(path)
    for place, name in enumerate(table.schema.names):
        if table.schema.field(name).type == pa.string() and name not in ("answer", "reason"):
            values = [
                value and f"{value}{NUL}" if name != "raw" else value
                for value in table[name].to_pylist()
            ]
            table = table.set_column(place, table.schema.field(name), pa.array(values, pa.string()))
    pq.write_table(table, path)


def test_nul_in_the_tables_of_older_versions(
    tmp_path: Path, picture: Callable[..., bytes], item_server: ItemServer
) -> None:
    items = []
    for number in range(4):
        one = figure(tmp_path / "run", f"PMC{number}/f", [picture(number, (60, 50))])
        options = five(*(f"{word} {number}" for word in ("cup", "jar", "box", "pan", "lid")))
        items.append((item(one.id, f"Which of these has picture {number}?", options), one))
    run = write_run(tmp_path / "run", items)
    for stage in (
        SynthStage.SELECT,
        SynthStage.GENERATE,
        SynthStage.VERIFY,
        SynthStage.SHORTCUT,
    ):
        _stain(run, stage)
    run.update("files", {}, replace=True)  # older versions recorded nothing
    bench = tmp_path / "bench"
    bench.mkdir()
    (bench / "b.png").write_bytes(picture(0, (60, 50)))
    row = {"id": 1, "image": "b.png", "question": "What is it?", "answer": "a thing"}
    (bench / "test.jsonl").write_text(json.dumps(row) + "\n")
    made = heldout.synth(
        source="made",
        shortcut={"url": item_server.url("plain", "blind")},
        traces={"url": item_server.url("plain", "thinker")},
        against=str(bench / "test.jsonl"),
        image_encoder=None,
        stages=("shortcut", "balance", "decontaminate", "publish"),
        out=run.path,
        quiet=True,
        workers=1,
    )
    assert len(made.items) == 3 and made.frame("decontaminate")["removed"].sum() == 1
    assert NUL not in "".join(made.items["question"])
    assert (run.path / "synth/dataset/README.md").exists() and (run.path / "report.html").exists()


def test_broken_characters_in_the_replies_of_older_versions(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    """Names and texts of journals: half of a surrogate pair is escaped there, and is in no table."""
    assert Reply("1", f"a{HALF}", model=f"m{HALF}", fingerprint=HALF).model == "m?"
    values: dict[str, Any] = {
        "source": captioned,
        "generator": {"url": item_server.url("plain", "writer")},
        "verifier": {"url": item_server.url("plain", "referee")},
        "labels": "all",
        "out": tmp_path / "run",
        "quiet": True,
    }
    made = heldout.synth(**values, stages=("ingest", "select", "generate", "verify"))
    for role in ("generator", "verifier"):
        path = journal_path(made.run, role)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        names = {"model": f"{role}{HALF}{NUL}", "fingerprint": HALF}
        path.write_text("".join(json.dumps({**line, **names}) + "\n" for line in lines))
    (tmp_path / "run/synth/generate.parquet").unlink()
    asked = item_server.counts()["answered"]
    again = heldout.synth(**values)
    assert item_server.counts()["answered"] == asked and len(again.items) > 4
    assert [name[:-2] for name in again.models["model"]] == ["generator", "verifier"]
    assert (again.run.path / "report.html").exists()
