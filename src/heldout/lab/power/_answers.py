"""The questions the leaderboard was made for, and three requirements of a detector, by counting its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import polars as pl

from heldout.detect import Detector, Need, detectors
from heldout.lab.power.board import BenchmarkStanding, FiringShare, Standing, dose_arms, fired
from heldout.lab.power.models import CLEAN, CONTAMINATED, OTHER_SEEDS, RAW, SAME_BASE, WAYS
from heldout.lab.power.run import EQUAL_COST
from heldout.stats import Jonckheere, jonckheere_blocks

ORDER = ("order-joint", EQUAL_COST, "order-neighbour", "order-trend")


def answers(rows: pl.DataFrame, board: Sequence[Standing]) -> list[str]:
    tested = rows.filter(pl.col("effect").is_not_null())
    return [
        *_shuffled(tested),
        *_twins(tested),
        *_membership(rows),
        *_equal_cost(tested, board),
        *_paraphrased(tested),
    ]


def by_arm(rows: pl.DataFrame, benchmark: str, way: str) -> list[str]:
    """A table of counts: how many models of each arm fire."""
    frame = rows.filter(
        (pl.col("benchmark") == benchmark)
        & (pl.col("way") == way)
        & pl.col("p").is_not_null()
        & pl.col("role").is_in([CONTAMINATED, CLEAN])
        & (pl.col("split") == "")
    )
    if frame.is_empty():
        return []
    names = frame["detector"].unique(maintain_order=True).to_list()
    lines = [f"| {benchmark} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    arms = frame.select("arm", "role", "dose").unique().sort(pl.col("role"), "dose", "arm")
    for arm in arms["arm"].unique(maintain_order=True):
        part = frame.filter(pl.col("arm") == arm)
        counts = [_short(fired(part.filter(pl.col("detector") == name))) for name in names]
        lines.append(f"| {arm} | {' | '.join(counts)} |")
    return lines


def _shuffled(rows: pl.DataFrame) -> Iterator[str]:
    yield "### Does the order test see contamination when the training order was shuffled?"
    yield ""
    if not (rows["order"] == "shuffled").any():
        yield "This grid has no shuffled arm."
        yield ""
        return
    yield "Doses 3 and 10 together, where the grid has both orders; clean models beside them."
    yield ""
    yield "| detector | way | released order | shuffled order | clean |"
    yield "|---|---|---|---|---|"
    both = rows.filter(pl.col("order") == "shuffled")["benchmark"].unique().to_list()
    here = rows.filter(pl.col("benchmark").is_in(both))
    seen = here.filter((pl.col("role") == CONTAMINATED) & pl.col("dose").is_in([3, 10]))
    shares: dict[str, FiringShare] = {}
    for name in (listed for listed in ORDER if listed in set(here["detector"])):
        for way in WAYS:
            of_detector = (pl.col("detector") == name) & (pl.col("way") == way)
            released = fired(dose_arms(seen.filter(of_detector)))
            shuffled = fired(seen.filter(of_detector & (pl.col("order") == "shuffled")))
            clean = fired(here.filter(of_detector & (pl.col("role") == CLEAN)))
            yield f"| {name} | {way} | {released} | {shuffled} | {clean} |"
            shares[f"{name} {way}"] = shuffled
    yield ""
    hits = sum(share.hits for key, share in shares.items() if OTHER_SEEDS in key)
    yield (
        "With references of other seeds, "
        + (
            "no order test fires on a shuffled arm."
            if not hits
            else f"order tests fire {hits} times on shuffled arms."
        )
        + " Whether that is blindness to shuffling is not known where the released order is not seen "
        "either: compare the two columns."
    )
    yield ""


def _twins(rows: pl.DataFrame) -> Iterator[str]:
    twin_rows = rows.filter(pl.col("detector") == "twin-drop")
    if twin_rows.is_empty():
        return
    yield "### At which dose does twin-drop first fire?"
    yield ""
    doses = sorted(dose_arms(twin_rows)["dose"].unique().to_list())
    yield "| benchmark | way | clean | " + " | ".join(f"dose {dose}" for dose in doses) + " |"
    yield "|---" * (3 + len(doses)) + "|"
    twins: list[str] = []
    for benchmark in twin_rows["benchmark"].unique(maintain_order=True):
        for way in WAYS:
            part = twin_rows.filter((pl.col("benchmark") == benchmark) & (pl.col("way") == way))
            if part.is_empty():
                continue
            clean = fired(part.filter(pl.col("role") == CLEAN))
            arms = dose_arms(part)
            shares = {dose: fired(arms.filter(pl.col("dose") == dose)) for dose in doses}
            counts = [_short(shares[dose]) for dose in doses]
            yield f"| {benchmark} | {way} | {clean} | {' | '.join(counts)} |"
            first = next((dose for dose in doses if shares[dose].hits), None)
            every = next((dose for dose in doses if 0 < shares[dose].n == shares[dose].hits), None)
            if first is not None:
                whole = f"; first on every base at dose {every}" if every is not None else ""
                twins.append(
                    f"{benchmark}, {way}: first at dose {first} ({_short(shares[first])}){whole}"
                )
    yield ""
    yield ("; ".join(twins) or "It never fires on an arm of this grid") + "."
    yield ""
    together = rows.filter(pl.col("detector") == "twin-consistency")
    if len(together):
        texts = [
            f"{row['base']} p {row['p']:.2g} ({row['direction']})"
            for row in together.iter_rows(named=True)
        ]
        yield f"`twin-consistency` over clean arms and doses of one base: {', '.join(texts)}."
        yield ""


def _membership(rows: pl.DataFrame) -> Iterator[str]:
    part = rows.filter(
        (pl.col("split") != "")
        & pl.col("item_auc").is_not_null()
        & (pl.col("role") == CONTAMINATED)
        & (pl.col("model") == pl.col("split"))
    )
    if part.is_empty():
        return
    yield "### Does Min-K%++ beat the blind baseline at all?"
    yield ""
    yield (
        "Only arms that saw half of the pictures have items to compare with: area under the curve of "
        "leaked against other items within one model, beside that of a classifier that sees words and "
        "metadata but no model. Clean models on the same splits give the false positives."
    )
    yield ""
    kinds = part.select("benchmark", "dose").unique().sort("benchmark", "dose").rows()
    heads = [f"{benchmark}, dose {dose}" for benchmark, dose in kinds]
    yield f"| detector | way | {' | '.join(heads)} | fires | clean models fire |"
    yield "|---" * (len(heads) + 4) + "|"
    blind = part.unique("model", maintain_order=True)
    yield f"| blind | | {' | '.join(_areas(blind, kinds, 'blind_auc'))} | | |"
    for (name, way), frame in part.group_by(["detector", "way"], maintain_order=True):
        clean = rows.filter(
            (pl.col("detector") == name) & (pl.col("way") == way) & (pl.col("role") == CLEAN)
        )
        message = " | ".join(_areas(frame, kinds, "item_auc"))
        yield f"| {name} | {way} | {message} | {fired(frame)} | {fired(clean)} |"
    yield ""
    raw = part.filter(pl.col("way") == RAW)
    frame = raw.filter(pl.col("detector") == "min-k++")
    if len(frame):
        yield from _min_k(frame, rows, fired(raw.filter(pl.col("detector") == "loss")))


def _min_k(min_k: pl.DataFrame, rows: pl.DataFrame, loss: FiringShare) -> Iterator[str]:
    """Against clean models on the same splits: a blind area below .5 is no bar to be above."""
    from scipy.stats import binomtest  # a second to import, for one number of one page

    clean = rows.filter(
        (pl.col("detector") == "min-k++")
        & (pl.col("way") == RAW)
        & (pl.col("role") == CLEAN)
        & pl.col("item_auc").is_not_null()
    )
    usual = clean.group_by("split").agg(usual=pl.col("item_auc").mean())
    both = min_k.join(usual, on="split", how="inner")
    margins = (both["item_auc"] - both["usual"]).to_list()
    above = sum(margin > 0 for margin in margins)
    blind = min_k["blind_auc"]
    beaten = sum(min_k["item_auc"] > blind)
    also = int((clean["item_auc"] > clean["blind_auc"]).sum())
    yield (
        "Areas are means over bases, those of the model's own item scores in every way; with references "
        f"only the test changes. Min-K%++ lies above the blind area in {beaten} of {len(min_k)} models, but "
        f"that area is itself below .5 on {int((blind < 0.5).sum())} of {len(blind)} splits, where its "
        f"cross-validation has nothing to learn, and {also} of "
        f"{len(clean)} tests of {clean['model'].n_unique()} clean models lie above it as well. The bar is "
        "therefore what clean models show on the same splits: Min-K%++ lies above their mean in "
        f"{above} of {len(margins)} models (mean difference {fmean(margins) if margins else 0:+.3f}; sign "
        f"test over models p {binomtest(above, len(margins)).pvalue if margins else 1:.2g}; arms of one "
        f"base are not independent). Its test fires on {fired(min_k)}, that of `loss` on {loss}."
    )
    for benchmark in min_k["benchmark"].unique(maintain_order=True):
        part = min_k.filter(pl.col("benchmark") == benchmark)
        doses = sorted(part["dose"].unique().to_list())
        shares = [
            str(area) for area in _areas(part, [(benchmark, dose) for dose in doses], "item_auc")
        ]
        if len(shares) > 1 and float(shares[-1]) <= float(shares[0]):
            yield f"In {benchmark} its area falls as the dose rises ({', '.join(shares)})."
    yield ""


def _areas(frame: pl.DataFrame, kinds: Sequence[tuple[str, int]], column: str) -> Iterator[str]:
    """The mean of a column in each kind: a benchmark and a dose."""
    for benchmark, dose in kinds:
        cells = frame.filter((pl.col("benchmark") == benchmark) & (pl.col("dose") == dose))
        values = cells[column].drop_nulls().to_list()
        yield f"{fmean(values):.3f}" if values else "–"


def _equal_cost(rows: pl.DataFrame, board: Sequence[Standing]) -> Iterator[str]:
    yield "### Does order-neighbour beat order-joint at equal token cost?"
    yield ""
    yield "| detector | way | AUC | fires, contaminated | fires, clean | tokens per model |"
    yield "|---|---|---|---|---|---|"
    order = [entry for entry in board if entry.detector in ORDER[:3]]
    for entry in sorted(
        order, key=lambda standing: (WAYS.index(standing.way), ORDER.index(standing.detector))
    ):
        once = rows.filter((pl.col("detector") == entry.detector) & (pl.col("way") == RAW))[
            "tokens"
        ]
        spent = f"{int(once.median()):,}" if once.drop_nulls().len() else "–"  # type: ignore[arg-type]
        yield (
            f"| {entry.detector} | {entry.way} | {area_text(entry)} | {entry.power} | {entry.false_positives} | "
            f"{spent} |"
        )
    yield ""
    entries = {(entry.detector, entry.way): entry for entry in order}
    way = OTHER_SEEDS
    cheap, near = entries.get((EQUAL_COST, way)), entries.get(("order-neighbour", way))
    raw = entries.get(("order-neighbour", RAW))
    if cheap is None or near is None or raw is None or cheap.auc is None or near.auc is None:
        return
    apart = _apart(near, cheap)
    yield (
        f"With references, order-neighbour has an area of {area_text(near)}, order-joint at its cost "
        f"{area_text(cheap)}: "
        + (
            "the intervals do not overlap"
            if apart
            else "the intervals overlap, and no winner is shown"
        )
        + f". By itself order-neighbour fires on {raw.false_positives} clean models"
        + (
            f", too often on {', '.join(raw.off_in)}: that is how such a release is built, not memory."
            if raw.off_in
            else "."
        )
    )
    yield ""


def _apart(entry: Standing, other: Standing) -> bool:
    assert entry.auc_interval is not None and other.auc_interval is not None
    return (
        entry.auc_interval[0] > other.auc_interval[1]
        or entry.auc_interval[1] < other.auc_interval[0]
    )


def _paraphrased(rows: pl.DataFrame) -> Iterator[str]:
    yield "### Which detectors survive paraphrased contamination?"
    yield ""
    if not rows["paraphrased"].any():
        yield "This grid has no paraphrased arm."
        yield ""
        return
    yield (
        "| detector | way | word for word, dose 3 | paraphrased, dose 3 | word for word, dose 10 | "
        "paraphrased, dose 10 | clean |"
    )
    yield "|---|---|---|---|---|---|---|"
    where = rows.filter(pl.col("paraphrased"))["benchmark"].unique().to_list()
    here = rows.filter(
        pl.col("benchmark").is_in(where) & (pl.col("split") == "") & pl.col("p").is_not_null()
    )
    survive: list[str] = []
    for name in here["detector"].unique(maintain_order=True):
        for way in (RAW, OTHER_SEEDS, SAME_BASE):
            cells = here.filter((pl.col("detector") == name) & (pl.col("way") == way))
            if cells.is_empty() or cells.filter(pl.col("role") == CONTAMINATED).is_empty():
                continue
            plain = dose_arms(cells)
            other = cells.filter(pl.col("paraphrased") & (pl.col("role") == CONTAMINATED))
            counts = [
                _short(fired(frame.filter(pl.col("dose") == dose)))
                for dose in (3, 10)
                for frame in (plain, other)
            ]
            clean = fired(cells.filter(pl.col("role") == CLEAN))
            yield f"| {name} | {way} | {' | '.join(counts)} | {clean} |"
            ten = fired(other.filter(pl.col("dose") == 10))
            if way == OTHER_SEEDS and not clean.off and ten.n and ten.value > 0.5:
                survive.append(f"{name} ({_short(ten)} at dose 10, {clean} clean)")
    yield ""
    yield (
        "Compared with clean models of other seeds, and with a false-positive rate that is not off, most "
        f"paraphrased arms are still found by: {', '.join(survive) or 'none'}."
    )
    yield ""


def area_text(entry: Standing) -> str:
    if entry.auc is None or entry.auc_interval is None:
        return "–"
    low, high = entry.auc_interval
    return f"{entry.auc:.2f} [{low:.2f}, {high:.2f}]"


def _short(share: FiringShare) -> str:
    return f"{share.hits}/{share.n}" if share.n else "–"


# Three requirements of a detector, computed: practical, reliable across training, consistent with dose.


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
