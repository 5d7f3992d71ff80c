"""WebDataset tars written again without some of their samples."""

from __future__ import annotations

import bisect
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

from heldout.corpus.corpus import Corpus
from heldout.corpus.webdataset import Img2DatasetCorpus, WebDatasetCorpus, sample_key
from heldout.errors import InputError
from heldout.image import readable
from heldout.store import replacing

_MODES = {".gz": "w:gz", ".tgz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz"}


class WrittenTars(NamedTuple):
    kept: int  # samples
    removed: int
    missing: tuple[str, ...]  # ids that no sample has


def tars_without(corpus: Corpus, ids: Collection[str], folder: Path) -> WrittenTars | None:
    """The tars of ``corpus`` in ``folder``, under their own names; None if it has none.

    A sample goes as a whole: picture, caption and metadata. What stays is copied as it is.
    """
    inner = corpus.inner if isinstance(corpus, Img2DatasetCorpus) else corpus
    if not isinstance(inner, WebDatasetCorpus):
        return None
    wanted, known = sorted(set(ids)), set[str]()
    kept = removed = 0
    for shard in inner.shards():
        prefix = f"{shard.id}/"
        first, end = (
            bisect.bisect_left(wanted, text) for text in (prefix, f"{shard.id}0")
        )  # "0" follows "/"
        mine = {entry.removeprefix(prefix) for entry in wanted[first:end]}
        # The second picture of a sample has its member's name as id.
        keys = mine | {sample_key(name) for name in mine}
        samples: dict[str, bool] = {}
        target = folder / shard.id
        mode: Any = _MODES.get(target.suffix, "w")
        try:
            with (
                tarfile.open(shard.payload) as source,
                replacing(target) as temporary,
                tarfile.open(temporary, mode, format=source.format) as copy,
            ):
                for member in source:
                    key = readable(sample_key(member.name))
                    goes = key in keys
                    known |= {f"{prefix}{name}" for name in mine & {key, readable(member.name)}}
                    if not member.isdir():
                        samples[key] = goes
                    if not goes:
                        copy.addfile(member, source.extractfile(member) if member.isreg() else None)
        except (tarfile.TarError, EOFError, OSError) as error:
            raise InputError(f"{shard.payload} cannot be read as a whole: {error}") from error
        removed += sum(samples.values())
        kept += len(samples) - sum(samples.values())
    return WrittenTars(kept, removed, tuple(entry for entry in wanted if entry not in known))
