"""How alike texts are: the cosine of one encoder, and a little for the rare words they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from heldout.engine import progress
from heldout.overlap.images.encoder import Floats, unit
from heldout.overlap.texts._chances import ParaphraseCandidate
from heldout.overlap.texts._programs import FEWEST
from heldout.overlap.texts._questions import is_program, prose, stem
from heldout.overlap.texts.encoders import (
    CrossEncoder,
    TextEncoder,
    close_text_encoder,
    open_cross_encoder,
    open_text_encoder,
    reader_parts,
)
from heldout.overlap.texts.index import TextIndex
from heldout.overlap.texts.normalise import loose
from heldout.overlap.texts.relation import READ

_SAMPLE = 3000  # texts of the benchmark that are compared with each other
_BATCH = 512  # texts between two steps of the progress bar
_WORDS = 0.2  # of a cosine: what two texts with the same rare words are nearer


class ReadTexts:
    """Scores of pairs of texts: the cosine of one encoder, and a little for the rare words they share."""

    def __init__(
        self,
        name: str,
        identity: str,
        vectors: Mapping[str, Floats],
        programs: Mapping[str, Floats],
    ) -> None:
        """``programs``: vectors of programs that another encoder has read as well."""
        self.name, self.identity = name, identity
        self.cross: CrossEncoder | None = None
        self._programs = programs
        self._place = {text: place for place, text in enumerate(vectors)}
        self._vectors: Floats = (
            np.stack(list(vectors.values())) if vectors else np.zeros((0, 1), np.float32)
        )
        vocabulary: dict[str, int] = {}
        rows, columns = [], []
        for place, text in enumerate(vectors):
            for word in sorted({stem(word) for word in loose(text).split()}):
                rows.append(place)
                columns.append(vocabulary.setdefault(word, len(vocabulary)))
        shape = len(vectors), max(1, len(vocabulary))
        has = scipy.sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape)
        count = np.asarray(has.sum(axis=0)).ravel()
        rarity = np.log2((len(vectors) + 1) / (count + 1)).astype(np.float32)
        self._words: Any = has.multiply(np.sqrt(np.maximum(rarity, 0.0))[None]).tocsr()
        self._bits = np.asarray(self._words.multiply(self._words).sum(axis=1)).ravel()

    @classmethod
    def of(
        cls, candidates: Sequence[ParaphraseCandidate], index: TextIndex, quiet: bool
    ) -> ReadTexts:
        reader = index.search.reader or index.search.encoder
        assert reader is not None
        name, cross = reader_parts(reader)
        if index.search.encoder is not None and name != index.search.encoder:
            close_text_encoder(index.search.encoder)  # it has proposed the candidates
        encoder = open_text_encoder(name)
        texts = sorted(
            {
                *asked_texts(index),
                *(entry.evidence["benchmark_text"] for entry in candidates),
                *(entry.evidence["corpus_text"] for entry in candidates),
            }
        )
        vectors = _vectors(encoder, texts, quiet)
        identity, programs = encoder.identity, {}
        of_programs, written = index.search.program_reader, [t for t in texts if is_program(t)]
        if of_programs is not None and len(written) >= FEWEST:
            encoder = open_text_encoder(of_programs)
            read = _vectors(encoder, written, quiet)
            both = unit(np.stack([np.concatenate([vectors[t], read[t]]) for t in written]))
            programs = dict(zip(written, both, strict=True))  # a cosine is the mean of both
            identity += f"; programs: {encoder.identity}"
            close_text_encoder(of_programs)
        reading = cls(name, identity, vectors, programs)
        reading.cross = open_cross_encoder(cross) if cross else None
        for entry in candidates:
            pair = [entry.evidence["benchmark_text"]], [entry.evidence["corpus_text"]]
            entry.similarity = float(reading.cosines(*pair)[0, 0])
            entry.score = float(reading.scores(*pair)[0, 0])
        return reading

    def cosines(self, texts: Sequence[str], others: Sequence[str]) -> Floats:
        ours, theirs = ([self._place[text] for text in side] for side in (texts, others))
        cosines: Floats = np.minimum(1.0, self._vectors[ours] @ self._vectors[theirs].T)
        return cosines

    def of_programs(self, texts: Sequence[str], others: Sequence[str]) -> Floats:
        """Cosines of programs: of two encoders together, where there are two, for they err on others."""
        if not self._programs:
            return self.cosines(texts, others)
        ours, theirs = (
            np.stack([self._programs[text] for text in side]) for side in (texts, others)
        )
        cosines: Floats = np.minimum(1.0, ours @ theirs.T)
        return cosines

    def scores(self, texts: Sequence[str], others: Sequence[str]) -> NDArray[np.float64]:
        ours, theirs = ([self._place[text] for text in side] for side in (texts, others))
        shared = (self._words[ours] @ self._words[theirs].T).toarray()
        every = self._bits[ours][:, None] + self._bits[theirs][None] - shared
        scores: NDArray[np.float64] = self.cosines(texts, others).astype(np.float64)
        scores += _WORDS * shared / np.maximum(every, 1e-6)
        return scores


def _vectors(encoder: TextEncoder, texts: Sequence[str], quiet: bool) -> dict[str, Floats]:
    vectors: dict[str, Floats] = {}
    programs = any(prose(text) != text for text in texts)
    title = "reading paraphrase candidates"
    with progress(title, len(texts), "texts", disabled=quiet) as step:
        for first in range(0, len(texts), _BATCH):
            batch = texts[first : first + _BATCH]
            rows = _embedded(encoder, batch, programs=programs)
            vectors.update(zip(batch, rows, strict=True))
            step(len(batch))
    return vectors


def _embedded(encoder: TextEncoder, texts: Sequence[str], *, programs: bool) -> Floats:
    """Unit rows; with programs among them, the cosine is the mean of that of the texts and that of their prose."""
    rows = encoder.embed(texts)
    if not programs:
        return rows
    places = [place for place, text in enumerate(texts) if prose(text) != text]
    words = rows.copy()
    words[places] = encoder.embed([prose(texts[place]) for place in places])
    return unit(np.concatenate([rows, words], axis=1))


def asked(index: TextIndex) -> list[int]:
    """Texts of the benchmark that are compared with each other, evenly drawn where there are many."""
    whole = [k for k in index.whole if index.entries[k].field != "question+options"]
    return whole[:: max(1, -(-len(whole) // _SAMPLE))]


def asked_texts(index: TextIndex) -> list[str]:
    return [index.entries[k].text[:READ] for k in asked(index)]  # as much as of a candidate
