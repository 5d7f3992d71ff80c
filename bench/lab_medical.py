"""The lab's medical tier: a pretrained language model and picture network with planted contamination.

    python bench/lab_medical.py prepare --folder P --slake SLAKE --vqa-rad VQA_RAD --weights LITE0.pth --gguf LM.gguf
    python bench/lab_medical.py language --folder P --gguf LM.gguf
    python bench/lab_medical.py train --folder P --state S --out O --minutes 9 --workers 6
    python bench/lab_medical.py tables --folder P --readings O --out RUNS
    heldout lab power RUNS --out BOARD
    python bench/lab_medical.py orders --folder P --readings O     # documents whose items are shuffled, not pictures
    python bench/lab_medical.py slices --folder P --readings O     # entropies of picture, question, answer
    python bench/lab_medical.py verdicts --folder P --runs RUNS --out VERDICTS   # what detect says of every model

``prepare`` and ``tables`` need the product, ``prepare`` also the packages efficientnet_lite_pytorch and gguf;
``train`` writes what is finished to ``--out`` as it goes, and does not make again what lies in ``--state``.
One worker trains a base and its arms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

PACKED_EVERY = 15  # seconds
PACKS = 6  # few files come back from a device machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = (prepare, language, train, tables, orders, slices, verdicts)
    parser.add_argument("step", choices=[step.__name__ for step in steps])
    parser.add_argument("--folder", type=Path, required=True, help="what prepare writes")
    parser.add_argument("--slake", type=Path, help="SLAKE's folder")
    parser.add_argument("--vqa-rad", type=Path, help="VQA-RAD's folder")
    parser.add_argument("--weights", type=Path, help="of EfficientNet-lite0")
    parser.add_argument("--gguf", type=Path, help="SmolLM2-135M-Instruct")
    parser.add_argument("--most", type=int, help="prepare: only so many pictures, for a trial")
    parser.add_argument("--state", type=Path, help="train: bases and readings, kept between calls")
    parser.add_argument(
        "--out", type=Path, help="train: what comes back; tables: run folders; verdicts: a folder"
    )
    parser.add_argument("--runs", type=Path, help="verdicts: what tables wrote")
    parser.add_argument("--readings", type=Path, help="tables: folder with zip files of readings")
    parser.add_argument("--minutes", type=float, default=9.0, help="train: begin nothing after")
    parser.add_argument("--workers", type=int, default=6, help="train: processes on one device")
    parser.add_argument("--share", default="", help="train: only bases of this worker, K/N")
    parser.add_argument("--bases", type=int, default=6, help="train: how many")
    parser.add_argument("--first", type=int, default=0, help="train: number of the first base")
    parser.add_argument(
        "--arms", default="", help="train: only these, in this order, as d3,half-d3"
    )
    parser.add_argument("--sheets", default="", help="train: read only these, as slake-en")
    parser.add_argument("--steps", type=int, default=420, help="of a base's training")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--plain", action="store_true", help="train: do not compile")
    args = parser.parse_args()
    {step.__name__: step for step in steps}[args.step](args)


def prepare(args: Any) -> None:
    from transformers import AutoTokenizer

    from heldout.lab.models.medical import lab_tokenizer
    from heldout.lab.models.medical_data import efficientnet, prepare_medical

    args.folder.mkdir(parents=True, exist_ok=True)
    target = args.folder / "tokenizer.json"
    if not target.exists():
        folder, name = str(args.gguf.parent), args.gguf.name
        AutoTokenizer.from_pretrained(folder, gguf_file=name).backend_tokenizer.save(str(target))
        target.write_text(json.dumps(lab_tokenizer(json.loads(target.read_text()))))
    lengths = recipe_of(args).lengths
    features = efficientnet(args.weights)
    counts = prepare_medical(
        args.folder, args.slake, args.vqa_rad, features, lengths, most=args.most, tell=say
    )
    say(json.dumps(counts))


def language(args: Any) -> None:
    from heldout.lab.models.medical import convert_language

    convert_language(args.gguf, args.folder)


def recipe_of(args: Any) -> Any:
    from heldout.lab.models.medical import medical_recipe

    recipe = medical_recipe(args.steps, args.batch, max(1, args.batch // 8))
    return replace(recipe, half=args.device.startswith("cuda"))


def train(args: Any) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    if args.share:
        work(args)
        return
    started = time.time()
    command = [sys.executable, *sys.argv]
    running = [
        subprocess.Popen([*command, "--share", f"{number}/{args.workers}"])
        for number in range(args.workers)
    ]
    (args.out / "recipe.json").write_text(json.dumps(asdict(recipe_of(args)), indent=1))
    while any(process.poll() is None for process in running):
        time.sleep(PACKED_EVERY)
        pack(args.state / "readings", args.out)  # a command that is stopped loses little
    codes = [process.wait() for process in running]
    say(f"workers ended with {codes} after {time.time() - started:.0f} s")
    pack(args.state / "readings", args.out)


def pack(readings: Path, out: Path) -> None:
    """The readings of all finished models in a few files."""
    finished = sorted(readings.glob("*.json"))  # written last
    for number in range(min(PACKS, len(finished))):
        partial = out / f"readings-{number}.partial"
        with zipfile.ZipFile(partial, "w") as archive:
            for record in finished[number::PACKS]:
                for path in (record, *sorted(readings.glob(f"{record.stem}--*.npz"))):
                    archive.write(path, path.name)
        partial.replace(out / f"readings-{number}.zip")


def work(args: Any) -> None:
    import torch

    from heldout.lab.models.grid import Grid, PreparedGrid
    from heldout.lab.models.medical import (
        joined_model,
        medical_arms,
        medical_bases,
        medical_reads,
    )
    from heldout.lab.models.training import clock

    torch.set_float32_matmul_precision("high")
    torch.set_num_threads(2)
    number, count = map(int, args.share.split("/"))
    every = medical_bases(args.bases, args.first)
    arms = medical_arms(every)
    if args.arms:
        wanted = args.arms.split(",")
        arms = [arm for arm in arms if kind_of(arm) in wanted]
        arms.sort(key=lambda arm: wanted.index(kind_of(arm)))
    reads = medical_reads(arms)
    if args.sheets:
        wanted = args.sheets.split(",")
        reads = {
            arm: tuple(name for name in names if name in wanted) or names
            for arm, names in reads.items()
        }
    recipe = recipe_of(args)
    prepared = PreparedGrid(args.folder)
    until = clock("cpu") + 60 * args.minutes
    grid = Grid(
        prepared,
        recipe,
        args.state,
        args.device,
        not args.plain,
        reads,
        say,
        build=lambda seed: joined_model(args.folder, seed),
    )
    finished = grid.run(every[number::count], arms, until=until)
    log = args.state / f"training-log-{number}.json"
    log.write_text(json.dumps(grid.log))
    if args.device.startswith("cuda"):
        say(f"worker {number}: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB at most")
    say(f"worker {number}: {'finished' if finished else 'stopped by the clock'}")


def kind_of(arm: Any) -> str:
    return str(arm.name).partition("-")[2]


def tables(args: Any) -> None:
    from heldout.lab.models.grid import PreparedGrid
    from heldout.lab.models.medical import PICTURED
    from heldout.lab.models.tables import write_tables

    readings = unpacked(args.readings)
    weights = json.loads((args.folder / "weights.json").read_text())
    write_tables(
        PreparedGrid(args.folder),
        PICTURED,
        readings,
        args.out,
        weights=weights,
        dtype="bfloat16, logits in float32",
        tell=say,
    )


def unpacked(folder: Path) -> list[Path]:
    """The models' records of all zip files; their readings lie beside them."""
    target = folder / "unpacked"
    shutil.rmtree(target, ignore_errors=True)
    for packed in sorted(folder.glob("readings-*.zip")):
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(target)
    return sorted(target.glob("*.json"))


