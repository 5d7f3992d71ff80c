"""One cell of a verdict in words: a benchmark against a corpus or a model. Pages, terminal and exports use these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heldout.errors import counted, percent
from heldout.evidence import OPEN, PROVEN, TO_READ, Rung
from heldout.verdict import AWAY, NEARNESS, NOTHING_TO_COMPARE, WHOLE_CORPUS, rung_words

Cell = Mapping[str, Any]
_CORPUS = {
    "survives": "leaked",
    "qualified": "may have leaked; not settled",
    "re-attributed": "explained by something else",
    "collapses": "no evidence: controls show it, too",
    "clean": "nothing found",
    "not testable": "could not be tested",
}
_MODEL = {
    "survives": "tests say that it has seen it",
    "qualified": "may have seen it; not settled",
    "re-attributed": "an effect, but not memory",
    "collapses": "no evidence: clean models show it, too",
    "clean": "no sign that it has seen it",
    "not testable": "could not be tested",
}


#: why a claim about a corpus is open though nothing was found, by the row of the verdict's table that decided it
_SEARCHED_IN_PART = {
    "copies/parts-unread": "parts could not be read",
    "words/parts-unread": "parts could not be read",
    "words/out-of-reach": "too few items can be identified by their words",
    "words/rewordings-unsearched": "rewordings could not be ruled out",
}
_COVERAGE = {"benchmark coverage", "corpus coverage"}
#: why a model is not cleared though no test fires, by the end of the row that decided it
_NO_EFFECT = {
    "no-reference": "not cleared, because a control is missing",
    "too-few-pairs": "not cleared, because too few items were asked",
    "no-p": "some differences are no test without a clean reference",
    "doubt": "not cleared, because a control was not passed",
    AWAY: "no sign of memory, but it departs from its references the other way",
}


def target(cell: Cell) -> tuple[str, str]:
    """("corpus" or "model", its name)."""
    return ("corpus", cell["corpus"]) if cell["corpus"] is not None else ("model", cell["model"])


def is_pair(cell: Cell) -> bool:
    return cell["model"] is not None and " & " in cell["model"]


def in_words(cell: Cell) -> str:
    kind, _ = target(cell)
    rate = cell["leak_rate"]
    if kind == "corpus" and rate and rate["leaked"]:
        message = f"{rate['leaked']:,} of {counted(rate['items'], 'item', 'items')} leaked"
        return message + believed(cell.get("by_people", 0)) + up_to(cell) + not_compared(cell)
    if kind == "corpus" and (near := undecided_items([cell])):
        return f"none proven; {counted(near, 'item is', 'items are')} undecided{not_compared(cell)}"
    if kind == "corpus" and (why := nothing_found(cell)):
        return f"nothing found; {why}{same_source(cell)}"
    if kind == "corpus" and (similar := similar_items(cell)):
        return f"none proven; {counted(similar, 'item has', 'items have')} similar words there{not_compared(cell)}"
    if kind == "corpus":
        status = cell["status"] if _open_claims(cell) or not same_source(cell) else "clean"
        return _CORPUS[status] + same_source(cell) + not_compared(cell)
    if kind == "model" and _only_off(cell):
        return "no sign that counts: the tests that fire do so on clean models, too"
    if kind == "model" and (why := no_effect(cell)):
        return why if why == _NO_EFFECT[AWAY] else f"no effect found; {why}"
    return _MODEL[cell["status"]]


def no_effect(cell: Cell) -> str:
    """Of a model of which no test fires, why it is not called clean; "" for every other cell."""
    open_ = [claim for claim in speaking_claims(cell) if claim["status"] == "qualified"]
    rules = {str(claim["rule"]).rpartition("/")[2] for claim in open_}
    if cell["model"] is None or cell["status"] != "qualified" or not rules <= _NO_EFFECT.keys():
        return ""
    return "; ".join(words for rule, words in _NO_EFFECT.items() if rule in rules)


def nothing_found(cell: Cell) -> str:
    """Of a corpus in which nothing was found, why it is not called clean; "" for every other cell."""
    if cell["corpus"] is None or cell["status"] != "qualified" or undecided_items([cell]):
        return ""
    open_ = _open_claims(cell)
    if not all(claim["rule"] in _SEARCHED_IN_PART for claim in open_):
        return ""
    return "; ".join(dict.fromkeys(why for claim in open_ for why in _open_because(claim)))


def _open_claims(cell: Cell) -> list[Mapping[str, Any]]:
    """Without that on sources, which says nothing of what was found."""
    qualified = (claim for claim in speaking_claims(cell) if claim["status"] == "qualified")
    return [claim for claim in qualified if not str(claim["rule"]).startswith("sources/")]


def _open_because(claim: Mapping[str, Any]) -> list[str]:
    limits = _limits(claim)
    failed = {control["name"] for control in claim["controls"] if control["outcome"] == "failed"}
    if limits and claim["rule"].endswith("/parts-unread") and not failed & _COVERAGE:
        return limits
    return [*limits, _SEARCHED_IN_PART[claim["rule"]]]


def _limits(claim: Mapping[str, Any]) -> list[str]:
    return [control["reason"] for control in claim["controls"] if control["name"] == WHOLE_CORPUS]


def uncompared(cell: Cell) -> list[str]:
    """Of a corpus, sentences on what is there and could not be compared, pictures or words."""
    if cell["corpus"] is None:
        return []
    claims = [claim for claim in cell["claims"] if speaks_of_leaks(claim) and not idle(claim)]
    return [claim["sentence"] for claim in claims if claim["status"] == "not testable"]


def read_in_part(cell: Cell) -> bool:
    """Whether nothing was found and nothing is open but what lies behind the limit of the search."""
    limits = {limit for claim in cell["claims"] for limit in _limits(claim)}
    return bool(limits) and nothing_found(cell) in limits


def _only_off(cell: Cell) -> bool:
    """Whether a model is in doubt for nothing but detectors that fire on clean models of the lab."""
    doubted = [c["rule"] for c in speaking_claims(cell) if c["status"] == "qualified"]
    fires = all(str(rule).endswith("/fires-on-clean") for rule in doubted)
    return cell["status"] == "qualified" and bool(doubted) and fires


def up_to(cell: Cell) -> str:
    """The upper end where items are undecided: the same quantity, items, as the lower one."""
    rate = cell["leak_rate"]
    possible = rate.get("possible")
    if not possible:
        return ""
    undecided = possible["leaked"] - rate["leaked"]
    others = "the undecided item" if undecided == 1 else f"the {undecided:,} undecided items"
    return (
        f"; up to {possible['leaked']:,} ({percent(possible['value'])}) if {others} leaked as well"
    )


def not_compared(*cells: Cell) -> str:
    """The items whose pictures could not be compared: counted among all, they must not pass for clean.

    Of several cells the most: it is one benchmark's pictures that cannot be read, whatever they are compared with.
    """
    count = max((cell["leak_rate"] or {}).get("uncompared", 0) for cell in cells)
    if not count:
        return ""
    of = "its picture" if count == 1 else "their pictures"
    return f"; {counted(count, 'item', 'items')} could not be compared by {of}"


def same_source(cell: Cell) -> str:
    """Items of which nothing is there but the name of their source."""
    count = cell["evidence"].get(Rung.SOURCE_OVERLAP, 0)
    return (
        f"; {counted(count, 'item names', 'items name')} a source that it has, too" if count else ""
    )


def speaking_claims(cell: Cell) -> list[Mapping[str, Any]]:
    """Claims that decide their cell: not nearness, nor claims that had nothing to compare."""
    claims = cell["claims"]
    return [c for c in claims if speaks_of_leaks(c) and not idle(c)] or list(claims)


def speaks_of_leaks(claim: Mapping[str, Any]) -> bool:
    return not claim["id"].startswith(NEARNESS)


def idle(claim: Mapping[str, Any]) -> bool:
    return any(control["name"] == NOTHING_TO_COMPARE for control in claim["controls"])


def undecided_items(cells: Sequence[Cell]) -> int:
    return sum(cell["evidence"].get(rung, 0) for cell in cells for rung in OPEN)


def similar_items(cell: Cell) -> int:
    """Items that were found by words like their own, which prove nothing until people have read them."""
    return sum(cell["evidence"].get(rung, 0) for rung in TO_READ)


def believed(by_people: int) -> str:
    return f", {by_people:,} of them by people's word" if by_people else ""


def rungs_in_words(cell: Cell) -> dict[str, str]:
    """Items by the highest rung they reach: those that make up the rate, and those that do not."""

    compared = cell.get("answers_compared", True)

    def words(rung: str, count: int) -> str:
        name = rung_words(rung, answers_compared=compared)
        if not cell.get("asked", True):
            name = name.replace("answer", "label")
        # Items here; claims count pictures, too.
        return f"{counted(count, 'item', 'items')}: {name}"

    return {
        kind: " · ".join(
            words(rung, count)
            for rung, count in cell["evidence"].items()
            if (rung in PROVEN) is (kind == "proven")
        )
        for kind in ("proven", "open")
    }
