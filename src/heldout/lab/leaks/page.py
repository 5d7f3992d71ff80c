"""What `heldout lab leaks` writes: tables per kind of leak, the rows, and what people saw."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl
from PIL import Image, ImageDraw, ImageFont, ImageOps

from heldout.corpus import open_corpus
from heldout.evidence import COPIES, POSSIBLE_COPIES
from heldout.lab.leaks.board import (
    BENCHMARK,
    COPY,
    CORPUS,
    PICTURE_LEVELS,
    PICTURES,
    REGISTERED,
    LeakBoard,
    benchmark_images,
)
from heldout.lab.settings import LeakSettings
from heldout.lab.transforms.result import CountedRate
from heldout.overlap import TextSearch
from heldout.report import PRECISION_FILE, CopyPrecision
from heldout.settings import command_line
from heldout.store import replacing, write_atomic, write_json

PAGE, DATA, BOARD = "leak-recall.md", "leak-recall.parquet", "leak-recall.json"
ALTERED = "one attribute changed"  # the kind of decoy that comes nearest to a copy
BY_EYE = "## Looked at by people"  # the text after this mark is written by people, and is kept


def write_leaks(
    rows: pl.DataFrame, board: LeakBoard, settings: LeakSettings, folder: Path, command: str
) -> list[Path]:
    page, data, path = folder / PAGE, folder / "data" / DATA, folder / "data" / BOARD
    with replacing(data) as temporary:
        rows.write_parquet(temporary, compression="zstd", compression_level=19)
    write_json(path, board.model_dump(mode="json"))
    write_json(folder / "data" / PRECISION_FILE, precision(board, command).model_dump(mode="json"))
    seen = page.read_text() if page.exists() else ""
    notes = seen[seen.index(BY_EYE) :] if BY_EYE in seen else ""
    write_atomic(page, leak_page(rows, board, settings, command) + notes)
    return [page, data, path]


def precision(board: LeakBoard, command: str) -> CopyPrecision:
    """What the report says of copies that registration verified, all worlds together."""
    precisions = [precision.right for precision in board.precision if precision.level == REGISTERED]
    altered = [alarm.pictures[COPY] for alarm in board.alarms if alarm.kind == ALTERED]
    return CopyPrecision(
        command=command,
        said=sum(rate.n for rate in precisions),
        right=sum(rate.hits for rate in precisions),
        altered=sum(rate.n for rate in altered),
        passed=sum(rate.hits for rate in altered),
    )


def leak_page(rows: pl.DataFrame, board: LeakBoard, settings: LeakSettings, command: str) -> str:
    worlds = rows["world"].unique(maintain_order=True).to_list()
    lines = [*_head(rows, board, settings, command)]
    for world in worlds:
        lines += [f"## {world.capitalize()}", "", *_pictures(board, world), *_words(board, world)]
        lines += [*_alarms(board, world), *_precision(board, world)]
    lines += [*_missed(rows), *_untestable(rows)]
    return "\n".join(lines) + "\n"


def _head(
    rows: pl.DataFrame, board: LeakBoard, settings: LeakSettings, command: str
) -> Iterator[str]:
    yield "# Recall and precision of `overlap` per kind of planted leak"
    yield ""
    yield (
        f"Written by `{command}` on {platform.machine()}; one row per item of every corpus is in "
        f"`data/{DATA}`."
    )
    yield ""
    encoder = TextSearch.installed(settings.text_encoder).encoder
    search = {"encoder": settings.encoder, "nearest": str(settings.nearest)}
    if encoder:
        search["text_encoder"] = encoder
    audit = f"`{command_line('overlap', **search)}`{'' if encoder else ' without a text encoder'}"
    yield (
        f"{board.seeds} seeds of each world. A benchmark of {benchmark_images(settings)} pictures (four to six items "
        f"each) leaks into a corpus of {settings.items} items of the same world: {settings.each} of every kind "
        f"below, each made from a picture of its own, {settings.reworded} questions in other words, three broken "
        f"files, and strangers, a quarter of which come with a question and its answer. The audit is that of {audit}; "
        f"it never sees the truth."
    )
    yield ""
    yield " ".join(_told_apart(rows))
    yield ""
    yield (
        "Counts are planted items, brackets exact 95 % intervals (Clopper–Pearson: every item was made "
        "from another picture). *Listed*: the pair is in the table of matches. *Soft*, *hard*: its "
        "degree. *Verified copy*: called *same image* or *transformed copy*; only this counts as leaked. "
        "*Left to people*: *undecided*, which counts as no leak until somebody looks."
    )
    yield ""


def _told_apart(rows: pl.DataFrame) -> Iterator[str]:
    """What words can tell at all, for nobody finds an item by words that several of a benchmark have."""
    counted = rows.unique(["world", "seed"], maintain_order=True)
    sums = counted.group_by("world", maintain_order=True).agg(
        pl.col("benchmark_items", "told_by_question", "told_by_answer").sum()
    )
    for row in sums.iter_rows(named=True):
        items, question, answer = (
            row["benchmark_items"],
            row["told_by_question"],
            row["told_by_answer"],
        )
        yield (
            f"Of the {items:,} items of the benchmarks of {row['world']}, {question:,} ask what no other picture is "
            f"asked (numbers aside), {answer:,} more have an answer of their own, and {items - question - answer:,} "
            f"share both with other pictures."
        )
    yield (
        "*Question reworded, alone* is drawn among the first, which their words identify. *Shared question and answer* "
        "is drawn among the last: nobody can say which item leaked, and any that counts is a false alarm."
    )


def _table(
    title: str, note: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> list[str]:
    lines = [title, "", *([note, ""] if note else [])]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]


def _pictures(board: LeakBoard, world: str) -> list[str]:
    rows = [
        [picture.kind, *map(rate_cell, picture.levels.values()), rate_cell(picture.label)]
        for picture in board.pictures
        if picture.world == world
    ]
    columns = ["kind", *PICTURE_LEVELS, "relation of the answers right"]
    return _table("### Leaked pictures: recall", "", columns, rows)


def _words(board: LeakBoard, world: str) -> list[str]:
    note = (
        "*Could be found*: some method could have counted the item's words (below: why not). *Counts*: "
        "degree soft or hard. *Claimed*: question and answer word for word and hard, which lets the claim "
        "survive."
    )
    columns = [
        "kind",
        "could be found",
        "listed",
        "counts",
        "counts, of those that could",
        "claimed",
        "relation of the answers right, of listed",
    ]
    rows = [
        [
            word.kind,
            *map(
                rate_cell,
                (
                    word.testable,
                    word.listed,
                    word.counts,
                    word.of_testable,
                    word.claimed,
                    word.answer,
                ),
            ),
        ]
        for word in board.words
        if word.world == world
    ]
    return _table("### Leaked words: recall", note, columns, rows)


def _alarms(board: LeakBoard, world: str) -> list[str]:
    note = "Items with a result of this kind, for any picture or item of the benchmark."
    levels = [level for level in PICTURE_LEVELS if level != "listed"]
    rows = [
        [
            alarm.kind,
            *(rate_cell(alarm.pictures[level]) for level in levels),
            *map(rate_cell, alarm.words.values()),
        ]
        for alarm in board.alarms
        if alarm.world == world
    ]
    columns = ["kind", *levels, "words count", "words hard"]
    return _table("### Decoys and strangers: false alarms", note, columns, rows)


def _precision(board: LeakBoard, world: str) -> list[str]:
    note = "Pairs of a benchmark's picture (or item) and a corpus item, and how many of them were planted."
    rows = [
        [precision.of, precision.level, rate_cell(precision.right)]
        for precision in board.precision
        if precision.world == world and (precision.of != PICTURES or precision.level != "listed")
    ]
    columns = ["pairs of", "said", "planted of those said so"]
    return _table("### Precision", note, columns, rows)


def _missed(rows: pl.DataFrame) -> list[str]:
    title = "## What became of the copies that were not verified"
    missed = rows.filter(
        pl.col("found_by").is_not_null() & ~pl.col("relation").is_in(COPIES)
    ).with_columns(
        said=pl.when(pl.col("relation") == "")
        .then(pl.lit("not listed"))
        .otherwise(pl.col("relation"))
    )
    if missed.is_empty():
        return [title, "", "Every one was.", ""]
    lines = []
    keys = ["world", "kind", "said", "transform"]
    for (world, kind, relation, transform), part in missed.group_by(keys, maintain_order=True):
        drawn = "; ".join(sorted({detail for detail in part["detail"] if detail}))
        lines.append([world, kind, relation, transform or "–", len(part), drawn or "–"])
    columns = ["world", "kind", "said", "transform named", "items", "drawn"]
    return _table(title, "", columns, lines)


def _untestable(rows: pl.DataFrame) -> list[str]:
    planted = rows.filter(pl.col("words").is_not_null() & (pl.col("untestable") != ""))
    counted = planted.group_by("world", "untestable", maintain_order=True).len()
    lines = counted.sort("world", "len", descending=[True, True]).iter_rows()
    columns = ["world", "reason", "planted items"]
    return _table("## Why words could not be found", "", columns, lines)


def rate_cell(rate: CountedRate | None) -> str:
    """27/30 [.73, .98]"""
    if rate is None or not rate.n:
        return "–"
    return f"{rate.hits}/{rate.n} [{_short(rate.low)}, {_short(rate.high)}]"


def summary(board: LeakBoard) -> Sequence[tuple[str, str, str, str]]:
    """(world, kind, verified or counted, left to people), for the terminal."""
    pictures = [
        (
            picture.world,
            picture.kind,
            rate_cell(picture.levels["verified copy"]),
            rate_cell(picture.levels["left to people"]),
        )
        for picture in board.pictures
    ]
    words = [(word.world, word.kind, rate_cell(word.counts), "") for word in board.words]
    alarms = [
        (alarm.world, alarm.kind, rate_cell(alarm.pictures["verified copy"]), "")
        for alarm in board.alarms
    ]
    return [*pictures, *words, *alarms]


def _short(value: float) -> str:
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text.removeprefix("0") if text.startswith("0.") else text


# Pictures for people: every copy that was not verified and every decoy that was, beside its original.


SIDE, LINE, COLUMNS, MOST = 150, 14, 4, 96


def write_sheets(rows: pl.DataFrame, out: Path) -> list[Path]:
    """``out/misses-WORLD.png``, ``out/alarms-WORLD.png`` (the pair it was made from) and
    ``out/strangers-WORLD.png`` (unrelated pairs), at most MOST each."""
    wrong = {
        "misses": rows.filter(pl.col("found_by").is_not_null() & ~pl.col("relation").is_in(COPIES)),
        "alarms": rows.filter(pl.col("found_by").is_null() & _doubted("relation")),
        "strangers": rows.filter(_doubted("other_relation")).with_columns(
            image="other_image", relation="other_relation", transform=pl.lit(""), similarity=None
        ),
    }
    written = []
    for name, frame in wrong.items():
        for (world,), part in frame.group_by("world", maintain_order=True):
            shown = part.sort("kind", "seed", "corpus_id").head(MOST)
            path = out / f"{name}-{world}.png"
            _sheet(shown, out).save(path)
            written.append(path)
    return written


def _doubted(column: str) -> pl.Expr:
    return pl.col(column).is_in(POSSIBLE_COPIES)


def _sheet(rows: pl.DataFrame, out: Path) -> Image.Image:
    height, width = SIDE + 4 * LINE, 2 * SIDE + 10
    lines = -(-len(rows) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * width, lines * height), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=11)
    for place, row in enumerate(rows.iter_rows(named=True)):
        x, y = place % COLUMNS * width, place // COLUMNS * height
        folder = out / f"{row['world']}-{row['seed']}"
        ours = Image.open(folder / BENCHMARK / row["image"])
        for side, picture in enumerate((ours, _theirs(folder, row["corpus_id"]))):
            sheet.paste(
                ImageOps.contain(picture.convert("RGB"), (SIDE, SIDE)), (x + side * SIDE, y)
            )
        relation = row["relation"] or "not listed"
        facts = (
            f"{row['kind']}, {row['detail']}",
            f"{relation}: {row['transform']}",
            f"seed {row['seed']}, {row['corpus_id']}, {row['similarity'] or 0:.2f}",
        )
        for line, text in enumerate(facts):
            draw.text((x, y + SIDE + line * LINE), text[:58], fill="black", font=font)
    return sheet


def _theirs(folder: Path, corpus_id: str) -> Image.Image:
    corpus = open_corpus(folder / CORPUS, name=CORPUS)
    for shard in corpus.shards():
        if not corpus_id.startswith(f"{shard.id}/"):
            continue
        for item in corpus.read(shard):
            if getattr(item, "id", None) == corpus_id and getattr(item, "image", None) is not None:
                opened: Image.Image = item.image.open()  # type: ignore[union-attr]
                return opened
    raise ValueError(f"{folder} has no picture {corpus_id}")
