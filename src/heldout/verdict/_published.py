"""Re-reading published tables: what one-sided p-values, order ablations and score columns hide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scipy import special

from heldout.errors import percent
from heldout.stats import adjust, tie_runs

ALPHA = 0.05
RELEASE = "release"


class Reread(NamedTuple):
    """A one-sided permutation p read in both tails."""

    p_one_sided: float
    p_two_sided: float
    direction: str  # earlier easier, later easier, or neither


class Remark(NamedTuple):
    where: str
    kind: str
    sentence: str


def reread(p: float, permutations: int) -> Reread:
    """Two-sided p from a one-sided add-one p: twice the smaller tail.

    A p of exactly 1 says that every permutation was at least as extreme on that side: the statistic is
    the most extreme of all on the other, or it does not vary at all.
    """
    other = min(1.0, (permutations + 2) / (permutations + 1) - p)
    both = min(1.0, 2 * min(p, other))
    side = "earlier easier" if p < other else "later easier"
    return Reread(p, both, side if both <= ALPHA else "neither")


def reread_cells(
    cells: Sequence[Mapping[str, Any]], ablation: Sequence[Mapping[str, Any]] = ()
) -> list[Remark]:
    """Cells called clean whose other tail is significant in the family as a whole.

    ``ablation`` holds the same cells under other orders: a p strictly between 0 and 1 in any of them
    shows that the statistic varies, so that p = 1 can only be the opposite tail.
    """
    varies = {
        (cell["benchmark"], cell["model"])
        for cell in ablation
        if any(0.01 < p < 0.99 for p in cell["pvals"].values())
    }
    read = [reread(cell["p_value"], int(cell["n_permutations"])) for cell in cells]
    adjusted = adjust([row.p_two_sided for row in read], "holm")
    remarks = []
    for cell, reading, family in zip(cells, read, adjusted, strict=True):
        key = (cell["benchmark"], cell["model"])
        if reading.direction == "later easier" and family <= ALPHA:
            remarks.append(
                Remark(
                    f"{cell['benchmark']} × {cell['model']}",
                    "opposite tail",
                    f"one-sided p = {reading.p_one_sided:.4g} is not clean: read from both sides p = "
                    f"{reading.p_two_sided:.2g} (Holm over {len(cells)} cells {family:.2g}). "
                    + (
                        "Later items are likelier than chance explains"
                        if key in varies
                        else "Later items are likelier than chance explains, or the statistic never varies"
                    )
                    + "; a baseline like this does not stay null, it shows that the order has structure",
                )
            )
    return remarks


def orders_that_change_nothing(
    cells: Sequence[Mapping[str, Any]], permutations: int
) -> list[Remark]:
    """Orders whose p-values are the released order's, cell for cell: their sort key never varied.

    Two draws of the same p differ by Monte Carlo error only. Over a benchmark's cells the differences
    make a chi-square; a sort that did anything to the order would move at least one of them.
    """
    remarks = []
    for benchmark in dict.fromkeys(cell["benchmark"] for cell in cells):
        mine = [cell["pvals"] for cell in cells if cell["benchmark"] == benchmark]
        for order in mine[0]:
            if order == RELEASE:
                continue
            pairs = [(row[RELEASE], row[order]) for row in mine]
            statistic = sum(_squared_z(a, b, permutations) for a, b in pairs)
            p = float(special.chdtrc(len(pairs), statistic))
            informative = sum(1.0 / permutations * 2 < a < 1.0 for a, _ in pairs)
            if p < 0.001 or not informative:
                continue
            equal = sum(a == b for a, b in pairs)
            remarks.append(
                Remark(
                    f"{benchmark} / {order}",
                    "order changes nothing",
                    f"the p-values equal those of the released order in {equal} of {len(pairs)} cells to "
                    f"the last digit and in all of them within the permutations' own error (chi-square "
                    f"p = {p:.2g}): the sort left the released order as it was (a key that never varies "
                    f"does that, a release sorted by it already would too) and controls for nothing",
                )
            )
    return remarks


def tied_columns(
    columns: Mapping[str, Sequence[float]],
    questions: Sequence[str] | None = None,
    *,
    least: int = 5,
) -> list[Remark]:
    """Models whose scores stay the same from one item to the next while their question changes."""
    runs_by_column = {name: tie_runs(values, questions) for name, values in columns.items()}
    free = sum(runs.tied == 0 for runs in runs_by_column.values())
    return [
        Remark(
            name,
            "tie runs",
            f"{runs.tied} of {runs.pairs:,} neighbouring pairs with different questions have the same score "
            f"to the last digit (longest run {runs.longest}), in {free} other models none: "
            f"the difference between the questions does not reach this model",
        )
        for name, runs in runs_by_column.items()
        if runs.tied >= least and free
    ]


def hits_that_chance_gives(
    where: str, counts: Sequence[tuple[float, int, int]], text_hits: int, items: int
) -> list[Remark]:
    """Triple hits (α, hits, flagged items): how many hits of the text side would give them by chance.

    ``text_hits`` is the most that lie in the text side's tail; a remark where fewer would do at every α.
    """
    enough = [
        (alpha, hits, flagged / items, hits * items / flagged)
        for alpha, hits, flagged in counts
        if flagged and hits  # no hit needs none: such a row says nothing
    ]
    if not enough or any(needed > text_hits for *_, needed in enough):
        return []
    message = "; ".join(
        f"α = {alpha:g}: {hits} hits, {percent(share, 0)} of the items flagged, by chance from {needed:.0f}"
        for alpha, hits, share, needed in enough
    )
    return [
        Remark(
            where,
            "triple hits by chance",
            f"a count above zero is no agreement of picture and text; chance gives as many from fewer hits "
            f"of the text side than the {text_hits} that were published (how many of them are of this "
            f"benchmark was not): {message}",
        )
    ]


def _squared_z(first: float, second: float, permutations: int) -> float:
    pooled = (first + second) / 2
    variance = 2 * pooled * (1 - pooled) / permutations
    # At the floor and at 1 the counts are 0 or all: equal there is exactly what equal orders give.
    floor = 2.0 / permutations**2
    return (first - second) ** 2 / max(variance, floor)
