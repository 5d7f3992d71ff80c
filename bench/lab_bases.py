"""How alike models of one base are, and the rates that verdicts read from the lab's stored rows.

    python bench/lab_bases.py                   # intra-class correlation of clean models' effects
    python bench/lab_bases.py --publish         # the rates, counted again; then: bench/measured.py rates
    python bench/lab_bases.py --clean BOARD [--shared OTHER] --grid RUNS [--add] --publish

`heldout lab power` counts the rows; a change in how rates are counted needs no model to be asked again. ``--clean``
takes what `heldout lab power RUNS --drawn --out BOARD` counted on bases of further seeds: the rows are stored in
docs/data, and count in the rates. ``--shared`` is the same without --drawn; ``--grid`` is what
`bench/lab_grid.py tables` wrote. ``--add`` keeps what is stored of other bases.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.lab.power._clean_bases import REACHED, SHARED, clean_bases
from heldout.lab.power.board import CLEAN_DATA, measured_rates
from heldout.lab.power.models import OTHER_SEEDS, WAYS
from heldout.lab.power.page import DATA
from heldout.store import write_json
from heldout.verdict import INTRACLASS, independent_models, shipped_rates

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "src/heldout/verdict/measured_rates.json"
ORDER = ["benchmark", "detector", "way", "split", "model"]


def intraclass(groups: list[NDArray[np.float64]]) -> float | None:
    """One-way analysis of variance: the share of the variance that lies between bases."""
    sizes = np.asarray([len(group) for group in groups])
    total = int(sizes.sum())
    if len(groups) < 2 or total == len(groups):
        return None
    mean = np.concatenate(groups).mean()
    between = sum(len(g) * (g.mean() - mean) ** 2 for g in groups) / (len(groups) - 1)
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (total - len(groups))
    typical = (total - (sizes**2).sum() / total) / (len(groups) - 1)
    spread = between + (typical - 1) * within
    return float((between - within) / spread) if spread > 0 else None


def correlations(rows: pl.DataFrame, way: str) -> dict[tuple[str, str], float]:
    """By detector and benchmark, among clean models."""
    clean = rows.filter(
        (pl.col("role") == "clean") & (pl.col("way") == way) & pl.col("p").is_not_null()
    )
    found = {}
    for (detector, benchmark), part in clean.group_by(
        ["detector", "benchmark"], maintain_order=True
    ):
        means = part.group_by("base", "model", maintain_order=True).agg(pl.col("effect").mean())
        groups = [
            frame["effect"].to_numpy() for _, frame in means.group_by("base", maintain_order=True)
        ]
        if (value := intraclass(groups)) is not None:
            found[str(detector), str(benchmark)] = value
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--publish", action="store_true", help="into docs/data and the package")
    parser.add_argument("--clean", type=Path, nargs="+", help="of heldout lab power --drawn")
    parser.add_argument("--shared", type=Path, nargs="+", default=[], help="without --drawn")
    parser.add_argument("--grid", type=Path, help="the runs that it read")
    parser.add_argument("--add", action="store_true", help="keep stored rows of other bases")
    chosen = parser.parse_args()
    stored = ROOT / "docs" / "data"
    rows = pl.read_parquet(stored / DATA)
    print("| way | cells | median | quartiles | twin-drop (scenes, films) |\n|---|--:|--:|---|---|")
    for way in WAYS:
        found = correlations(rows, way)
        values = list(found.values())
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        twins = ", ".join(f"{found['twin-drop', name]:.2f}" for name in ("scenes", "films"))
        print(f"| {way} | {len(values)} | {middle:.2f} | {low:.2f} to {high:.2f} | {twins} |")
    clean = rows.filter(
        (pl.col("role") == "clean")
        & (pl.col("way") == OTHER_SEEDS)
        & (pl.col("detector") == "twin-drop")
    )
    models, bases = clean["model"].n_unique(), clean["base"].n_unique()
    print(
        f"\nat {INTRACLASS:g}, {models} clean models of {bases} bases are worth "
        f"{independent_models(models, bases):.1f} independent ones"
    )
    if chosen.clean:
        store = (stored if chosen.publish else ROOT / "bench/out") / CLEAN_DATA
        store.parent.mkdir(parents=True, exist_ok=True)
        further = clean_rows(chosen.clean, chosen.shared, chosen.grid)
        if chosen.add:
            kept = pl.read_parquet(store).filter(~pl.col("base").is_in(set(further["base"])))
            further = pl.concat([kept, further.select(kept.columns)]).sort(ORDER)
        further.write_parquet(store, compression="zstd", compression_level=19)
        print("", *clean_bases(rows, further), sep="\n")
    if chosen.publish:
        about = shipped_rates().provenance
        rates = measured_rates(stored / DATA, about.command, about.weights)
        write_json(SHIPPED, rates.model_dump(mode="json"))


def clean_rows(drawn: list[Path], shared: list[Path], grid: Path) -> pl.DataFrame:
    """What the boards counted, and how many originals each model's base answers."""
    cells = [cell for board in drawn for cell in _cells(board)]
    cells += [
        cell.filter(pl.col("way") == OTHER_SEEDS).with_columns(way=pl.lit(SHARED))
        for board in shared
        for cell in _cells(board)
    ]
    known = json.loads((grid / "models.json").read_text())
    reached = {
        record["name"]: cell["original"]["all"][0]
        for record in known
        for cell in record["accuracy"].values()
        if isinstance(record.get("base"), dict)
    }
    column = pl.col("base").replace_strict(reached, return_dtype=pl.Float64, default=None)
    return pl.concat(cells).with_columns(column.alias(REACHED)).sort(ORDER)


def _cells(board: Path) -> list[pl.DataFrame]:
    return [pl.read_parquet(path) for path in sorted(board.glob("cells/*/*.parquet"))]


if __name__ == "__main__":
    main()
