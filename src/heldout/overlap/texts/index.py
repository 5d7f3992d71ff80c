"""TextIndex: every text of a benchmark, ready for documents to stream past. Small and picklable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heldout.benchmark import Benchmark
from heldout.errors import InputError
from heldout.image import require_ocr
from heldout.overlap.images._join_index import JoinIndex
from heldout.overlap.texts._answers import gist
from heldout.overlap.texts._fields import (
    LONGEST_TEXT,
    ItemTexts,
    ProvenanceIndex,
    example_sources,
    item_texts,
)
from heldout.overlap.texts._questions import is_program
from heldout.overlap.texts.edits import EditIndex, NgramIndex
from heldout.overlap.texts.encoders import (
    can_read,
    installed_program_reader,
    installed_reader,
    installed_text_encoder,
    knows,
    open_text_encoder,
)
from heldout.overlap.texts.normalise import HashSet, TextRarity, WordBatch, loose, mask, numbers
from heldout.store import Dropped

_READABLE = 4000  # candidates of all items that are read again at little cost
_PROGRAMS = 2  # times as many of programs, whose rewordings share few words
_MOST = 40  # of them of one item
METHODS = ("provenance", "exact", "ngram", "edit", "embedding")


@dataclass(frozen=True)
class TextSearch:
    """How texts are compared. ``encoder`` None leaves the embedding pass out; ``reader`` compares again
    what the encoder proposes. ``threshold`` None: calibrated, so that at most a share of ``fdr`` of what
    counts as a rewording is another text."""

    methods: tuple[str, ...] = METHODS
    encoder: str | None = None
    nearest: int = 5
    reader: str | None = None
    program_reader: str | None = None  # of programs, beside the reader
    fdr: float = 0.02
    threshold: float | None = None
    ocr: bool = False  # read the words inside the corpus' pictures, too

    @classmethod
    def installed(cls, encoder: str | None = None, reader: str | None = None) -> TextSearch:
        """With the encoders that are asked for, else the default ones where they are installed."""
        chosen = installed_text_encoder(encoder)
        reads = installed_reader(reader, chosen)
        programs = installed_program_reader(reader, reads)
        return cls(encoder=chosen, reader=reads, program_reader=programs)

    def __post_init__(self) -> None:
        unknown = [method for method in self.methods if method not in METHODS]
        if unknown:
            raise InputError(f"there is no text method '{unknown[0]}': {', '.join(METHODS)}")

    def uses(self, method: str) -> bool:
        if method == "embedding":
            return method in self.methods and self.encoder is not None
        return method in self.methods


@dataclass(frozen=True, slots=True)
class Entry:
    """One distinct text of one field, and the items that have it."""

    field: str
    text: str
    items: tuple[int, ...]
    short: bool  # too few or too common words to identify an item
    generic: bool  # the benchmark itself asks it of several pictures, numbers aside
    bits: float
    # Items of a generic text that their own numbers and answer tell from the others.
    apart: frozenset[int] = frozenset()


@dataclass(frozen=True)
class TextIndex:
    search: TextSearch
    ids: tuple[str, ...]
    items: tuple[ItemTexts, ...]
    entries: tuple[Entry, ...]
    whole: tuple[int, ...]  # entries that are compared by more than equality: all but bare options
    exact: HashSet
    ngrams: NgramIndex
    edits: EditIndex
    provenance: ProvenanceIndex
    join: JoinIndex | None = None
    embedded: tuple[int, ...] = ()  # per row of the join, its entry
    encoder_identity: str | None = None
    unreadable: int = 0  # items in a language that the encoder cannot read
    answers: tuple[frozenset[str], ...] = ()  # per entry, what its items' answers come to
    names: tuple[frozenset[str], ...] = ()  # per entry, the file names of its items' pictures
    clusters: tuple[str, ...] = ()  # per item, what it shares its picture or patient by

    @property
    def programs(self) -> int:
        """Items that ask for a program or about one, as far as question or answer is one."""
        asked = (entry for entry in self.entries if entry.field == "question")
        questions = {item for entry in asked if is_program(entry.text) for item in entry.items}
        answers = {item for item, texts in enumerate(self.items) if is_program(texts.answer)}
        return len(questions | answers)

    @property
    def readable(self) -> int:
        """Candidates of all items together that are read again."""
        few = self.search.nearest * len(self.ids) < _PROGRAMS * _READABLE
        return _READABLE * (_PROGRAMS if few and 2 * self.programs > len(self.ids) else 1)

    @property
    def proposed(self) -> int:
        """Texts read again for each item: more than ``nearest`` where items are few."""
        return max(self.search.nearest, min(_MOST, self.readable // max(1, len(self.ids))))


def build_text_index(
    benchmark: Benchmark, search: TextSearch | None = None, background: Iterable[str] = ()
) -> tuple[TextIndex, list[Dropped]]:
    """The index, and what cannot take part. ``background`` texts teach it which words are common."""
    search = search or TextSearch()
    if search.ocr:
        require_ocr("the setting ocr")
    items = [item_texts(example) for example in benchmark]
    dropped = []
    for example, texts in zip(benchmark, items, strict=True):
        if not texts.fields:
            detail = "no question, caption or answer to compare"
            dropped.append(Dropped("benchmark", example.id, "no text", detail, scope="words"))
        if any(len(part or "") > LONGEST_TEXT for part in (example.question, example.answer)):
            detail = f"only the first {LONGEST_TEXT:,} characters are compared"
            dropped.append(Dropped("benchmark", example.id, "text cut", detail, scope="words"))
    entries = text_entries(items, benchmark.clusters, background)
    whole = tuple(k for k, entry in enumerate(entries) if entry.field != "options")
    provenance = ProvenanceIndex(
        [example_sources(example) for example in benchmark], benchmark.clusters
    )
    for source, count in sorted(provenance.shared.items()):
        detail = f"{count} clusters of the benchmark carry this {source.kind}: it identifies none"
        dropped.append(Dropped("benchmark", source.value, "shared source", detail, scope="words"))
    index = TextIndex(
        search,
        tuple(example.id for example in benchmark),
        tuple(items),
        tuple(entries),
        whole,
        HashSet(WordBatch.of([entry.text for entry in entries]).keys()),
        NgramIndex([entries[k].text for k in whole]),
        EditIndex([mask(entries[k].text) for k in whole]),
        provenance,
        answers=tuple(
            frozenset(gist(items[k].answer) for k in entry.items if items[k].answer)
            for entry in entries
        ),
        names=tuple(frozenset().union(*(items[k].names for k in entry.items)) for entry in entries),
        clusters=tuple(benchmark.clusters),
    )
    return (_with_embeddings(index) if search.uses("embedding") else index), dropped


def text_entries(
    items: Sequence[ItemTexts], clusters: Sequence[str], background: Iterable[str] = ()
) -> list[Entry]:
    """Every distinct text of every field, and whether it says enough to identify an item."""
    rarity = TextRarity()
    rarity.learn({loose(text) for texts in items for _, text in texts.fields})
    rarity.learn(loose(text) for text in background)
    having: dict[tuple[str, str], list[int]] = {}
    asked_of: dict[str, set[str]] = {}  # by words alone: "T1?" and "T2?" are one template
    words: dict[str, str] = {}
    for position, texts in enumerate(items):
        for name, text in texts.fields:
            having.setdefault((name, text), []).append(position)
            words.setdefault(text, loose(text))
            asked_of.setdefault(words[text], set()).add(clusters[position])
    templates = {
        text for text, where in asked_of.items() if len(where) > 1 and not rarity.short(text)
    }
    apart = _told_apart(items, clusters, words, templates)
    return [
        Entry(
            name,
            text,
            tuple(positions),
            rarity.short(words[text]),
            len(asked_of[words[text]]) > 1,
            round(rarity.bits(words[text]), 1),
            frozenset(position for position in positions if (text, position) in apart),
        )
        for (name, text), positions in having.items()
        if words[text]
    ]


def _told_apart(
    items: Sequence[ItemTexts],
    clusters: Sequence[str],
    words: Mapping[str, str],
    templates: Collection[str],
) -> set[tuple[str, int]]:
    """(text, item) where no other picture asked in these words has the same numbers, or the same answer.

    "How many of the 20 …?" and "How many of the 31 …?" are one template, and yet two items.
    """
    questions = [
        (text, position, (words[text], numbers(text)), (words[text], texts.answer))
        for position, texts in enumerate(items)
        for _, text in texts.fields
        if words[text] in templates
    ]
    having: dict[tuple[str, Sequence[str]], set[str]] = {}
    for _, position, *keys in questions:
        for key in keys:
            having.setdefault(key, set()).add(clusters[position])
    return {
        (text, position)
        for text, position, number, answer in questions
        if answer[1] and len(having[number]) == 1 and len(having[answer]) == 1
    }


def _items(index: TextIndex, entries: Iterable[int]) -> set[int]:
    return {item for entry in entries for item in index.entries[entry].items}


def _with_embeddings(index: TextIndex) -> TextIndex:
    assert index.search.encoder is not None
    encoder = open_text_encoder(index.search.encoder)
    texts = [index.entries[k].text for k in index.whole]
    encoders = index.search.encoder, index.search.reader
    readable = np.asarray([can_read(text, *encoders) for text in texts], bool)
    rows = encoder.embed(texts)  # numbers are not masked
    known = np.flatnonzero(rows.any(axis=1) & readable).tolist()
    join = JoinIndex(rows[known], k=index.proposed)
    embedded = tuple(index.whole[row] for row in known)
    known_entries = [
        k for k, text in zip(index.whole, texts, strict=True) if knows(text, *encoders)
    ]
    return TextIndex(
        **{
            **vars(index),
            "join": join,
            "embedded": embedded,
            "encoder_identity": encoder.identity,
            "unreadable": len(_items(index, index.whole) - _items(index, known_entries)),
        }
    )
