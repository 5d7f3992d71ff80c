"""Three requirements of a detector, computed: practical, reliable across training, consistent with dose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from heldout.detect import Detector, Need, detectors
from heldout.lab.power._rates import FiringShare, fired
from heldout.lab.power.board import BenchmarkStanding, Standing, dose_arms
from heldout.lab.power.models import CLEAN, CONTAMINATED, OTHER_SEEDS, RAW
from heldout.lab.power.run import EQUAL_COST
from heldout.stats import Jonckheere, jonckheere_blocks

MODES = ("full", "language", "lora")
DOSES = (3, 10)  # at which the grid has every mode


@dataclass(frozen=True)
class Requirements:
    """``practical`` (yes, partly, no): usable with no clean model. ``modes``: how many models fire, by mode."""

    detector: str
    reads: str
    practical: str
    practical_why: str
    way: str  # of the next one: with references where there are any
    modes: dict[str, FiringShare]
    pretraining: FiringShare
    tested_on: tuple[str, ...]  # benchmarks whose grid has the modes
    dose: Jonckheere | None
    off: bool = False  # in that way it fires on clean models as well

    @property
    def tuning_seen(self) -> bool:
        """Most fine-tuned models of every mode are found, and clean ones are not."""
        hits = all(share.n > 0 and share.value > 0.5 for share in self.modes.values())
        return hits and not self.off

    @property
    def pretraining_seen(self) -> bool:
        return self.pretraining.n > 0 and self.pretraining.value > 0.5 and not self.off

    @property
    def consistent(self) -> bool:
        return self.dose is not None and self.dose.p <= 0.05 and self.dose.concordance > 0


def requirements(rows: pl.DataFrame, board: list[Standing]) -> list[Requirements]:
    known = detectors()
    rows_of_detectors = []
    for name in dict.fromkeys(standing.detector for standing in board):
        cells = rows.filter((pl.col("detector") == name) & pl.col("effect").is_not_null())
        ways = set(cells["way"])
        way = OTHER_SEEDS if OTHER_SEEDS in ways else RAW
        raw = next(
            (standing for standing in board if (standing.detector, standing.way) == (name, RAW)),
            None,
        )
        detector = known["order-joint" if name == EQUAL_COST else name]
        practical, why = _practical(raw, _needs(detector))
        used = cells.filter(pl.col("way") == way)
        tuned = used.filter(
            (pl.col("stage") == "finetune")
            & (pl.col("order") == "released")
            & (pl.col("part") == "full")
            & ~pl.col("paraphrased")
            & (pl.col("dilution") == 0.5)
            & (pl.col("share") == 1)
            & pl.col("dose").is_in(DOSES)
            & (pl.col("role") == CONTAMINATED)
            & pl.col("benchmark").is_in(_benchmarks_with_modes(used))
        )
        planted = used.filter((pl.col("stage") == "pretrain") & (pl.col("role") == CONTAMINATED))
        rows_of_detectors.append(
            Requirements(
                name,
                detector.needs,
                practical,
                why,
                way,
                {mode: fired(tuned.filter(pl.col("mode") == mode)) for mode in MODES},
                fired(planted),
                tuple(tuned["benchmark"].unique(maintain_order=True).to_list()),
                dose_trend(cells.filter(pl.col("way") == min(ways, key=_plainest))),
                any(
                    standing.off
                    for standing in board
                    if (standing.detector, standing.way) == (name, way)
                ),
            )
        )
    return rows_of_detectors


def dose_trend(frame: pl.DataFrame) -> Jonckheere | None:
    """Do effects rise from the clean arms along the doses, base by base?"""
    doses = sorted(dose_arms(frame)["dose"].unique().to_list())
    blocks, names = [], []
    for (benchmark, base), part in frame.group_by(["benchmark", "base"], maintain_order=True):
        arms = dose_arms(part)
        clean = part.filter((pl.col("role") == CLEAN) & pl.col("arm").is_in(["clean-a", "clean-b"]))
        if arms["dose"].n_unique() < len(doses) or clean.is_empty() or not doses:
            continue
        values = [float(arms.filter(pl.col("dose") == dose)["effect"].mean()) for dose in doses]  # type: ignore[arg-type]
        blocks.append([float(clean["effect"].mean()), *values])  # type: ignore[arg-type]
        names.append(f"{benchmark} {base}")
    if len(blocks) < 2:
        return None
    return jonckheere_blocks(
        np.asarray(blocks), [0.0, *map(float, doses)], names, permutations=9999
    )


def _needs(detector: Detector) -> str:
    """What a user without log-probabilities and reference models does not have."""
    if Need.UNSEEN in detector.requires:
        return "items that cannot have been seen, and log-probabilities"
    if Need.BASE in detector.requires:
        return "the model it was made from"
    if Need.CHOICES in detector.requires:
        return "log-probabilities of options"
    return "log-probabilities" if detector.needs == "scores" else ""


def _practical(raw: Standing | None, needs: str) -> tuple[str, str]:
    """On every benchmark where it was tested; on some of them is partly."""
    if needs:
        return "no", f"needs {needs}"
    if raw is None:
        return "no", "not testable without a reference"
    if raw.false_positives.n == 0:
        return "no", "no test without a reference"
    if raw.off_in:
        places = (
            f"{raw.places[name].false_positives.hits} of {raw.places[name].false_positives.n} clean "
            f"models of {name}"
            for name in raw.off_in
        )
        return "no", f"fires on {' and '.join(places)}"
    if raw.off:
        return "no", f"fires on {raw.false_positives.hits} of {raw.false_positives.n} clean models"
    record = {name: _tells_apart(place) for name, place in raw.places.items()}
    works = [name for name, good in record.items() if good]
    if not works:
        return "no", "does not tell contaminated from clean"
    if len(works) == len(record):
        return "yes", "by itself"
    fails = (f"{name} ({_area(raw.places[name])})" for name, good in record.items() if not good)
    return "partly", f"on {', '.join(works)}, not shown on {', '.join(fails)}"


def _tells_apart(place: BenchmarkStanding) -> bool:
    return place.area is not None and place.area.interval[0] > 0.5


def _area(place: BenchmarkStanding) -> str:
    if place.area is None:
        return "no area"
    low, high = place.area.interval
    return f"AUC {place.area.value:.2f} [{low:.2f}, {high:.2f}]"


def _benchmarks_with_modes(frame: pl.DataFrame) -> list[str]:
    return frame.filter(pl.col("mode") == "lora")["benchmark"].unique().to_list()


def _plainest(way: str) -> tuple[bool, str]:
    return way != RAW, way
