"""What a benchmark may have leaked into: streams of items in shards."""

from heldout.corpus.corpus import (
    Corpus,
    CorpusItem,
    EmbeddingCorpus,
    Shard,
    corpus_fingerprint,
    read_items,
)
from heldout.corpus.open import CorpusReader, Request, corpus_readers, open_corpus

__all__ = [
    "Corpus",
    "CorpusItem",
    "CorpusReader",
    "EmbeddingCorpus",
    "Request",
    "Shard",
    "corpus_fingerprint",
    "corpus_readers",
    "open_corpus",
    "read_items",
]
