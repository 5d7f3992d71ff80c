"""What each group of rules in the search for words is worth, on half 0 of sets whose truth is known.

SWITCHES names the groups once, each with a patch that turns it off in this process; src/ is not touched. Of every set a
first process searches with all rules on and remembers what was slow: what the encoders said of each text, and how it
reads without marks. Then one process for each switch, forked before anything was searched, applies its patch and
searches again with that memory. A switch whose functions always said what they say when switched off is not searched.
Seconds are those of the search for words alone; what was remembered counts with what it cost the first time.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib
import json
import multiprocessing
import os
import pickle
import re
import shutil
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

import quality_words
from heldout.audit.overlap import opened_corpora, text_search
from heldout.benchmark import normal, open_verb_run, read_benchmark
from heldout.engine import open_engine
from heldout.overlap.images._join import Hits
from heldout.overlap.images.encoder import Floats
from heldout.overlap.images.scan import scan as scan_pictures
from heldout.overlap.settings import OverlapSettings
from heldout.overlap.texts import (
    _answers,
    _chances,
    _fields,
    _labelled,
    _passages,
    _prior,
    _programs,
    _questions,
    _reading,
    _rewordings,
    _wording,
    edits,
    encoders,
    index,
    normalise,
    relation,
    scan,
)
from quality_figures import LEVEL, NOISE
from quality_words import ONE_THREAD, SETS, Truth

Row = dict[str, object]
Found = dict[str, frozenset[str]]
ON = ""  # in place of a switch: everything on
WITH_PICTURES = "linked"
READER = "--text-reader"
DRAWS = 4000  # permutations by which two precisions are compared
TIMED = 32  # pairs by which the seconds of all pairs are known
HELPS, HARMS, CHANGES = "helps", "harms", "changes"

# Patches: what a group of rules is without itself


@dataclass(frozen=True)
class Patch:
    """``swaps``: what stands in place of functions and constants, wherever they are imported; ``given``: attributes of
    modules and classes; ``emptied``: tables. ``pictured``: does nothing where no item has a picture."""

    swaps: tuple[tuple[object, object], ...] = ()
    given: tuple[tuple[object, str, object], ...] = ()
    emptied: tuple[dict[Any, Any], ...] = ()
    pictured: bool = False

    def __call__(self) -> None:
        for old, new in self.swaps:
            replace(old, new)
        for owner, name, new in self.given:
            assert hasattr(owner, name), f"{owner} has no {name}"
            setattr(owner, name, new)
        for table in self.emptied:
            table.clear()

    @property
    def functions(self) -> list[tuple[Any, Any]]:
        """Those it replaces, and by what."""
        attributes = [(getattr(owner, name), new) for owner, name, new in self.given]
        return [pair for pair in (*self.swaps, *attributes) if callable(pair[0])]

    @property
    def traceable(self) -> bool:
        """Does it replace functions alone?"""
        return len(self.functions) == len(self.swaps) + len(self.given) and not self.emptied


def replace(old: object, new: object) -> None:
    """``new`` in place of ``old`` under every name that a loaded module of heldout has for it."""
    names = [
        (module, name)
        for module in [sys.modules[key] for key in sys.modules if key.split(".")[0] == "heldout"]
        for name, value in vars(module).items()
        if value is old
    ]
    if not names:
        raise LookupError(f"no module of heldout names {old!r}")
    for module, name in names:
        setattr(module, name, new)


def always(value: object, *functions: object) -> Patch:
    """The functions return ``value``, whatever they are asked."""
    return Patch(swaps=tuple((function, lambda *_, **__: value) for function in functions))


def instead(*pairs: tuple[object, object]) -> Patch:
    """Each function or constant by another one."""
    return Patch(swaps=pairs)


def attributes(owner: object, /, **values: object) -> Patch:
    """Constants of a module, or methods of a class."""
    return Patch(given=tuple((owner, name, value) for name, value in values.items()))


def together(*patches: Patch, pictured: bool = False) -> Patch:
    return Patch(
        tuple(swap for patch in patches for swap in patch.swaps),
        tuple(given for patch in patches for given in patch.given),
        tuple(table for patch in patches for table in patch.emptied),
        pictured,
    )


def without(method: str) -> Patch:
    """A search without one of its passes."""
    uses = index.TextSearch.uses
    return attributes(
        index.TextSearch, uses=lambda search, name: name != method and uses(search, name)
    )


def emptied(*tables: Any) -> Patch:
    return Patch(emptied=tables)


def _by_equality(ours: str, theirs: str) -> str:
    return "same" if ours == theirs else "different"


def _uncontradicted(*arguments: Any) -> str:
    said = _ANSWERS(*arguments)
    return "unknown" if said == "different" else said


def _answer_first(relation_: str, answer: str, similarity: float, **values: bool) -> str:
    if relation_ == relation.CONTAINED and answer == "different":
        return "none"
    return _DEGREE_OF(relation_, answer, similarity, **values)


def _unoptioned(example: Any) -> Any:
    return _ITEM_TEXTS(dataclasses.replace(example, options=()))


def _never_generic(*arguments: Any) -> list[index.Entry]:
    return [dataclasses.replace(entry, generic=False) for entry in _TEXT_ENTRIES(*arguments)]


def _equal_words(ours: Sequence[str], theirs: Sequence[str], *, open_ended: bool = False) -> bool:
    if open_ended:
        return f" {' '.join(ours)} " in f" {' '.join(theirs)} "
    return list(ours) == list(theirs)


def _any_text_counts(entry: Any, likeliest: Mapping[str, float], cut: float) -> bool:
    return bool(entry.possible and entry.p <= (_chances.OWN_ALPHA if entry.own else cut))


# What they were before any patch.
_ANSWERS, _DEGREE_OF = relation._answers, relation.degree_of
_ITEM_TEXTS, _TEXT_ENTRIES = _fields.item_texts, index.text_entries
_NEVER = re.compile(r"(?!)")

SWITCHES: dict[str, tuple[str, Patch]] = {
    "exact pass": ("finds equal words with equal numbers", without("exact")),
    "n-gram pass": ("finds runs of 13 words inside longer texts", without("ngram")),
    "edit pass": ("finds texts a few letters apart", without("edit")),
    "embedding pass": (
        "finds rewordings: proposes by meaning, reads, judges",
        without("embedding"),
    ),
    "provenance": ("finds shared article numbers, addresses and file names", without("provenance")),
    "reader": (
        "reads what the static encoder proposes again with a small transformer",
        always(None, encoders.installed_reader, encoders.installed_program_reader),
    ),
    "languages": (
        "leaves out other scripts, and counts texts with the little words of other languages",
        always(True, encoders.can_read, encoders.knows),
    ),
    "windows": (
        "reads each question within a page by itself, with the sentences before it",
        instead((_passages.questions_within, lambda *_: iter(()))),
    ),
    "labelled answers": (
        "parts texts at 'Question:' and 'Answer:', and looks for answers behind questions",
        together(
            instead(
                (_labelled.labelled_texts, lambda text: _labelled.LabelledTexts((), text)),
                (_labelled.pointed_answer, lambda _, answer: answer),
                (_labelled.answer_after, lambda *_: _labelled.FollowingAnswer()),
                (_fields.unnumbered, lambda question: question),
            ),
            always((), _labelled.stated_answers),
            always(False, _answers.answered_within, _labelled.may_be_a_remark),
        ),
    ),
    "options": (
        "compares options as texts, weighs that they agree, and takes letters for pointers to them",
        together(
            instead((_fields.item_texts, _unoptioned)),
            attributes(_fields, _options=lambda _: []),
            attributes(relation, _POINTER=_NEVER, _LETTER=_NEVER),
        ),
    ),
    "answer likeness": (
        "compares answers by what they come to: units, formulas, sentences, names said in full",
        together(
            always(None, _answers.amount_of),
            instead(
                (_answers.compare_answers, _by_equality),
                (_answers.same_answer, lambda ours, theirs: ours == theirs),
                (_answers.gist, lambda answer: answer),
            ),
        ),
    ),
    "units": (
        "takes '8 h' for '8 hours' and converts measures",
        emptied(_answers._UNITS, _answers._MEASURES),
    ),
    "sentences as answers": (
        "reads a number out of a sentence, and takes a fuller answer for no contradiction",
        together(
            attributes(_answers, _STATES=_NEVER),
            always(False, _answers._says_more, _answers._has_number),
        ),
    ),
    "worked solutions": (
        "takes the result at the end of a solution for the answer; two solutions contradict nothing",
        together(always("", _fields.final_answer), always(False, _answers.worked)),
    ),
    "contradiction": (
        "lets another answer speak against a pair",
        instead((relation._answers, _uncontradicted)),
    ),
    "number words": (
        "reads 'twelve' and 'two dozen' as numbers",
        emptied(
            _questions.NUMBER_WORDS,
            _questions.SCALES,
            _questions._UNITS,
            _questions._TENS,
            _answers._PARTS,
        ),
    ),
    "too short": (
        "no text of fewer than three words, or of a quarter of the item's, rewords it",
        always(False, _reading._too_short),
    ),
    "little said": (
        "a text of fewer than eight words, or of common words, identifies no item",
        attributes(normalise.TextRarity, short=lambda *_: False),
    ),
    "asked of several": (
        "a question that the benchmark asks of several pictures identifies none",
        instead((index.text_entries, _never_generic)),
    ),
    "common questions": (
        "a question that the corpus mostly answers otherwise identifies none",
        instead((normalise.settle_degrees, lambda matches, _: matches)),
    ),
    "contained before answer": (
        "a text that stands in another counts, though the answer beside it is another one",
        instead((relation.degree_of, _answer_first)),
    ),
    "templates": (
        "shared runs around other words or other numbers are another question",
        always(
            False, scan._is_template, scan._renumbered, relation._renumbered, relation._other_sum
        ),
    ),
    "harmless edits": (
        "tells slips and endings from other words",
        instead((edits.same_words, _equal_words)),
    ),
    "nearly equal letters": (
        "a candidate with nearly the same letters and another word is another question",
        attributes(relation, TEMPLATE=2.0),
    ),
    "proposals by answer": (
        "proposes the nearest texts among those with the item's answer as well",
        attributes(_rewordings.RewordingPass, _agree=lambda *_: Hits.empty()),
    ),
    "rare words": (
        "adds a little to the cosine for rare words that both texts have",
        attributes(_wording, _WORDS=0.0),
    ),
    "topical words": (
        "an answer in words agrees by chance more often, and makes up for no unlike wording",
        always(False, _chances.is_topical),
    ),
    "topical words, too short": (
        "both of them, which hide the same items",
        together(always(False, _chances.is_topical), always(False, _reading._too_short)),
    ),
    "telling words and numbers": (
        "weighs that two texts have the same numbers, or the same words that tell items apart",
        together(
            attributes(_chances.Chances, _told=lambda *_: {}),
            always(None, _chances.told_by_numbers),
        ),
    ),
    "varied": (
        "without an answer, a template about other things counts neither as rewording nor in the null",
        always(False, _questions.varied),
    ),
    "same frame": (
        "asks more of one frame with another word in it, beside the own picture",
        always(False, _questions.same_frame),
    ),
    "other subject": (
        "other colours, opposite sides and traded places are another question",
        always(False, _questions.other_subject),
    ),
    "same content": (
        "the same telling words of one kind of question count as the same question",
        always(False, _questions.same_content),
    ),
    "asked too": (
        "what the benchmark asks of the same picture is another item, unless it names the same details",
        attributes(_chances.OtherItems, has=lambda *_: False),
    ),
    "same names": (
        "without an answer, a rewording has one of the names and all numbers",
        always(True, _questions.names_the_same),
    ),
    "same amounts": (
        "a rewording has half of the numbers",
        always(True, _questions.same_amounts),
    ),
    "captions": (
        "a statement rewords no question",
        always(False, _questions.states),
    ),
    "mutual nearest": (
        "a text rewords only the item that it is nearest to, by and large",
        always(True, _reading.is_nearest),
    ),
    "first of an item": (
        "other texts than an item's likeliest have to be likelier",
        instead((_chances.counts, _any_text_counts)),
    ),
    "discovery cut": (
        "widens the cut where many items have a rewording (Storey), as far as fdr allows",
        always(0.0, _reading._cut),
    ),
    "tail of the null": (
        "trusts chances beyond the highest of the null to a twentieth",
        attributes(_chances, _BEYOND=1.0),
    ),
    "small benchmarks": (
        "knows chances of other benchmarks where a null is too small",
        attributes(_prior.SmallNull, p=lambda *_: 1.0),
    ),
    "own picture": (
        "beside a copy of the item's own picture, judges by what else is asked there",
        together(
            attributes(_reading, COPIES=()),
            attributes(_rewordings.OwnPictures, of=lambda *_: _rewordings.OwnPictures()),
            pictured=True,
        ),
    ),
    "own likeness": (
        "beside the own picture, doubts and drops wording as unlike as other questions are",
        together(instead((_chances.OWN_LIKENESS, (1.0, 1.0))), pictured=True),
    ),
    "other picture": (
        "words beside another picture, or one that could not be compared, count a degree less",
        instead((relation.settle_pictures, lambda matches, *_: matches)),
    ),
    "programs": (
        "tells programs from other texts, and judges them by themselves",
        always(False, _questions.is_program),
    ),
    "program prose": (
        "reads name and docstring of a program by themselves, and its statements by what they are built of",
        together(
            instead(
                (_questions.prose, lambda text: text),
                (_programs._likeness, lambda wording, _: _programs._standardised(wording)),
            )
        ),
    ),
    "program matching": (
        "matches all programs at once, one to one",
        attributes(_programs.RewordedPrograms, judges=lambda *_: False),
    ),
}

# What was worked out once


@dataclass
class Memory:
    """Results of one function or encoder by text, with the seconds that each cost."""

    identity: str = ""
    dimension: int = 0
    results: dict[str, tuple[Any, float]] = field(default_factory=dict)


@dataclass
class Seconds:
    """``spent`` now on what is remembered, and what it would have cost to work it out (``due``)."""

    spent: float = 0.0
    due: float = 0.0


SECONDS = Seconds()


class Remembering(encoders.TextEncoder):
    """An encoder that reads no text twice."""

    def __init__(self, spec: str, memory: Memory, opened: Callable[[str], Any]) -> None:
        self._spec, self._memory, self._opened = spec, memory, opened
        self._encoder: encoders.TextEncoder | None = None
        if not memory.identity:
            memory.identity, memory.dimension = self._real.identity, self._real.dimension
        self.identity, self.dimension = memory.identity, memory.dimension

    @property
    def _real(self) -> encoders.TextEncoder:
        if self._encoder is None:
            begun = time.process_time()
            self._encoder = self._opened(self._spec)
            SECONDS.spent += time.process_time() - begun
        return self._encoder

    def _forward(self, texts: list[str]) -> Floats:
        raise NotImplementedError

    def embed(self, texts: Sequence[str]) -> Floats:
        known = self._memory.results
        keys = [text[: encoders.CHARACTERS] for text in texts]
        new = [key for key in dict.fromkeys(keys) if key not in known]
        if new:
            real = self._real
            begun = time.process_time()
            rows = real.embed(new)
            seconds = time.process_time() - begun
            SECONDS.spent += seconds
            letters = sum(map(len, new)) + len(new)
            for key, row in zip(new, rows, strict=True):
                known[key] = row, seconds * (len(key) + 1) / letters
        SECONDS.due += sum(known[key][1] for key in keys)
        if not keys:
            return np.zeros((0, self.dimension), np.float32)
        return np.stack([known[key][0] for key in keys])


def remembered(function: Callable[[str], Any], memory: Memory) -> Callable[[str], Any]:
    """The same function of a text, which no switch changes."""
    known = memory.results

    def look_up(text: str) -> Any:
        result = known.get(text)
        if result is None:
            begun = time.process_time()
            value = function(text)
            seconds = time.process_time() - begun
            SECONDS.spent += seconds
            result = known[text] = value, seconds
        SECONDS.due += result[1]
        return result[0]

    return look_up


def quick_scores() -> Callable[[Any, Sequence[str], Sequence[str]], Any]:
    """`ReadTexts.scores` that does not slice sparse matrices for each single pair."""
    scores = _wording.ReadTexts.scores
    took: list[float] = []

    def score(reading: Any, texts: Sequence[str], others: Sequence[str]) -> Any:
        if len(texts) != 1 or len(others) != 1:
            return scores(reading, texts, others)
        begun = time.process_time()
        if len(took) < TIMED:
            result = scores(reading, texts, others)
            took.append(time.process_time() - begun)
            return result
        words = reading._words
        (here, ours), (there, theirs) = (
            (place, slice(words.indptr[place], words.indptr[place + 1]))
            for place in (reading._place[texts[0]], reading._place[others[0]])
        )
        _, left, right = np.intersect1d(
            words.indices[ours], words.indices[theirs], assume_unique=True, return_indices=True
        )
        shared = np.float32(words.data[ours][left] @ words.data[theirs][right])
        every = reading._bits[here] + reading._bits[there] - shared
        result = reading.cosines(texts, others).astype(np.float64)
        result += _wording._WORDS * shared / np.maximum(every, 1e-6)
        SECONDS.spent += time.process_time() - begun
        SECONDS.due += float(np.median(took))
        return result

    return score


# One set: searched with everything on, then without each group


@dataclass(frozen=True)
class Place:
    """A set as a search needs it. ``rows``: which matches are asked for; ``reader``: in place of the default one."""

    benchmark: Path
    corpus: Path
    truth: Truth
    rows: Callable[[quality_words.Row], bool] = lambda _: True
    reader: str | None = None
    pictured: bool = False


@dataclass(frozen=True)
class Searched:
    """``idle``: switches whose functions said in this search what they say when switched off, whenever asked;
    ``modules``: what it imported."""

    found: Found
    seconds: float
    idle: frozenset[str] = frozenset()
    modules: tuple[str, ...] = ()


def search(place: Place, run: Path, memories: dict[str, Memory]) -> Searched:
    """The tables of `heldout overlap --text --exact`, in this process. What it says of pictures is kept beside ``run``
    for the next search."""
    opened = encoders._text_encoder

    def opened_once(spec: str) -> Remembering:
        return Remembering(spec, memories.setdefault(spec, Memory()), opened)

    replace(opened, opened_once)
    for function in (normalise.strict, normalise.loose_line, normal):
        replace(function, remembered(function, memories.setdefault(function.__name__, Memory())))
    attributes(_wording.ReadTexts, scores=quick_scores())()
    pictures = run.with_name("pictures")
    shutil.rmtree(run, ignore_errors=True)
    if pictures.exists():
        shutil.copytree(pictures, run)
    benchmark = read_benchmark(str(place.benchmark))
    corpora = opened_corpora(f"c={place.corpus}")
    settings = OverlapSettings(exact=True, text_reader=place.reader)
    folder = open_verb_run("overlap", benchmark, settings, run, seed=0)
    benchmark.identify(lambda *_: None)
    how = text_search(settings)
    assert how is not None
    with open_engine("local", 1) as engine:
        with folder.writing():
            scanned = scan_pictures(benchmark, corpora, folder, engine, hashes=False, quiet=True)
        if not pictures.exists():
            shutil.copytree(run, pictures)
        SECONDS.spent = SECONDS.due = 0.0
        begun = time.process_time()
        with folder.writing():
            scan.scan_texts(benchmark, corpora, folder, engine, how, scanned=scanned, quiet=True)
    seconds = time.process_time() - begun - SECONDS.spent + SECONDS.due
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in quality_words.counted_matches(run):
        if place.rows(row):
            found[row["benchmark_id"]].add(row["corpus_id"].split("/")[-1].split("#")[0])
    return Searched({item: frozenset(texts) for item, texts in found.items()}, seconds)


def traced(names: Sequence[str]) -> set[str]:
    """Switches that matter, filled while this process searches: those of which a function said another thing than it
    says switched off. Of constants and tables nobody knows."""
    matter = {name for name in names if not SWITCHES[name][1].traceable}
    replaced: dict[int, tuple[Any, list[tuple[str, Any]]]] = {}
    for name in set(names) - matter:
        for old, new in SWITCHES[name][1].functions:
            replaced.setdefault(id(old), (old, []))[1].append((name, new))
    methods = {
        id(getattr(owner, name)): (owner, name)
        for switch in names
        for owner, name, _ in SWITCHES[switch][1].given
    }
    for key, (old, others) in replaced.items():
        wrapper = _watched(old, others, matter)
        if key in methods:
            setattr(*methods[key], wrapper)
        else:
            replace(old, wrapper)
    return matter


def _watched(old: Any, others: Sequence[tuple[str, Any]], matter: set[str]) -> Any:
    def call(*arguments: Any, **values: Any) -> Any:
        result = old(*arguments, **values)
        for name, new in others:
            if name not in matter and not _is_same(result, new, arguments, values):
                matter.add(name)
        return result

    return call


def _is_same(result: Any, new: Any, arguments: Any, values: Any) -> bool:
    try:
        other = new(*arguments, **values)
        return bool(result.equals(other) if hasattr(result, "equals") else result == other)
    except Exception:  # whoever cannot be compared may differ
        return False


def measured(job: tuple[str, Path, Path, tuple[str, ...], Path | None]) -> list[Row]:
    """Rows of one set; in a process that has searched nothing and has no threads of its own."""
    name, shared, out, names, collections = job
    title, place = opened_set(name, shared, out / name, collections)
    memory, run = out / name / "memory.pickle", out / name / "run"
    shutil.rmtree(run.with_name("pictures"), ignore_errors=True)
    first = apart(_first_search, place, run, memory, names)
    for module in first.modules:  # once here, not in every fork
        with suppress(ImportError):
            importlib.import_module(module)
    with memory.open("rb") as file:
        memories: dict[str, Memory] = pickle.load(file)
    on = apart(_search_without, ON, place, run, memories)
    if on.found != first.found:
        different = sum(on.found.get(k) != first.found.get(k) for k in {*on.found, *first.found})
        print(f"{title}: {different} items differ between two searches", file=sys.stderr)
    rows: list[Row] = []
    for switch in names:
        what, patch = SWITCHES[switch]
        off = on
        if switch not in first.idle and (place.pictured or not patch.pictured):
            try:
                off = apart(_search_without, switch, place, run, memories)
            except RuntimeError as error:
                print(f"{title}, without {switch}: {error}", file=sys.stderr)
                continue
        heading = {"switch": switch, "what": what, "set": title}
        rows += [heading | row for row in compared(on, off, place.truth)]
    for folder in (run, run.with_name("pictures")):
        shutil.rmtree(folder, ignore_errors=True)
    memory.unlink()
    (out / name / "rows.json").write_text(json.dumps(rows), "utf-8")  # should another set break off
    return rows


def _first_search(place: Place, run: Path, memory: Path, names: Sequence[str]) -> Searched:
    before = {*sys.modules}
    matter = traced(names)
    memories: dict[str, Memory] = {}
    searched = search(place, run, memories)
    with memory.open("wb") as file:
        pickle.dump(memories, file, pickle.HIGHEST_PROTOCOL)
    modules = tuple(name for name in sys.modules if name not in before)
    return dataclasses.replace(searched, idle=frozenset(names) - matter, modules=modules)


def _search_without(switch: str, place: Place, run: Path, memories: dict[str, Memory]) -> Searched:
    if switch != ON:
        SWITCHES[switch][1]()
    return search(place, run, memories)


def apart(function: Callable[..., Searched], *arguments: object) -> Searched:
    """What the function returns in a fork of this process, where no function has remembered anything yet."""
    forked = multiprocessing.get_context("fork")
    here, there = forked.Pipe(duplex=False)
    process = forked.Process(target=_answer, args=(there, function, arguments))
    process.start()
    there.close()
    try:
        said = here.recv()
    except EOFError:
        said = "the process died"
    process.join()
    if isinstance(said, Searched):
        return said
    raise RuntimeError(said)


def _answer(
    to: Connection, function: Callable[..., Searched], arguments: tuple[object, ...]
) -> None:
    try:
        to.send(function(*arguments))
    except Exception:
        to.send(traceback.format_exc(limit=-4))


# What changes


def compared(on: Searched, off: Searched, truth: Truth) -> list[Row]:
    """Recall, precision, items wrongly counted and seconds, of half 0.

    Gained and lost items are those that become right, or stop to be, by switching off; of precision, those that are
    counted for a wrong text no longer, and newly. Of wrong items, gained are those that are newly counted.
    """
    items = truth.items(0)
    leaked = [item for item in items if item in truth.leaked]
    others = [item for item in items if item not in truth.leaked]

    def right(searched: Searched) -> dict[str, bool]:
        """Of every item that is counted, whether it is for one of its own texts."""
        none: frozenset[str] = frozenset()
        return {
            item: bool(searched.found[item] & truth.leaked.get(item, none))
            for item in items
            if item in searched.found
        }

    here, there = right(on), right(off)
    rows = []
    if leaked:
        pairs = [(here.get(item, False), there.get(item, False)) for item in leaked]
        rows.append(_share("recall", pairs, higher_is_better=True))
        rows.append(_precision(items, here, there))
    if others:
        pairs = [(item in here, item in there) for item in others]
        rows.append(_share("wrong items", pairs, higher_is_better=False))
    changes = abs(off.seconds - on.seconds) > NOISE * on.seconds
    rows.append(_row("CPU", 0, on.seconds, off.seconds, 0, 0, CHANGES if changes else ""))
    return rows


def _row(
    figure: str,
    of: int,
    on: float | None,
    off: float | None,
    gained: int,
    lost: int,
    mark: str,
) -> Row:
    shown = {"on": on, "off": off}
    digits = 2 if figure == "CPU" else 4
    rounded = {k: None if v is None else round(v, digits) for k, v in shown.items()}
    return {"figure": figure, "of": of, **rounded, "gained": gained, "lost": lost, "mark": mark}


def _share(figure: str, pairs: Sequence[tuple[bool, bool]], *, higher_is_better: bool) -> Row:
    """Compared item by item: exact sign test."""
    gained = sum(off and not on for on, off in pairs)
    lost = sum(on and not off for on, off in pairs)
    mark = ""
    if gained + lost and binomtest(gained, gained + lost).pvalue < LEVEL:
        mark = HARMS if (gained > lost) == higher_is_better else HELPS
    on, off = (sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1))
    return _row(figure, len(pairs), on, off, gained, lost, mark)


def _precision(items: Sequence[str], here: Mapping[str, bool], there: Mapping[str, bool]) -> Row:
    """Two searches count different items, so that no item has two outcomes: were the group worth nothing, on and off
    might be exchanged for each item, which gives the spread of the difference. Where nothing is counted there is none.
    """
    counts = np.array(
        [[(item in each, each.get(item, False)) for each in (here, there)] for item in items], float
    )  # item, side, (counted, right)
    totals = counts.sum(axis=0)
    on, off = (float(right / counted) if counted else None for counted, right in totals)
    wrong = counts[:, :, 0] > counts[:, :, 1]
    gained, lost = int((wrong[:, 0] & ~wrong[:, 1]).sum()), int((wrong[:, 1] & ~wrong[:, 0]).sum())
    mark = ""
    if on is not None and off is not None and (gained or lost or on != off):
        swapped = np.random.default_rng(0).random((DRAWS, len(items))) < 0.5
        step = counts[:, 1] - counts[:, 0]
        left, right = totals[0] + swapped @ step, totals[1] - swapped @ step
        spread = right[:, 1] / np.maximum(1, right[:, 0]) - left[:, 1] / np.maximum(1, left[:, 0])
        chance = (1 + (np.abs(spread) >= abs(off - on) - 1e-12).sum()) / (1 + DRAWS)
        if chance < LEVEL:
            mark = HARMS if off > on else HELPS
    return _row("precision", int(totals[0][0]), on, off, gained, lost, mark)


# The sets


def opened_set(name: str, shared: Path, out: Path, collections: Path | None) -> tuple[str, Place]:
    """Title and files; what is made of a set is written to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    if name == WITH_PICTURES:
        return caught(quality_words.linked, shared, out, 0, (), True, pictured=True)
    if name in SETS:
        return caught(quality_words.shared_set, shared, out, 0, name, ())
    assert collections is not None
    return name, collected(name, collections, out)


