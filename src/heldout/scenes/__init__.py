"""Procedural visual worlds: a benchmark, a leaky corpus and exact twins from a seed."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.scenes.benchmark import WrittenBenchmark, write_benchmark
    from heldout.scenes.captions import caption
    from heldout.scenes.leak_kinds import KINDS
    from heldout.scenes.leak_world import FILMS, SCENES, Leaking, LeakWorld
    from heldout.scenes.leaks import Kind
    from heldout.scenes.leaky_corpus import Truth, WrittenCorpus, write_corpus
    from heldout.scenes.questions import Question, ask
    from heldout.scenes.reading import read_question
    from heldout.scenes.render import render
    from heldout.scenes.scene_file import DrawnScene, read_scenes
    from heldout.scenes.twins import NoTwinError, twin_scene
    from heldout.scenes.world import (
        ATTRIBUTES,
        Background,
        Scene,
        SceneObject,
        random_scene,
        vary,
    )

__all__ = [
    "ATTRIBUTES",
    "FILMS",
    "KINDS",
    "SCENES",
    "Background",
    "DrawnScene",
    "Kind",
    "LeakWorld",
    "Leaking",
    "NoTwinError",
    "Question",
    "Scene",
    "SceneObject",
    "Truth",
    "WrittenBenchmark",
    "WrittenCorpus",
    "ask",
    "caption",
    "random_scene",
    "read_question",
    "read_scenes",
    "render",
    "twin_scene",
    "vary",
    "write_benchmark",
    "write_corpus",
]

__getattr__ = load_on_first_use(__name__, __file__)
