"""What a benchmark may have leaked into: streams of items in shards."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.corpus.corpus import (
        Corpus,
        CorpusItem,
        EmbeddingCorpus,
        Shard,
        corpus_fingerprint,
        read_items,
    )
    from heldout.corpus.open import CorpusReader, CorpusRequest, corpus_readers, open_corpus
    from heldout.corpus.parquet_corpus import FAILURES, LaionEmbeddings
    from heldout.corpus.recipe import MixtureSource, is_recipe, open_recipe
    from heldout.corpus.streams import TarCut, open_tar, tar_entries
    from heldout.corpus.tar_writing import tars_without

__all__ = [
    "FAILURES",
    "Corpus",
    "CorpusItem",
    "CorpusReader",
    "CorpusRequest",
    "EmbeddingCorpus",
    "LaionEmbeddings",
    "MixtureSource",
    "Shard",
    "TarCut",
    "corpus_fingerprint",
    "corpus_readers",
    "is_recipe",
    "open_corpus",
    "open_recipe",
    "open_tar",
    "read_items",
    "tar_entries",
    "tars_without",
]

__getattr__ = load_on_first_use(__name__, __file__)
