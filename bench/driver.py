"""What the process that drives a search holds: shards planned, resumed and merged; tables of many matches.

    python bench/driver.py shards 4e4 4e5     # one search of so many shards; and the same in 64 parts, merged
    python bench/driver.py matches 1e5 1e6 1e7

Every step runs in a process of its own, so that its memory is its own. Shards are saved here without
waiting for the disk (a search waits once a shard, which is measured apart on a thousand of them); one shard
in a hundred holds matches. Prints one line of JSON per step; writes bench/out/driver.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "driver.json"
PARTS = 64
PARTS_OF_MATCHES = 4
SYNCED = 1000


def key(index: int) -> str:
    return f"00000/{index:09d}.tar {index * 7919 % 10**9} 1700000000"


def match(index: int, number: int) -> dict[str, Any]:
    evidence = {
        "benchmark_image": f"{number % 5000:064x}",
        "benchmark_pixels": f"{number % 5000:064x}",
        "corpus_image": f"{index * 1000 + number:064x}",
        "corpus_source": f"corpus/{index:06d}.tar",
        "corpus_text": "",
        "corpus_question": f"What is shown in picture {number}?",
        "corpus_answer": f"answer {number % 7}",
    }
    return {
        "benchmark_id": f"q{number % 5000}",
        "image_index": 0,
        "corpus": "made",
        "corpus_id": f"{index:06d}/{number}",
        "method": "pixels",
        "similarity": 1.0,
        "degree": "hard",
        "relation": "same image",
        "transform": "",
        "modality": "image only",
        "label_relation": "unknown",
        "evidence": json.dumps(evidence),
    }


def result(index: int, rows: int) -> Any:
    from heldout.store import ShardResult, make_table

    table = make_table("matches", [match(index, number) for number in range(rows)])
    return ShardResult({"matches": table}, {"items": 10_000, "images": 9_990, "dropped": 10})


def fill(folder: Path, count: int, part: int, of: int) -> dict[str, Any]:
    """Plan ``count`` shards and finish those of one part."""
    from heldout.store import Stage

    really, synced = os.fsync, 0.0
    stage = Stage(folder, {"p": 1})
    shared, nothing = result(1, 3), result(1, 0)
    begun = time.perf_counter()
    for saved, index in enumerate(range(part, count, of)):
        stage.plan(index, key(index))
        os.fsync = really if saved < SYNCED and of == 1 else lambda _: None  # type: ignore[assignment]
        stage.save(index, shared if index % 100 == 0 else nothing)
        if saved == SYNCED - 1:
            synced = time.perf_counter() - begun
    return {"seconds": time.perf_counter() - begun, "ms_per_synced_shard": synced}


def resume(folder: Path, count: int) -> dict[str, Any]:
    """What a run does that is started again: find what is finished, plan every shard, sum the counts."""
    from heldout.store import Stage

    begun = time.perf_counter()
    stage = Stage(folder, {"p": 1})
    opened = time.perf_counter()
    left = sum(stage.plan(index, key(index)) for index in range(count))
    planned = time.perf_counter()
    counts = stage.counts()
    return {
        "opened_s": opened - begun,
        "planned_s": planned - opened,
        "counted_s": time.perf_counter() - planned,
        "left": left,
        "items": counts["items"],
    }


def tables(folder: Path, count: int) -> dict[str, Any]:
    from heldout.store import Stage

    stage = Stage(folder, {"p": 1})
    for index in range(count):
        stage.plan(index, key(index))
    begun = time.perf_counter()
    rows = Stage.merge_all([stage], "matches", folder.parent / "matches.parquet")
    return {"seconds": time.perf_counter() - begun, "rows": rows}


def adopt(folder: Path, parts: list[Path]) -> dict[str, Any]:
    from heldout.store import adopt_shards

    begun = time.perf_counter()
    taken = adopt_shards(parts, folder)
    return {"seconds": time.perf_counter() - begun, "shards": taken}


def disk(folder: Path) -> dict[str, Any]:
    files = list(folder.rglob("*"))
    size = sum(path.lstat().st_size for path in files if path.is_file())
    return {"inodes": len(files) + 1, "bytes": size}


# Tables of many matches, and what is concluded from them.


ITEMS, PICTURES, PER_SHARD = 5000, 1000, 10_000
CORPORA = ("crawl", "web")
ENCODER = "made | 512 numbers"


def digests(numbers: Any) -> Any:
    import polars as pl

    return numbers.cast(pl.String).str.pad_start(64, "0")


def many_matches(corpus: str, index: int, pictures: list[str]) -> Any:
    """PER_SHARD rows of the table matches as a search writes them: few pictures have most copies, a third of the
    rows are look-alikes, and every hundredth corpus picture is one that stands everywhere."""
    import numpy as np
    import polars as pl

    draw = np.random.default_rng([CORPORA.index(corpus), index])
    number = index * PER_SHARD + np.arange(PER_SHARD)
    item = (ITEMS * draw.random(PER_SHARD) ** 3).astype(np.int64)
    method = draw.choice(4, PER_SHARD, p=(0.3, 0.1, 0.25, 0.35))
    kind = draw.random(PER_SHARD)
    copy = (method < 2) | (kind < 0.25)
    theirs = np.where(draw.random(PER_SHARD) < 0.01, 10**12 + item % PICTURES, number)
    frame = pl.DataFrame(
        {
            "item": item,
            "number": number,
            "theirs": theirs + 10**9 * CORPORA.index(corpus),
            "picture": np.array(pictures)[item % PICTURES],
            "method": np.array(["bytes", "pixels", "pdq", ENCODER])[method],
            "similarity": np.where(method < 2, 1.0, (80 + 20 * kind).round() / 100),
            "copy": copy,
            "digest": method < 2,
            "open": ~copy & (kind < 0.35),
            "modality": draw.choice(3, PER_SHARD, p=(0.2, 0.1, 0.7)),
            "transform": np.array(["resized", "cropped, resized", "re-compressed"])[number % 3],
        }
    )
    words = ("full", "image and question", "image only")
    relation = (
        pl.when("digest")
        .then(pl.lit("same image"))
        .when("copy")
        .then(pl.lit("transformed copy"))
        .when("open")
        .then(pl.lit("undecided"))
        .otherwise(pl.lit("look-alike"))
    )
    picture = pl.col("picture")
    answer = pl.when(pl.col("modality") == 0).then("item").otherwise(pl.col("item") + 1)
    registration = (
        pl.when("digest")
        .then(pl.lit(""))
        .otherwise(
            pl.concat_str(
                pl.lit(
                    ', "view": "whole", "found_by": [{"method": "pdq", "similarity": 0.9, "view": "whole"}], '
                ),
                pl.lit(
                    '"registration": {"warp": [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 1.0]], "inverted": false, '
                ),
                pl.lit(
                    '"inliers": 128, "residual": 0.02, "detail": 0.8, "reason": "agrees in part"}, '
                ),
                pl.lit('"unverified": null'),
            )
        )
    )
    evidence = pl.concat_str(
        pl.lit('{"benchmark_image": "'),
        picture,
        pl.lit('", "benchmark_pixels": "'),
        picture,
        pl.lit('", "corpus_image": "'),
        digests(pl.col("theirs")),
        pl.lit(
            f'", "corpus_source": "{corpus}/{index:06d}.tar", "corpus_text": "A caption of picture '
        ),
        "number",
        pl.lit('", "corpus_question": "What is shown in picture '),
        "item",
        pl.lit('?", "corpus_answer": "answer '),
        answer,
        pl.lit('"'),
        registration,
        pl.lit("}"),
    )
    return frame.select(
        pl.format("q{}", "item").alias("benchmark_id"),
        pl.lit(0, pl.Int32).alias("image_index"),
        pl.lit(corpus).alias("corpus"),
        pl.format(f"{index:06d}/{{}}", pl.col("number") % PER_SHARD).alias("corpus_id"),
        "method",
        "similarity",
        pl.when("copy")
        .then(pl.lit("hard"))
        .when(pl.col("similarity") > 0.9)
        .then(pl.lit("soft"))
        .otherwise(pl.lit("none"))
        .alias("degree"),
        relation.alias("relation"),
        pl.when(pl.col("digest") | ~pl.col("copy"))
        .then(pl.lit(""))
        .otherwise("transform")
        .alias("transform"),
        pl.when("copy")
        .then(pl.col("modality").replace_strict(dict(enumerate(words)), return_dtype=pl.String))
        .otherwise(pl.lit("none"))
        .alias("modality"),
        pl.when(pl.col("copy") & (pl.col("modality") == 0))
        .then(pl.lit("same"))
        .when(pl.col("copy") & (pl.col("modality") == 1))
        .then(pl.lit("different"))
        .otherwise(pl.lit("unknown"))
        .alias("label_relation"),
        evidence.alias("evidence"),
    )


def shard_of_matches(corpus: str, index: int, pictures: list[str], stamp: bytes) -> Any:
    import polars as pl

    from heldout.store import SCHEMAS, ShardResult

    matches = many_matches(corpus, index, pictures)
    shown = matches.filter(pl.col("relation") != "look-alike")["evidence"]
    thumbnails = pl.DataFrame(
        {"digest": shown.str.extract('"corpus_image": "([^"]*)"').unique(maintain_order=True)}
    )
    thumbnails = thumbnails.with_columns(
        pl.lit(8, pl.Int32).alias("width"),
        pl.lit(8, pl.Int32).alias("height"),
        pl.lit(stamp).alias("webp"),
    )
    tables = {
        "matches": matches.to_arrow().cast(SCHEMAS["matches"]),
        "thumbnails": thumbnails.to_arrow().cast(SCHEMAS["thumbnails"]),
    }
    return ShardResult(tables, {"items": 10**6, "images": 10**6})


def write_bench(folder: Path) -> Path:
    """A benchmark of ITEMS questions about PICTURES small pictures."""
    from memory import bitmap

    bench = folder / "bench"
    bench.mkdir(parents=True)
    for number in range(PICTURES):
        (bench / f"{number}.bmp").write_bytes(bitmap(8))
    rows = (
        {
            "id": f"q{number}",
            "image": f"{number % PICTURES}.bmp",
            "question": f"What is shown in picture {number}?",
            "answer": f"answer {number}",
        }
        for number in range(ITEMS)
    )
    (bench / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return bench


def made_run(folder: Path, count: int) -> dict[str, Any]:
    """A benchmark, and PARTS_OF_MATCHES run folders with shards that hold ``count`` matches of it."""
    import io

    from PIL import Image

    from heldout.benchmark import read_benchmark
    from heldout.image import Digests
    from heldout.store import Stage

    benchmark = read_benchmark(str(write_bench(folder)))
    known = (benchmark.digests[ref] for ref in benchmark.images)
    pictures = [digests.pixels for digests in known if isinstance(digests, Digests)]
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (120, 90, 40)).save(buffer, "WEBP")
    os.fsync = lambda _: None  # type: ignore[assignment]
    per_corpus = count // PER_SHARD // len(CORPORA)
    for corpus in CORPORA:
        stages = [Stage(folder / f"part{part}" / corpus, {}) for part in range(PARTS_OF_MATCHES)]
        for index in range(per_corpus):
            stage = stages[index % PARTS_OF_MATCHES]
            stage.plan(index, key(index))
            stage.save(index, shard_of_matches(corpus, index, pictures, buffer.getvalue()))
    return {"matches": per_corpus * PER_SHARD * len(CORPORA)}


def merged(folder: Path, count: int) -> dict[str, Any]:
    """What a merge does with the finished shards of its parts: take them over, and write the tables."""
    from heldout.benchmark import benchmark_identity, check, items_table, read_benchmark
    from heldout.overlap.images.exact import COUNTS
    from heldout.overlap.images.scan import _collect
    from heldout.store import Run, adopt_shards

    benchmark = read_benchmark(str(folder / "bench"))
    run = Run.create(folder / "run", command=["bench/driver.py"])
    run.claim_benchmark(benchmark_identity(benchmark))
    run.write_table("items", items_table(benchmark))
    run.write_json("check.json", check(benchmark).model_dump(mode="json"))
    begun = time.perf_counter()
    stages = []
    for corpus in CORPORA:
        parts = [folder / f"part{part}" / corpus for part in range(PARTS_OF_MATCHES)]
        adopt_shards(parts, run.path / "stages" / "overlap" / corpus)
        stage = run.stage(f"overlap/{corpus}", {})
        for index in range(count // PER_SHARD // len(CORPORA)):
            stage.plan(index, key(index))
        counts = dict.fromkeys(COUNTS, 0) | stage.counts()
        facts = {
            "corpus": corpus,
            "source": corpus,
            "reader": "made",
            "fingerprint": corpus,
            "shards": 1,
        }
        facts |= {
            "reused": 0,
            "counts": counts,
            "failed": {},
            "hashes": True,
            "encoder": ENCODER,
            "nearest": 5,
        }
        run.update("stages", {f"overlap:{corpus}": facts})
        stages.append(stage)
    _collect(run, benchmark, stages, [], [])
    return {"seconds": time.perf_counter() - begun}


def timed(work: Callable[[], Any]) -> dict[str, Any]:
    begun = time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - begun}


def concluded(folder: Path, _: int) -> dict[str, Any]:
    from heldout.audit import conclude
    from heldout.store import Run

    return timed(lambda: conclude(Run.open(folder / "run"), quiet=True))


def sanitized(folder: Path, _: int) -> dict[str, Any]:
    import heldout

    bench, out = str(folder / "bench"), folder / "clean"
    # Of a benchmark that is in the corpora as a whole, nothing proven can be removed and leave something.
    return timed(lambda: heldout.sanitize(bench, run=folder / "run", out=out, policy="down-weight"))


def gated(folder: Path, _: int) -> dict[str, Any]:
    import heldout

    return timed(lambda: heldout.gate(folder / "run", folder / "gate"))


def exported(folder: Path, _: int) -> dict[str, Any]:
    import heldout

    return timed(lambda: heldout.export(folder / "run", "csv", out=folder / "csv"))


def reviewed(folder: Path, _: int) -> dict[str, Any]:
    """Open the desk, and look at one card."""
    from heldout.review import open_desks

    def work() -> None:
        desk = open_desks(str(folder / "run"), kind="matches", rater="ada")[0]
        desk.session()
        desk.cards[0].pictures["neighbour"].small()

    return timed(work)


def compared(folder: Path, _: int) -> dict[str, Any]:
    import heldout

    return timed(lambda: heldout.compare(folder / "run", folder / "run"))


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "resume": resume,
    "tables": tables,
    "made": made_run,
    "merged": merged,
    "concluded": concluded,
    "sanitized": sanitized,
    "gated": gated,
    "exported": exported,
    "reviewed": reviewed,
    "compared": compared,
}


def apart(step: str, *arguments: object) -> dict[str, Any]:
    """One step in a process of its own, with the memory it took."""
    command = [sys.executable, __file__, "step", step, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    record: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(json.dumps(record), flush=True)
    return record


def run_step(step: str, arguments: list[str]) -> None:
    if step == "fill":
        folder, count, part, of = arguments
        record = fill(Path(folder), int(count), int(part), int(of))
    elif step == "adopt":
        record = adopt(Path(arguments[0]), [Path(text) for text in arguments[1:]])
    else:
        record = STEPS[step](Path(arguments[0]), int(float(arguments[1])))
    lines = Path("/proc/self/status").read_text().splitlines() if sys.platform == "linux" else []
    peak = next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
    peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    core = time.process_time()
    print(json.dumps({"step": step, **record, "core_seconds": core, "peak_mib": peak}))


def shards(count: int, folder: Path) -> list[dict[str, Any]]:
    whole = folder / "whole"
    records = [
        apart("fill", whole, count, 0, 1),
        {"step": "disk", **disk(whole)},
        apart("resume", whole, count),
        apart("tables", whole, count),
    ]
    parts = [folder / f"part{part}" for part in range(PARTS)]
    really = os.fsync
    for part, place in enumerate(parts):
        fill(place, count, part, PARTS)
    os.fsync = really
    merged = folder / "merged"
    records += [apart("adopt", merged, *parts), apart("resume", merged, count)]
    first = (folder / "matches.parquet").read_bytes()
    apart("tables", merged, count)
    same = (folder / "matches.parquet").read_bytes() == first
    return [{"shards": count, "same_table": same, **record} for record in records]


def matches(count: int, folder: Path) -> Iterator[dict[str, Any]]:
    steps = ("concluded", "gated", "sanitized", "exported", "reviewed", "compared")
    for step in ("made", "merged", *steps):
        yield {"matches": count, **apart(step, folder, count)}


def show(records: list[dict[str, Any]]) -> None:
    """The table of docs/scale.md: core seconds and peak memory of every step, by the number of matches."""
    steps = {
        "merged": "tables of 4 parts",
        "concluded": "claims and report",
        "gated": "gate",
        "sanitized": "sanitize",
        "exported": "export as CSV",
        "reviewed": "review",
        "compared": "compare",
    }
    known = {
        (record["matches"], record["step"]): record for record in records if "matches" in record
    }
    print(f"| matches | {' | '.join(steps.values())} |\n|{'---|' * (len(steps) + 1)}")
    for count in sorted({count for count, _ in known}):
        cells = [
            f"{record['core_seconds']:,.0f}, {record['peak_mib']:,.0f}"
            if (record := known.get((count, step)))
            else ""
            for step in steps
        ]
        print(f"| {count:,} | {' | '.join(cells)} |")


def main() -> None:
    if sys.argv[1:2] == ["step"]:
        run_step(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("shards", "matches"))
    parser.add_argument("counts", nargs="+", type=lambda text: int(float(text)))
    options = parser.parse_args()
    records = json.loads(OUT.read_text()) if OUT.exists() else []
    for count in options.counts:
        folder = Path(tempfile.mkdtemp(prefix="heldout-driver-"))
        try:
            for record in (shards if options.what == "shards" else matches)(count, folder):
                records.append(record)
                OUT.parent.mkdir(parents=True, exist_ok=True)
                OUT.write_text(json.dumps(records, indent=1) + "\n")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if options.what == "matches":
        show(records)


if __name__ == "__main__":
    main()
