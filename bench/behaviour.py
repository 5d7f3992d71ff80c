"""Detectors that read answers: false alarms on clean clustered cells, power, the published table.

python bench/behaviour.py calibration --cells 500     # tests, and what forgetting clusters or places costs
python bench/behaviour.py power --cells 100           # share of cells called seen, by planted dose
python bench/behaviour.py power --detector twin-margin --scored   # both answers scored on both pictures, no options
python bench/behaviour.py published ../shared         # the published MMStar rows, audited
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heldout.detect import DetectSettings, Finding, Need, ScoreTables, detectors
from heldout.lab.power.conform import target_finding
from heldout.lab.power.planted_answers import ASKED, planted_answers, scored_twins
from heldout.stats.intervals import binomial_band
from heldout.verdict import examine
from published_twins import allowed_answers, extremes, least_z, published_rows

ALPHA = 0.05
TOGETHER = 1.0  # one picture for all its questions: a twin that came out badly fails them all
DOSES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
# Detectors that need fresh items are in bench/detectors.py alone: these cells have none.
NAMES = [
    name
    for name, one in detectors().items()
    if one.needs == "answers" and Need.UNSEEN not in one.requires
]
OF_TWIN_DROP = ("twin-drop, no reference", "twin-drop, published sign Δ < 0")
OWN = ASKED.model_copy(update={"baselines": ()})


#: the seed and the values of a cell: its tables
Drawn = Callable[..., ScoreTables]


def scored_answers(seed: int, **values: Any) -> ScoreTables:
    return scored_twins(planted_answers(seed, **values))


def calibrate(
    cells: int,
    permutations: int,
    names: Sequence[str],
    own_too: bool,
    draw: Drawn = planted_answers,
) -> None:
    print(
        f"{cells} clean cells of about 180 items in 40 clusters, at most {permutations} permutations"
    )
    alarms: Counter[tuple[str, str]] = Counter()
    tested: Counter[tuple[str, str]] = Counter()
    for cell in range(cells):
        skewed = draw(cell, easier=1.0, together=TOGETHER)
        for name in names:
            if own_too:
                # Twins change the place of the answer: where a release prefers one, only references help.
                own = draw(cell, skewed=name != "twin-drop", together=TOGETHER)
                _count(
                    name,
                    "own",
                    own,
                    OWN.model_copy(update={"seed": cell}),
                    permutations,
                    alarms,
                    tested,
                )
            _count(
                name,
                "references",
                skewed,
                ASKED.model_copy(update={"seed": cell}),
                permutations,
                alarms,
                tested,
            )
    low, high = binomial_band(cells, ALPHA)
    print(f"99 % band {low / cells:.3f}–{high / cells:.3f}")
    print(
        "| detector | own difference | less a reference's, twins easier | McNemar by item | Δ < 0 |"
    )
    print("|---|---|---|---|---|")
    for name in names:
        columns = []
        for how in ("own", "references", "naive", "sign"):
            made = tested[name, how]
            columns.append(f"{alarms[name, how] / made:.3f}" if made else "–")
        print(f"| {name} | {' | '.join(columns)} |")
    if "twin-drop" not in names:
        return
    placed = alarms["twin-drop", "place"] / max(1, tested["twin-drop", "place"])
    plain = alarms["twin-drop", "skew"] / max(1, tested["twin-drop", "skew"])
    print(
        f"twin-drop, own, release that prefers a place: {plain:.3f}, place taken out {placed:.3f}"
    )


def _count(
    name: str,
    how: str,
    tables: ScoreTables,
    settings: DetectSettings,
    permutations: int,
    alarms: Counter[tuple[str, str]],
    tested: Counter[tuple[str, str]],
) -> None:
    chosen = settings.model_copy(update={"permutations": permutations})
    found = target_finding(detectors()[name], tables, chosen)
    if found.p is None:
        return
    tested[name, how] += 1
    alarms[name, how] += found.p <= ALPHA
    exact = found.details.get("mcnemar")
    if how == "own" and exact:
        tested[name, "naive"] += 1
        alarms[name, "naive"] += exact["exact"] <= ALPHA
    if how == "own" and "accuracy" in found.details:
        tested[name, "sign"] += 1
        alarms[name, "sign"] += found.statistic.value < 0
    if how == "own" and name == "twin-drop":
        skewed = planted_answers(settings.seed, together=TOGETHER)
        other = target_finding(detectors()[name], skewed, chosen)
        for kind, p in (("skew", other.p), ("place", other.details["place_taken_out"]["p"])):
            tested[name, kind] += 1
            alarms[name, kind] += p is not None and p <= ALPHA


def measure_power(
    cells: int, permutations: int, names: Sequence[str], draw: Drawn = planted_answers
) -> None:
    print(
        f"share of {cells} cells in which the target is called seen, by planted dose; twins and confused"
    )
    print("choices are easier for everybody")
    print("| detector | " + " | ".join(f"{dose:g}" for dose in DOSES) + " |")
    print("|---" * (len(DOSES) + 1) + "|")
    shares: dict[str, list[float]] = {}
    for dose in DOSES:
        seen: Counter[str] = Counter()
        for cell in range(cells):
            tables = draw(10_000 + cell, dose=dose, easier=1.0)
            for name in names:
                settings = ASKED.model_copy(update={"seed": cell, "permutations": permutations})
                found = target_finding(detectors()[name], tables, settings)
                seen[name] += found.direction == "seen"
                if name == "twin-drop":
                    own = found.details["own"]
                    seen[OF_TWIN_DROP[0]] += own["direction"] == "seen"
                    seen[OF_TWIN_DROP[1]] += found.statistic.value < 0
        for name in (*names, *OF_TWIN_DROP) if "twin-drop" in names else names:
            shares.setdefault(name, []).append(seen[name] / cells)
    for name, row in shares.items():
        print(f"| {name} | {' | '.join(f'{share:.2f}' for share in row)} |")


def audit_published(shared: Path) -> None:
    (seed,) = (shared / "seeds").glob("003_*.txt")
    rows = published_rows(seed.read_text())
    clean = {row.model.split("-")[0]: row.model for row in rows if "Clean" in row.model}
    made = {
        (name, agreeing): _twin_findings(allowed_answers(rows, agreeing=agreeing), name)
        for name in (None, *clean.values())
        for agreeing in (True, False)
    }
    print(
        "| model | right of 495 | Δ published | Δ of the counts | McNemar p, least to most | "
        "widest interval of Δ | less its own clean model's | status alone | with it |"
    )
    print("|---" * 9 + "|")
    for row in rows:
        counts = row.counts()
        if counts is None:
            print(f"| {row.model} | no counts of 495 items have these rates |")
            continue
        ends = extremes(*counts)
        reference = clean[row.model.split("-")[0]]
        wide, _ = made[None, False][row.model]
        base = next(one for one in rows if one.model == reference).counts() or (0, 0)
        gap = (counts[1] - counts[0] - base[1] + base[0]) / 495
        status = [made[name, False][row.model][1] for name in (None, reference)]
        print(
            f"| {row.model} | {counts[0]}, {counts[1]} | {row.delta:+.2f} | "
            f"{100 * (counts[1] - counts[0]) / 495:+.2f} | "
            f"{ends.p_agreeing.exact:.1g} to {ends.p_opposed.exact:.1g} | "
            f"[{-100 * wide.effect.high:+.1f}, {-100 * wide.effect.low:+.1f}] | "
            + ("–" if row.model == reference else f"{100 * gap:+.1f}, z ≥ {least_z(gap):.1f}")
            + f" | {status[0]} | {'is the reference' if row.model == reference else status[1]} |"
        )
    other = made[clean["LLaVA"], True][clean["Qwen2"]]
    print(
        f"\nclean Qwen2-VL against clean LLaVA: {100 * other[0].effect.value:+.1f} points of drop, "
        f"p = {other[0].p:.1g} where forms agree, z ≥ {least_z(other[0].effect.value):.1f} at worst; "
        f"{other[1]}"
    )
    least, gap = extremes(187, 178), -(9 + 156) / 495
    print(
        f"Δ = -1.82 (9 of 495) at clean LLaVA's rate: McNemar p from {least.p_agreeing.exact:.1g} to "
        f"{least.p_opposed.exact:.2g}; against clean LLaVA {100 * gap:+.1f}, z ≥ {least_z(gap):.1f}"
    )


def _twin_findings(tables: ScoreTables, reference: str | None) -> dict[str, tuple[Finding, str]]:
    settings = DetectSettings(baselines=(reference,) if reference else ())
    found = examine(tables, ["twin-drop"], settings)
    claims = {claim.cell.model: claim.status for claim in found.claims}
    return {
        str(one.cell.model): (one, claims.get(one.cell.model, "reference"))
        for one in found.findings
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, cells in (("calibration", 500), ("power", 100)):
        one = commands.add_parser(name)
        one.add_argument("--cells", type=int, default=cells)
        one.add_argument("--permutations", type=int, default=999)
        one.add_argument("--references-only", action="store_true", help="no own differences")
        one.add_argument("--detector", action="append", choices=NAMES, help="default: all of them")
        one.add_argument(
            "--scored", action="store_true", help="open items, both answers scored on both pictures"
        )
    commands.add_parser("published").add_argument("shared", type=Path)
    chosen = parser.parse_args()
    if chosen.command == "published":
        audit_published(chosen.shared)
        return
    names = chosen.detector or NAMES
    draw = scored_answers if chosen.scored else planted_answers
    if chosen.command == "calibration":
        calibrate(chosen.cells, chosen.permutations, names, not chosen.references_only, draw)
    else:
        measure_power(chosen.cells, chosen.permutations, names, draw)


if __name__ == "__main__":
    main()
