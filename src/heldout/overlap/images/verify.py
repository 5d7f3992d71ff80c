"""Verify candidates: read each pair again and let registration decide what it is."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from PIL import Image

from heldout.corpus import Corpus, CorpusItem
from heldout.engine import moved
from heldout.image import ImageRef, byte_digest, decode, image_error
from heldout.overlap.images._closeup import is_rewritten
from heldout.overlap.images._colours import (
    COLOURS_CHANGED,
    has_other_colours,
    is_recoloured_in_part,
)
from heldout.overlap.images._hues import in_words, turned_back, turned_hue
from heldout.overlap.images._pairs import Candidate, VerifyTask
from heldout.overlap.images._registration import Registration
from heldout.overlap.images._small import SMALL_SIDE, is_recoloured
from heldout.overlap.images._transform_words import WATERMARKED
from heldout.overlap.images.exact import Place, thumbnail
from heldout.overlap.images.features import PictureFeatures, cheap_features
from heldout.overlap.images.hashes import RADII
from heldout.overlap.images.register import register
from heldout.overlap.nearness.threshold import degree
from heldout.overlap.relations import (
    CHANGED,
    COPIES,
    IN_PART,
    POSSIBLE_COPIES,
    RECOLOURED,
    TOO_SMALL,
    Modality,
    Relation,
    relate_text,
)
from heldout.store import MAY_PASS, Dropped, ShardResult, dropped_table, make_table

# Of the unverified pairs, those that failed have a row of their own in the dropped table.
COUNTS = ("pairs", "unverified_pairs", "failed_pairs", "missing")
NO_OPENCV = (
    "registration needs the package 'cv2', which is not installed: pip install 'heldout[vision]', "
    "then give the same command again"
)
NO_PICTURE = "the corpus holds an embedding of this picture, not the picture"
TEMPLATE = "shares a template"
EDITED_COPY = 0.92  # correlation of greys: of a copy that was edited, most stays as it was
_ALIGNED = 0.8  # of both pictures, or hues are compared of different things
_REMEMBERED = 384  # pictures of the benchmark, about a megabyte each
_SHOWN = (*COPIES, Relation.UNDECIDED, Relation.LOOK_ALIKE)


def can_register() -> bool:
    return importlib.util.find_spec("cv2") is not None


@dataclass(frozen=True)
class PairVerdict:
    """The verdict on one pair of pictures; ``unverified`` says why there is none."""

    registration: Registration | None
    own: str = ""  # digest of the corpus picture's file
    unverified: str | None = None

    @property
    def relation(self) -> Relation:
        return self.registration.relation if self.registration else Relation.UNDECIDED


@dataclass
class PairVerifier:
    """Judges pairs of pictures, each pair of files once, and keeps what a report shows of them."""

    pictures: Mapping[str, tuple[ImageRef, list[Place]]]
    registered: bool
    thumbnails: dict[str, dict[str, Any]] = field(default_factory=dict)
    _judged: dict[tuple[str, str], PairVerdict] = field(default_factory=dict)

    def judge(self, item: CorpusItem, candidates: list[Candidate]) -> Iterator[PairVerdict]:
        if item.image is None:
            yield from (PairVerdict(None, unverified=NO_PICTURE) for _ in candidates)
            return
        data = item.image.read()
        own = byte_digest(data)
        image: Image.Image | None = None
        theirs: PictureFeatures | None = None
        for candidate in candidates:
            known = (candidate.picture, own)
            if known not in self._judged:
                image = image or decode(data)
                if self.registered:
                    theirs = theirs or cheap_features(image)
                    self._judged[known] = self._registered(candidate, own, image, theirs)
                else:
                    self._judged[known] = PairVerdict(None, own, unverified=NO_OPENCV)
                    self._show(own, image)
            yield self._judged[known]

    def _registered(
        self, candidate: Candidate, own: str, image: Image.Image, theirs: PictureFeatures
    ) -> PairVerdict:
        ref, _ = self.pictures[candidate.picture]
        registration = _in_doubt(register(_features(ref), theirs), ref, image)
        if _features(ref).coloured and theirs.coloured:
            registration = _recoloured_as_a_whole(registration, ref, image)
        edited = registration.correlation >= EDITED_COPY
        if (candidate.template and registration.reason == IN_PART) or (
            candidate.series and registration.reason in (IN_PART, CHANGED) and not edited
        ):
            # Many pictures agree in these parts: they are the template's, and the rest differs.
            registration = replace(registration, relation=Relation.LOOK_ALIKE, reason=TEMPLATE)
        if registration.relation not in _SHOWN:
            return PairVerdict(registration, own)
        self._show(own, image)  # report and review lay it on the query by the registration's warp
        return PairVerdict(registration, own)

    def _show(self, own: str, image: Image.Image) -> None:
        if own not in self.thumbnails:
            self.thumbnails[own] = thumbnail(own, image)


def verify_shard(
    pictures: Mapping[str, tuple[ImageRef, list[Place]]],
    registered: bool,
    corpus: Corpus,
    task: VerifyTask,
    *,
    every: bool = True,
) -> ShardResult:
    """A verdict on every candidate pair of one task. Pure: the caller stores the result.

    Without ``every``, neighbours that only an encoder proposed and that are no copies are counted, not
    listed.
    """
    pending: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in task.candidates:
        pending[candidate.corpus_id].append(candidate)
    verifier = PairVerifier(pictures, registered)
    matches: list[dict[str, Any]] = []
    dropped: list[Dropped] = []
    counts = dict.fromkeys(COUNTS, 0) | {"pairs": len(task.candidates)}
    cut: Dropped | None = None
    for item in corpus.read(task.shard):
        if isinstance(item, Dropped):
            cut = item if item.scope == "many" and item.reason in MAY_PASS else cut
            continue
        if item.id not in pending:
            continue
        candidates = pending.pop(item.id)
        done = 0
        try:
            for candidate, judged in zip(candidates, verifier.judge(item, candidates), strict=True):
                done += 1
                counts["unverified_pairs"] += judged.unverified is not None
                places = pictures[candidate.picture][1]
                if not every and _is_mere_neighbour(candidate, judged):
                    continue
                matches += _rows(places, candidate, item, judged, corpus.name)
        except Exception as error:  # one item's failure must not cost the others
            problem = image_error(error)
            dropped.append(Dropped("corpus", item.id, problem.reason, problem.detail))
            counts["missing"] += problem.reason in MAY_PASS
            for name in ("unverified_pairs", "failed_pairs"):
                counts[name] += len(candidates) - done
        moved("pairs", len(candidates))
        if not pending:
            break
    if cut is not None and pending:  # it could be read before
        counts["missing"] += 1
        for item_id, candidates in pending.items():
            dropped.append(Dropped("corpus", item_id, cut.reason, cut.detail))
            for name in ("unverified_pairs", "failed_pairs"):
                counts[name] += len(candidates)
    return ShardResult(
        tables={
            "matches": make_table("matches", matches),
            "thumbnails": make_table("thumbnails", verifier.thumbnails.values()),
            "dropped": dropped_table(dropped),
        },
        counts=counts,
    )


def _is_mere_neighbour(candidate: Candidate, judged: PairVerdict) -> bool:
    return judged.relation not in POSSIBLE_COPIES and not any(
        origin.method in RADII for origin in candidate.origins
    )


@functools.lru_cache(maxsize=_REMEMBERED)
def _features(ref: ImageRef) -> PictureFeatures:
    return cheap_features(_opened(ref))  # a picture meets many candidates


@functools.lru_cache(maxsize=8)
def _opened(ref: ImageRef) -> Image.Image:
    return ref.open()


def _in_doubt(registration: Registration, ref: ImageRef, image: Image.Image) -> Registration:
    """A copy that was edited may show something else now: that is for people to decide."""
    if not registration.is_copy:
        return registration
    ours = _opened(ref)
    if CHANGED in registration.transform:
        return replace(registration, relation=Relation.UNDECIDED, reason=CHANGED)
    if min(*ours.size, *image.size) < SMALL_SIDE:
        if is_recoloured(ours, image, registration):
            return replace(
                registration, relation=Relation.UNDECIDED, transform="", reason=TOO_SMALL
            )
    elif is_recoloured_in_part(ours, image, registration):
        return replace(
            registration, relation=Relation.UNDECIDED, transform=RECOLOURED, reason=RECOLOURED
        )
    marked = WATERMARKED in registration.transform
    if is_rewritten(ours, image, registration.warp, inverted=registration.inverted, marked=marked):
        return replace(registration, relation=Relation.UNDECIDED, transform=CHANGED, reason=CHANGED)
    same = registration.relation == Relation.SAME_IMAGE
    if same and has_other_colours(ours, image, registration):
        copy = Relation.TRANSFORMED_COPY
        return replace(registration, relation=copy, transform=COLOURS_CHANGED)
    return registration


def _recoloured_as_a_whole(
    registration: Registration, ref: ImageRef, image: Image.Image
) -> Registration:
    """The verdict on the picture with its hues turned back, if all of them are turned by one angle."""
    if registration.is_copy or min(registration.overlap) < _ALIGNED or registration.inverted:
        return registration
    angle = turned_hue(_opened(ref), image, registration.warp)
    if angle is None:
        return registration
    plain = turned_back(image, angle)
    again = _in_doubt(register(_features(ref), cheap_features(plain)), ref, plain)
    if not again.is_copy:
        return registration
    known = () if again.relation == Relation.SAME_IMAGE else (again.transform,)
    words = ", ".join([in_words(angle), *known])
    return replace(again, relation=Relation.TRANSFORMED_COPY, transform=words)


def _rows(
    places: list[Place], candidate: Candidate, item: CorpusItem, judged: PairVerdict, corpus: str
) -> Iterator[dict[str, Any]]:
    registered = judged.registration
    is_copy = registered is not None and registered.is_copy
    registration = registered.as_json() if registered else None
    found_by = [origin._asdict() for origin in candidate.origins]
    first = candidate.origins[0]
    for place in places:
        text = relate_text(place.question, place.answer, item)
        evidence = {
            "benchmark_image": place.bytes,
            "benchmark_pixels": candidate.picture,
            "corpus_image": judged.own,
            "corpus_source": item.image.source if item.image else "",
            "corpus_text": (item.text or "")[:500],
            "corpus_question": (item.question or "")[:500],
            "corpus_answer": (item.answer or "")[:200],
            "view": first.view,
            "found_by": found_by,
            "registration": registration,
            "unverified": judged.unverified,
        }
        yield {
            "benchmark_id": place.benchmark_id,
            "image_index": place.image_index,
            "corpus": corpus,
            "corpus_id": item.id,
            "method": first.method,
            "similarity": first.similarity,
            "degree": degree(first.similarity, first.method).degree,
            "relation": judged.relation,
            "transform": registered.transform if registered else "",
            "modality": text.modality if is_copy else Modality.NONE,
            "label_relation": text.label_relation if is_copy else "unknown",
            "evidence": json.dumps(evidence, ensure_ascii=False),
        }
