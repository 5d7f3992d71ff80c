"""Embeddings on disk: written once, in LAION's layout, with the encoder that made them.

``img_emb/img_emb_0000.npy`` (float16, one row per picture), ``metadata/metadata_0000.parquet`` (the
same rows: id, pixel digest, text, which part of which item) and ``encoder.json``.
``corpus.LaionEmbeddings`` reads the folder as it reads LAION's own, which lacks only the last file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.overlap.encoders.embed import Embedded
from heldout.overlap.encoders.encoder import require_same
from heldout.store import replacing, write_json

FORMAT = 1
_WORDS = ("id", "image_path", "caption", "question", "answer", "digest")
_SCHEMA = pa.schema(
    [*((name, pa.string()) for name in _WORDS), ("item", pa.int64()), ("part", pa.int32())]
)
_KEY, _COUNTS = b"heldout.shard", b"heldout.counts"


@dataclass(frozen=True, slots=True)
class SavedEmbeddings:
    """What ``encoder.json`` says about a folder of embeddings."""

    identity: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Described:
    """Of which picture each row of a matrix is, and of which part of it."""

    ids: list[str]  # per item
    digests: list[str]  # per item, of native pixels; "" where nobody knows
    items: NDArray[np.int64]  # per row
    parts: NDArray[np.int64]  # per row, 0 for the whole picture


@dataclass(frozen=True, slots=True)
class SavedShard:
    """One matrix with its descriptions: small, picklable, read where it is needed.

    Where the embeddings themselves are the corpus, ``corpus_name`` is what it calls this file, and
    its items are named by their row.
    """

    matrix: str
    metadata: str | None
    corpus_name: str | None = None

    def rows(self) -> NDArray[np.float16]:
        """Memory-mapped; one row per picture or part of one."""
        return open_matrix(Path(self.matrix))

    def described(self, rows: int) -> Described:
        """What the ``rows`` rows are of. Somebody else's are pictures, each named by its place."""
        name = self.corpus_name or Path(self.matrix).name
        places = [f"{name}/{row}" for row in range(rows)]
        everything = np.arange(rows)
        plain = Described(places, [""] * rows, everything, np.zeros(rows, np.int64))
        if self.metadata is None:
            return plain
        try:
            with pq.ParquetFile(self.metadata) as file:
                if not {"id", "digest", "item", "part"} <= set(file.schema_arrow.names):
                    return plain
                table = file.read(["id", "digest", "item", "part"])
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.metadata}: not a readable Parquet file ({error})") from error
        items, parts = (table.column(name).to_numpy().astype(np.int64) for name in ("item", "part"))
        count = int((parts == 0).sum())
        # Ours have the whole pictures first, one per item and in their order.
        if len(items) != rows or not np.array_equal(items[:count], everything[:count]):
            raise InputError(
                f"{self.matrix} and {self.metadata} do not belong together: remove both and embed again"
            )
        ids = places if self.corpus_name else table.column("id").to_pylist()
        digests = [digest or "" for digest in table.column("digest").to_pylist()[:count]]
        return Described(ids[:count], digests, items, parts)


def open_matrix(path: Path) -> NDArray[Any]:
    try:
        # Unlike np.load this opens nothing but plain arrays: no pickle, whose loading runs code.
        matrix: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise InputError(f"{path}: not a readable .npy matrix ({error})") from error
    if matrix.ndim != 2 or matrix.dtype.kind != "f":
        raise InputError(
            f"{path}: expected a matrix of floats, one row per picture; "
            f"found {matrix.dtype} of shape {matrix.shape}"
        )
    return matrix


def save_shard(
    folder: Path,
    number: int,
    embedded: Embedded,
    *,
    key: str = "",
    counts: dict[str, int] | None = None,
) -> None:
    """Make shard ``number`` final. The matrix comes last: where it is, everything of it is.

    ``key`` says of which input; ``shard_counts`` gives ``counts`` back to whoever asks for that key.
    """
    saved_embeddings = SavedEmbeddings(embedded.identity, int(embedded.rows.shape[1]))
    claim_identity(folder, saved_embeddings)
    matrix, metadata = _paths(folder, number)
    described = _described(embedded).replace_schema_metadata(
        {_KEY: key.encode(), _COUNTS: json.dumps(counts or {}).encode()}
    )
    # A shard that is written again is unfinished from here on: rows and descriptions change together.
    matrix.unlink(missing_ok=True)
    with replacing(metadata) as temporary:
        pq.write_table(described, temporary, compression="zstd")
    with replacing(matrix) as temporary, temporary.open("wb") as stream:
        np.save(stream, embedded.rows.astype(np.float16, copy=False), allow_pickle=False)


def saved_shard(folder: Path, number: int) -> SavedShard:
    matrix, metadata = _paths(folder, number)
    return SavedShard(str(matrix), str(metadata))


def shard_counts(folder: Path, number: int, key: str) -> dict[str, int] | None:
    """The counts that shard ``number`` was saved with; None unless it is finished and of ``key``."""
    matrix, metadata = _paths(folder, number)
    if not matrix.exists():
        return None
    try:
        about = pq.read_schema(metadata).metadata or {}
        if about.get(_KEY) != key.encode():
            return None
        counts: dict[str, int] = json.loads(about[_COUNTS])
        return counts
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return None  # half of a shard is none


def claim_identity(folder: Path, saved_embeddings: SavedEmbeddings) -> None:
    """Make ``folder`` that of one encoder, or raise InputError where it is another's."""
    earlier = read_identity(folder)
    if earlier is None:
        write_json(folder / "encoder.json", {"format": FORMAT, **_as_json(saved_embeddings)})
    else:
        require_same(earlier.identity, saved_embeddings.identity)


def read_identity(folder: Path) -> SavedEmbeddings | None:
    """Which encoder made the embeddings in ``folder``; None where nobody wrote it down."""
    path = folder / "encoder.json"
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text())
        known = content["format"]
        saved = SavedEmbeddings(str(content["identity"]), int(content["dimension"]))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not what heldout writes there ({error!r})") from error
    if known != FORMAT:
        raise InputError(f"{path} has format {known}, this heldout reads {FORMAT}: embed again")
    return saved


def _paths(folder: Path, number: int) -> tuple[Path, Path]:
    return (
        folder / "img_emb" / f"img_emb_{number:04d}.npy",
        folder / "metadata" / f"metadata_{number:04d}.parquet",
    )


def _as_json(saved: SavedEmbeddings) -> dict[str, str | int]:
    return {"identity": saved.identity, "dimension": saved.dimension}


def _described(embedded: Embedded) -> pa.Table:
    """One description per row of the matrix, as LAION has it: a part is described as its picture."""
    columns: list[Sequence[Any]] = [
        [embedded.items[owner].id for owner in embedded.owners],
        [_source(embedded, owner) for owner in embedded.owners],
        [embedded.items[owner].text for owner in embedded.owners],
        [embedded.items[owner].question for owner in embedded.owners],
        [embedded.items[owner].answer for owner in embedded.owners],
        [embedded.digests[owner] for owner in embedded.owners],
        embedded.owners,
        embedded.parts,
    ]
    return pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, _SCHEMA.types, strict=True)],
        schema=_SCHEMA,
    )


def _source(embedded: Embedded, owner: int) -> str | None:
    image = embedded.items[owner].image
    return image.source if image else None
