"""The lab's grid of small models with known contamination: prepare, train and read, tables.

    python bench/lab_grid.py prepare --folder bench/out/lab/prep --slake ../shared/data/slake
    python bench/lab_grid.py train --folder bench/out/lab/prep --state lab-state --out out --minutes 9
    python bench/lab_grid.py tables --folder bench/out/lab/prep --readings out --out bench/out/lab/runs

``prepare`` and ``tables`` need the product; ``train`` needs torch, transformers and NumPy, and goes on
where it was when it is given again with the same ``--state``. Several commands with ``--share`` and one
``--state`` divide the bases among them. ``--demo`` is for the demo's models: ten releases of scenes, of
each a model that saw it and one that did not, and four outsiders.
"""

from __future__ import annotations

import argparse
import json
import time
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from demo_grid import DEMO_DOSE

DEMO_SEEDS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "step", choices=("prepare", "releases", "paint", "train", "tables", "summary")
    )
    parser.add_argument("--folder", type=Path, required=True, help="what prepare writes")
    parser.add_argument("--slake", type=Path, help="SLAKE's folder, for the real tier")
    parser.add_argument("--images", type=int, default=96, help="pictures of each world's benchmark")
    parser.add_argument("--size", choices=("small", "medium", "larger", "toy"), default="medium")
    parser.add_argument("--demo", action="store_true", help="the demo's models, not the grid's")
    parser.add_argument(
        "--first", type=int, default=0, help="first seed of the demo's ten releases"
    )
    parser.add_argument(
        "--dose", type=int, default=DEMO_DOSE, help="how often the demo's pair saw it"
    )
    parser.add_argument("--share", action="store_true", help="train: only bases nobody has begun")
    parser.add_argument("--state", type=Path, help="train: bases and readings, kept between calls")
    parser.add_argument("--out", type=Path, help="train: what comes back; tables: run folders")
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="train: begin nothing after them"
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--bases", default="", help="train: only these, by name, with commas")
    parser.add_argument("--arms", default="", help="train: only arms whose names hold one of these")
    parser.add_argument("--worlds", default="scenes,films", help="paint: which")
    parser.add_argument("--pictures", type=int, default=60_000)
    parser.add_argument("--level", type=int, default=4500, help="steps of a base's trunk")
    parser.add_argument("--fall", type=int, default=700, help="steps of its end")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--keep", default="", help="train: save these models, with commas")
    parser.add_argument(
        "--readings", type=Path, help="tables: folder with readings, or their zip files"
    )
    parser.add_argument("--plain", action="store_true", help="train: do not compile")
    args = parser.parse_args()
    steps = (prepare, releases, paint, train, tables, summary)
    {step.__name__: step for step in steps}[args.step](args)


def prepare(args: Any) -> None:
    from heldout.lab.models.tables import prepare_grid

    real = None
    if args.slake is not None:
        real = (f"{args.slake}#split=train,lang=en", f"{args.slake}#split=test,lang=en")
    prepare_grid(args.folder, size_of(args), images=args.images, real=real, tell=say)


def releases(args: Any) -> None:
    """The demo's ten, one process each."""
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor() as cores:
        list(
            cores.map(
                one_release,
                [(args.folder, size_of(args), s, args.images) for s in demo_seeds(args)],
            )
        )


def one_release(job: Any) -> None:
    from demo_grid import prepare_demo

    folder, size, seed, images = job
    prepare_demo(folder, size, seeds=[seed], images=images, tell=say)


def paint(args: Any) -> None:
    """Training pictures of --worlds, before or while bases of other worlds are trained."""
    from heldout.lab.models.pool import Lengths
    from heldout.lab.models.pool import paint as paint_pool

    side = size_of(args).picture
    tokenizer = str(args.folder / "tokenizer.json")
    for world in args.worlds.split(","):
        paint_pool(world, args.pictures, 0, tokenizer, side, Lengths(), args.state / "pool")


