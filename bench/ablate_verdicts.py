"""What every control, rule, correction and detector is worth: each is switched off on recordings of known memory.

The recipes are those of the quality table at even seeds, ``REPLICATES`` of each. Every recording is looked at once by
the detectors that its recipe names, and once by all of them; in the second way every claim counts. What the detectors
found is kept, and judged again under each switch, so that only what was found decides. A control that is off is taken
for passed; a detector that is off was never asked for, and all corrections are made without it. What only describes a
run (order ablations, inflation, strata, easiest items) is left out: no claim rests on it.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ablate_patch import Patch, applied, apply
from ablate_pictures import cost_row, row_of
from quality_figures import NEITHER
from quality_verdicts import CASES, CLEARED, CONVICTED, COUNTS, Case, is_counted, recipes

REPLICATES = 12
ALL = "all recordings"
EVERY = ", all detectors"  # what a set is called in the second way
VERDICT = "heldout.verdict."
Statuses = tuple[tuple[str, str], ...]  # claims with their status

# Controls: their names, and what each asks.
BASELINE = "external baseline"
#: that there is such a control is what it says
SPEAK_BY_BEING_THERE = ("attainable p", "own interval", "reach of the test")
CONTROLS = {
    BASELINE: "Is it more than in a model that cannot have seen the benchmark?",
    "spread of clean models": "Do clean models differ as much among themselves?",
    "skill of the references": "Is a reference as good on changed, fresh or shuffled items?",
    "twins that differ": "Do most twins show another picture than their originals?",
    "twins that were judged": "Did a verifier or people look at the twins?",
    "unreadable replies": "Does it remain without unreadable replies?",
    "answers that are recorded": "Are nine in ten of the pairs recorded?",
    "drop in a category": "Does it drop in no category that was asked for?",
    "place of the right option": "Does a favourite place explain it?",
    "items that both answer wrong": "Is the old answer more frequent where a reference is wrong, too?",
    "attainable p": "Could a perfect effect have fired?",
    "own interval": "Does its interval contain no effect, where nothing fires?",
    "reach of the test": "Are there pairs enough to see a large effect?",
    "covariates": "Does an order effect remain when adjusted for lengths?",
    "structure": "Does an order effect remain within what the release is grouped by?",
    "conditional order test": "Does a test agree that conditions on the items before?",
    "blind": "Do words and metadata alone separate suspect from unseen items?",
    "cohort composition": "Is a model flagged in every sub-cohort?",
    "calibration": "Does the gain gap explain the tail?",
    "spread": "Are its scores only noisier than the cohort's?",
    "shared difficulty": "Do two clean models find the same items easy, too?",
}
# Rows of the table of rules; without the last ones, which end it.
RULES = {
    "no-p": "A rate without a test is qualified.",
    "both-drop": "It drops by itself and so do clean models: collapses.",
    "own-interval": "Nothing fires, but an interval lies above no effect: qualified.",
    "out-of-reach": "The smallest p is too large for the family: not testable.",
    "no-reference": "Nothing fires and a reference is missing: qualified.",
    "too-few-pairs": "Nothing fires and few pairs were asked: qualified.",
    "doubt": "Nothing fires, but a control did not pass: qualified.",
    "baseline-fires-alone": "A baseline fires where the model does not: qualified.",
    "structure": "Gone within what the release is grouped by: re-attributed.",
    "fires-on-clean": "The detector fires on clean models of the lab: qualified.",
    "away-from-memory": "Significant on the side away from memory: qualified.",
    "no-baseline": "A baseline was not recorded: qualified.",
    "baseline-fires-too": "A baseline shows it as much: re-attributed or collapses.",
    "covariates": "Gone when adjusted for lengths: re-attributed.",
    "control-failed": "Any control failed: qualified.",
    "control-missing": "Any control is missing: qualified.",
}


def _passes(name: str, facts_of: Callable[..., Any]) -> Callable[..., Any]:
    """The facts about a finding, had it passed this control."""

    def facts(controls: Sequence[Any]) -> Any:
        kept = []
        for control in controls:
            if control.name != name and not (name == BASELINE and control.name.startswith(name)):
                kept.append(control)
            elif name == BASELINE:
                kept.append(control.model_copy(update={"outcome": "passed", "reason": ""}))
        return facts_of(kept)

    return facts


def _of_models(rule: Any) -> bool:
    return bool({"order", "membership", "cohort", "answers"}.intersection(rule.kinds))


def _without_detector(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    def run_others(*args: Any, **words: Any) -> Any:
        outcomes, checks = run(*args, **words)
        return [outcome for outcome in outcomes if outcome.detector != name], checks

    return run_others


@dataclass(frozen=True)
class Group:
    says: str
    patches: tuple[Patch, ...]
    kind: str  # control, rule, detector or machinery
    name: str = ""  # of the control, rule or detector


def _machinery() -> dict[str, Group]:
    def group(says: str, *patches: tuple[str, str, Callable[[Any], Any]]) -> Group:
        made = tuple(Patch(VERDICT + module, name, instead) for module, name, instead in patches)
        return Group(says, made, "machinery")

    return {
        "correction over claims": group(
            "Benjamini–Yekutieli over all claims planned together.",
            ("_model_claims", "corrected", lambda _: lambda claims, others=(): dict(claims)),
        ),
        "correction within a claim": group(
            "Holm over the detectors of one claim.",
            (
                "_model_claims",
                "with_adjusted",
                lambda _: (
                    lambda findings, families: [
                        each.model_copy(update={"p_adjusted": each.p}) for each in findings
                    ]
                ),
            ),
        ),
        "corrected detectable effect": group(
            "Says what the corrected test could have detected, not each by itself.",
            (
                "controls.reach",
                "at_level",
                lambda at_level: lambda finding, needed: at_level(finding, 0.05),
            ),
        ),
        "wider intervals": group(
            "Widens intervals of what does not fire for all tests of a model together.",
            ("controls.reach", "together", lambda _: lambda finding, tests: finding),
        ),
        "same models": group(
            "Knows one model under several names, and references that are nearly one.",
            ("controls.same_models", "same_models", lambda _: lambda tables: {}),
            ("controls.same_models", "one_family", lambda _: lambda tables, baselines, same: {}),
        ),
        "measured false positives": group(
            "Caps claims of detectors that fire on clean models of the lab.",
            (
                "controls.lab_rates",
                "keeping_their_level",
                lambda _: lambda findings, compared, rates: list(findings),
            ),
            ("controls.lab_rates", "on_clean_models", lambda _: lambda detector, way, rates: []),
        ),
    }


def _groups() -> dict[str, Group]:
    from heldout.detect import detectors

    groups: dict[str, Group] = {}
    for name, says in CONTROLS.items():
        patch = Patch(f"{VERDICT}_model_claims", "facts_of", partial(_passes, name))
        groups[f"control: {name}"] = Group(says, (patch,), "control", name)
    for name, says in RULES.items():

        def shorter(rules: Any, name: str = name) -> Any:
            return tuple(rule for rule in rules if rule.name != name or not _of_models(rule))

        patch = Patch(f"{VERDICT}rules", "RULES", shorter)
        groups[f"rule: {name}"] = Group(says, (patch,), "rule", name)
    groups |= _machinery()
    for name, detector in detectors().items():
        patch = Patch("heldout.detect.registry", "run_detectors", partial(_without_detector, name))
        says = f"The detector {name}: {detector.summary}"
        groups[f"detector: {name}"] = Group(says, (patch,), "detector", name)
    return groups


GROUPS = _groups()
SWITCHES: dict[str, tuple[str, Callable[[], None]]] = {
    name: (group.says, partial(apply, group.patches)) for name, group in GROUPS.items()
}


# Recordings


@dataclass
class Judged:
    """One recording, looked at in one way. ``off``: statuses by switch where the switch was asked at all."""

    case: str
    way: str  # "", or EVERY
    every: bool
    claim: str
    on: Statuses = ()
    off: dict[str, Statuses] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)  # by detector

    def counts(self, case: Case, switch: str = "") -> bool:
        """As in the quality table."""
        said = self.off.get(switch, self.on)
        mine = [status for claim, status in said if self.every or self.claim in ("", claim)]
        return is_counted(case, mine)


_DESCRIBING: dict[str, Callable[..., Any]] = {
    "ablate_orders": lambda *args, **words: [],
    "run_inflation": lambda *args, **words: {},
    "run_strata": lambda *args, **words: {},
    "easiest_items": lambda *args, **words: [],
    "triple_hits": lambda *args, **words: ([], None),
    "with_strata": lambda findings, *args: findings,
}


def _exchanged(other: Callable[..., Any], _: Any) -> Callable[..., Any]:
    return other


def judged(case: Case, seed: int, shared: Path, names: Sequence[str]) -> list[Judged]:
    recording = recipes(shared)[case.recipe](seed, **case.changes)
    ((named, settings),) = recording.looks
    ways = [("", named, case.every), (EVERY, (), True)] if named else [("", (), case.every)]
    return [
        _judged(Judged(case.name, way, every, recording.claim), recording, asked, settings, names)
        for way, asked, every in ways
    ]


def _judged(
    result: Judged, recording: Any, detectors: Sequence[str], settings: Any, names: Sequence[str]
) -> Judged:
    from heldout.verdict import _model_claims
    from heldout.verdict.examine import judge, look

    idle = [
        Patch(f"{VERDICT}examine", name, partial(_exchanged, other))
        for name, other in _DESCRIBING.items()
    ]
    outcomes, checks, result.milliseconds = _found(recording.tables, detectors, settings)

    def statuses() -> Statuses:
        looked = look(recording.tables, detectors, settings)
        claims = judge(looked, recording.others).claims
        return tuple((claim.id, claim.status) for claim in claims)

    asked: list[tuple[Any, ...]] = []  # what the rules were asked, claim by claim

    def listening(rule: Any) -> Any:
        def listen(*args: Any) -> Any:
            asked.append(args)
            return rule(*args)

        return listen

    def replayed(_: Any) -> Any:
        return lambda *args, **words: (list(outcomes), checks)

    with applied([*idle, Patch("heldout.detect.registry", "run_detectors", replayed)]):
        with applied([Patch(f"{VERDICT}_model_claims", "_rule", listening)]):
            result.on = statuses()
        present = {control.name for args in asked for control in args[3]}
        detected = {outcome.detector for outcome in outcomes}
        for name in names:
            group = GROUPS[name]
            with applied(group.patches):
                if group.kind == "detector" and group.name not in detected:
                    continue
                if group.kind == "control" and not _is_among(group.name, present):
                    continue
                if group.kind in ("control", "rule"):
                    ruled = [_model_claims._rule(*args).status for args in asked]
                    result.off[name] = tuple(
                        (claim, status) for (claim, _), status in zip(result.on, ruled, strict=True)
                    )
                else:
                    result.off[name] = statuses()
    return result


def _is_among(control: str, names: set[str]) -> bool:
    return control in names or (
        control == BASELINE and any(name.startswith(control) for name in names)
    )


def _found(
    tables: Any, names: Sequence[str], settings: Any
) -> tuple[list[Any], Any, dict[str, float]]:
    """What the detectors find, and the milliseconds of each."""
    from heldout.detect import registry

    spent: defaultdict[str, float] = defaultdict(float)

    def timed(find: Any) -> Any:
        def found(detector: Any, *args: Any) -> list[Any]:
            start = time.process_time()
            outcomes = list(find(detector, *args))
            spent[detector.name] += 1000 * (time.process_time() - start)
            return outcomes

        return found

    with applied([Patch("heldout.detect.registry", "_outcomes", timed)]):
        outcomes, checks = registry.run_detectors(tables, names, settings)
    return outcomes, checks, dict(spent)


def _task(task: tuple[int, int], shared: Path, names: Sequence[str]) -> list[Judged]:
    place, turn = task
    return judged(CASES[place], 2 * turn, shared, names)


def every_recording(
    shared: Path, jobs: int, names: Sequence[str], replicates: int = REPLICATES
) -> list[Judged]:
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
    os.environ |= dict.fromkeys(limits, "1")
    tasks = [(place, turn) for turn in range(replicates) for place in range(len(CASES))]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        done = pool.imap(partial(_task, shared=shared, names=names), tasks)
        return [each for results in done for each in results]


# Rows


def rows_of(switch: str, results: Sequence[Judged]) -> list[dict[str, object]]:
    """A row for each set where the switch was asked, and what becomes of all claims."""
    says = GROUPS[switch].says
    rows: list[dict[str, object]] = []
    for case in CASES:
        figure, better = COUNTS[case.asks]
        for suffix, mine in _ways([each for each in results if each.case == case.name]):
            if any(switch in each.off for each in mine):
                title = case.name + suffix
                on = [each.counts(case) for each in mine]
                off = [each.counts(case, switch) for each in mine]
                rows.append(row_of(switch, says, title, figure, better, on, off))
                rows += _cost(switch, title, mine)
    for suffix, mine in _ways(results):
        pairs = [
            (before, dict(each.off.get(switch, each.on)).get(claim, ""))
            for each in mine
            for claim, before in each.on
        ]
        for figure, words in (("confirmed", CONVICTED), ("nothing found", CLEARED)):
            on, off = (
                [status in words for status in column] for column in zip(*pairs, strict=True)
            )
            rows.append(row_of(switch, says, ALL + suffix, figure, NEITHER, on, off))
        rows += _cost(switch, ALL + suffix, mine)
    return rows


def _ways(results: Sequence[Judged]) -> list[tuple[str, list[Judged]]]:
    """By the detectors of the recipe, and by all; some recipes name none, and the first way is the second."""
    ways = [(way, [each for each in results if each.way == way]) for way in ("", EVERY)]
    return [(way, mine) for way, mine in ways if mine]


def _cost(switch: str, title: str, results: Sequence[Judged]) -> list[dict[str, object]]:
    """CPU of all detectors that were asked, in milliseconds for a recording; controls cost next to nothing."""
    group = GROUPS[switch]
    if group.kind != "detector" or not results:
        return []
    on = sum(sum(each.milliseconds.values()) for each in results) / len(results)
    own = sum(each.milliseconds.get(group.name, 0.0) for each in results) / len(results)
    return [cost_row(switch, group.says, title, len(results), on, on - own)]


def measure(
    shared: Path, out: Path, jobs: int, only: Sequence[str] = ()
) -> list[dict[str, object]]:
    """Every switch, or ``only`` some, on half 0 of the recipes; nothing is written to ``out``."""
    names = [name for name in GROUPS if not only or name in only]
    results = every_recording(shared, jobs, names)
    return [row for name in names for row in rows_of(name, results)]
