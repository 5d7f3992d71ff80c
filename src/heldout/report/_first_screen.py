"""The first screen: what leaked, into what, how sure we are, what the score owes to it, what to do.

Made from cells as ``verdict.json`` holds them, so that one benchmark's page and the page of a whole audit
say the same in the same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heldout.errors import counted, percent
from heldout.evidence import Rung
from heldout.report._cell_words import (
    Cell,
    believed,
    idle,
    in_words,
    is_pair,
    no_effect,
    not_compared,
    nothing_found,
    rungs_in_words,
    similar_items,
    speaking_claims,
    speaks_of_leaks,
    target,
    uncompared,
    undecided_items,
    up_to,
)
from heldout.report._models import Figure
from heldout.report._scores_owed import owed_sentences
from heldout.report._statuses import DetectableEffect, least_of, tests_in_words
from heldout.report.certainty import (
    certainty,
    false_alarms,
    false_alarms_in_brief,
    kinds_of_proof,
)
from heldout.verdict import COPIES, LAB, ONE_FORM, PRESSING

TOP = 3


def first_screen(
    cells: Sequence[Cell],
    recommendations: Sequence[Mapping[str, Any]],
    corrected: Mapping[str, Mapping[str, Any]],
    least: Mapping[str, DetectableEffect] | None = None,
) -> dict[str, Any]:
    """``corrected`` by benchmark, as in corrected.json; ``least`` by claim, the effect that would have been
    detected where nothing was found."""
    top, rows = top_claims(cells), grid(cells, least or {})
    owed = owed_sentences(
        corrected,
        any(cell["corpus"] is not None for cell in cells),
        {
            (cell["benchmark"], cell["model"]): cell["status"]
            for cell in cells
            if cell["model"] is not None and not is_pair(cell)
        },
    )
    return {
        "sentence": _sentence(cells),
        "numbers": _numbers(cells, owed),
        "leaked": _leaked(cells),
        **_sure(cells, recommendations),
        "owed": owed,
        "advice": [
            recommendation
            for recommendation in recommendations
            if recommendation["kind"] != "control"
        ],
        "controls": [
            recommendation
            for recommendation in recommendations
            if recommendation["kind"] == "control"
        ],
        "top": top,
        "grid": rows,
        "statuses": _statuses(top, rows),
        "tests": tests_in_words(cells),
    }


def _statuses(top: Sequence[Mapping[str, Any]], rows: Mapping[str, Any]) -> list[str]:
    """The statuses on the first screen, the most pressing first: they are explained there."""
    met = {claim["status"] for claim in top}
    met |= {cell["status"] for row in rows["rows"] for cell in row["cells"] if cell}
    return [status for status in PRESSING if status in met]


def grid(cells: Sequence[Cell], least: Mapping[str, DetectableEffect]) -> dict[str, Any]:
    """Corpora and models down, benchmarks across: there are more of the former, and phones are narrow."""
    single = [cell for cell in cells if not is_pair(cell)]
    ordered = sorted(single, key=lambda cell: cell["corpus"] is None)
    benchmarks = list(dict.fromkeys(cell["benchmark"] for cell in cells))
    summaries: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for cell in ordered:
        summaries.setdefault(target(cell), {})[cell["benchmark"]] = cell_summary(cell, least)
    rows = [
        {"kind": kind, "name": name, "cells": [mine.get(benchmark) for benchmark in benchmarks]}
        for (kind, name), mine in summaries.items()
    ]
    return {"benchmarks": benchmarks, "rows": rows}


def cell_summary(cell: Cell, least: Mapping[str, DetectableEffect]) -> dict[str, Any]:
    rate = cell["leak_rate"]
    speaking = [c for c in speaking_claims(cell) if c["status"] == cell["status"]]
    why = speaking[0]["why"] if speaking else ONE_FORM if cell["model"] is not None else ""
    if cell["model"] is not None and cell["status"] == "survives":
        # The claims have the numbers; here are the tests behind them.
        why = f"{counted(len(speaking), 'test', 'tests')} passed every control: {', '.join(_tests(cell))}"
    proven = bool(rate and rate["leaked"])
    return {
        "status": cell["status"],
        "least": least_of(speaking, least),
        "words": in_words(cell),
        "rate": f"{percent(rate['value'])}, 95 % interval {_interval(rate['interval'])}"
        if proven
        else "",
        "rungs": rungs_in_words(cell),
        "why": "" if proven or nothing_found(cell) else why,
        "claim": speaking[0]["id"] if speaking else None,
        "benchmark": cell["benchmark"],
    }


def _interval(bounds: Mapping[str, float]) -> str:
    """An interval that is not broken across lines."""
    return f"{percent(bounds['low'])} – {percent(bounds['high'])}".replace(
        " ", "\N{NO-BREAK SPACE}"
    )


def top_claims(cells: Sequence[Cell], count: int = TOP) -> list[dict[str, Any]]:
    """The most pressing: leaks before nearness, copies before words before models; of claims that are as
    pressing, one of each cell before a second of any."""
    kinds = {"overlap": 0, "text": 1, "nearness": 9}

    def order(entry: tuple[int, dict[str, Any]]) -> tuple[Any, ...]:
        place, claim = entry
        kind = claim["id"].partition("/")[0]
        status = PRESSING.index(claim["status"])
        first = (kind == "nearness", status, claim["nth"], -claim["share"])
        return (*first, kinds.get(kind, 2), place)

    every = [
        {
            **claim,
            "benchmark": cell["benchmark"],
            "on": target(cell)[1],
            "nth": _nth(cell, claim),
            "share": (cell["leak_rate"] or {}).get("value", 0.0) if speaks_of_leaks(claim) else 0.0,
        }
        for cell in cells
        for claim in cell["claims"]
        if not idle(claim)
    ]
    return [claim for _, claim in sorted(enumerate(every), key=order)][:count]


def _nth(cell: Cell, claim: Mapping[str, Any]) -> int:
    """The position of a claim among its cell's claims of that status."""
    return [record["id"] for record in cell["claims"] if record["status"] == claim["status"]].index(
        claim["id"]
    )