def train(args: Any) -> None:
    import torch

    from demo_grid import demo_arms, demo_bases, demo_reads
    from heldout.lab.models.grid import Grid, PreparedGrid, reads_of, standing_recipe
    from heldout.lab.models.planting import standing_arms, standing_bases
    from heldout.lab.models.training import clock

    started = clock("cpu")
    until = started + 60 * args.minutes
    torch.set_float32_matmul_precision("highest")  # readings are float32, not nearly so
    recipe = standing_recipe(
        size_of(args),
        level=args.level,
        fall=args.fall,
        rate=args.rate,
        batch=args.batch,
        pictures=args.pictures,
    )
    every = demo_bases() if args.demo else standing_bases()
    planned = demo_arms(demo_seeds(args), args.dose) if args.demo else standing_arms(every)
    if args.demo:  # the clean twin is trained as long as the other one
        recipe = replace(recipe, clean_steps=round(recipe.clean_steps * args.dose / 10))
    reads = demo_reads(planned) if args.demo else reads_of(every)
    wanted = [name for name in args.bases.split(",") if name]
    by_name = {base.name: base for base in every}
    bases = [by_name[name] for name in wanted] or every
    chosen = [name for name in args.arms.split(",") if name]
    arms = [a for a in planned if not chosen or any(c in a.name for c in chosen)]
    prepared = PreparedGrid(args.folder)
    names = [base.name for base in every] + [arm.name for arm in arms] if args.demo else []
    keeps = frozenset(names or filter(None, args.keep.split(",")))
    grid = Grid(prepared, recipe, args.state, args.device, not args.plain, reads, say, keeps)
    finished = True
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1))
    for base in bases:
        if not args.share or begun(args.state, base.name):
            finished = grid.run([base], arms, until=until) and finished
            (args.state / f"training-log-{base.name}.json").write_text(json.dumps(grid.log))
            grid.log.clear()
            keep(grid, keeps, args.out)
    say(
        f"{'finished' if finished else 'stopped by the clock'} after {clock('cpu') - started:.0f} s"
    )
    with zipfile.ZipFile(args.out / f"readings-{int(time.time())}.zip", "w") as archive:
        for path in sorted((args.state / "readings").iterdir()):
            archive.write(path, path.name)
        for path in sorted(args.state.glob("training-log-*.json")):
            archive.write(path, path.name)


def begun(state: Path, base: str) -> bool:
    """Whether this command is the first to begin a base."""
    try:
        (state / "begun" / base).mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def keep(grid: Any, names: Any, out: Path) -> None:
    """Chosen models as checkpoints that the product opens, each zipped on its own."""
    from heldout.lab.models.vlm import save_model

    for name in sorted(names):
        if not (out / f"checkpoint-{name}.zip").exists() and grid.restore(name):
            folder = save_model(
                grid.state / "checkpoints" / name,
                grid.model,
                grid.recipe.size,
                grid.prepared.tokenizer,
                half=True,
            )
            with zipfile.ZipFile(
                out / f"checkpoint-{name}.zip", "w", zipfile.ZIP_DEFLATED
            ) as archive:
                for path in sorted(folder.iterdir()):
                    archive.write(path, f"{name}/{path.name}")


def tables(args: Any) -> None:
    from heldout.lab.models.grid import PreparedGrid
    from heldout.lab.models.tables import write_tables

    for packed in sorted(args.readings.glob("readings-*.zip")):
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(args.readings)
    found = readings_in(args.readings)
    real = f"{args.slake}#split=test,lang=en" if args.slake is not None else None
    write_tables(
        PreparedGrid(args.folder), size_of(args), found, args.out, real_test=real, tell=say
    )


def readings_in(folder: Path) -> list[Path]:
    others = ("training-log", "recipe")
    return sorted(path for path in folder.glob("*.json") if not path.stem.startswith(others))


def summary(args: Any) -> None:
    """Exact replies by arm, as means over bases: does the clean model do the task, does a leak show?"""
    rows: dict[tuple[str, str], list[dict[str, float]]] = {}
    spent = [0.0, 0.0]
    models = [json.loads(path.read_text()) for path in readings_in(args.readings)]
    for one in models:
        spent = [spent[0] + one["train_seconds"], spent[1] + one["read_seconds"]]
        base, _, arm = one["name"].partition("-")
        world = base.rstrip("0123456789")
        found = one["accuracy"][world]
        arm = "clean" if arm in ("clean-a", "clean-b", "clean-c") else arm or "base"
        rows.setdefault((world, arm), []).append({v: cell["all"][0] for v, cell in found.items()})
    shown = ("original", "twin", "no-image", "rotation-1", "confused-choices")
    print("| benchmark | arm | models | " + " | ".join(shown) + " |")
    for (world, arm), found in rows.items():
        means = [
            f"{sum(one[v] for one in found) / len(found):.3f}" if v in found[0] else ""
            for v in shown
        ]
        print(f"| {world} | {arm} | {len(found)} | " + " | ".join(means) + " |")
    print(f"{len(models)} models, {spent[0]:.0f} s of training, {spent[1]:.0f} s of reading")


def demo_seeds(args: Any) -> range:
    return range(args.first, args.first + DEMO_SEEDS)


def size_of(args: Any) -> Any:
    from heldout.lab.models.vlm import LARGER, MEDIUM, SMALL, TOY

    if args.demo and args.size == "medium":
        return SMALL  # three of them have to fit into the package
    return {"small": SMALL, "medium": MEDIUM, "larger": LARGER, "toy": TOY}[args.size]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    main()
