"""Is the demo right on other seeds, too? Its audit for ten releases, with the models that know them.

    python bench/demo_seeds.py MODELS --out runs/demo-seeds --seeds 10

MODELS holds ``demo0-d30``, ``demo0-clean``, ``demo1-d30`` … and the baselines ``demo-mixed``, ``demo-scenes``
and ``demo-mostly-scenes``, each of another lineage, as `bench/lab_grid.py train --demo` writes them. Killed half
way, the same command goes on; what a seed came to is kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from demo_grid import DEMO_DOSE
from heldout.audit.demo import CHANGED, DECOY, EXACT, WORDS, DemoResult, run_demo
from heldout.lab.demo.data import CLEAN, CONTAMINATED, OUTSIDERS
from heldout.store import write_json

BASELINES = ("demo-mixed", "demo-scenes", "demo-mostly-scenes")
ENOUGH = 2  # detectors a contaminated model has to survive on


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--dose", type=int, default=DEMO_DOSE)
    parser.add_argument("--baselines", nargs=len(OUTSIDERS), default=BASELINES)
    parser.add_argument("--models-only", action="store_true", help="leave out the corpus")
    chosen = parser.parse_args(arguments)
    rows = []
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        kept = chosen.out / f"seed{seed}.json"
        if not kept.exists():
            folder = _assembled(chosen.models, chosen.out, seed, chosen.dose, chosen.baselines)
            began = time.monotonic()
            result = run_demo(
                chosen.out / f"demo{seed}",
                seed=seed,
                models=folder,
                quiet=True,
                tell=_say,
                corpus=not chosen.models_only,
            )
            write_json(kept, {**_told(result, seed), "seconds": round(time.monotonic() - began)})
        rows.append(json.loads(kept.read_text()))
        _say(_line(rows[-1]))
    sys.stdout.write(table(rows) + "\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _assembled(models: Path, out: Path, seed: int, dose: int, baselines: Sequence[str]) -> Path:
    """The five checkpoints of one seed under the names the demo looks for."""
    folder = out / f"models{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        CONTAMINATED: f"demo{seed}-d{dose}",
        CLEAN: f"demo{seed}-clean",
        **dict(zip(OUTSIDERS, baselines, strict=True)),
    }
    for role, name in names.items():
        if not (folder / role).exists():
            (folder / role).symlink_to((models / name).resolve(), target_is_directory=True)
    return folder


def _told(result: DemoResult, seed: int) -> dict[str, Any]:
    counts = {
        name: [sum(row.found for row in rows), sum(row.planted for row in rows)]
        for name in (EXACT, CHANGED, WORDS, DECOY)
        for rows in [[row for row in result.planted if row.group == name]]
    }
    return {
        "seed": seed,
        "models": {model.role: asdict(model) for model in result.models},
        "claims": [
            {
                "id": claim.id,
                "status": claim.status,
                "rule": claim.rule,
                "sentence": claim.sentence,
                "why": claim.why,
            }
            for cell in result.audited.overall.cells
            for claim in cell.claims
        ],
        "planted": counts,
    }


def verdicts(row: dict[str, Any]) -> dict[str, bool]:
    """What came out right; a corpus that was not run is no success."""
    models = row["models"]
    found = {
        "contaminated survives on both": len(models[CONTAMINATED]["survives"]) >= ENOUGH,
        "clean twin clean": models[CLEAN]["status"] == "clean",
        "baselines quiet": _baselines(models) == "quiet",
    }
    if (decoys := row["planted"][DECOY])[1]:
        exact = row["planted"][EXACT]
        found["no decoy called a copy"] = decoys[0] == 0
        found["every exact copy found"] = exact[0] == exact[1]
    return found


def _baselines(models: dict[str, Any]) -> str:
    loud = [name for name in OUTSIDERS if models[name]["status"] != "quiet"]
    return f"{', '.join(loud)} too" if loud else "quiet"


def _line(row: dict[str, Any]) -> str:
    wrong = [name for name, right in verdicts(row).items() if not right]
    return f"seed {row['seed']}: {'right' if not wrong else 'wrong: ' + ', '.join(wrong)}"


def _of(counts: Sequence[int]) -> str:
    return f"{counts[0]} of {counts[1]}" if counts[1] else "not run"


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| seed | contaminated | survives on | clean twin | baselines | exact copies | changed copies "
        "| words alone | decoys | right |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        models = row["models"]
        seen = models[CONTAMINATED]
        lines.append(
            f"| {row['seed']} | {seen['status']} | {', '.join(seen['survives']) or 'none'} "
            f"| {models[CLEAN]['status']} | {_baselines(models)} "
            f"| {' | '.join(_of(row['planted'][name]) for name in (EXACT, CHANGED, WORDS, DECOY))} "
            f"| {'yes' if all(verdicts(row).values()) else 'no'} |"
        )
    for name in dict.fromkeys(name for row in rows for name in verdicts(row)):
        told = [verdicts(row)[name] for row in rows if name in verdicts(row)]
        lines.append(f"\n{name}: {sum(told)} of {len(told)}")
    right = sum(all(verdicts(row).values()) for row in rows)
    lines.append(f"\nall of it right: {right} of {len(rows)}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
