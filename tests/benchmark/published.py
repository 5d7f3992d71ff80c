"""Small datasets laid out as published: for every preset its real columns and styles of values."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

Picture = Callable[..., bytes]
IMAGE = "<picture>"


@dataclass(frozen=True)
class Item:
    """What has to be read from a row."""

    asks: str | None
    offers: tuple[str, ...]
    right: str | None

    @property
    def key(self) -> int | None:
        return self.offers.index(self.right) if self.offers and self.right is not None else None


def _items(written: Mapping[str, Any]) -> list[Item]:
    if "items" not in written:
        return [Item(written.get("asks"), tuple(written.get("offers", ())), written.get("right"))]
    return [Item(asks, tuple(offers), right) for asks, offers, right in written["items"]]


_WRITTEN = yaml.safe_load(Path(__file__).with_name("preset_rows.yaml").read_text(encoding="utf-8"))
TABLES: dict[str, list[dict[str, Any]]] = {
    name: [{**preset["columns"], **written["row"]} for written in preset["rows"]]
    for name, preset in _WRITTEN.items()
}
ITEMS: dict[str, list[Item]] = {
    name: [item for written in preset["rows"] for item in _items(written)]
    for name, preset in _WRITTEN.items()
}
# Whose authors release files of their own, not a table of the hub's kind.
FILES = ("slake-en", "omnimedvqa", "pmc-vqa", "medxpertqa-mm")


def publish(folder: Path, split: str, rows: Iterable[Mapping[str, Any]], picture: Picture) -> Path:
    """Rows as the hub's Parquet, one file of ``split``; every IMAGE becomes a picture of its own."""
    count = iter(range(1000))

    def filled(value: Any) -> Any:
        if value == IMAGE:
            return {"bytes": picture(next(count)), "path": None}
        return [filled(part) for part in value] if isinstance(value, list) else value

    full = [{key: filled(value) for key, value in row.items()} for row in rows]
    (folder / "data").mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(full)
    pq.write_table(table, folder / "data" / f"{split}-00000-of-00001.parquet")
    return folder


def publish_files(name: str, folder: Path, picture: Picture) -> tuple[Path, Path]:
    """The same rows as the authors' own files: what to read, and the folder of pictures."""
    rows, images = TABLES[name], folder / "images"
    (images / "xmlab1").mkdir(parents=True)
    for place, file in enumerate(("0.jpg", "1.jpg", "xmlab1/source.jpg")):
        (images / file).write_bytes(picture(place if name != "slake-en" else 0))
    if name == "slake-en":
        (folder / "test.json").write_text(json.dumps(rows))
        return folder, images
    if name == "omnimedvqa":
        tables = folder / "QA_information" / "Open-access"
        tables.mkdir(parents=True)
        for source in sorted({row["dataset"] for row in rows}):
            chosen = [row for row in rows if row["dataset"] == source]
            (tables / f"{source}.json").write_text(json.dumps(chosen))
        return tables, folder
    if name == "pmc-vqa":
        columns = (
            "Figure_path",
            "Question",
            "Answer",
            *(f"Choice {k}" for k in "ABCD"),
            "Answer_label",
        )
        with (folder / "test.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
        return folder / "test.csv", images
    assert name == "medxpertqa-mm"
    (folder / "MM").mkdir()
    (folder / "MM" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "MM" / "dev.jsonl").write_text(json.dumps({**rows[0], "id": "dev"}) + "\n")
    return folder / "MM", images
