"""Benchmark: an ordered list of Examples with a revision and a cluster structure."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from heldout.errors import counted, html_table
from heldout.image import Digests, ImageError, ImageRef, byte_digest, dicom_ids, digest_image
from heldout.store import Dropped

# Example: one item of a benchmark, as the benchmark's authors released it.


# The metadata key of a question as it was released, where options or hints were taken out of it.
RELEASED = "released_question"

_WHOLE = re.compile(r"-?\d+\.0+")


@dataclass(frozen=True, slots=True)
class Example:
    id: str
    images: tuple[ImageRef, ...] = ()
    question: str | None = None
    options: tuple[str, ...] = ()
    answer: str | None = None  # the answer's text; for multiple choice the text of the right option
    answer_index: int | None = None  # position of the right option, None when there is none
    cluster: str | None = None  # the patient, slide or study, where the benchmark names one
    metadata: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""  # where a person finds it: "official_test.json row 12"
    key: str | None = None  # the answer as the file writes it: a letter, a position, or its text


def canonical_metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata as text that is the same whether it came from JSON, CSV or Parquet."""
    return {
        key: text for key in sorted(metadata) if (text := canonical_text(metadata[key])) is not None
    }


def canonical_value(value: Any) -> str | None:
    """A cell as text, None where it is empty; a whole number is written without a point."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list | tuple | dict):
        return json.dumps(_without_none(value), sort_keys=True, ensure_ascii=False, default=str)
    return str(value)


def canonical_text(value: Any) -> str | None:
    """``canonical_value``, seeing through what a text format had to write as text."""
    if isinstance(value, str):
        if _WHOLE.fullmatch(value):
            return value.partition(".")[0]
        if value[:1] in "[{" and value[-1:] in "]}":
            for parse in (json.loads, ast.literal_eval):
                try:
                    return canonical_value(parse(value))
                except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                    continue
    return canonical_value(value)


def _without_none(value: Any) -> Any:
    """Parquet fills every key of a struct; a key without a value is a key that is not there."""
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_none(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# Text compared as people read it: case, spacing and closing punctuation make no difference.


_SAME = str.maketrans(
    {"−": "-", "‐": "-", "‑": "-", "–": "-", "’": "'", "‘": "'", "“": '"', "”": '"'}
)
_CLOSING = " .?!。？！"
_ROWS_SHOWN = 5  # of a benchmark in a notebook


def normal(text: str | None) -> str:
    """Two texts with the same ``normal`` are one. Compatibility folding is for full-width letters

    alone: NFKC of everything would make 10² into 102.
    """
    if not text:
        return ""
    composed = text
    if not text.isascii():  # plain letters are composed already
        composed = unicodedata.normalize("NFC", text).translate(_SAME)
        composed = "".join(
            unicodedata.normalize("NFKC", c) if unicodedata.east_asian_width(c) in "FH" else c
            for c in composed
        )
    folded = " ".join(composed.casefold().split())
    return folded.rstrip(_CLOSING) or folded  # a "?" alone stays


@dataclass(frozen=True, repr=False)
class Benchmark:
    """An ordered list of items with a name.

    Args:
        name: What reports and run folders call it.
        examples: The items in released order.
        split: Which split of a dataset it is, where that is known.
        source: Where it was read from.
        reader: Which reader read it.
        dropped: What could not be read, each with its reason.
        repeated_ids: Items whose id occurred before, as they are called now.
        taken_for: For files that name no columns: what each column was taken for.
        settings: Arguments of ``read_benchmark`` besides the source.
    """

    name: str
    examples: tuple[Example, ...]
    split: str | None = None
    source: str = ""
    reader: str = ""
    dropped: tuple[Dropped, ...] = ()
    repeated_ids: tuple[str, ...] = ()
    taken_for: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        split = f", split {self.split}" if self.split else ""
        items = counted(len(self), "item", "items")
        images = counted(len(self.images), "image", "images")
        return f"<Benchmark {self.name}: {items} on {images}{split}>"

    def _repr_html_(self) -> str:
        rows = (
            [
                (text or "")[:200]
                for text in (item.id, item.question, ", ".join(item.options), item.answer)
            ]
            for item in self.examples[:_ROWS_SHOWN]
        )
        return html_table(("id", "question", "options", "answer"), rows, repr(self)[1:-1])

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    @functools.cached_property
    def images(self) -> tuple[ImageRef, ...]:
        """Every distinct image reference, in order of first appearance."""
        return tuple(dict.fromkeys(ref for example in self.examples for ref in example.images))

    @functools.cached_property
    def digests(self) -> dict[ImageRef, Digests | ImageError]:
        """Exact identity of every image, or why it has none. Each image is read and decoded once."""
        return self.identify()

    def identify(
        self,
        step: Callable[[], None] = lambda: None,
        known: Mapping[str, Digests] | None = None,
    ) -> dict[ImageRef, Digests | ImageError]:
        """``digests``, calling ``step`` after every image: for work that shows its progress.

        Images whose bytes are among the ``known`` (by byte digest) are not decoded once more.
        """
        if "digests" in self.__dict__:
            return self.digests
        # loads rich, which may be missing on scoring machines
        from heldout.engine import usable_cores

        record: dict[ImageRef, Digests | ImageError] = {}
        identify = functools.partial(_identify, known or {})
        cores = usable_cores()
        # Threads: decoding and hashing release the interpreter lock. One would only wait for another.
        with ThreadPoolExecutor(cores) as pool:
            identified = (pool.map if cores > 1 else map)(identify, self.images)
            for ref, digests in zip(self.images, identified, strict=True):
                record[ref] = digests
                step()
        self.__dict__["digests"] = record  # where cached_property keeps it
        return record

    @functools.cached_property
    def fingerprint(self) -> str:
        """Changes when an item's content or the order changes; never with paths, format or machine."""
        hasher = hashlib.sha256(b"heldout-benchmark-1\n")
        for example in self.examples:
            content = [
                canonical_text(example.id),
                [self._content(ref) for ref in example.images],
                example.question,
                list(example.options),
                canonical_text(example.answer),
                example.answer_index,
                example.cluster,
                canonical_metadata(example.metadata),
            ]
            hasher.update(json.dumps(content, ensure_ascii=False).encode() + b"\n")
        return hasher.hexdigest()

    @functools.cached_property
    def clusters(self) -> tuple[str, ...]:
        """For every item the group it belongs to: items that share a picture or a patient.

        Any shared picture joins two items, not the first one alone, and so does an equal value of
        the cluster column; a row whose value is empty stays with the pictures it shows. DICOM files that
        name one patient, study or series belong together, too.
        """
        parent: dict[str, str] = {}

        def root(key: str) -> str:
            while parent.setdefault(key, key) != key:
                parent[key] = key = parent[parent[key]]
            return key

        keys = []
        for example in self.examples:
            own = [self._picture(ref) for ref in example.images]
            own += [
                f"{kind}:{name}" for ref in example.images for kind, name in dicom_ids(ref).items()
            ]
            if example.cluster:
                own.append(f"cluster:{example.cluster}")
            own = own or [f"item:{example.id}"]
            for other in own[1:]:
                parent[root(other)] = root(own[0])
            keys.append(own[0])
        return tuple(root(key) for key in keys)

    @property
    def cluster_key(self) -> str:
        """What makes a cluster: "image", or "column" where the benchmark names patients or slides."""
        return "column" if any(example.cluster for example in self.examples) else "image"

    def cluster_sizes(self) -> Counter[str]:
        return Counter(self.clusters)

    def _content(self, ref: ImageRef) -> str:
        digest = self.digests[ref]
        if isinstance(digest, Digests):
            return digest.bytes
        try:
            return byte_digest(ref.read())  # undecodable bytes are content too
        except ImageError:
            raw = getattr(ref.location, "raw", None)  # inline text that is not even base64
            return byte_digest(raw()) if raw is not None else f"missing:{ref.name}"

    def _picture(self, ref: ImageRef) -> str:
        """Two references show one picture if their pixels are equal, whatever they are called."""
        digest = self.digests[ref]
        return digest.pixels if isinstance(digest, Digests) else f"image:{ref.name}"


def _identify(known: Mapping[str, Digests], ref: ImageRef) -> Digests | ImageError:
    try:
        digests = known.get(byte_digest(ref.read())) if known else None
        return digests or digest_image(ref)
    except ImageError as error:
        return error
