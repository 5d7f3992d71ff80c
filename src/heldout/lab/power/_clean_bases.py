"""False positives on clean bases of further seeds, which were trained for nothing else, beside the grid's own."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from heldout.lab.power.board import CLEAN_DATA, GROUPS, FiringShare, fired, group_of
from heldout.lab.power.models import CLEAN, CONTAMINATED, MOST_BASES, OTHER_SEEDS
from heldout.verdict import independent_models

LEARNT = 0.6  # of the originals: a base below it is named; fixed before a detector was run on any
SHARED = "other seeds, the same for all"  # a way: references are the first by name
REACHED = "base_original"  # a column: how many originals the model's base answers


def clean_bases(rows: pl.DataFrame, further: pl.DataFrame) -> Iterator[str]:
    """The section: ``rows`` are the grid's, ``further`` those of the bases that it lacks."""
    compared = further.filter(pl.col("p").is_not_null())
    tested, shared = (compared.filter(pl.col("way") == way) for way in (OTHER_SEEDS, SHARED))
    clean = tested.filter(pl.col("role") == CLEAN)
    names = list(clean["benchmark"].unique(maintain_order=True))
    earlier = rows.filter(
        (pl.col("role") == CLEAN)
        & (pl.col("way") == OTHER_SEEDS)
        & pl.col("p").is_not_null()
        & pl.col("benchmark").is_in(names)
    )
    yield "## Clean bases alone"
    yield ""
    yield from _about(clean, earlier, names)
    heads = (
        *("detector", *names, "together", "one arm of each base"),
        *("without those that did not learn", "the same references for all"),
        *("with the grid's own", "contaminated arms"),
    )
    detectors = sorted(clean["detector"].unique(), key=lambda name: (_place(name), name))
    yield f"| {' | '.join(heads)} |"
    yield f"|---{'|--:' * (len(heads) - 1)}|"
    for detector in detectors:
        yield f"| {' | '.join(_row(detector, tested, shared, earlier, names))} |"
    yield ""
    columns = [name for name in earlier.columns if name in clean.columns]
    whole = pl.concat([earlier.select(columns), clean.select(columns)])
    yield (
        f"**off** as above: {_off(clean, names)}; with the grid's own models: {_off(whole, names)}. The verdict reads "
        "the counts with the grid's own. All bases of a world read the same pictures, in another order and from other "
        "initial weights, and are tested on one release: users' models differ in more than a seed."
    )
    yield ""


def _about(clean: pl.DataFrame, earlier: pl.DataFrame, names: list[str]) -> Iterator[str]:
    bases = clean.unique("base", maintain_order=True).sort("base")
    counts = ", ".join(
        f"{bases.filter(pl.col('benchmark') == name).height} of {name}" for name in names
    )
    poor = bases.filter(pl.col(REACHED) < LEARNT)
    named = ", ".join(f"{row['base']} ({row[REACHED]:.3f})" for row in poor.iter_rows(named=True))
    models, before = clean["model"].n_unique(), earlier["model"].n_unique()
    old = earlier["base"].n_unique()
    worth = independent_models(models, len(bases))
    together = independent_models(models + before, len(bases) + old)
    yield (
        f"{len(bases)} bases of further seeds ({counts}), each with one clean arm, were trained only to count how "
        "often a clean model is accused ([lab.md](lab.md)); rows in "
        f"`data/{CLEAN_DATA}`, stored by `bench/lab_bases.py`. Each is compared with clean arms of at most "
        f"{MOST_BASES} other bases, **drawn for each base anew** (the setting `drawn` of `heldout lab power`). "
        "In the tables above all models of a benchmark share their references, and where these happen to lie high "
        "nobody fires; detectors of answers were run that way here, too."
    )
    yield ""
    yield (
        f"{models} clean models of {len(bases)} bases are worth {worth:.1f} independent ones; with the {before} of "
        f"{old} bases above, which have other weights and other references, {together:.1f}. A base *did not learn* "
        f"where it answers fewer than {LEARNT:g} of the originals: {named or 'none'}. It counts like the others. "
        "The last column is of arms that a test should find: dose 3, dose 10, and dose 10 of half of the pictures."
    )
    yield ""


def _off(frame: pl.DataFrame, names: list[str]) -> str:
    """Detectors that fire too often on clean models of a benchmark, or over all."""
    entries = []
    for (detector,), part in frame.group_by(["detector"], maintain_order=True):
        parts = zip((*names, "together"), _parts(part, names), strict=True)
        if places := [name for name, rows in parts if fired(rows).off]:
            entries.append(f"{detector} ({', '.join(places)})")
    return ", ".join(entries) or "none"


def _parts(frame: pl.DataFrame, names: list[str]) -> list[pl.DataFrame]:
    """By benchmark, and together."""
    return [*(frame.filter(pl.col("benchmark") == name) for name in names), frame]


def _row(
    detector: str,
    tested: pl.DataFrame,
    shared: pl.DataFrame,
    earlier: pl.DataFrame,
    names: list[str],
) -> list[str]:
    own, same, before = (
        f.filter(pl.col("detector") == detector) for f in (tested, shared, earlier)
    )
    clean = own.filter(pl.col("role") == CLEAN)
    arms = clean.filter(pl.col("arm") != "base")
    learnt = clean.filter(pl.col(REACHED) >= LEARNT)
    parts = [*_parts(clean, names), arms, learnt, same.filter(pl.col("role") == CLEAN)]
    columns = [name for name in before.columns if name in clean.columns]
    return [
        detector,
        *(_share(fired(part)) for part in parts),
        _share(fired(pl.concat([before.select(columns), clean.select(columns)]))),
        _plain(fired(own.filter(pl.col("role") == CONTAMINATED))),
    ]


def _share(share: FiringShare) -> str:
    return f"{share}{' **off**' if share.off else ''}"


def _plain(share: FiringShare) -> str:
    return f"{share.hits} of {share.n}" if share.n else "–"


def _place(detector: str) -> int:
    group = group_of(detector)
    return GROUPS.index(group) if group in GROUPS else len(GROUPS)
