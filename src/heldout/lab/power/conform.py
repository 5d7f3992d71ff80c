"""``heldout lab conform``: what heldout requires of its own detectors, of anybody's.

Five requirements on tables in which memory was planted. They need no model and no data; a detector that does
not meet them on made-up tables cannot be believed on real ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from heldout.detect import (
    GROUP,
    Detector,
    DetectSettings,
    Finding,
    Need,
    NotTestable,
    ScoreTables,
    Strict,
    detectors,
)
from heldout.errors import HeldoutError, InputError, percent
from heldout.lab.power.planted_answers import ASKED, BASE, planted_answers
from heldout.lab.power.planted_scores import (
    ACCOMPLICE,
    BASELINE,
    PLANTED,
    REFERENCE,
    TARGET,
    planted_scores,
)
from heldout.lab.settings import ConformSettings
from heldout.stats import binomial_band

# Requirements on every detector, built-in or external: size under the null, power by dose.
#
# ``null_calibration`` counts false alarms on clean cells; a detector's share at the 5 % level must lie in
# its 99 % binomial band. Where a statistic is discrete, ties make the plain p larger than uniform, which is
# safe; ``randomised`` draws within the tie, so that being too careful shows as well.


class NullCalibration(NamedTuple):
    detector: str
    cells: int
    alarms: int  # plain p ≤ α
    randomised: int  # p ≤ α after drawing within ties
    low: int
    high: int

    @property
    def holds(self) -> bool:
        """Whether there are not too many alarms and, apart from ties, not too few."""
        return self.alarms <= self.high and self.low <= self.randomised <= self.high


def null_calibration(
    detector: Detector, cells: int, *, alpha: float = 0.05, permutations: int = 999, seed: int = 0
) -> NullCalibration:
    rng = np.random.default_rng([seed, 5])
    alarms = randomised = 0
    for finding in clean_cells(detector, cells, permutations=permutations, seed=seed):
        assert finding.p is not None
        tied = float(finding.details.get("p_tied") or 0.0)
        alarms += finding.p <= alpha
        randomised += finding.p - rng.random() * tied <= alpha
    low, high = binomial_band(cells, alpha)
    return NullCalibration(detector.name, cells, alarms, randomised, low, high)


def power_by_dose(
    detector: Detector,
    doses: Sequence[float],
    cells: int,
    *,
    permutations: int = 999,
    seed: int = 0,
) -> list[float]:
    """For each planted dose the share of cells in which the target is called seen."""
    shares = []
    for dose in doses:
        findings = list(
            clean_cells(detector, cells, dose=dose, permutations=permutations, seed=seed)
        )
        shares.append(sum(finding.direction == "seen" for finding in findings) / len(findings))
    return shares


def clean_cells(
    detector: Detector,
    cells: int,
    *,
    dose: float = 0.0,
    permutations: int = 999,
    seed: int = 0,
) -> Iterator[Finding]:
    """The target's finding in each of ``cells`` synthetic cells with cluster structure."""
    for cell in range(cells):
        tables, settings = planted_for(detector, 1000 * seed + cell, dose=dose)
        chosen = settings.model_copy(update={"seed": cell, "permutations": permutations})
        yield target_finding(detector, tables, chosen)


def planted_for(
    detector: Detector, seed: int, *, dose: float = 0.0
) -> tuple[ScoreTables, DetectSettings]:
    """Tables with what a detector needs, and settings under which it is testable on them."""
    if detector.needs == "answers":
        if Need.UNSEEN not in detector.requires:
            return planted_answers(seed, dose=dose), ASKED
        later = ASKED.model_copy(update={"unseen": PLANTED.unseen})
        return planted_answers(seed, dose=dose, fresh=True), later
    # Top sets of independent models are what chance means for top-k overlap.
    shared = 0.0 if detector.of == "pair" else 0.5
    return planted_scores(seed, dose=dose, shared=shared), PLANTED


def target_finding(detector: Detector, tables: ScoreTables, settings: DetectSettings) -> Finding:
    alone = detector.of == "model" and Need.COHORT not in detector.requires
    if detector.needs == "scores" and alone:  # concerns one model only
        tables = tables.without(
            [ACCOMPLICE]
            if Need.REFERENCE in detector.requires
            else [ACCOMPLICE, BASELINE, "reference"]
        )
    if detector.needs == "answers" and tables.answers is not None:
        spared = set() if Need.BASE in detector.requires else {BASE}
        spared |= set() if detector.of == "models" else {REFERENCE}
        kept = tables.answers.filter(~pl.col("model").is_in(list(spared)))
        tables = replace(tables, answers=kept)
    wanted = {
        TARGET,
        f"{ACCOMPLICE} & {TARGET}",
        f"{BASELINE} < {REFERENCE} < {TARGET}",
        "no model",
    }
    return _only(
        outcome
        for outcome in detector.find(tables, settings)
        if isinstance(outcome, Finding) and outcome.cell.model in wanted
    )


