"""Text overlap: a benchmark's questions, options, answers and captions against a stream of documents."""

from heldout.overlap.text.index import METHODS, TextIndex, TextSearch, build_text_index
from heldout.overlap.text.judge import Judge, ModelJudge, Opinion, Opinions, TextPair, cross_check
from heldout.overlap.text.ledger import collect_text
from heldout.overlap.text.scan import scan_text_shard
from heldout.overlap.text.search import TextResult, search_text

__all__ = [
    "METHODS",
    "Judge",
    "ModelJudge",
    "Opinion",
    "Opinions",
    "TextIndex",
    "TextPair",
    "TextResult",
    "TextSearch",
    "build_text_index",
    "collect_text",
    "cross_check",
    "scan_text_shard",
    "search_text",
]