def _hit(cells: Sequence[Cell]) -> list[Cell]:
    """Corpora that hold leaked items, the largest share first."""
    hit = [cell for cell in cells if cell["leak_rate"] and cell["leak_rate"]["leaked"]]
    return sorted(hit, key=lambda cell: -cell["leak_rate"]["value"])


def _seen(cells: Sequence[Cell]) -> list[Cell]:
    """Models that have seen a benchmark."""
    single = [cell for cell in cells if cell["model"] is not None and not is_pair(cell)]
    return [cell for cell in single if cell["status"] == "survives"]


def _tests(cell: Cell) -> list[str]:
    """The tests behind a model's status."""
    return [
        claim["id"].partition("/")[0]
        for claim in speaking_claims(cell)
        if claim["status"] == cell["status"]
    ]


def _lab_controls(cell: Cell) -> list[Mapping[str, Any]]:
    """What the lab measured of the tests that speak against a model."""
    return [
        control
        for claim in speaking_claims(cell)
        if claim["status"] == cell["status"]
        for control in claim["controls"]
        if control["name"] == LAB
    ]


def _sentence(cells: Sequence[Cell]) -> str:
    """The answer in one or two sentences: the worst leak, and the models that have seen the benchmark."""
    several = len({cell["benchmark"] for cell in cells}) > 1
    hit, seen = _hit(cells), _seen(cells)
    messages = []
    for cell in hit[:1]:
        rate, answers = cell["leak_rate"], cell["evidence"].get(Rung.FULL, 0)
        of = f" of {cell['benchmark']}" if several else ""
        message = f"{rate['leaked']:,} of {counted(rate['items'], 'item', 'items')}{of} leaked into {cell['corpus']}"
        if answers:
            label = "answer" if cell.get("asked", True) else "label"
            message += f", {answers:,} of them with their {label}"
            if any(claim["id"].startswith("text/") for claim in cell["claims"]):
                message += " (questions in other words included)"
        messages.append(message + up_to(cell) + not_compared(cell) + ".")
    if len(hit) > 1:
        others = counted(len(hit) - 1, "other comparison", "other comparisons")
        messages.append(f"Leaks were found in {others} as well.")
    messages += [
        f"{counted(len(_tests(cell)), 'test says', 'tests say')} that {cell['model']} has seen "
        f"{cell['benchmark']}."
        for cell in seen[:2]
    ]
    if len(seen) > 2:
        others = counted(len(seen) - 2, "other model", "other models")
        messages.append(f"So they say of {others}.")
    if messages:
        return " ".join(messages)
    if near := undecided_items(cells):
        undecided = f"{counted(near, 'item is', 'items are')} undecided, and people have to look"
        return f"No leak is proven; {undecided}{not_compared(*cells)}."
    open_ = [cell for cell in cells if cell["status"] == "qualified" and not is_pair(cell)]
    if open_ and all(nothing_found(cell) for cell in open_):
        messages = [
            f"Nothing was found in {cell['corpus']}; {nothing_found(cell)}." for cell in open_
        ]
        return " ".join(messages[:TOP])
    if open_:
        messages = [
            f"{similar_items(cell):,} of {counted(cell['leak_rate']['items'], 'item', 'items')} of {cell['benchmark']} "
            f"{'has' if similar_items(cell) == 1 else 'have'} similar words in {cell['corpus']}."
            for cell in sorted(open_, key=similar_items, reverse=True)
            if similar_items(cell)
        ]
        if messages:
            return " ".join([*messages[:TOP], "Nothing is proven until people have read them."])
        unsettled = list(dict.fromkeys(target(cell)[1] for cell in open_))
        names = ", ".join(unsettled[:TOP])
        if len(unsettled) > TOP:
            names += f" and {len(unsettled) - TOP:,} more"
        beginning = "No effect was found" if all(map(no_effect, open_)) else "Nothing is confirmed"
        return f"{beginning}, and {names} could not be cleared: the claims below say what would settle it."
    clean = [cell for cell in cells if cell["status"] == "clean" and not is_pair(cell)]
    corpora, models = (
        ", ".join(dict.fromkeys(cell[kind] for cell in clean if cell[kind] is not None))
        for kind in ("corpus", "model")
    )
    if corpora:
        messages.append(f"None of its items was found in {corpora}{not_compared(*clean)}.")
        messages += [sentence for cell in clean for sentence in uncompared(cell)][:TOP]
    if models:
        messages.append(f"No sign was found that {models} saw it in training.")
    if clean:
        if all(cell["corpus"] is None for cell in cells):
            messages.append("No corpus was searched.")
        return " ".join([*messages, "The claims below say which effects would have been detected."])
    return "Nothing could be tested."


