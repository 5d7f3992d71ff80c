"""What identifies a corpus: the ids and keys of its shards, in order."""

from __future__ import annotations

import hashlib

from heldout.corpus.corpus import Corpus


def corpus_fingerprint(corpus: Corpus) -> str:
    """Changes when a file is added, removed, renamed or modified; reads no data."""
    hasher = hashlib.sha256(f"heldout-corpus-1\n{corpus.reader}\n".encode())
    for shard in corpus.shards():
        hasher.update(f"{shard.id}\0{shard.key}\n".encode())
    return hasher.hexdigest()
