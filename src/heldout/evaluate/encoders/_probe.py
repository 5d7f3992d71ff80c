"""A linear probe: multinomial logistic regression on the features of a training set.

The objective is that of the published probes (half the squared weights plus C times the summed
cross-entropy, no penalty on the intercept), solved by L-BFGS to its minimum: it is convex, so the answer
does not depend on an order or a batch. Features are read in pieces and may lie on disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from heldout.corpus import Corpus, EmbeddingCorpus
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.evaluate.encoders._items import STAGE
from heldout.evaluate.encoders._ranks import usable
from heldout.evaluate.encoders._saved_rows import UNUSABLE
from heldout.evaluate.encoders.settings import EncoderSettings
from heldout.overlap import Encoder, embed_corpus
from heldout.store import Dropped, Run

_ROWS = 8192  # features in memory at a time
_TENTH = 10
_ROUGH = 100  # solver steps when strengths are compared
_SMALLEST = 20  # fewest training pictures for a held-out tenth


@dataclass(frozen=True)
class Features:
    """Rows of several matrices, memory-mapped where they are large, with the class of each."""

    matrices: Sequence[NDArray[Any]]
    rows: NDArray[np.int64]  # (n, 2): which matrix, which row of it
    classes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def dimension(self) -> int:
        return int(self.matrices[0].shape[1])

    def chosen(self, mask: NDArray[np.bool_]) -> Features:
        return Features(self.matrices, self.rows[mask], self.classes[mask])

    def usable(self) -> NDArray[np.bool_]:
        """Which rows have a direction."""
        good = np.ones(len(self), bool)
        for number, some in self._places():
            with np.errstate(all="ignore"):  # a number beyond float32 becomes infinite
                good[some] = usable(
                    np.asarray(self.matrices[number][self.rows[some, 1]], np.float32)
                )
        return good

    def pieces(self) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        for number, some in self._places():
            features = np.array(
                self.matrices[number][self.rows[some, 1]], np.float32
            )  # it is scaled
            length = np.linalg.norm(features, axis=1, keepdims=True)
            features /= np.where(length > 0, length, np.float32(1))
            yield features, self.classes[some]

    def _places(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Matrices, and which of our rows to read from each at a time."""
        for number in range(len(self.matrices)):
            own = np.flatnonzero(self.rows[:, 0] == number)
            for start in range(0, len(own), _ROWS):
                yield number, own[start : start + _ROWS]


@dataclass(frozen=True)
class LinearProbe:
    weights: NDArray[np.float64]  # (dimension, classes)
    intercept: NDArray[np.float64]
    strength: float  # C, the inverse of the regularisation
    converged: bool
    validation: dict[float, float]  # accuracy on the held-out tenth by strength; empty where fixed

    def scores(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        array: NDArray[np.float32] = features @ self.weights.astype(np.float32)
        return array + self.intercept.astype(np.float32)


def fit_probe(
    features: Features, classes: int, strengths: Sequence[float], *, iterations: int, seed: int
) -> LinearProbe:
    """The probe at the strength that does best on a tenth of the training set, fitted to all of it."""
    if len(features) < 2 or len(np.unique(features.classes)) < 2:
        raise InputError("a probe needs training pictures of two classes or more")
    validation: dict[float, float] = {}
    tried: dict[float, NDArray[np.float64]] = {}
    chosen, start = strengths[0], None
    if len(strengths) > 1:
        if len(features) < _SMALLEST:
            raise InputError(
                f"the training set has {len(features)} labelled pictures: too few to choose a probe's "
                f"strength on a tenth of them (at least {_SMALLEST}). Give one strength"
            )
        tenth = np.random.default_rng(seed).permutation(len(features)) < len(features) // _TENTH
        rest, held_out = features.chosen(~tenth), features.chosen(tenth)
        for strength in sorted(strengths):
            # The solution at the previous strength is a good start: neighbouring strengths have similar ones.
            start, _ = _solve(rest, classes, strength, min(iterations, _ROUGH), start)
            validation[strength] = _accuracy(held_out, start, classes)
            tried[strength] = start
        # Among equals, the most regularised.
        chosen = max(sorted(strengths), key=lambda candidate: (validation[candidate], -candidate))
        start = tried[chosen]
    solution, converged = _solve(features, classes, chosen, iterations, start)
    weights = solution.reshape(features.dimension + 1, classes)
    return LinearProbe(weights[:-1], weights[-1], chosen, converged, validation)


def _solve(
    features: Features,
    classes: int,
    strength: float,
    iterations: int,
    start: NDArray[np.float64] | None,
) -> tuple[NDArray[np.float64], bool]:
    from scipy import optimize  # slow to import, and most commands fit nothing

    dimension, scale = features.dimension, 1.0 / (strength * len(features))
    if start is None:
        start = np.zeros((dimension + 1) * classes)

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(dimension + 1, classes)
        slope = np.zeros_like(weights)
        loss = 0.0
        for rows, right in features.pieces():
            exact = rows.astype(np.float64)  # the solver follows differences of the seventh digit
            scores = exact @ weights[:-1] + weights[-1]
            scores -= scores.max(axis=1, keepdims=True)
            shares = np.exp(scores)
            sums = shares.sum(axis=1)
            each = np.arange(len(right))
            loss += float((np.log(sums) - scores[each, right]).sum())
            shares /= sums[:, None]
            shares[each, right] -= 1
            slope[:-1] += exact.T @ shares
            slope[-1] += shares.sum(axis=0)
        # Divided by C times n: the same minimum, and steps of a size that the solver expects.
        loss, slope = loss / len(features), slope / len(features)
        loss += 0.5 * scale * float((weights[:-1] ** 2).sum())
        slope[:-1] += scale * weights[:-1]
        return loss, slope.ravel()

    solution = optimize.minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "maxfun": 2 * iterations, "gtol": 1e-6, "ftol": 1e-10},
    )
    return solution.x, bool(solution.success)


