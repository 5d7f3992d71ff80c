"""Cards of items of a benchmark or a synthesis: rated on four scales, and accepted or not."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heldout.benchmark import Benchmark, canonical_metadata
from heldout.errors import InputError
from heldout.image import FileOnDisk, ImageRef, Location
from heldout.review._pictures import Album, CardPicture, same_bytes, same_pixels
from heldout.review.card import ReviewCard
from heldout.store import Run, inside, opened_table
from heldout.synth import (
    BY_KEY,
    LETTERS,
    Category,
    Draft,
    FigureImage,
    PaperFigure,
    SynthStage,
    finished,
    read_rows,
)

MOST = 6  # pictures of one item that are shown
# words in names of columns that would give it away
_OPINION = ("rubric", "verif", "accepted", "rejected")


@dataclass(frozen=True)
class VerifierRecord:
    """What a verifier said of an item: accepted or not, and its rubric line by line."""

    accepted: bool | None
    rubric: tuple[Mapping[str, Any], ...]

    @property
    def failed(self) -> list[str]:
        """Titles of the essential criteria that it found missing."""
        return [
            str(line.get("title", "?"))
            for line in self.rubric
            if str(line.get("category", "")).lower() == "essential"
            and line.get("score") in (0, "0")
        ]


def run_cards(run: Run) -> list[ReviewCard]:
    album = Album(run)
    return [_from_table(row, album) for row in run.read_table("items").to_pylist()]


def benchmark_cards(benchmark: Benchmark) -> list[ReviewCard]:
    return [
        _example_card(
            example.id,
            example.images[0].name if example.images else example.id,
            example.question,
            example.options,
            example.answer,
            canonical_metadata(example.metadata),
            [_found(ref) for ref in example.images[:MOST]],
        )
        for example in benchmark
    ]


def _found(ref: ImageRef) -> CardPicture:
    # It was just read from the benchmark: there is no digest to compare it with.
    return CardPicture(ref.name, lambda: [ref], lambda data, image: True)


def _from_table(row: Mapping[str, Any], album: Album) -> ReviewCard:
    identifier = row["benchmark_id"]
    shown = zip(row["image_names"][:MOST], row["image_digests"], strict=False)
    pictures = [
        CardPicture(
            name, functools.partial(album.of_benchmark, identifier, index), same_pixels(digest)
        )
        for index, (name, digest) in enumerate(shown)
    ]
    metadata = json.loads(row["metadata"] or "{}")
    words = (row["question"], row["options"] or (), row["answer"])
    return _example_card(identifier, row["cluster"], *words, metadata, pictures)


def _example_card(
    identifier: str,
    cluster: str,
    question: str | None,
    options: Iterable[str],
    answer: str | None,
    metadata: Mapping[str, str],
    pictures: Iterable[CardPicture],
) -> ReviewCard:
    verifier = verifier_of(metadata)
    shown = {
        key: value
        for key, value in metadata.items()
        if not any(part in key.lower() for part in _OPINION)
    }
    return ReviewCard(
        subject=identifier,
        cluster=cluster,
        content={
            "id": identifier,
            "question": question or "",
            "options": list(options),
            "answer": answer or "",
            "metadata": shown,
        },
        hint={
            "accepted": verifier.accepted,
            "failed": verifier.failed,
            "rubric": [dict(line) for line in verifier.rubric],
        },
        pictures={f"image {place}": picture for place, picture in enumerate(pictures, 1)},
    )


def verifier_of(metadata: Mapping[str, Any]) -> VerifierRecord:
    """The verifier's opinion as an item's columns carry it: ``rubric`` (a list of lines with title,

    category and score), ``accepted``, or both inside ``verifier``. Without ``accepted``, an item whose
    rubric fails an essential criterion was rejected.
    """
    inside = _parsed(metadata.get("verifier"))
    inside = inside if isinstance(inside, dict) else {}
    rubric = _parsed(metadata.get("rubric", inside.get("rubric")))
    if isinstance(rubric, dict):
        rubric = rubric.get("rubric")
    lines = (
        tuple(line for line in rubric if isinstance(line, dict)) if isinstance(rubric, list) else ()
    )
    accepted = _truth(metadata.get("accepted", inside.get("accepted")))
    if accepted is None and lines:
        accepted = not VerifierRecord(None, lines).failed
    return VerifierRecord(accepted, lines)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _truth(value: Any) -> bool | None:
    message = str(value).strip().lower()
    return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(
        message
    )


# Cards of a synthesis: items that the verifier accepted and rejected, alternating, for experts to rate.


_SAID = {True: "fine", False: "a fault", None: "nothing"}


def is_synthesized(run: Run) -> bool:
    return finished(run, SynthStage.VERIFY)


def synthesis_cards(run: Run) -> list[ReviewCard]:
    """Accepted and rejected items alternate, each in a random order that depends on their ids alone: the first
    twenty are a sample of both."""
    verdicts = {row["id"]: row for row in read_rows(run, SynthStage.VERIFY)}
    figures = map(PaperFigure.of_row, read_rows(run, SynthStage.SELECT))
    by_id = {figure.id: figure for figure in figures}
    sides: dict[bool, list[ReviewCard]] = {True: [], False: []}
    for draft in map(Draft.of_row, read_rows(run, SynthStage.GENERATE)):
        verdict = verdicts.get(draft.id)
        if verdict is not None:
            drawn_card = _synthesis_card(run, draft, by_id[draft.figure], verdict)
            sides[verdict["accepted"]].append(drawn_card)
    for cards in sides.values():
        cards.sort(key=lambda card: hashlib.sha256(card.subject.encode()).digest())
    return list(_in_turns(sides[True], sides[False]))


def _in_turns(accepted: list[ReviewCard], rejected: list[ReviewCard]) -> Iterator[ReviewCard]:
    for pair in itertools.zip_longest(accepted, rejected):
        yield from (card for card in pair if card is not None)


def _synthesis_card(
    run: Run, draft: Draft, figure: PaperFigure, verdict: Mapping[str, Any]
) -> ReviewCard:
    lines = [_line(line) for line in verdict["rubric"]]
    failed = [
        line["title"] for line in lines if line["category"] == "essential" and not line["met"]
    ]
    metadata = {"caption": figure.caption, "source": figure.attribution or figure.article}
    if figure.references:
        metadata["mentions"] = " … ".join(figure.references)[:1500]
    return ReviewCard(
        subject=draft.id,
        cluster=figure.article,
        content={
            "id": draft.id,
            "question": draft.question,
            "options": list(draft.options),
            "answer": draft.options[LETTERS.index(draft.answer)],
            "metadata": metadata,
        },
        hint={
            "accepted": verdict["accepted"],
            "failed": failed,
            "reason": verdict["reason"],
            "rubric": lines,
        },
        pictures={
            f"image {place}": _figure(run, image)
            for place, image in enumerate(figure.images[:MOST], 1)
        },
    )


def _line(line: Mapping[str, Any]) -> dict[str, Any]:
    """A criterion as the page shows it, with what code and verifier say."""
    criterion = BY_KEY[line["criterion"]]
    penalty = criterion.category is Category.PENALTY
    opinions = {
        who: None if line[who] is None else line[who] is not penalty for who in ("code", "verifier")
    }
    fine = line["met"] is not penalty
    notes = ""
    if opinions["code"] is not None and opinions["code"] is not opinions["verifier"]:
        notes = f"disputed: code says {_SAID[opinions['code']]}, the verifier {_SAID[opinions['verifier']]}"
    return {
        "title": criterion.title,
        "category": str(criterion.category),
        "weight": criterion.weight,
        "score": criterion.weight if line["met"] else 0,
        "met": fine,
        "code": opinions["code"],
        "verifier": opinions["verifier"],
        "notes": "; ".join(part for part in (line["note"], notes) if part),
    }


def _figure(run: Run, image: FigureImage) -> CardPicture:
    place = FileOnDisk(str(inside(run.path, image.path)))
    return CardPicture(image.sha256[:12], lambda: [place], same_bytes(image.sha256))


# Cards of twins: the original, what was kept of it, the new picture, and both answers.


SIDES = {"original": "original", "edges": "edges", "picture": "twin"}
NEEDED = ("benchmark_id", "picture", "new_answer")


def twin_cards(run: Run) -> list[ReviewCard]:
    path = run.table_path("twins")
    if not path.exists():
        raise InputError(f"{run.path} has no twins to judge: it has no tables/{path.name}")
    with opened_table(path) as file:  # also one that another program wrote
        rows = file.read().to_pylist()
    if rows and (missing := [name for name in NEEDED if name not in rows[0]]):
        raise InputError(f"{path} has no column {', '.join(missing)}: make the twins again")
    return [_twin_card(run, row) for row in rows]


def _twin_card(run: Run, row: Mapping[str, Any]) -> ReviewCard:
    identifier = str(row["benchmark_id"])
    pictures = {
        side: _picture(run, str(row[column])) for column, side in SIDES.items() if row.get(column)
    }
    fields = ("image_name", "question", "old_answer", "new_answer", "caption", "renderer")
    return ReviewCard(
        subject=identifier,
        cluster=str(row.get("image_name") or identifier),
        content={
            "id": identifier,
            **{name: str(row.get(name) or "") for name in fields},
            "options": options_of(row.get("options")),
        },
        hint={
            "verifier": str(row.get("verifier") or ""),
            "reason": str(row.get("verifier_reason") or ""),
        },
        pictures=pictures,
    )


def options_of(value: Any) -> list[str]:
    """A list, or a list as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return [value] if value else []
    if isinstance(value, dict):
        return [f"{key}. {text}" for key, text in value.items()]
    return [str(part) for part in value] if isinstance(value, list | tuple) else []


def _picture(run: Run, name: str) -> CardPicture:
    def places() -> Iterable[Location]:
        return [FileOnDisk(str(inside(run.path, name)))]

    return CardPicture(name, places, lambda data, image: True)
