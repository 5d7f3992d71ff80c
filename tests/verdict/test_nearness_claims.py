"""The rules of nearness, row by row, on calibrations of known similarities."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from heldout.detect import Finding, adjust, image_nearness
from heldout.errors import percent
from heldout.overlap.nearness.calibration import calibrations
from heldout.store import make_table
from heldout.verdict import Claim, nearness_claims

ENCODER = "e-1 | test"
CLOSE, FAR = 0.97, 0.2
BENCH = 100


def frame(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    found = pl.from_arrow(make_table(name, rows))
    assert isinstance(found, pl.DataFrame)
    return found


def nearest(role: str, name: str, values: list[float]) -> list[dict[str, Any]]:
    return [
        {
            "corpus": "web",
            "encoder": ENCODER,
            "role": role,
            "name": name,
            "picture": f"{name}{n}",
            "neighbour": f"{role}-{name}-{n}",
            "similarity": value,
            "related": f"{name}{n}",
        }
        for n, value in enumerate(values)
    ]


def flagged(count: int, n: int) -> list[float]:
    return [CLOSE] * count + [FAR] * (n - count)


def judged(
    count: int,
    *,
    copies: int = 0,
    null: int = 1000,
    inside: tuple[int, int] | None = None,
    outside: tuple[int, int] | None = None,
    alpha: float = 0.01,
    studies: int | None = None,
    light: tuple[int, int] | None = None,
    below: int = 0,
) -> tuple[Claim, list[Finding]]:
    rows = nearest("benchmark", "b", flagged(count, BENCH))
    rows += nearest("null", "reference", list(np.linspace(0.0, 0.9, null)))
    rows += nearest("copy", "light copies", flagged(*light)) if light else []
    controls = []
    for name, domain, found in (("in", "in domain", inside), ("out", "out of domain", outside)):
        if found is not None:
            control = nearest("control", name, flagged(*found))
            for n, row in enumerate(control):
                row["related"] = row["related"] if studies is None else f"study{n // studies}"
            rows += control
            controls.append({"name": name, "domain": domain, "source": "x"})
    items = frame(
        "items",
        [
            {
                "benchmark_id": f"i{n}",
                "position": n,
                "cluster": f"b{n}",
                "question": "?",
                "options": [],
                "answer": "",
                "image_names": [f"b{n}"],
                "image_digests": [f"b{n}"],
                "metadata": "{}",
            }
            for n in range(BENCH)
        ],
    )
    matches = frame(
        "matches",
        [
            {
                "benchmark_id": f"i{n}",
                "image_index": 0,
                "corpus": "web",
                "corpus_id": "x",
                "method": ENCODER,
                "similarity": CLOSE,
                "degree": "none",
                "relation": "same image" if n < copies or n >= count else "look-alike",
                "transform": "",
                "modality": "none",
                "label_relation": "unknown",
                "evidence": json.dumps({"benchmark_pixels": f"b{n}"}),
            }
            for n in range(count + below)
        ],
    )
    facts = {
        "corpus": "web",
        "encoder": ENCODER,
        "alpha": alpha,
        "corpus_pictures": 5000,
        "problem": "",
        "null": {"source": "a reference", "duplicates": 0.9995, "seed": 0},
        "controls": controls,
    }
    (one,) = calibrations(items, frame("nearest", rows), {"web": facts})
    findings = adjust(image_nearness(items, matches, one, benchmark="bench"))
    (claim,) = nearness_claims(findings, one, "bench")
    return claim, findings


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ({"count": 1}, "clean"),
        ({"count": 0, "inside": (0, 300)}, "clean"),
        ({"count": 1, "copies": 1}, "qualified"),  # never clean beside a proven copy
        ({"count": 0, "below": 3}, "qualified"),  # nor where the copies lie below τ
        ({"count": 4}, "qualified"),  # not significant, but [1.1 %, 9.9 %] excludes 1 %
        ({"count": 5, "alpha": 0.12}, "qualified"),  # [1.6 %, 11.3 %] excludes 12 %
        ({"count": 1, "light": (60, 64)}, "clean"),
        ({"count": 1, "light": (30, 64)}, "qualified"),  # copies would not be flagged, either
        ({"count": 20, "inside": (1, 300), "light": (30, 64)}, "survives"),
        ({"count": 20, "copies": 19}, "re-attributed"),
        ({"count": 20, "inside": (1, 300)}, "survives"),
        ({"count": 20, "inside": (1, 300), "outside": (0, 300)}, "survives"),
        ({"count": 20}, "qualified"),
        ({"count": 20, "outside": (0, 300)}, "qualified"),
        ({"count": 20, "inside": (0, 5)}, "qualified"),  # five pictures control nothing
        ({"count": 60, "inside": (15, 300)}, "qualified"),  # fires, but far less
        ({"count": 20, "inside": (60, 300)}, "collapses"),
        ({"count": 20, "inside": (1, 300), "outside": (40, 300)}, "collapses"),
        ({"count": 20, "null": 30}, "not testable"),
    ],
)
def test_status(case: dict[str, Any], status: str) -> None:
    assert judged(**case)[0].status == status


def test_nearness_is_never_called_a_leak(wording: Callable[..., None]) -> None:
    cases: list[dict[str, Any]] = [{"count": 20}, {"count": 20, "inside": (1, 300)}]
    wording(*(judged(**case)[0] for case in cases))
    for case in cases:
        claim, _ = judged(**case)
        assert claim.id == "nearness/web"
        assert "20 of 100 images" in claim.sentence
        assert "1.0 were expected" in claim.sentence


def test_what_is_flagged_but_not_verified_is_stated(wording: Callable[..., None]) -> None:
    claim, (images, rest, _) = judged(20, copies=5)
    assert images.details["flagged"] == {
        "proven copies": 5,
        "undecided": 0,
        "no copy": 15,
        "not looked at": 0,
    }
    assert (rest.n, rest.statistic.value) == (95, 15)
    wording(claim)


def test_a_null_that_is_too_small_says_what_it_could_tell() -> None:
    claim, findings = judged(20, null=30)
    assert not findings
    assert "30 pictures" in claim.why and "0.17" in claim.why
    assert "--null" in claim.next_step


def test_a_clean_claim_says_what_it_could_have_seen() -> None:
    claim, (images, _, _) = judged(1)
    assert 0.03 < images.minimum_detectable_effect < 0.2
    assert percent(images.minimum_detectable_effect) in claim.why
    # That rate is significant at least 19 times out of 20.
    rng = np.random.default_rng(0)
    counts = rng.binomial(BENCH, images.minimum_detectable_effect, 60)
    seen = [judged(int(count))[1][0].direction == "seen" for count in counts]
    assert np.mean(seen) > 0.85


def test_a_threshold_that_light_copies_do_not_reach_proves_nothing(
    wording: Callable[..., None],
) -> None:
    claim, _ = judged(1, light=(30, 64))
    wording(claim)
    assert claim.controls[-1].outcome == "failed"
    assert "30 of 64 pictures" in claim.why and "(47 % [34 %, 60 %])" in claim.why
    assert judged(1, light=(64, 64))[0].controls[-1].outcome == "passed"


def test_too_few_flags_are_the_other_tail_not_proof() -> None:
    claim, (images, _, _) = judged(0)
    assert images.direction == "none"  # 0 of 100 at α = .01 is nothing
    assert claim.rule == "nearness/nothing-near"


def test_significantly_too_few_flags_mean_that_the_null_does_not_fit(
    wording: Callable[..., None],
) -> None:
    claim, (images, _, _) = judged(0, alpha=0.1)
    assert images.direction == "not seen"
    assert claim.status == "qualified"
    assert claim.rule == "nearness/null-misfit"
    wording(claim)


def test_without_a_control_of_its_kind_no_p_is_claimed() -> None:
    assert "p = " not in judged(20)[0].sentence and "p <" not in judged(20)[0].sentence
    assert "p <" in judged(20, inside=(1, 300))[0].sentence


def test_slices_of_one_study_are_one_false_alarm() -> None:
    assert judged(60, inside=(10, 300))[0].controls[1].outcome == "failed"
    assert judged(60, inside=(10, 300), studies=10)[0].controls[1].outcome != "failed"


def test_nearness_is_adjusted_over_what_other_benchmarks_tested_too() -> None:
    """Holm over the audit's four tests: .02 is the second smallest of them, .5 the third."""
    _, findings = judged(5)
    made = [findings[0].model_copy(update={"p": p, "p_adjusted": None}) for p in (0.02, 0.5)]
    assert [one.p_adjusted for one in adjust(made)] == pytest.approx([0.04, 0.5])
    together = adjust(made, others=[0.9, 0.001])
    assert [one.p_adjusted for one in together] == pytest.approx([0.06, 1.0])


def test_few_flags_beside_proven_copies_say_nothing(wording: Callable[..., None]) -> None:
    claim, (images, _, _) = judged(0, below=3)
    assert images.details["proven_copies"] == 3
    assert claim.rule == "nearness/copies-beside"
    assert "3 images" in claim.sentence and "no nearer" not in claim.sentence
    wording(claim)
    assert claim.next_step == "act on the claim about copies"


@pytest.mark.parametrize(
    ("case", "side"), [({"count": 4}, "above"), ({"count": 5, "alpha": 0.12}, "below")]
)
def test_an_interval_without_the_expected_rate_is_not_clean(
    case: dict[str, Any], side: str
) -> None:
    claim, (images, _, _) = judged(**case)
    assert images.p_adjusted is not None and images.p_adjusted > 0.05
    assert claim.rule == "nearness/interval-off"
    assert f" {side} the expected" in claim.sentence
