"""Two accuracies on the same items without the items: between which limits the paired test lies."""

from __future__ import annotations

from typing import NamedTuple

from heldout.stats.paired import mcnemar


class PairedBounds(NamedTuple):
    """``least`` and ``most``: items that one of the two alone got right. ``p_least`` and ``p_most``:
    McNemar's exact p at either end; ``clear_below``: with fewer such items the difference would be
    significant."""

    least: int
    most: int
    p_least: float
    p_most: float
    clear_below: int


def paired_bounds(
    n: int, first: int, second: int, differ: int, *, alpha: float = 0.05
) -> PairedBounds:
    """``first`` and ``second``: right answers of ``n``; ``differ``: items on which the choices differ.

    Where one alone is right, the choices differ. Where the choices differ and neither is right, both are
    wrong, of which there are (wrong + wrong - discordant) / 2.
    """
    if not (0 <= first <= n and 0 <= second <= n and abs(first - second) <= differ <= n):
        raise ValueError(
            "expected counts of right answers of n items that differ on enough of them"
        )
    wrong = (n - first) + (n - second)
    gap = abs(first - second)
    # Discordant pairs come in steps of two: each pair of errors that coincide takes two away.
    least = max(gap, 2 * differ - wrong)
    least += (least - gap) % 2
    most = min(differ, wrong, first + second)
    most -= (most - gap) % 2
    clear = gap
    while clear <= most and _p(gap, clear) <= alpha:
        clear += 2
    return PairedBounds(least, most, _p(gap, least), _p(gap, most), clear)


def _p(gap: int, discordant: int) -> float:
    return mcnemar((discordant + gap) // 2, (discordant - gap) // 2).exact
