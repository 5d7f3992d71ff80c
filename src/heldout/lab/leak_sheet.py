"""Pictures for people: every copy that was not verified and every decoy that was, beside its original."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from PIL import Image, ImageDraw, ImageFont, ImageOps

from heldout.corpus import open_corpus
from heldout.evidence import COPIES, POSSIBLE_COPIES
from heldout.lab.leak_run import BENCHMARK, CORPUS

SIDE, LINE, COLUMNS, MOST = 150, 14, 4, 96


def write_sheets(rows: pl.DataFrame, out: Path) -> list[Path]:
    """``out/misses-WORLD.png``, ``out/alarms-WORLD.png`` (the pair it was made from) and
    ``out/strangers-WORLD.png`` (pairs that have nothing to do with each other), at most MOST each."""
    wrong = {
        "misses": rows.filter(pl.col("found_by").is_not_null() & ~pl.col("relation").is_in(COPIES)),
        "alarms": rows.filter(pl.col("found_by").is_null() & _doubted("relation")),
        "strangers": rows.filter(_doubted("other_relation")).with_columns(
            image="other_image", relation="other_relation", transform=pl.lit(""), similarity=None
        ),
    }
    written = []
    for name, found in wrong.items():
        for (world,), part in found.group_by("world", maintain_order=True):
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
        said = row["relation"] or "not listed"
        told = (
            f"{row['kind']}, {row['detail']}", f"{said}: {row['transform']}",
            f"seed {row['seed']}, {row['corpus_id']}, {row['similarity'] or 0:.2f}",
        )  # fmt: skip
        for line, text in enumerate(told):
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
