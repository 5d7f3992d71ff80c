"""Gates in the quality table: a training folder that holds the benchmark must not pass, whatever it is written in, and
hostile input must end in a sentence.

In every mixed folder the benchmark's items lie in one file of a format, beside a table of other rows: a reader that
decides by the majority, or by the first file it knows, passes over them. The attacks are the scripts of shared
quality/attacks: a line of theirs that begins with two exclamation marks is a fault.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from quality_figures import HIGHER, LOWER, Figure
from quality_words import ONE_THREAD, heldout, read_rows, write_rows

Row = dict[str, Any]
ITEMS, OTHERS = 40, 60
QUICK = ("--encoder", "none", "--text-encoder", "none", "--workers", "1", "--quiet")
SECONDS = 300  # of an attack, on a machine with other work
FIRED, REFUSED = 1, 2
ENDS = {0: "passed", FIRED: "fired", REFUSED: "refused", 3: "a package is missing"}


def problems(shared: Path) -> tuple[list[Row], list[Row]]:
    """Items of GSM8K's test split, and other problems of its train split."""
    folder = shared / "quality/words/gsm8k_reworded"
    items = read_rows(folder / "bench.jsonl")
    others = [row for row in read_rows(folder / "corpus.jsonl") if not row["id"].startswith("r")]
    return items[:ITEMS], others[:OTHERS]


def chat(rows: Sequence[Row]) -> list[Row]:
    return [
        {
            "id": row["id"],
            "conversations": [
                {"from": "human", "value": row["question"]},
                {"from": "gpt", "value": f"The answer is {row['answer']}."},
            ],
        }
        for row in rows
    ]


