"""Rules about words burnt into pictures: names, dates and record numbers may identify a person."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.check.problem import Problem, problem
from heldout.image import Digests, decode, picture_lines, require_ocr

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_YEAR = r"(?:19|20)\d\d"
_NAMED = r"[A-Z][\w'’-]+(?:[ ,.]+[A-Z][\w'’.-]*){0,3}"
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
    """Which kinds of identifying words stand there: date, name, record number."""
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