def orders(args: Any) -> None:
    """Per arm: the gain of the released order over documents of eight items, by where they are cut."""
    import numpy as np
    from scipy import stats

    from heldout.lab.models.grid import PreparedGrid, load_reading
    from heldout.lab.models.medical import ORDERED
    from heldout.lab.models.medical_data import CUTS, DOCUMENT_SHUFFLES

    keys = [key.split("/") for key in PreparedGrid(args.folder).sheet(ORDERED).keys]
    cells: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for record in unpacked(args.readings):
        path = record.with_name(f"{record.stem}--{ORDERED}.npz")
        if not path.exists():
            continue
        arm = record.stem.partition("-")[2] or "base"
        sums = load_reading(path).sums
        for cut in CUTS:
            own = sums[[place for place, key in enumerate(keys) if int(key[0]) == cut]]
            documents = own.reshape(-1, 1 + DOCUMENT_SHUFFLES)
            gains = documents[:, 0] - documents[:, 1:].mean(1)
            p = float(stats.ttest_1samp(gains, 0).pvalue)
            cells.setdefault((arm, cut), []).append((float(gains.mean()), p))
    print("| arm | models | first item | gain, nats per document | p |\n|---|--:|--:|--:|--:|")
    for (arm, cut), values in sorted(cells.items()):
        gains, ps = np.asarray(values).T
        print(
            f"| {arm} | {len(values)} | {cut} | {gains.mean():.2f} ({gains.min():.2f} to {gains.max():.2f}) "
            f"| {ps.min():.1g} to {ps.max():.1g} |"
        )