def _only(findings: Iterable[Finding]) -> Finding:
    (finding,) = findings
    return finding


SLACK = 0.2  # a share of few cells may fall by chance
LEAST_POWER = 0.75  # at the largest dose, where nothing is subtle any more


class ConformanceCheck(Strict):
    """One requirement on one detector."""

    requirement: str
    passed: bool
    detail: str


class Conformance(Strict):
    """What one detector does on planted tables."""

    cells: int
    permutations: int
    seed: int
    checks: list[ConformanceCheck]
    power: dict[str, float]  # by dose: the share of cells in which the target is called seen

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


class DetectorPackage(NamedTuple):
    """Detectors that belong together; ``name`` and ``version`` of the distribution where there is one."""

    name: str
    version: str
    detectors: tuple[Detector, ...]


def find_package(name: str) -> DetectorPackage:
    """The detectors of an installed package, a module, a file, or one detector by its name.

    Args:
        name: ``heldout`` for the built-in ones, a distribution with the entry point
            ``heldout.detectors``, ``module``, ``module:NAME``, a path that ends with ``.py``, or the name
            of a detector.
    """
    if name == "heldout":
        from heldout import __version__

        others = {point.name for point in entry_points(group=GROUP)}
        built_in = [entry for known, entry in detectors().items() if known not in others]
        return DetectorPackage(name, __version__, tuple(built_in))
    points = [
        point
        for point in entry_points(group=GROUP)
        if point.dist is not None and _same_name(point.dist.name, name)
    ]
    known = detectors()
    if points:
        loaded = tuple(known[point.name] for point in points if point.name in known)
        return DetectorPackage(name, _version(name), loaded)
    if name in known:
        return DetectorPackage(name, "", (known[name],))
    module_name, _, attribute = name.partition(":")
    module = _module(module_name)
    held = vars(module)
    if attribute:
        if not isinstance(held.get(attribute), Detector):
            raise InputError(f"{name}: {module_name} holds no heldout.detect.Detector {attribute}")
        return DetectorPackage(module.__name__, "", (held[attribute],))
    members = tuple(
        {id(value): value for value in held.values() if isinstance(value, Detector)}.values()
    )
    if not members:
        raise InputError(f"{name}: the module holds no heldout.detect.Detector")
    return DetectorPackage(module.__name__, "", members)


def _same_name(left: str, right: str) -> bool:
    return left.lower().replace("_", "-") == right.lower().replace("_", "-")


def _version(name: str) -> str:
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


def _module(name: str) -> ModuleType:
    """A module by its name, or from a file."""
    try:
        if name.endswith(".py"):
            path = Path(name)
            spec = importlib.util.spec_from_file_location(path.stem, path)
            if not path.is_file() or spec is None or spec.loader is None:
                raise InputError(f"{name}: there is no such file")
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(path.stem, module)
            spec.loader.exec_module(module)
            return module
        return importlib.import_module(name)
    except HeldoutError:
        raise
    except ModuleNotFoundError as error:
        raise InputError(
            f"{name}: no installed package with detectors, no detector and no module of this name "
            f"({error}); install the package, or give the path of its file"
        ) from error
    except Exception as error:
        raise InputError(
            f"{name} cannot be loaded ({type(error).__name__}: {error}): repair it first"
        ) from error


def conform(
    detector: Detector,
    settings: ConformSettings | None = None,
    progress: Callable[[str], None] | None = None,
    only: Collection[str] = (),
) -> Conformance:
    """Hold one detector to every requirement.

    Args:
        detector: The detector.
        settings: How many tables, and how many permutations.
        progress: Called with every requirement before it is checked.
        only: Only these requirements; default: all.
    """
    chosen = settings or ConformSettings()
    checks: list[ConformanceCheck] = []
    power: dict[str, float] = {}
    for requirement, check in _REQUIREMENTS.items():
        if only and requirement not in only:
            continue
        if requirement in _OF_MODELS and detector.of == "benchmark":
            continue  # it asks no model: it cannot call one seen
        if progress is not None:
            progress(requirement)
        try:
            passed, detail, shares = check(detector, chosen)
            power |= shares
        except Exception as error:  # another package's code: whatever it raises is its result
            passed, detail = False, f"raised {type(error).__name__}: {error}"
        checks.append(ConformanceCheck(requirement=requirement, passed=passed, detail=detail))
    return Conformance(
        cells=chosen.cells,
        permutations=chosen.permutations,
        seed=chosen.seed,
        checks=checks,
        power=power,
    )


_Result = tuple[bool, str, dict[str, float]]