def delimited(rows: Sequence[Row], mark: str) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(
        text, ("id", "question", "answer"), delimiter=mark, extrasaction="ignore"
    )
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def parquet(rows: Sequence[Row]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


def tar(rows: Sequence[Row]) -> bytes:
    """As img2dataset writes samples, here without pictures."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for place, row in enumerate(rows):
            data = json.dumps(row).encode()
            member = tarfile.TarInfo(f"{place:09d}.json")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def zipped(rows: Sequence[Row]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("rows.jsonl", lines(rows))
    return buffer.getvalue()


def lines(rows: Sequence[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def page(rows: Sequence[Row]) -> bytes:
    body = "".join(f"<p>{r['question']}</p><p>Answer: {r['answer']}</p>" for r in rows)
    return f"<html><body><h1>Worksheet</h1>{body}</body></html>".encode()


def markdown(rows: Sequence[Row]) -> bytes:
    return "\n\n".join(f"{r['question']}\n\nAnswer: {r['answer']}" for r in rows).encode()


def spreadsheet(rows: Sequence[Row]) -> bytes:
    import openpyxl  # type: ignore[import-untyped]

    book = openpyxl.Workbook()
    for row in [
        ("id", "question", "answer"),
        *((r["id"], r["question"], r["answer"]) for r in rows),
    ]:
        book.active.append(row)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


FORMATS: dict[str, Callable[[Sequence[Row]], bytes]] = {
    "rows.jsonl": lines,
    "rows.jsonl.gz": lambda rows: gzip.compress(lines(rows)),
    "rows.json": lambda rows: json.dumps(list(rows)).encode(),
    "chat.json": lambda rows: json.dumps(chat(rows)).encode(),
    "rows.csv": lambda rows: delimited(rows, ","),
    "rows.tsv": lambda rows: delimited(rows, "\t"),
    "rows.parquet": parquet,
    "rows.xlsx": spreadsheet,
    "samples.tar": tar,
    "rows.zip": zipped,
    "page.html": page,
    "page.md": markdown,
    "page.txt": markdown,
}


def case(name: str, asked: str, holds: bool, said: str = "") -> list[Figure]:
    return [Figure("gates", name, asked, float(holds), better=HIGHER, said=said)]


def mixed(shared: Path, out: Path, name: str, beside: str) -> list[Figure]:
    """Does the gate fire where ``name`` holds the benchmark and ``beside`` holds other rows?"""
    items, others = problems(shared)
    folder = out / "gates" / f"{name}-{beside}"
    train = folder / "train"
    train.mkdir(parents=True, exist_ok=True)
    (train / name).write_bytes(FORMATS[name](items))
    (train / f"others-{beside}").write_bytes(FORMATS[beside](others))
    benchmark = write_rows(folder / "bench.jsonl", items)
    shutil.rmtree(folder / "run", ignore_errors=True)
    against = ("--against", f"train={train}", "--out", folder / "run")
    *_, code = heldout("overlap", benchmark, *against, "--gate", *QUICK, allowed=tuple(ENDS))
    return case(f"leak in {name} beside {beside}", "gate fires", code == FIRED, ENDS[code])


def pages_kept(shared: Path, out: Path) -> list[Figure]:
    """Sixty pages and ten pictures, of which three leak: a cleaned set still has the pages, or none is written."""
    _, others = problems(shared)
    folder = out / "gates/pages"
    train = folder / "train"
    train.mkdir(parents=True, exist_ok=True)
    for place, row in enumerate(others):
        (train / f"{place:02d}.html").write_bytes(page([row]))
    pictures = sorted((shared / "data/vqa_rad/images").iterdir())[:12]
    for picture in pictures[2:]:
        (train / picture.name).write_bytes(picture.read_bytes())
    rows = [{"id": p.stem, "image": p.name, "question": "What is shown?"} for p in pictures[:5]]
    for picture in pictures[:5]:
        shutil.copy(picture, folder)
    benchmark = write_rows(folder / "bench.jsonl", rows)
    clean = cleaned(folder, benchmark)
    kept = len(list(clean.rglob("*.html")))
    holds = not clean.exists() or kept == len(others)
    return case("gate --clean, 60 pages beside pictures", "no page lost", holds, f"{kept} pages")


def table_cleaned(shared: Path, out: Path) -> list[Figure]:
    """A plain Parquet file with the benchmark in it is written again without it."""
    items, others = problems(shared)
    folder = out / "gates/table"
    train = folder / "train"
    train.mkdir(parents=True, exist_ok=True)
    rows = [{key: value for key, value in row.items() if key != "id"} for row in [*others, *items]]
    (train / "part-0.parquet").write_bytes(parquet(rows))
    clean = cleaned(folder, write_rows(folder / "bench.jsonl", items))
    left = sum(pq.read_metadata(path).num_rows for path in clean.rglob("*.parquet"))
    return case("gate --clean of plain Parquet", "the others stay", left == OTHERS, f"{left} rows")


def cleaned(folder: Path, benchmark: Path) -> Path:
    """The training set as `heldout gate --clean` writes it; whatever it says, what counts is what is there."""
    run, gate = folder / "run", folder / "gate"
    for old in (run, gate):
        shutil.rmtree(old, ignore_errors=True)
    against = ("--against", f"train={folder / 'train'}", "--out", run)
    heldout("overlap", benchmark, *against, *QUICK)
    heldout("gate", run, "--clean", "--out", gate, "--quiet", allowed=tuple(ENDS))
    return gate / "clean"


def unmapped(shared: Path, out: Path) -> list[Figure]:
    """Columns that nobody can know: an error with the columns, at once, not a clean split of everything."""
    items, _ = problems(shared)
    folder = out / "gates/unmapped"
    folder.mkdir(parents=True, exist_ok=True)
    names = ("pic_file", "stem", "choice1", "choice2", "choice3", "choice4", "right")
    rows = [dict(zip(names, ("", r["question"], *"1234", "2"), strict=True)) for r in items]
    with (folder / "bench.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    *_, code = heldout("check", folder / "bench.csv", allowed=tuple(ENDS))
    return case("columns of unknown names", "check refuses", code == REFUSED, ENDS[code])


ATTACKS = {
    "working_directory.py": (), "lock_link.py": ("RUN",), "jats_attributes.py": ("300",),
    "damaged_runs.py": ("RUN",), "gzip_bomb.py": ("300",), "gzip_reply.py": (),
    "spreadsheets.py": (), "yaml_files.py": (), "scan_bomb.py": ("300",),
}  # fmt: skip


def attack(shared: Path, out: Path, name: str) -> list[Figure]:
    """Lines of an attack that are faults, among its lines."""
    words = [
        str(finished_run(shared, out, name)) if word == "RUN" else word for word in ATTACKS[name]
    ]
    command = [sys.executable, str(shared / "quality/attacks" / name), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=os.environ | ONE_THREAD
        )
        printed, ended = done.stdout, done.returncode == 0
    except subprocess.TimeoutExpired as error:
        printed, ended = (error.stdout or b"").decode(errors="replace"), False
    cases = [line for line in printed.splitlines() if line.strip()]
    faults = sum(line.lstrip().startswith("!!") for line in cases) + (not ended)
    said = f"of {len(cases)} cases"
    return [
        Figure(
            "gates",
            f"attack: {name.removesuffix('.py')}",
            "faults",
            faults,
            better=LOWER,
            said=said,
        )
    ]


def finished_run(shared: Path, out: Path, name: str) -> Path:
    items, others = problems(shared)
    folder = out / "gates" / f"for-{name.removesuffix('.py')}"
    benchmark, corpus = (
        write_rows(folder / "bench.jsonl", items),
        write_rows(folder / "c.jsonl", others),
    )
    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    heldout("overlap", benchmark, "--against", f"c={corpus}", "--out", run, *QUICK)
    return run
