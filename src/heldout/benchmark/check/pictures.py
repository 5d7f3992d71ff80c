"""Rules about images: missing, unreadable, blank, repeated under several names, or with identifying words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.check.problem import Problem, problem
from heldout.image import (
    ArrowCell,
    Digests,
    EncodedText,
    ImageError,
    ParquetCell,
    TextField,
    decode,
    picture_lines,
    require_ocr,
)

_UNREADABLE = (
    "unreadable-image",
    "replace them: every model is scored on what its own decoder makes of them",
)
_REASONS = {
    "missing image": ("missing-image", "name the folder: the setting images DIR"),
    "ambiguous image": (
        "ambiguous-image",
        "write whole paths into the rows, or name the folder that is meant: the setting images DIR",
    ),
}
_REFERENCE = re.compile(r"<(?:image|img)[ _-]?(\d{1,2})>", re.IGNORECASE)
_INLINE = (ArrowCell, EncodedText, ParquetCell, TextField)


def picture_rules(benchmark: Benchmark) -> Iterator[Problem]:
    yield from _referred(benchmark)
    n = len(benchmark.images)
    if n == 0:
        without = [example.id for example in benchmark]
        yield problem(
            "no-images",
            "warning",
            "no item has an image",
            "name the column (the setting mapping image=COLUMN) or the folder (the setting images DIR)",
            without,
            len(benchmark),
        )
        return
    yield from _unreadable(benchmark, n)
    without = [example.id for example in benchmark if not example.images]
    if without:
        yield problem(
            "item-without-image",
            "warning",
            f"{len(without):,} of {len(benchmark):,} items name no image",
            "remove them or say that they are text-only",
            without,
            len(benchmark),
        )
    blank = [ref.name for ref, d in benchmark.digests.items() if isinstance(d, Digests) and d.blank]
    if blank:
        yield problem(
            "blank-image",
            "error",
            f"{len(blank):,} of {n:,} images show a single flat colour",
            "replace or remove them: a model cannot see anything there",
            blank,
            n,
            "images",
        )
    yield from _copies(benchmark, n)


def _referred(benchmark: Benchmark) -> Iterator[Problem]:
    """Texts that refer to "<image 2>" in an item with one picture."""
    affected = []
    for example in benchmark:
        texts = " ".join([example.question or "", *example.options])
        highest = max((int(match[1]) for match in _REFERENCE.finditer(texts)), default=0)
        if highest > max(1, len(example.images)):
            affected.append(f"{example.id}: <image {highest}> of {len(example.images)}")
    if affected:
        yield problem(
            "missing-picture",
            "error",
            f"{len(affected):,} of {len(benchmark):,} items refer to a picture that they do not have",
            "name all columns of pictures (the setting mapping image=image_1+image_2) or leave these items out: the "
            "question cannot be answered without them",
            affected,
            len(benchmark),
        )


def _unreadable(benchmark: Benchmark, n: int) -> Iterator[Problem]:
    failures = [(ref, d) for ref, d in benchmark.digests.items() if isinstance(d, ImageError)]
    reasons = Counter(error.reason for _, error in failures)
    for reason, count in reasons.most_common():
        affected = [f"{ref.name}: {e.detail}" for ref, e in failures if e.reason == reason]
        rule, advice = _REASONS.get(reason, _UNREADABLE)
        yield problem(
            rule,
            "error",
            f"{count:,} of {n:,} images: {reason}",
            advice,
            affected,
            n,
            "images",
        )


def _copies(benchmark: Benchmark, n: int) -> Iterator[Problem]:
    same: dict[str, set[str]] = defaultdict(set)
    for ref, digest in benchmark.digests.items():
        # Inline images come once per row and have no name of their own to disagree about.
        if (
            isinstance(digest, Digests)
            and not digest.blank
            and not isinstance(ref.location, _INLINE)
        ):
            same[digest.pixels].add(ref.name)
    named = [sorted(names) for names in same.values() if len(names) > 1]
    if named:
        yield problem(
            "duplicate-image",
            "warning",
            f"{len(named):,} pictures are in the benchmark under more than one name",
            "treat them as one cluster (heldout does): their items are not independent",
            [" = ".join(names) for names in named],
            n,
            "images",
        )


# Rules about words burnt into pictures: names, dates and record numbers may identify a person.


_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_YEAR = r"(?:19|20)\d\d"
_NAMED = r"(?:[A-Z]\. ?){0,2}[A-Z][\w'’-]+(?:[ ,.]+[A-Z][\w'’.-]*){0,3}"
# Small letters and capitals matter in names, and only there.
_PATTERNS = {
    "date": re.compile(
        rf"\b{_YEAR}[-/.]\d{{1,2}}[-/.]\d{{1,2}}\b|\b\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:{_YEAR}|\d\d)\b"
        rf"|\b\d{{1,2}}[ -]?{_MONTH}[ ,.-]*(?:{_YEAR}|\d\d)\b|\b{_MONTH}[ .]*\d{{1,2}}[ ,]+{_YEAR}\b",
        re.IGNORECASE,
    ),
    "name": re.compile(
        r"(?:(?i:\b(?:patient|pat\.?|name|uploader|source|physician|doctor|author|operator)(?: name)?)\s*[:=]\s*"
        rf"|\bDr\.? ?){_NAMED}|\b[A-Z]{{2,}}, ?[A-Z]{{2,}}\b|\b[A-Z]{{2,}}\^[A-Z]+"
    ),
    "record number": re.compile(
        r"\b(?:mrn|pid|patient id|id|acc(?:ession)?|hosp(?:ital)? (?:no|id))\b[ .:#=]*[a-z]{0,3}\d{4,}",
        re.IGNORECASE,
    ),
}


def identifying(lines: Sequence[str]) -> list[str]:
    """Which kinds of identifying words it holds: date, name, record number."""
    return [
        kind for kind, pattern in _PATTERNS.items() if any(pattern.search(line) for line in lines)
    ]


def identifying_rules(benchmark: Benchmark) -> Iterator[Problem]:
    """What the words say is not repeated: a report goes further than the pictures do."""
    require_ocr("the setting ocr")
    affected: list[str] = []
    kinds: Counter[str] = Counter()
    read = {ref for ref, digest in benchmark.digests.items() if isinstance(digest, Digests)}
    for ref in (ref for ref in benchmark.images if ref in read):
        known = identifying(picture_lines(decode(ref.read())))
        kinds.update(known)
        if known:
            affected.append(f"{ref.name}: {', '.join(known)}")
    if affected:
        counts = ", ".join(f"{kind} in {count:,}" for kind, count in kinds.most_common())
        yield problem(
            "identifying-text",
            "warning",
            f"{len(affected):,} of {len(read):,} images show words that may identify a person ({counts})",
            "look at them, and cover the words before you publish or send the pictures to a server",
            affected,
            len(read),
            "images",
        )