def _numbers(
    cells: Sequence[Cell], owed: Sequence[Mapping[str, str]], most: int = 4
) -> list[dict[str, str]]:
    """The numbers that carry the answer, each with a few words."""
    several = len({cell["benchmark"] for cell in cells}) > 1
    numbers = []
    hit, seen = _hit(cells), _seen(cells)
    for cell in hit[: 1 if len(hit) == 1 else 2]:
        of = f" of {cell['benchmark']}" if several else ""
        rate, bounds = cell["leak_rate"]["value"], cell["leak_rate"]["interval"]
        words = (
            f"of the items{of} leaked into {cell['corpus']}; 95 % interval from {percent(bounds['low'])} to "
            f"{percent(bounds['high'])}"
        )
        numbers.append({"value": percent(rate), "words": words})
    # One item can be in several corpora: numbers of different corpora are not added up.
    kinds = kinds_of_proof(hit[:1])
    if sum(kinds.values()):
        shown = {words: count for words, count in kinds.items() if count}
        numbers.append(
            {
                "value": " + ".join(f"{count:,}" for count in shown.values()),
                "words": f"items in {hit[0]['corpus']} by their picture: {' + '.join(shown)}",
            }
        )
    for cell in seen[:2]:
        tests = counted(len(_tests(cell)), "test says so and", "tests say so and")
        alarms = false_alarms_in_brief(_lab_controls(cell))
        words = f"has seen {cell['benchmark']}: {tests} passed every control; {alarms}"
        numbers.append({"value": cell["model"], "words": words})
    for record in [record for record in owed if record["points"]][:1]:
        numbers.append({"value": record["points"], "words": record["brief"]})
    if not hit and (near := undecided_items(cells)):
        words = (
            "item undecided: people have to look"
            if near == 1
            else "items undecided: people have to look"
        )
        numbers.insert(0, {"value": f"{near:,}", "words": words})
    if not numbers:
        single = [cell for cell in cells if not is_pair(cell)]
        numbers = [_number(cell) for cell in sorted(single, key=_pressing)]
    return numbers[:most]


def _pressing(cell: Cell) -> tuple[bool, int, int]:
    """What was found comes first, then what is not settled, then what is clean."""
    similar = similar_items(cell)
    return not similar, PRESSING.index(cell["status"]), -similar


def _number(cell: Cell) -> dict[str, str]:
    if similar := similar_items(cell):
        have = "item has" if similar == 1 else "items have"
        words = f"{have} similar words in {cell['corpus']}: people have to read them"
        return {"value": f"{similar:,} of {cell['leak_rate']['items']:,}", "words": words}
    if why := nothing_found(cell):
        rate = cell["leak_rate"]
        words = f"items were found in {cell['corpus']}; {why}"
        return {"value": f"0 of {rate['items']:,}", "words": words}
    return {"value": target(cell)[1], "words": in_words(cell)}