def _false_alarms(detector: Detector, settings: ConformSettings) -> _Result:
    result: NullCalibration = null_calibration(
        detector, settings.cells, permutations=settings.permutations, seed=settings.seed
    )
    detail = (
        f"{result.alarms} of {result.cells} clean tables at the 5 % level; at most {result.high} are "
        f"chance"
    )
    if result.randomised < result.low:
        detail += f", and apart from ties at least {result.low}: it is too careful"
    return result.holds, detail, {}


def _power(detector: Detector, settings: ConformSettings) -> _Result:
    shares = power_by_dose(
        detector,
        settings.doses,
        settings.power_cells,
        permutations=settings.permutations,
        seed=settings.seed,
    )
    rises = all(later >= earlier - SLACK for earlier, later in pairwise(shares))
    detail = ", ".join(
        f"dose {dose:g}: {percent(share, 0)}"
        for dose, share in zip(settings.doses, shares, strict=True)
    )
    named = {f"{dose:g}": share for dose, share in zip(settings.doses, shares, strict=True)}
    return rises and shares[-1] >= LEAST_POWER, f"called seen at {detail}", named


def _repeatable(detector: Detector, settings: ConformSettings) -> _Result:
    tables, planted = planted_for(detector, settings.seed + 3, dose=1.0)
    quick = planted.model_copy(update={"permutations": settings.permutations})
    first = target_finding(detector, tables, quick)
    if target_finding(detector, tables, quick) != first:
        return False, "a second run with the same seed gave another finding", {}
    if target_finding(detector, _shuffled(tables), quick) != first:
        return False, "the same rows in another order gave another finding", {}
    return True, "the same finding again, and with rows in another order", {}


def _shuffled(tables: ScoreTables) -> ScoreTables:
    frames: dict[str, Any] = {
        name: frame.sample(fraction=1.0, shuffle=True, seed=9)
        for name, frame in vars(tables).items()
        if isinstance(frame, pl.DataFrame)
    }
    return replace(tables, **frames)


def _complete(detector: Detector, settings: ConformSettings) -> _Result:
    finding = next(clean_cells(detector, 1, permutations=settings.permutations, seed=settings.seed))
    effect = finding.effect
    faults = {
        "the effect lies outside its interval": not effect.low <= effect.value <= effect.high,
        "no smallest detectable effect": not finding.minimum_detectable_effect > 0,
        "nothing in blind_to: every test is blind to something": not finding.blind_to,
        "n and clusters do not fit": not finding.n >= finding.clusters > 0,
        "no p": finding.p is None,
        "a finding of another name": finding.detector != detector.name,
        "it does not survive being written and read": (
            Finding.model_validate_json(finding.model_dump_json()) != finding
        ),
    }
    named = [fault for fault, there in faults.items() if there]
    return (
        not named,
        "; ".join(named) or "effect in its interval, p, n, and what it is blind to",
        {},
    )


def _missing(detector: Detector, settings: ConformSettings) -> _Result:
    """Without references, items that cannot have been seen or a base: a finding or a reason."""
    tables, _ = planted_for(detector, settings.seed)
    others = [model for model in {*tables.models, *tables.answering} if model != TARGET]
    alone = tables.without(others)
    if alone.answers is not None:
        alone = replace(alone, answers=alone.answers.filter(pl.col("model") == TARGET))
    bare = DetectSettings(permutations=settings.permutations)
    outcomes = list(detector.find(alone, bare))
    strange = [outcome for outcome in outcomes if not isinstance(outcome, Finding | NotTestable)]
    if strange:
        return False, f"gave {str(strange[0])[:80]!r}: expected a Finding or a NotTestable", {}
    silent = [
        outcome
        for outcome in outcomes
        if isinstance(outcome, NotTestable) and not outcome.reason.strip()
    ]
    if silent:
        return False, "not testable without a reason", {}
    reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, NotTestable)]
    if not outcomes:
        return True, "nothing to test, no result", {}
    return True, reasons[0] if reasons else "one model alone can be tested", {}


_REQUIREMENTS: dict[str, Callable[[Detector, ConformSettings], _Result]] = {
    "false alarms": _false_alarms,
    "power": _power,
    "repeatable": _repeatable,
    "complete": _complete,
    "missing input": _missing,
}
_OF_MODELS = {"power", "complete"}
REQUIREMENTS = tuple(_REQUIREMENTS)


def conform_all(
    package: DetectorPackage,
    settings: ConformSettings | None = None,
    progress: Callable[[str], None] | None = None,
) -> Iterator[tuple[Detector, Conformance]]:
    """Every detector of a package with its results."""
    for detector in package.detectors:
        name = detector.name
        tell = None if progress is None else (lambda part, name=name: progress(f"{name}: {part}"))
        yield detector, conform(detector, settings, tell)