def _accuracy(features: Features, solution: NDArray[np.float64], classes: int) -> float:
    weights = solution.reshape(features.dimension + 1, classes).astype(np.float32)
    hits = [
        (rows @ weights[:-1] + weights[-1]).argmax(axis=1) == right
        for rows, right in features.pieces()
    ]
    return float(np.concatenate(hits).mean())


# Features of a training set with labels: embedded shard by shard, or saved embeddings.


_FOLDERS = "folder"  # the reader of loose pictures
_COLUMNS = ("id", "caption", "question", "answer")
_LABEL_WORDS = 4  # longer texts are captions
_Row = tuple[str, str | None, str | None, str | None]  # id, text, question, answer


@dataclass
class TrainingFeatures:
    features: Features
    classes: list[str]
    dropped: list[Dropped] = field(default_factory=list)


@dataclass
class _Described:
    """Matrices, and for each of their rows what may be its class; None where nothing is."""

    matrices: list[NDArray[Any]] = field(default_factory=list)
    answers: list[list[str | None]] = field(default_factory=list)
    texts: list[list[str | None]] = field(default_factory=list)
    folders: list[list[str | None]] = field(default_factory=list)
    failed: Mapping[str, str] = field(default_factory=dict)

    def labels(self) -> list[list[str | None]]:
        """Answers; where the corpus has none, short texts that repeat, then the folders of pictures."""
        if any(map(any, self.answers)):
            return self.answers
        texts = [text for part in self.texts for text in part if text]
        brief = all(len(text.split()) <= _LABEL_WORDS for text in texts)
        if texts and brief and len(set(texts)) <= len(texts) / 2:
            return self.texts
        return self.folders

    def add(self, matrix: NDArray[Any], rows: Iterable[_Row], folders: bool) -> None:
        listed = list(rows)
        self.matrices.append(matrix)
        self.answers.append([_label(question, answer) for _, _, question, answer in listed])
        self.texts.append([_label(question, text) for _, text, question, _ in listed])
        named = (PurePosixPath(name).parent.name or None for name, *_ in listed)
        self.folders.append(list(named) if folders else [None] * len(listed))


def training_features(
    corpus: Corpus,
    settings: EncoderSettings,
    encoder: Encoder | None,
    run: Run,
    engine: Engine,
    *,
    quiet: bool = False,
) -> TrainingFeatures:
    """Every labelled picture of ``corpus``; rows without a label are counted and left out."""
    described = (
        _saved(corpus)
        if isinstance(corpus, EmbeddingCorpus) and encoder is None
        else _embedded(corpus, settings, encoder, run, engine, quiet)
    )
    labels = described.labels()
    seen = Counter(label for part in labels for label in part)
    without = seen.pop(None, 0)
    if not seen:
        raise InputError(
            f"train {corpus.source}: none of its {without:,} pictures has a label. Expected a column "
            f"label or answer without a question, or class folders"
        )
    classes = sorted(str(label) for label in seen)
    places: dict[str | None, int] = {label: place for place, label in enumerate(classes)}
    rows = [
        (matrix, row, places[label])
        for matrix, part in enumerate(labels)
        for row, label in enumerate(part)
        if label is not None
    ]
    table = np.array(rows, np.int64)
    features = Features(described.matrices, table[:, :2], table[:, 2])
    good = features.usable()
    dropped = [Dropped(STAGE, name, "shard failed", why) for name, why in described.failed.items()]
    if without:
        detail = f"{without:,} training pictures have no label"
        dropped.append(Dropped(STAGE, corpus.name, "no label", detail, scope="many"))
    if not good.all():
        detail = f"{int((~good).sum()):,} training rows have {UNUSABLE}"
        dropped.append(Dropped(STAGE, corpus.name, "unusable embedding", detail, scope="many"))
        features = features.chosen(good)
        if not len(features):
            raise InputError(f"train {corpus.source}: no row can be used: {UNUSABLE}")
    return TrainingFeatures(features, classes, dropped)


def _embedded(
    corpus: Corpus,
    settings: EncoderSettings,
    encoder: Encoder | None,
    run: Run,
    engine: Engine,
    quiet: bool,
) -> _Described:
    assert encoder is not None
    rows = embed_corpus(
        corpus, settings.encoder, encoder, run, engine, place=settings.embeddings, quiet=quiet
    )
    described = _Described(failed=rows.failed)
    for saved in rows.saved.values():
        matrix = saved.rows()
        pictures = len(saved.described(len(matrix)).ids)  # whole pictures come first, then parts
        described_rows: Iterable[_Row] = [("", None, None, None)] * pictures
        if saved.metadata is not None:
            table = pq.read_table(saved.metadata, columns=list(_COLUMNS))
            described_rows = zip(
                *(table.column(name).to_pylist()[:pictures] for name in _COLUMNS), strict=True
            )
        described.add(matrix[:pictures], described_rows, corpus.reader == _FOLDERS)
    return described


def _saved(corpus: EmbeddingCorpus) -> _Described:
    described = _Described()
    for shard in corpus.shards():
        items = (
            corpus_item
            for corpus_item in corpus.read(shard)
            if not isinstance(corpus_item, Dropped)
        )
        rows = ((item.id, item.text, item.question, item.answer) for item in items)
        described.add(corpus.embeddings(shard), rows, folders=False)
    return described


def _label(question: str | None, answer: str | None) -> str | None:
    return answer.strip() or None if answer and not question else None
