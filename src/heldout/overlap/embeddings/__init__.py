"""Embeddings of a corpus and of a benchmark, written once and read by whoever compares them."""

from heldout.overlap.embeddings.benchmark_rows import (
    BenchmarkEmbeddings,
    Queries,
    benchmark_pictures,
    embed_benchmark,
    pictures_of,
)
from heldout.overlap.embeddings.corpus_rows import EmbeddedCorpus, embed_corpus
from heldout.overlap.embeddings.evaluation_rows import text_rows, upright_rows
from heldout.overlap.embeddings.whole_pictures import CorpusEmbeddings, whole_pictures

__all__ = [
    "BenchmarkEmbeddings",
    "CorpusEmbeddings",
    "EmbeddedCorpus",
    "Queries",
    "benchmark_pictures",
    "embed_benchmark",
    "embed_corpus",
    "pictures_of",
    "text_rows",
    "upright_rows",
    "whole_pictures",
]
