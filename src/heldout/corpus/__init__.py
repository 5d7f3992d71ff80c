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
        reading_settings,
    )
    from heldout.corpus.files import FilesCorpus
    from heldout.corpus.open import CorpusReader, CorpusRequest, corpus_readers, open_corpus
    from heldout.corpus.parquet_corpus import FAILURES, LaionEmbeddings
    from heldout.corpus.recipe import MixtureSource, is_recipe, open_recipe, suggested_recipe
    from heldout.corpus.streams import TarCut, open_tar, tar_entries
    from heldout.corpus.writing import Written, files_without

__all__ = [
    "FAILURES",
    "Corpus",
    "CorpusItem",
    "CorpusReader",
    "CorpusRequest",
    "EmbeddingCorpus",
    "FilesCorpus",
    "LaionEmbeddings",
    "MixtureSource",
    "Shard",
    "TarCut",
    "Written",
    "corpus_fingerprint",
    "corpus_readers",
    "files_without",
    "is_recipe",
    "open_corpus",
    "open_recipe",
    "open_tar",
    "read_items",
    "reading_settings",
    "suggested_recipe",
    "tar_entries",
]

__getattr__ = load_on_first_use(__name__, __file__)