def slices(args: Any) -> None:
    """Area under the curve of each slice's entropies, seen against other half; clean arms on the same halves."""
    import numpy as np

    from heldout.detect.image_membership import ORDER, SHARE
    from heldout.lab.models._reading import sliced_rows
    from heldout.lab.models.grid import PreparedGrid, load_reading
    from heldout.lab.models.medical import SLAKE, VQA_RAD
    from heldout.model import ORDERS, SHARES, SLICES
    from heldout.stats import area

    chosen_on = ("med8", "med9")  # bases on which order and share were chosen
    prepared, cell = PreparedGrid(args.folder), (ORDERS.index(ORDER), SHARES.index(SHARE))
    areas: dict[tuple[str, str, bool], list[list[float]]] = {}
    for record in unpacked(args.readings):
        base, _, arm = record.stem.partition("-")
        name = VQA_RAD if arm.startswith("rad-") else SLAKE
        clean = record.with_name(f"{base}-{'rad-clean' if name == VQA_RAD else 'clean-a'}")
        if "half-" not in arm or not (path := Path(f"{clean}--{name}.npz")).exists():
            continue
        sheet = prepared.sheet(name)
        items = sum(len(page["items"]) for page in sheet.released)
        leaked = json.loads(record.read_text())["leaked"]
        seen = np.isin(sheet.scored_picture[sliced_rows(sheet)][:items], leaked)
        for who, file in ((arm, record.with_name(f"{record.stem}--{name}.npz")), ("clean", path)):
            values = load_reading(file).entropies[:items, :, cell[0], cell[1]]
            key = (arm, who, base in chosen_on)
            areas.setdefault(key, []).append([area(-column, seen) for column in values.T])
    print(f"| halves of | model | bases | {' | '.join(SLICES)} |\n|---|---|---|--:|--:|--:|")
    for (arm, who, chosen), bases in sorted(areas.items()):
        means = " | ".join(f"{value:.3f}" for value in np.mean(bases, axis=0))
        print(f"| {arm} | {who} | {'chosen on' if chosen else 'others'} ({len(bases)}) | {means} |")


CONVICTING = ("twin-drop", "twin-memory", "twin-margin", "option-margin", "combined")
FEW_BASES = 4  # whose clean-a is a reference: those that follow in number


def verdicts(args: Any) -> None:
    """Per model of SLAKE and detector, in one planned look: the claim's status beside references of other bases, each
    of which counts as a family. What is finished is not made again."""
    import re

    import polars as pl

    from heldout.detect import DetectSettings, ScoreTables
    from heldout.lab.models.medical import SLAKE
    from heldout.lab.power.models import narrowed, read_grid
    from heldout.store import Run
    from heldout.verdict import examine

    grid = read_grid(args.runs)
    tables = ScoreTables.load(Run.open(grid.folder / SLAKE))
    bases = sorted({model.base for model in grid.models.values()}, key=lambda name: int(name[3:]))
    bases = [base for base in bases if f"{base}-clean-a" in tables.answering]
    args.out.mkdir(parents=True, exist_ok=True)
    wanted = args.arms.split(",") if args.arms else []
    for name in sorted(
        tables.answering, key=lambda name: [int(n) for n in re.findall(r"\d+", name)]
    ):
        model, target = grid.models[name], args.out / f"{name}.parquet"
        if target.exists() or (wanted and model.arm not in wanted):
            continue
        later = [base for base in bases if int(base[3:]) > int(model.base[3:])]
        others = [*later, *(base for base in bases if base not in later and base != model.base)]
        references = [f"{base}-clean-a" for base in others[:FEW_BASES]]
        families = tuple((reference, grid.models[reference].base) for reference in references)
        settings = DetectSettings(
            baselines=tuple(references), families=((name, model.base), *families)
        )
        # One look: the claims of all detectors are one family, and corrected together.
        seen = examine(narrowed(tables, [name, *references]), CONVICTING, settings)
        rows = []
        for detector in CONVICTING:
            mine = [f for f in seen.findings if f.cell.model == name and f.detector == detector]
            found = next(iter(mine), None)
            claim = next((c for c in seen.claims if found and found.id in c.findings), None)
            rows.append(
                {
                    "model": name,
                    "base": model.base,
                    "arm": model.arm,
                    "role": model.role(SLAKE),
                    "dose": model.planted.dose if model.planted else 0,
                    "detector": detector,
                    "references": len(references),
                    "p": found.p if found else None,
                    "direction": found.direction if found else None,
                    "status": claim.status if claim else "not testable",
                    "why": claim.why if claim else "",
                }
            )
        pl.DataFrame(rows, infer_schema_length=None).write_parquet(target)
        statuses = ", ".join(f"{row['detector']} {row['status']}" for row in rows)
        say(f"{name}: {statuses}")


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {os.getpid()} {text}", flush=True)


if __name__ == "__main__":
    main()
