"""Embeddings on disk: written once, in LAION's layout, with the encoder that made them.

``img_emb/img_emb_0000.npy`` (float16, one row per picture), ``metadata/metadata_0000.parquet`` (the
same rows: id and text) and ``encoder.json``. ``corpus.LaionEmbeddings`` reads the folder as it reads
LAION's own, which lacks only the last file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from heldout.errors import InputError
from heldout.overlap.encoders.embed import Embedded
from heldout.overlap.encoders.encoder import require_same
from heldout.store.atomic import replacing, write_json

FORMAT = 1
_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "image_path", "caption", "question", "answer")]
)


@dataclass(frozen=True, slots=True)
class SavedEmbeddings:
    """What ``encoder.json`` says about a folder of embeddings."""

    identity: str
    dimension: int


def save_shard(folder: Path, index: int, embedded: Embedded) -> None:
    """Make shard ``index`` final. The matrix comes last: where it is, everything of it is."""
    found = SavedEmbeddings(embedded.identity, int(embedded.rows.shape[1]))
    earlier = read_identity(folder)
    if earlier is None:
        write_json(folder / "encoder.json", {"format": FORMAT, **_as_json(found)})
    else:
        require_same(earlier.identity, found.identity)
    with replacing(folder / "metadata" / f"metadata_{index:04d}.parquet") as temporary:
        pq.write_table(_metadata(embedded), temporary, compression="zstd")
    with (
        replacing(folder / "img_emb" / f"img_emb_{index:04d}.npy") as temporary,
        temporary.open("wb") as stream,
    ):
        np.save(stream, embedded.rows.astype(np.float16, copy=False), allow_pickle=False)


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


def _as_json(saved: SavedEmbeddings) -> dict[str, str | int]:
    return {"identity": saved.identity, "dimension": saved.dimension}


def _metadata(embedded: Embedded) -> pa.Table:
    rows = [
        {
            "id": item.id,
            "image_path": item.image.source if item.image else None,
            "caption": item.text,
            "question": item.question,
            "answer": item.answer,
        }
        for item in embedded.items
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)
