"""Procedural visual worlds: a benchmark, a leaky corpus and exact twins from a seed."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.scenes.benchmark import (
        NAME,
        DrawnScene,
        WrittenBenchmark,
        read_scenes,
        refuse_leftovers,
        write_benchmark,
        write_scenes,
    )
    from heldout.scenes.films import ZONES, Film, ask_film, random_film, render_film, vary_film
    from heldout.scenes.leak_kinds import BY_ANSWER, BY_QUESTION, KINDS, REWORDED_ALONE, told_apart
    from heldout.scenes.leaks import (
        FILMS,
        SCENES,
        Leaking,
        LeakKind,
        LeakWorld,
        caption,
        paraphrased,
    )
    from heldout.scenes.leaky_corpus import Truth, WrittenCorpus, write_corpus
    from heldout.scenes.probes import RELATIONS, IsRelated, RelationOf, SceneProbe
    from heldout.scenes.publishing import border, compound, watermark
    from heldout.scenes.questions import (
        NoTwinError,
        SceneQuestion,
        as_guessable,
        ask,
        facts,
        name,
        read_question,
        twin_scene,
    )
    from heldout.scenes.render import render
    from heldout.scenes.world import (
        ATTRIBUTES,
        COLOURS,
        SHAPES,
        Background,
        Scene,
        SceneObject,
        pick,
        random_scene,
        rearranged,
        vary,
    )

__all__ = [
    "ATTRIBUTES",
    "BY_ANSWER",
    "BY_QUESTION",
    "COLOURS",
    "FILMS",
    "KINDS",
    "NAME",
    "RELATIONS",
    "REWORDED_ALONE",
    "SCENES",
    "SHAPES",
    "ZONES",
    "Background",
    "DrawnScene",
    "Film",
    "IsRelated",
    "LeakKind",
    "LeakWorld",
    "Leaking",
    "NoTwinError",
    "RelationOf",
    "Scene",
    "SceneObject",
    "SceneProbe",
    "SceneQuestion",
    "Truth",
    "WrittenBenchmark",
    "WrittenCorpus",
    "as_guessable",
    "ask",
    "ask_film",
    "border",
    "caption",
    "compound",
    "facts",
    "name",
    "paraphrased",
    "pick",
    "random_film",
    "random_scene",
    "read_question",
    "read_scenes",
    "rearranged",
    "refuse_leftovers",
    "render",
    "render_film",
    "told_apart",
    "twin_scene",
    "vary",
    "vary_film",
    "watermark",
    "write_benchmark",
    "write_corpus",
    "write_scenes",
]

__getattr__ = load_on_first_use(__name__, __file__)