class _CaughtError(Exception):
    """Ends what measures a set as soon as the set is known."""


def caught(
    measuring: Callable[..., object], *arguments: object, pictured: bool = False
) -> tuple[str, Place]:
    """What a function of `quality_words` would search, and the truth that it would hold it against."""
    known: dict[str, Any] = {"pictured": pictured}

    def kept_search(
        benchmark: Path,
        corpus: Path,
        run: Path,
        options: Sequence[str],
        rows: Callable[[quality_words.Row], bool] = lambda _: True,
    ) -> quality_words.Search:
        known.update(benchmark=benchmark, corpus=corpus, rows=rows)
        if READER in options:
            known.update(reader=options[options.index(READER) + 1])
        return quality_words.Search(run, {}, "", 0.0)

    def kept_truth(name: str, searched: object, truth: Truth, half: int) -> None:
        known.update(truth=truth)
        raise _CaughtError(name)

    before = {name: vars(quality_words)[name] for name in ("search", "figures_of")}
    vars(quality_words).update(search=kept_search, figures_of=kept_truth)
    try:
        measuring(*arguments)
    except _CaughtError as error:
        return str(error), Place(**known)
    finally:
        vars(quality_words).update(before)
    raise AssertionError("no figures were asked for")


def collected(name: str, collections: Path, out: Path) -> Place:
    """A collection of public repositories; its copy lies in ``collections`` or is laid out from there."""
    import collected_words
    import quality_collections

    entry = next(each for each in quality_collections.entries()["words"] if each["name"] == name)
    folder = quality_collections.files_of(entry, collections, out)
    assert folder is not None, f"no copy of {name}"
    words = collected_words.READERS[name](folder)
    quality_words.write_rows(out / "bench.jsonl", words.benchmark)
    quality_words.write_rows(out / "corpus.jsonl", words.corpus)
    with (out / "truth.tsv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        table.writerow(("benchmark_id", "corpus_id", "truth", "half"))
        table.writerows((*row, quality_words.half_of(row[0])) for row in words.truth)
    truth = quality_words.read_truth(out / "truth.tsv")
    return Place(out / "bench.jsonl", out / "corpus.jsonl", truth)


def set_names(collections: Path | None = None) -> list[str]:
    """The slowest first."""
    first = ("gsm8k_reworded", WITH_PICTURES)
    names = [*first, *(name for name in SETS if name not in first)]
    if collections is not None:
        import quality_collections

        names += [
            entry["name"]
            for entry in quality_collections.entries()["words"]
            if (collections / entry["repository"].replace("/", "+")).is_dir()
        ]
    return names


@contextmanager
def one_thread() -> Iterator[None]:
    """For processes that are started meanwhile."""
    before = dict(os.environ)
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def measure(
    shared: Path,
    out: Path,
    jobs: int,
    only: Sequence[str] = (),
    collections: Path | None = None,
    sets: Sequence[str] = (),
) -> list[dict[str, object]]:
    """What changes when each group of rules is switched off.

    Args:
        shared: Folder with quality/ and data/.
        out: Folder for what the searches write.
        jobs: Sets that are searched at a time.
        only: Switches; default: all.
        collections: Folder with copies of public collections, which are sets as well.
        sets: Names of sets; default: all.

    Returns:
        A row per switch, set and figure, in the order of SWITCHES.
    """
    names = tuple(only or SWITCHES)
    unknown = [name for name in names if name not in SWITCHES]
    if unknown:
        raise ValueError(
            f"there is no switch '{unknown[0]}'; expected one of {', '.join(SWITCHES)}"
        )
    place = out / "ablate_words"
    tasks = [(name, shared, place, names, collections) for name in sets or set_names(collections)]
    spawned = multiprocessing.get_context("spawn")
    rows: list[Row] = []
    # A process of its own for each set: a fork of one that has searched before could hang.
    with (
        one_thread(),
        ProcessPoolExecutor(jobs, mp_context=spawned, max_tasks_per_child=1) as pool,
    ):
        for found in pool.map(measured, tasks):
            rows += found
    order = {name: place for place, name in enumerate(SWITCHES)}
    return sorted(rows, key=lambda row: order[str(row["switch"])])
