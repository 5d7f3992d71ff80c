"""heldout lab train: small models whose contamination is known, and their tables."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.show import console
from heldout.errors import InputError, require

EXAMPLE = (
    "Example: heldout lab train --out runs/lab --size toy --base scenes0 --arm scenes0-d1 --images 4 "
    "--steps 20 --pictures 40"
)


class ModelSize(StrEnum):
    small = "small"
    medium = "medium"
    larger = "larger"
    toy = "toy"


def train_command(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for models, readings and runs.")
    ],
    base: Annotated[
        list[str], typer.Option("--base", metavar="NAME", help="Only these bases; repeatable.")
    ] = [],  # noqa: B006 - typer copies defaults
    arm: Annotated[
        list[str],
        typer.Option("--arm", metavar="NAME", help="Only these, or like '*-d10'; repeatable."),
    ] = [],  # noqa: B006
    keep: Annotated[
        list[str], typer.Option("--keep", metavar="NAME", help="Save this model; repeatable.")
    ] = [],  # noqa: B006
    size: Annotated[
        ModelSize, typer.Option("--size", help="medium: 3.3 million weights; small: 1.9.")
    ] = ModelSize.medium,
    images: Annotated[int, typer.Option("--images", min=4, help="Of each benchmark.")] = 96,
    pictures: Annotated[
        int, typer.Option("--pictures", min=8, help="Painted to train on, per world.")
    ] = 60_000,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Of a base's training.")] = 4500,
    batch: Annotated[int, typer.Option("--batch", min=2, help="Rows of one step.")] = 512,
    real: Annotated[
        str | None,
        typer.Option("--real", metavar="PATH", help="SLAKE's folder, for the tier of real data."),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda …")] = "auto",
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.01, help="Begin nothing after them.")
    ] = 60.0,
    seed: Annotated[int, typer.Option("--seed", help="Of the benchmarks.")] = 0,
) -> None:
    """Train a grid of small vision-language models with planted leaks, and score and ask every one.

    What is finished is not trained again: give the same command to go on.
    """
    require("torch", "hf", "training the lab's models")
    from heldout.lab import LARGER, MEDIUM, SMALL, TOY, standing_recipe, train_grid

    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; it needs the name of a folder")
    sizes = {
        ModelSize.small: SMALL,
        ModelSize.medium: MEDIUM,
        ModelSize.larger: LARGER,
        ModelSize.toy: TOY,
    }
    recipe = standing_recipe(
        sizes[size],
        level=steps,
        fall=max(1, round(0.155 * steps)),
        batch=batch,
        texts=max(2, batch // 21),
        pictures=pictures,
    )
    splits = None
    if real is not None:
        splits = (f"{real}#split=train,lang=en", f"{real}#split=test,lang=en")
    finished = train_grid(
        out,
        recipe,
        images=images,
        real=splits,
        bases=base,
        arms=arm,
        keeps=keep,
        device=device,
        minutes=minutes,
        seed=seed,
        tell=lambda text: console().print(text, markup=False),
    )
    if not finished:
        console().print("the minutes ran out; give the same command again to go on")
    console().print(f"models: {out / 'runs' / 'models.json'}", soft_wrap=True)
    console().print(f"next: heldout detect {out / 'runs' / 'scenes'}", soft_wrap=True)
