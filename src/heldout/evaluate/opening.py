"""Benchmarks of a suite as they are evaluated: read, reduced to the questions that count, identified."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from heldout.benchmark import (
    Benchmark,
    BenchmarkSource,
    Example,
    find_preset,
    parse_source,
    read_benchmark,
    same,
)
from heldout.engine import progress
from heldout.errors import InputError
from heldout.evaluate.settings import EvaluateSettings
from heldout.evaluate.suite import Suite, SuiteBenchmark, SuitePrompt, read_suite
from heldout.image import ImageError
from heldout.store import Dropped

# Closed questions as choices: yes or no, and "is it left or right?" where the answer is one of the two.


STAGE = "questions"
_POLES = {"yes": 0, "no": 1}
_TYPE = "answer_type"
_CLOSED = "closed"
_SPACES = re.compile(r"\s+")
_OR = re.compile(r"\s+or\s+", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*,\s*or\s+|\s*,\s*|\s+or\s+", re.IGNORECASE)
_WHICH = re.compile(r"(?:which|what|where)\b", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:an?|the|just)\s+", re.IGNORECASE)
_LONGEST = 4  # words of an alternative


def only_choices(benchmark: Benchmark) -> Benchmark:
    """Items that have options; the others are dropped with the reason."""
    return _kept(benchmark, lambda example: example if example.options else "no options")


def closed_as_choices(benchmark: Benchmark) -> Benchmark:
    """Closed questions with options, in the released order; open ones are dropped with the reason.

    A question is closed if the benchmark marks it so (``answer_type``), if its answer is yes or no, or if it
    has options already.
    """
    return _kept(benchmark, _closed)


def _closed(example: Example) -> Example | str:
    if example.options:
        return example
    answer = same(example.answer or "")
    kind = str(example.metadata.get(_TYPE) or "").strip().lower()
    if kind and kind != _CLOSED:
        return "open question"
    if answer in _POLES:
        return replace(
            example,
            options=("Yes", "No"),
            answer=("Yes", "No")[_POLES[answer]],
            answer_index=_POLES[answer],
        )
    if not kind:
        return "open question"
    options = alternatives(example.question or "", example.answer or "")
    if options is None:
        return "closed question without readable alternatives"
    place = [same(option) for option in options].index(answer)
    return replace(example, options=options, answer=options[place], answer_index=place)


def alternatives(question: str, answer: str) -> tuple[str, ...] | None:
    """The alternatives that a question names, in the question's words; None where it is not among them.

    "Which is bigger, liver or spleen?" lists them after the clause; "Is it on the left or right side?"
    names them around "or", as many words on either side as the answer has.
    """
    text = _SPACES.sub(" ", question.strip().rstrip("?. "))
    wanted, size = same(answer), len(answer.split())
    if not wanted or size > _LONGEST or not _OR.search(text):
        return None
    clause, comma, tail = text.partition(",")
    if comma and _WHICH.match(clause) and _OR.search(f" {tail}"):
        listed = [part for part in _BETWEEN.split(tail) if part.strip()]
    else:
        listed = _around(text, size)
    listed = [_ARTICLE.sub("", part.strip()) for part in listed]
    matching = [n for n, phrase in enumerate(listed) if same(phrase) == wanted]
    if (
        len(matching) != 1
        or len({same(option) for option in listed}) != len(listed)
        or len(listed) < 2
    ):
        return None
    # All in the question's words: the answer's own capitals would give it away.
    return tuple(f"{option[:1].upper()}{option[1:]}" for option in listed)


def _around(text: str, size: int) -> list[str]:
    before, after = _OR.split(text, maxsplit=1)
    first, *middle = [part.split() for part in before.rstrip(", ").split(",")]
    words = _ARTICLE.sub("", after).split()
    shared = words.index(first[-1]) if not middle and first[-1] in words else 0
    if shared:  # "T1 weighted or T2 weighted": a word that both have belongs to neither
        return [" ".join(first[-1 - shared : -1]), " ".join(words[:shared])]
    own = len(middle[0]) if middle else size
    return [" ".join(span) for span in (first[-own:], *middle, words[:size])]


def _kept(benchmark: Benchmark, choose: Callable[[Example], Example | str]) -> Benchmark:
    kept: list[Example] = []
    dropped: list[Dropped] = list(benchmark.dropped)
    for example in benchmark:
        choice = choose(example)
        if isinstance(choice, Example):
            kept.append(choice)
        else:
            detail = f"{example.question or '':.80} | {example.answer or '':.40}"
            dropped.append(Dropped(STAGE, example.id, choice, detail))
    return replace(benchmark, examples=tuple(kept), dropped=tuple(dropped))


EVERY = "*"  # a source for every benchmark of the suite that has none of its own
_SHOWN = 3


@dataclass(frozen=True)
class OpenedBenchmark:
    """``remarks``: what to know before reading its numbers."""

    entry: SuiteBenchmark
    benchmark: Benchmark
    prompt: SuitePrompt
    scorers: tuple[str, ...]
    remarks: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        return self.entry.name


def open_benchmarks(
    suite: Suite, folder: Path | None, settings: EvaluateSettings, *, quiet: bool = False
) -> list[OpenedBenchmark]:
    """Every benchmark of the suite, before any model is asked: a missing folder ends it at once."""
    for name in (*settings.sources, *settings.images, *settings.benchmarks):
        if name != EVERY:
            suite.benchmark(name)
    wanted = {name.lower() for name in settings.benchmarks}
    chosen = [
        benchmark
        for benchmark in suite.benchmarks
        if not wanted or benchmark.name.lower() in wanted
    ]
    sources = {name.lower(): source for name, source in settings.sources.items()}
    return [
        _open(suite_benchmark, suite, folder, sources, settings, quiet=quiet)
        for suite_benchmark in chosen
    ]


def suite_benchmarks(text: str, *, quiet: bool = False) -> list[Benchmark]:
    """The benchmarks of a suite, by its name or its file, reduced to the questions that count."""
    suite, folder = read_suite(text)
    opened = []
    for entry in suite.benchmarks:
        where = _Place(
            _from(folder, entry.source), _images_from(folder, entry.images), entry.preset
        )
        _, benchmark = _read(entry, suite, where)
        title = f"reading the images of {entry.name}"
        with progress(title, len(benchmark.images), "images", disabled=quiet) as step:
            benchmark.identify(step)
        _check_images(suite, entry, benchmark, where)
        opened.append(benchmark)
    return opened


@dataclass(frozen=True)
class _Place:
    """Where a benchmark of a suite is read from; and what to do if it is elsewhere."""

    source: str
    images: str | None
    preset: str | None
    data_advice: str = ". Say where it is in a suite file of your own (source)"
    images_advice: str = "say where they are in a suite file of your own (images)"


def _open(
    entry: SuiteBenchmark,
    suite: Suite,
    folder: Path | None,
    sources: Mapping[str, str],
    settings: EvaluateSettings,
    *,
    quiet: bool,
) -> OpenedBenchmark:
    own = sources.get(entry.name.lower(), sources.get(EVERY))
    source = _from(folder, entry.source) if own is None else _selected(own, entry)
    pictures = {name.lower(): path for name, path in settings.images.items()}
    images = pictures.get(entry.name.lower(), _images_from(folder, entry.images))
    where = _Place(
        source,
        images,
        _preset(entry, own),
        data_advice=""
        if own is not None
        else f". Say where it is with the setting sources ({entry.name}=PATH)",
        images_advice=f"name their folder with the setting images ({entry.name}=DIR)",
    )
    read, benchmark = _read(entry, suite, where)
    title = f"reading the images of {entry.name}"
    with progress(title, len(benchmark.images), "images", disabled=quiet) as step:
        benchmark.identify(step)
    if settings.models or settings.endpoints:  # recorded answers need no pictures
        _check_images(suite, entry, benchmark, where)
    scorers = settings.scorers if settings.scorers is not None else entry.scorers
    return OpenedBenchmark(
        entry,
        benchmark,
        SuitePrompt(entry.prompt or suite.prompt),
        suite.scorers if scorers is None else scorers,
        tuple(_remarks(entry, read, benchmark)),
    )


def _read(entry: SuiteBenchmark, suite: Suite, where: _Place) -> tuple[Benchmark, Benchmark]:
    """A benchmark as it is, and reduced to the questions that count."""
    if where.images is not None and not Path(where.images).is_dir():
        raise InputError(
            f"suite {suite.name}, benchmark {entry.name}: the image folder {where.images} does not exist; "
            f"download the images there, or {where.images_advice}"
        )
    try:
        read = read_benchmark(
            where.source,
            preset=where.preset,
            mapping=entry.map or None,
            images=where.images,
            name=entry.name,
        )
    except InputError as error:
        message = f"suite {suite.name}, benchmark {entry.name}: {error}{where.data_advice}"
        raise InputError(message) from error
    kept = {"all": lambda benchmark: benchmark, "choice": only_choices, "closed": closed_as_choices}
    benchmark = kept[entry.questions](read)
    if not benchmark.examples:
        raise InputError(
            f"suite {suite.name}, benchmark {entry.name}: none of the {len(read):,} items of "
            f"{where.source} is a {entry.questions} question"
        )
    return read, benchmark


def _preset(entry: SuiteBenchmark, own: str | None) -> str | None:
    """A preset defines how its source is read; the same data elsewhere has to be read the same way."""
    named = parse_source(entry.source).location
    known = find_preset(named) is not None and not Path(named).exists()
    return entry.preset or (named if own is not None and known else None)


def _selected(own: str, entry: SuiteBenchmark) -> str:
    """The place that the user names, with the rows that the suite selects where the user selects none."""
    chosen = parse_source(own)
    return str(
        chosen if chosen.selection else BenchmarkSource(own, parse_source(entry.source).selection)
    )


def _from(folder: Path | None, text: str) -> str:
    """Paths of a suite file start from its folder; presets and hub names stay what they are."""
    if folder is None or Path(text).is_absolute():
        return text
    location = text.partition("#")[0]
    return str(folder / text) if (folder / location).exists() or location.startswith(".") else text


def _images_from(folder: Path | None, images: str | None) -> str | None:
    """Always a folder, so that an error says where images were searched."""
    return str(folder / images) if folder is not None and images else images


def _check_images(suite: Suite, entry: SuiteBenchmark, benchmark: Benchmark, where: _Place) -> None:
    lost = [ref for ref, digest in benchmark.digests.items() if isinstance(digest, ImageError)]
    if benchmark.images and len(lost) == len(benchmark.images):
        why = benchmark.digests[lost[0]]
        assert isinstance(why, ImageError)
        raise InputError(
            f"suite {suite.name}, benchmark {entry.name}: none of its {len(lost):,} images can be read "
            f"from {where.source}; the first, {lost[0].name:.80}: {why.reason}. "
            f"{where.images_advice[:1].upper()}{where.images_advice[1:]}"
        )


def _remarks(entry: SuiteBenchmark, read: Benchmark, benchmark: Benchmark) -> list[str]:
    remarks = []
    size = f"{entry.name}: {len(benchmark):,} items"
    if len(read) > len(benchmark):
        size = f"{entry.name}: {len(benchmark):,} of {len(read):,} items are evaluated"
    if entry.items is not None and len(benchmark) != entry.items:
        size += f" ({entry.items:,} in the published results: not the same set)"
    left = Counter(dropped.reason for dropped in benchmark.dropped[len(read.dropped) :])
    if left:
        listed = ", ".join(f"{reason} {count:,}" for reason, count in left.most_common())
        size += f"; left out: {listed}"
    if left or (entry.items is not None and len(benchmark) != entry.items):
        remarks.append(size)
    lost = [ref.name for ref, digest in benchmark.digests.items() if isinstance(digest, ImageError)]
    if lost:
        named = ", ".join(lost[:_SHOWN]) + (" …" if len(lost) > _SHOWN else "")
        remarks.append(
            f"{entry.name}: {len(lost):,} of {len(benchmark.images):,} images cannot be read: {named}"
        )
    return remarks