def shown_figure(figures: Sequence[Figure], top: Sequence[Mapping[str, Any]]) -> Figure | None:
    """The figure of the most pressing claim about a model that has one: the model beside its references."""
    names = {
        "twin-drop": "slopes-",
        "twin-margin": "margins-",
        "order": "order-",
        "cohort": "delta-tails",
    }
    for claim in top:
        start = names.get(claim["id"].partition("/")[0])
        if start is not None:
            for figure in figures:
                if figure.name.startswith(start):
                    return figure
    return next(iter(figures), None)


def _leaked(cells: Sequence[Cell]) -> dict[str, Any]:
    """The worst cells in words; how many more there are."""
    several = len({cell["benchmark"] for cell in cells}) > 1
    hit = _hit(cells)
    lines = [
        {
            "rate": percent(cell["leak_rate"]["value"]),
            "words": f"{cell['leak_rate']['leaked']:,} of "
            f"{counted(cell['leak_rate']['items'], 'item', 'items')}"
            f"{' of ' + cell['benchmark'] if several else ''} into {cell['corpus']}"
            f"{believed(cell.get('by_people', 0))}{up_to(cell)}{not_compared(cell)}",
            "rungs": rungs_in_words(cell),
            "conflicts": cell.get("label_conflicts", 0),
            "asked": cell.get("asked", True),
        }
        for cell in hit[:TOP]
    ]
    return {"lines": lines, "more": len(hit) - len(lines)}


_ABOUT = {
    "overlap": "copies in {}",
    "text": "words in {}",
    "nearness": "similar pictures in {}",
    "source": "shared sources with {}",
}
_NAMED = 3  # open claims that a sentence names


def _unsettled(
    claims: Sequence[Mapping[str, Any]], recommendations: Sequence[Mapping[str, Any]]
) -> str:
    """Which claims are open, and what would settle the most of them."""
    names = []
    for claim in claims:
        family, _, subject = claim["id"].partition("/")
        names.append(_ABOUT.get(family, f"{family} of {{}}").format(subject))
    more = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
    ids = {claim["id"] for claim in claims}
    controls = (
        recommendation["sentence"].partition("): ")[2]
        for recommendation in recommendations
        if recommendation["kind"] == "control" and ids & set(recommendation["claims"])
    )
    step = claims[0]["next_step"]
    asks = next(controls, "") or (f"{step}." if step and step != "nothing" else "")
    settle = f" What would help: {asks}" if asks else ""
    return f"Not settled: {', '.join(names[:_NAMED] + more)}.{settle}"


def _sure(cells: Sequence[Cell], recommendations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How sure the result is, in at most three sentences; the measured precision, in small print."""
    claims = [c for cell in cells for c in cell["claims"] if not idle(c)]
    leaks = [claim for claim in claims if speaks_of_leaks(claim)]
    by_status: dict[str, list[Mapping[str, Any]]] = {}
    for claim in leaks:
        by_status.setdefault(claim["status"], []).append(claim)
    messages, measured = [], ""
    stood = by_status.get("survives", [])
    if any(claim["rule"].startswith(f"{COPIES}/") for claim in stood):
        sentence, measured = certainty(cells)
        messages.append(sentence)
    elif any(claim["cell"]["corpus"] is not None for claim in stood):
        messages.append(f"{counted(len(stood), 'claim', 'claims')} passed every control.")
    messages += [
        f"{cell['model']}: {' and '.join(_tests(cell))} passed every control; {false_alarms(_lab_controls(cell))}."
        for cell in _seen(cells)
    ]
    # As many as the page lists, nearness among them.
    open_ = [claim for claim in claims if claim["status"] == "qualified"]
    if open_:
        messages.append(_unsettled(open_, recommendations))
    fallen = len(by_status.get("re-attributed", [])) + len(by_status.get("collapses", []))
    if fallen:
        messages.append(f"{counted(fallen, 'suspicion', 'suspicions')} failed a control.")
    if not messages and by_status.get("clean"):
        messages.append(
            "Nothing was found; each claim says what would have been detected, and what would not."
        )
    if not messages:
        untold = any(not cell["claims"] and cell["model"] is not None for cell in cells)
        why = "; each claim says why" if claims else f": {ONE_FORM}" if untold else ""
        messages.append(f"Nothing could be tested{why}.")
    return {"sure": messages[:TOP], "measured": measured}
