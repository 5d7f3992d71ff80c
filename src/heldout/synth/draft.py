"""The nouns of synthesis: a figure of a paper, and the item that a model drafts from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

LETTERS = "ABCDE"


@dataclass(frozen=True)
class FigureImage:
    """One image of a figure. ``location`` says where it was read: a path, or ``ARCHIVE!MEMBER``.
    ``path`` is empty until the figure is selected; then it names a copy of the original bytes in
    the run folder."""

    location: str
    sha256: str
    width: int
    height: int
    path: str = ""


@dataclass(frozen=True)
class PaperFigure:
    """A figure with its caption, the paragraphs that mention it, and where it comes from."""

    id: str  # "ARTICLE/FIGURE"
    article: str
    label: str  # as printed: "Figure 3"
    caption: str
    references: tuple[str, ...]
    images: tuple[FigureImage, ...]
    licence: str  # short name: "CC BY 4.0", "CC0", "unknown"
    licence_url: str
    redistributable: bool
    attribution: str
    source: str  # the file it was read from
    primary: str = ""
    secondary: str = ""
    licence_text: str = ""  # how an unknown licence begins

    def as_row(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> PaperFigure:
        images = tuple(FigureImage(**image) for image in row["images"])
        return cls(**{**row, "references": tuple(row["references"]), "images": images})


@dataclass(frozen=True)
class Draft:
    """A five-option item as the generator wrote it, before anybody accepted it."""

    id: str  # of the figure, with a running number where a figure has several
    figure: str
    question: str
    options: tuple[str, ...]  # A to E
    answer: str  # a letter
    archetype: str = ""
    generator: str = ""  # identity of the model and template, shortened
    raw: str = ""  # the reply it was read from
    extra: Mapping[str, str] = field(default_factory=dict)

    def as_row(self) -> dict[str, Any]:
        row = asdict(self)
        return {**row, "options": list(self.options), "extra": sorted(self.extra.items())}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Draft:
        return cls(**{**row, "options": tuple(row["options"]), "extra": dict(row["extra"])})

    def as_mcq(self) -> dict[str, Any]:
        """The item in the published form: question, options by letter, answer."""
        options = dict(zip(LETTERS, self.options, strict=False))
        return {"question": self.question, "options": options, "answer": self.answer}


def content_digest(draft: Draft, figure: PaperFigure) -> str:
    """SHA-256 of what an item asks: question, options, right option and images. Neither the order of the
    options or of the images nor case and blanks change it."""
    right = draft.options[LETTERS.index(draft.answer)]
    words = (draft.question, *sorted(map(_plain, draft.options)), right)
    parts = (*map(_plain, words), *sorted(image.sha256 for image in figure.images))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
