"""τ(α): the similarity that a share α of different pictures exceed, and how well it is known."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heldout.errors import InputError
from heldout.overlap.calibration.null import Null
from heldout.stats import Interval, UpperQuantile, draws_needed, excess_p, upper_quantile


@dataclass(frozen=True, slots=True)
class Threshold:
    """A picture is flagged when its nearest similarity lies strictly above ``value``."""

    alpha: float
    value: float
    interval: Interval
    encoder: str  # a threshold means nothing for another encoder
    source: str
    rank: int
    n: int
    design_effect: float

    def flags(self, similarities: ArrayLike, *, encoder: str) -> NDArray[np.bool_]:
        if encoder != self.encoder:
            raise InputError(
                f"this threshold was calibrated for encoder '{self.encoder}' and says nothing "
                f"about similarities of '{encoder}': calibrate on a null of that encoder"
            )
        values = np.asarray(similarities, dtype=np.float64)
        if np.isnan(values).any():
            raise InputError(
                "a similarity is not a number: drop pictures without an embedding first"
            )
        return values > self.value

    def excess_p(self, flagged: int, tested: int) -> float:
        """P(as many flags or more) were the tested pictures as different as those of the null."""
        quantile = UpperQuantile(self.value, self.interval, self.rank, self.n)
        return excess_p(flagged, tested, quantile, self.design_effect)

    def record(self) -> dict[str, Any]:
        """For findings and JSON."""
        return {**asdict(self), "interval": self.interval._asdict()}


def threshold(null: Null, alpha: float, *, level: float = 0.95) -> Threshold:
    """τ(α) with its order-statistic interval; an α the null is too small for is refused."""
    if not 0.0 < alpha < 0.5:
        raise InputError(f"alpha is a share of false alarms between 0 and 0.5, not {alpha:g}")
    needed = draws_needed(alpha, null.design_effect)
    if len(null) < needed:
        raise InputError(
            f"alpha = {alpha:g} needs a null of at least {needed:,} pictures"
            + (
                f" (groups of {null.design_effect:.1f} count once)"
                if null.design_effect > 1
                else ""
            )
            + f", this one has {len(null):,}: take a larger sample or reference set, or an alpha of "
            f"at least {alpha * needed / len(null):.2g}"
        )
    quantile = upper_quantile(
        null.similarities, alpha, level=level, design_effect=null.design_effect
    )
    return Threshold(
        alpha,
        quantile.value,
        quantile.interval,
        null.encoder,
        null.source,
        quantile.rank,
        quantile.n,
        null.design_effect,
    )
