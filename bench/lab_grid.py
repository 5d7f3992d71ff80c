"""The lab's grid of small models with known contamination: prepare, train and read, tables.

    python bench/lab_grid.py prepare --folder bench/out/lab/prep --slake ../shared/data/slake
    python bench/lab_grid.py train --folder bench/out/lab/prep --state lab-state --out out --minutes 9
    python bench/lab_grid.py tables --folder bench/out/lab/prep --readings out --out bench/out/lab/runs

``prepare`` and ``tables`` need the product; ``train`` needs torch, transformers, NumPy and Pillow, and goes on
where it was when it is given again with the same ``--state``. Several commands with ``--share`` and one
``--state`` divide the work among them, what is needed most first; what one of them left is taken up by
another. ``--clean-bases N`` is for N bases of either world (``--worlds``), of seeds that the grid does not have,
each with a clean arm: how often is a clean model accused? ``--demo`` is for the demo's models: ten releases of
scenes, of each a model that saw it and one that did not, and four outsiders.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import traceback
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

DEMO_SEEDS = 10
TRIES = 4  # of one entry of the work, before it is left out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "step", choices=("prepare", "releases", "paint", "train", "tables", "summary")
    )
    parser.add_argument("--folder", type=Path, required=True, help="what prepare writes")
    parser.add_argument("--slake", type=Path, help="SLAKE's folder, for the real tier")
    parser.add_argument("--images", type=int, default=96, help="pictures of each world's benchmark")
    parser.add_argument("--size", choices=("small", "medium", "larger", "toy"), default="medium")
    parser.add_argument(
        "--clean-bases", type=int, default=0, help="so many bases of further seeds, not the grid's"
    )
    parser.add_argument("--demo", action="store_true", help="the demo's models, not the grid's")
    parser.add_argument(
        "--first", type=int, default=0, help="first seed of the demo's ten releases"
    )
    parser.add_argument("--dose", type=int, default=30, help="how often the demo's pair saw it")
    parser.add_argument("--share", action="store_true", help="train: only work nobody has begun")
    parser.add_argument("--state", type=Path, help="train: bases and readings, kept between calls")
    parser.add_argument("--out", type=Path, help="train: what comes back; tables: run folders")
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="train: begin nothing after them"
    )
    parser.add_argument(
        "--last-base", type=float, help="train: begin no base after so many minutes"
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="train: begin no base that would not be read within --minutes, by the one before",
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--bases", default="", help="train: only these, by name, with commas")
    parser.add_argument("--arms", default="", help="train: only arms whose names hold one of these")
    parser.add_argument("--worlds", default="scenes,films", help="of paint and of --clean-bases")
    parser.add_argument("--pictures", type=int, help="to train on, of each world")
    parser.add_argument("--level", type=int, help="steps of a base's trunk")
    parser.add_argument("--fall", type=int, help="steps of its end")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--batch", type=int, help="rows of a step")
    parser.add_argument("--keep", default="", help="train: save these models, with commas")
    parser.add_argument(
        "--readings", type=Path, help="tables: folder with readings, or their zip files"
    )
    parser.add_argument("--sheets", default="", help="tables: only of these, with commas")
    parser.add_argument("--plain", action="store_true", help="train: do not compile")
    args = parser.parse_args()
    for name, grid, demo in (
        ("pictures", 30_000, 60_000),
        ("level", 4000, 4500),
        ("fall", 700, 700),
        ("batch", 512, 512),
    ):
        if getattr(args, name) is None:
            setattr(args, name, demo if args.demo else grid)
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

    from heldout.lab.models.grid import Grid, PreparedGrid, standing_recipe
    from heldout.lab.models.planting import work_order
    from heldout.lab.models.training import clock

    started = clock("cpu")
    until = started + 60 * args.minutes
    last_base = started + 60 * (args.last_base or args.minutes)
    torch.set_float32_matmul_precision("highest")  # readings are float32, not nearly so
    recipe = standing_recipe(
        size_of(args),
        level=args.level,
        fall=args.fall,
        rate=args.rate,
        batch=args.batch,
        pictures=args.pictures,
    )
    every, planned, reads = plan_of(args)
    if args.demo:  # the clean twin is trained as long as the other one
        recipe = replace(recipe, clean_steps=round(recipe.clean_steps * args.dose / 10))
    wanted = [name for name in args.bases.split(",") if name]
    by_name = {base.name: base for base in every}
    bases = [by_name[name] for name in wanted] or every
    chosen = [name for name in args.arms.split(",") if name]
    arms = [a for a in planned if not chosen or any(c in a.name for c in chosen)]
    work = work_order(bases, arms)
    prepared = PreparedGrid(args.folder)
    names = [base.name for base in every] + [arm.name for arm in arms] if args.demo else []
    keeps = frozenset(names or filter(None, args.keep.split(",")))
    grid = Grid(prepared, recipe, args.state, args.device, not args.plain, reads, say, keeps)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1))
    claims = Claims(args.state) if args.share else None
    finished = True
    left = list(enumerate(work))
    first = {base.name: number for number, (base, _) in reversed(left)}
    last = 0.0
    while left and clock("cpu") < until:
        begun = None
        for number, (base, own) in list(left):
            fresh, begins = not grid.done(base.name), first[base.name] == number
            entry = base.name if begins else f"{base.name}-later"
            if fresh and not begins:
                continue  # its base is being trained elsewhere
            late = clock("cpu") > last_base or clock("cpu") + last > until
            if fresh and late:
                left.remove((number, (base, own)))
                finished = False
            elif claims is None or claims.begun(entry):
                begun = (number, (base, own))
                break
            elif claims.over(entry):
                left.remove((number, (base, own)))
        if begun is None:
            time.sleep(1)
            continue
        left.remove(begun)
        before = clock("cpu")
        ended = attempt(grid, *begun[1], until)
        if args.whole:
            last = clock("cpu") - before
        finished = finished and ended
        if claims is not None:
            claims.close(entry, ended)
        (args.state / f"training-log-{entry}.json").write_text(json.dumps(grid.log))
        grid.log.clear()
        keep(grid, keeps, args.out)
    say(
        f"{'finished' if finished and not left else 'stopped by the clock'} after "
        f"{clock('cpu') - started:.0f} s"
    )
    if not args.share:
        pack(args.state, args.out)


def attempt(grid: Any, base: Any, arms: Any, until: float) -> bool:
    """A base and its arms. One arm that fails does not cost the others; a device that fails ends the command."""
    import torch

    ended = grid.run([base], [], until=until)
    for arm in arms:
        try:
            ended = grid.run([base], [arm], until=until) and ended
        except Exception:
            traceback.print_exc()
            torch.ones(1, device=grid.device).sum().item()
            say(f"{arm.name}: left out")
    return bool(ended)


def plan_of(args: Any) -> tuple[Any, Any, Any]:
    """Bases, arms, and what each of them reads."""
    if args.demo:
        from demo_grid import demo_arms, demo_bases, demo_reads

        arms = demo_arms(demo_seeds(args), args.dose)
        return demo_bases(), arms, demo_reads(arms)
    from heldout.lab.models.grid import reads_of
    from heldout.lab.models.planting import (
        clean_arms,
        clean_bases,
        standing_arms,
        standing_bases,
    )

    if args.clean_bases:
        of_world = [clean_bases(world, args.clean_bases) for world in args.worlds.split(",")]
        every = [base for bases in of_world for base in bases]
        return every, clean_arms(every), reads_of(every)
    slake = (args.folder / "slake.json").exists()
    every = standing_bases() if slake else standing_bases(slake=0)
    return every, standing_arms(every), reads_of(every)


class Claims:
    """Which command works on which entry: a file each, with the number of its process. What a process left
    that no longer runs is taken up by another, a few times."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "begun"
        self._folder.mkdir(parents=True, exist_ok=True)

    def begun(self, entry: str) -> bool:
        """Whether this command may begin the entry, which is its own from now on."""
        path = self._folder / entry
        if self.over(entry):
            return False
        if path.exists() and not _runs(path.read_text()):
            tries = self._folder / f"{entry}.tries"
            with tries.open("a") as file:
                file.write("x")
            path.unlink(missing_ok=True)
            if len(tries.read_text()) >= TRIES:
                self.close(entry, True)
                return False
        try:
            with path.open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True

    def close(self, entry: str, over: bool) -> None:
        """``over``: nobody is to take it up again."""
        if over:
            (self._folder / f"{entry}.over").touch()
        (self._folder / entry).unlink(missing_ok=True)

    def over(self, entry: str) -> bool:
        return (self._folder / f"{entry}.over").exists()


def _runs(number: str) -> bool:
    try:
        os.kill(int(number), 0)
    except ValueError:  # it is being written
        return True
    except OSError:
        return False
    return True


def pack(state: Path, out: Path) -> None:
    with zipfile.ZipFile(out / f"readings-{int(time.time())}.zip", "w") as archive:
        for path in sorted((state / "readings").iterdir()):
            archive.write(path, path.name)
        for path in sorted(state.glob("training-log-*.json")):
            archive.write(path, path.name)


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
        PreparedGrid(args.folder),
        size_of(args),
        found,
        args.out,
        real_test=real,
        only=tuple(filter(None, args.sheets.split(","))),
        tell=say,
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
