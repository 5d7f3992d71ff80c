"""Rendered scenes as a source with exact truth: figures, items, and a verifier that computes.

No language model takes part, so that the funnel itself can be measured: with ``plant``, what is
wrong with an item is known, and so is which stage dropped it. The verifier reads the question,
finds what it asks for, and looks at the scene behind the picture; it never sees what was planted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from heldout.benchmark import parse_source
from heldout.image import FileOnDisk, ImageRef, pixel_digest
from heldout.scenes import NAME as SCENE_FILE
from heldout.scenes import (
    DrawnScene,
    Scene,
    SceneProbe,
    caption,
    facts,
    random_scene,
    read_question,
    read_scenes,
    render,
    write_scenes,
)
from heldout.store import Dropped
from heldout.synth._mechanical import check_by_code
from heldout.synth._verify import draft_batches, verdict_row
from heldout.synth.context import StageContext
from heldout.synth.draft import LETTERS, Draft, FigureImage, PaperFigure
from heldout.synth.ingest._images import look_at
from heldout.synth.planting import (
    COPIES,
    FAULTS,
    NEAR_MISSES,
    PlantedFault,
    copied,
    near_miss,
    write_planted,
)
from heldout.synth.rubric import BY_KEY
from heldout.synth.settings import SynthSettings

FIGURES, SIDE = 200, 224
_STREAM = 3  # separate from benchmark and corpus of the same seed
_LICENCE = ("CC0", "https://creativecommons.org/publicdomain/zero/1.0/", True)
VERIFIER = "scenes/1"  # the verifier that computes


def scene_figures(settings: SynthSettings, run: Path) -> Iterator[PaperFigure | Dropped]:
    """One rendered picture per figure, under CC0, with a true caption. With ``plant`` some figures
    show a picture of a benchmark in ``against``, changed as copies are, or nearly such a
    picture."""
    folder = run / "synth" / "rendered"
    folder.mkdir(parents=True, exist_ok=True)
    protected = _protected(settings) if settings.plant else []
    drawn: dict[str, DrawnScene] = {}
    planted: list[PlantedFault] = []
    for number in range(settings.limit or FIGURES):
        rng = np.random.default_rng((settings.seed, _STREAM, number))
        name, kind = f"scene-{number:05d}", ""
        if protected and rng.random() < settings.plant / 3:
            original, scene = protected[int(rng.integers(len(protected)))]
            kinds = (*COPIES, *NEAR_MISSES)
            kind = kinds[int(rng.integers(len(kinds)))]
            if kind in NEAR_MISSES:
                scene = near_miss(kind, scene, rng)
                picture = render(scene, SIDE)
            else:
                others = [render(random_scene(rng), SIDE) for _ in range(3)]
                picture = copied(kind, original.open(), rng, others)
            planted.append(PlantedFault(f"scenes/{name}", kind))
        else:
            scene = random_scene(rng)
            picture = render(scene, SIDE)
        path = folder / f"{name}.png"
        picture.save(path)
        image = look_at(path.read_bytes(), str(path), settings.shortest_side)
        assert isinstance(image, FigureImage)
        drawn[f"scenes/{name}"] = DrawnScene(scene, SIDE, pixel_digest(picture))
        yield PaperFigure(
            f"scenes/{name}",
            name,
            "",
            caption(scene, rng),
            (),
            (image,),
            *_LICENCE,
            "rendered by heldout",
            f"seed {settings.seed}",
            "rendered",
            "scene",
        )
    write_scenes(folder, drawn)
    write_planted(run, "figures", planted)


def _protected(settings: SynthSettings) -> list[tuple[ImageRef, Scene]]:
    """Pictures and scenes of the rendered benchmarks among ``against``."""
    items = []
    for spec in settings.against:
        path = parse_source(spec).path
        folder = path if path.is_dir() else path.parent
        if (folder / SCENE_FILE).is_file():
            for name, drawn in read_scenes(folder).items():
                items.append((ImageRef(name, FileOnDisk(str(folder / name))), drawn.scene))
    return items


def scenes_of(run: Path) -> dict[str, Scene]:
    """The scene behind every figure."""
    return {name: scene.scene for name, scene in read_scenes(run / "synth" / "rendered").items()}


def scene_drafts(
    settings: SynthSettings, run: Path, figures: Iterator[PaperFigure]
) -> Iterator[Draft]:
    """One item per figure, right by construction; with ``plant`` that share has one fault each."""
    scenes = scenes_of(run)
    planted: list[PlantedFault] = []
    for number, figure in enumerate(figures):
        rng = np.random.default_rng((settings.seed, _STREAM, number, 1))
        draft = scene_draft(figure.id, scenes[figure.id], rng)
        if draft is None:
            continue
        if rng.random() < settings.plant:
            kind = tuple(FAULTS)[int(rng.integers(len(FAULTS)))]
            faulty = FAULTS[kind](draft, scenes[figure.id], rng)
            if faulty is not None:
                draft = faulty
                planted.append(PlantedFault(figure.id, kind))
        yield draft
    write_planted(run, "items", planted)


def scene_draft(name: str, scene: Scene, rng: np.random.Generator) -> Draft | None:
    """A question with five options of which exactly one is right; None for a scene that allows none."""
    known = [
        (probe, answer) for probe, answer in facts(scene) if len(probe.choices) >= len(LETTERS)
    ]
    if not known:
        return None
    # Kind and answer are drawn before the question: most counts are one, so guessing "1" would often be right.
    # Large counts are drawn more often, because few scenes have them.
    known = _drawn(known, lambda fact: fact[0].content_type, rng)
    known = _drawn(known, lambda fact: fact[1], rng)
    probe, answer = known[int(rng.integers(len(known)))]
    drawn = _distractors(answer, probe.choices, rng)
    place = int(rng.integers(len(LETTERS)))
    options = (*drawn[:place], answer, *drawn[place:])
    return Draft(name, name, probe.text, options, LETTERS[place], generator=VERIFIER)


def _drawn(
    known: list[tuple[SceneProbe, str]],
    label: Callable[[tuple[SceneProbe, str]], str],
    rng: np.random.Generator,
) -> list[tuple[SceneProbe, str]]:
    """Those with one of the labels; words are as likely, numbers by their size."""
    labels = sorted({label(item) for item in known})
    weights = np.asarray([float(label) if label.isdigit() else 1.0 for label in labels])
    chosen = labels[int(rng.choice(len(labels), p=weights / weights.sum()))]
    return [item for item in known if label(item) == chosen]


def _distractors(
    answer: str, choices: tuple[str, ...], rng: np.random.Generator
) -> tuple[str, ...]:
    """Four wrong choices. Numbers will be shown in order: how many of them are smaller is drawn first, as
    far as the choices allow, so that the right one is not always the smallest."""
    wrong = [choices[place] for place in rng.permutation(len(choices)) if choices[place] != answer]
    needed = len(LETTERS) - 1
    if not answer.isdigit():
        return tuple(wrong[:needed])
    smaller = [choice for choice in wrong if int(choice) < int(answer)]
    larger = [choice for choice in wrong if int(choice) > int(answer)]
    below = int(rng.integers(max(0, needed - len(larger)), min(needed, len(smaller)) + 1))
    return (*smaller[:below], *larger[: needed - below])


def scene_verdicts(context: StageContext) -> Iterator[dict[str, Any]]:
    """Verdicts of the verifier that computes, beside those of code."""
    scenes = scenes_of(context.run.path)
    for batch in draft_batches(context):
        for draft, figure in batch:
            opinion = judge(draft, scenes[figure.id], figure.caption)
            code = check_by_code(draft, figure)
            yield verdict_row(draft, code, opinion, context.settings, VERIFIER)


def judge(draft: Draft, scene: Scene, words: str) -> dict[str, tuple[bool, str]]:
    """By criterion whether it is met, from the scene itself."""
    sentences = _sentences(draft.question)
    probes = [probe for sentence in sentences if (probe := _probe(sentence)) is not None]
    probe = probes[-1] if probes else None
    answer = probe.answer(scene) if probe else None
    right = [
        letter
        for letter, option in zip(LETTERS, draft.options, strict=True)
        if answer is not None and _says(option, answer)
    ]
    beside = [sentence for sentence in sentences if _probe(sentence) is None]
    false = [sentence for sentence in beside if _contradicts(sentence, scene)]
    unsupported = [
        sentence for sentence in beside if sentence not in false and not _supported(sentence, words)
    ]
    of_kind = [
        probe is not None
        and (option in probe.choices or any(_says(option, c) for c in probe.choices))
        for option in draft.options
    ]
    leaks = (
        answer is not None
        and probe is not None
        and _says(draft.question, answer)
        and not _says(probe.text, answer)
    )
    met = {
        "self-contained": True,
        "vocabulary": not unsupported,
        "diagnosis-leak": not leaks,
        "single-answer": right == [draft.answer],
        "option-type": all(of_kind) or probe is None,
        "clinical-validity": not false,
        "image-text": answer is not None,
        "distractors": all(of_kind),
        "parallel": True,
        "concision": True,
        "clarity": len(probes) == 1 and " and how many " not in draft.question,
        "answer-field": True,
        "schema": True,
        "forbidden-terms": False,
        "synonym-drift": bool(unsupported),
        "multiple-keys": len(right) > 1,
        "medical-inaccuracy": bool(false),
    }
    assert met.keys() == BY_KEY.keys()
    return {key: (value, "") for key, value in met.items()}


def _sentences(text: str) -> list[str]:
    """Parts that say or ask something: sentences, and what stands before a question after a comma."""
    parts = re.split(r"(?<=[.!?])\s+|,\s+(?=(?:what|which|how|where|is)\b)", text)
    return [part.strip() for part in parts if part.strip()]


def _probe(sentence: str) -> SceneProbe | None:
    return read_question(sentence[:1].upper() + sentence[1:])


def _says(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text, re.IGNORECASE) is not None


def _contradicts(sentence: str, scene: Scene) -> bool:
    """ "There are N objects." that are not N."""
    match = re.fullmatch(r"There are (\d+) objects\.", sentence)
    return match is not None and int(match[1]) != len(scene.objects)


def _supported(sentence: str, words: str) -> bool:
    """Content that the caption has, or that claims nothing."""
    claimed = {word.lower() for word in re.findall(r"[A-Za-z]{4,}|\d+", sentence)}
    harmless = {
        "look",
        "picture",
        "carefully",
        "this",
        "answer",
        "following",
        "question",
        "according",
        "caption",
    }
    return claimed <= harmless | {word.lower() for word in re.findall(r"[A-Za-z]{4,}|\d+", words)}
