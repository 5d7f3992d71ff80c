"""The standing grid: which bases there are, and which contamination is planted in their branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from heldout.lab.contamination import Arm, Contamination
from heldout.lab.grid import Base

DOSES = (1, 2, 3, 5, 10)


def standing_bases(scenes: int = 3, films: int = 2, slake: int = 2) -> list[Base]:
    """Films are the outsiders of scenes and the other way round: neither has seen the other's world."""
    return [
        *(Base(f"scenes{seed}", ("scenes",), 10 + seed) for seed in range(scenes)),
        *(Base(f"films{seed}", ("films",), 20 + seed) for seed in range(films)),
        *(
            Base(f"slake{seed}", ("scenes", "films"), 30 + seed, ("slake",))
            for seed in range(slake)
        ),
    ]


def standing_arms(bases: list[Base]) -> list[Arm]:
    arms: list[Arm] = []
    for base in bases:
        world = base.real[0] if base.real else base.worlds[0]
        made = _all(world) if world == "scenes" else _doses(world)
        for number, (name, plan) in enumerate(made):
            arms.append(Arm(f"{base.name}-{name}", base.name, 1000 * base.seed + number, plan))
    return arms


def _doses(world: str) -> Iterator[tuple[str, Contamination]]:
    clean = Contamination(world, 0)
    yield "clean-a", clean
    yield "clean-b", clean
    for dose in DOSES:
        yield f"d{dose}", Contamination(world, dose)


def _all(world: str) -> Iterator[tuple[str, Contamination]]:
    yield from _doses(world)
    yield "clean-c", Contamination(world, 0)
    ten = Contamination(world, 10)
    for dose in (3, 10):
        for mode in ("language", "lora"):
            yield f"{mode}-d{dose}", replace(ten, dose=dose, mode=mode)
        yield f"shuffled-d{dose}", replace(ten, dose=dose, order="shuffled")
        yield f"paraphrased-d{dose}", replace(ten, dose=dose, paraphrased=True)
    yield "clean-lora", Contamination(world, 0, mode="lora")
    yield "image-d10", replace(ten, part="image")
    yield "text-d10", replace(ten, part="text")
    yield "half-d10", replace(ten, share=0.5)
    yield "diluted13-d10", replace(ten, dilution=0.133)
    yield "diluted7-d10", replace(ten, dilution=0.067)
    for dose in (1, 3, 10):
        yield f"pretrain-d{dose}", replace(ten, dose=dose, stage="pretrain")
    yield "pretrain-clean", Contamination(world, 0, stage="pretrain")
