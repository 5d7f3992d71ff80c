"""The standing grid and the demo's models: bases, and the contamination planted in their branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from heldout.lab.grid import Base
from heldout.lab.planting import Arm, Contamination

DOSES = (1, 2, 3, 5, 10)
DEMO = "demo"  # its benchmarks are demo0, demo1 …, by the seed of the release


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
    for dose in (1, 3, 10):
        yield f"half-d{dose}", Contamination(world, dose, share=0.5)


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
    yield "diluted13-d10", replace(ten, dilution=0.133)
    yield "diluted7-d10", replace(ten, dilution=0.067)
    for dose in (1, 3, 10):
        yield f"pretrain-d{dose}", replace(ten, dose=dose, stage="pretrain")
    yield "pretrain-clean", Contamination(world, 0, stage="pretrain")


def demo_bases() -> list[Base]:
    """Where the demo's pair branches, and two outsiders of another lineage: one that knows the world from
    pictures of its own, and one that has never seen it."""
    return [
        Base(DEMO, ("scenes",), 40),
        Base(f"{DEMO}-mixed", ("films", "scenes"), 41),
        Base(f"{DEMO}-films", ("films",), 42),
    ]


def demo_arms(seeds: Iterable[int]) -> list[Arm]:
    """Of every release one model that saw it ten times, and one trained as long on fresh data."""
    arms: list[Arm] = []
    for seed in seeds:
        name = f"{DEMO}{seed}"
        arms.append(Arm(f"{name}-d10", DEMO, 4000 + 2 * seed, Contamination(name, 10)))
        arms.append(Arm(f"{name}-clean", DEMO, 4001 + 2 * seed, Contamination(name, 0)))
    return arms


def demo_reads(arms: Iterable[Arm]) -> dict[str, tuple[str, ...]]:
    """Each reads its own release; bases read them all."""
    return {arm.name: (arm.contamination.benchmark,) for arm in arms}
