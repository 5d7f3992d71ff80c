from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from heldout.stats.contrast import METHODS, adjust, benjamini_yekutieli


@pytest.mark.parametrize(("method", "name"), [("bh", "bh"), ("by", "by")])
def test_false_discovery_rates_agree_with_scipy(method: str, name: str) -> None:
    p = np.random.default_rng(0).random(40) ** 3
    expected = stats.false_discovery_control(p, method=name)
    assert adjust(list(p), method) == pytest.approx(expected, abs=1e-14)  # type: ignore[arg-type]


def test_the_published_corrections_come_out_to_the_last_digit(shared_data: Path) -> None:
    golden = shared_data.parent / "golden/medvlm/exchangeability_refined.json"
    cells = json.loads(golden.read_text())["cells"]
    p = [cell["p_value"] for cell in cells]
    assert len(p) == 27
    assert adjust(p, "bonferroni") == pytest.approx(
        [cell["p_value_bonferroni"] for cell in cells], abs=1e-12
    )
    assert adjust(p, "bh") == pytest.approx([cell["q_value_bh"] for cell in cells], abs=1e-12)


def test_stricter_corrections_never_give_smaller_values() -> None:
    p = list(np.random.default_rng(1).random(25) ** 2)
    bonferroni, holm, by, bh = (adjust(p, m) for m in ("bonferroni", "holm", "by", "bh"))
    assert all(a >= b - 1e-15 for a, b in zip(bonferroni, holm, strict=True))
    assert all(a >= b - 1e-15 for a, b in zip(holm, bh, strict=True))
    assert all(a >= b - 1e-15 for a, b in zip(by, bh, strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_order_of_the_family_does_not_matter(method: str) -> None:
    p = np.random.default_rng(2).random(12)
    shuffled = np.random.default_rng(3).permutation(12)
    plain = np.asarray(adjust(list(p), method))  # type: ignore[arg-type]
    assert adjust(list(p[shuffled]), method) == pytest.approx(plain[shuffled])  # type: ignore[arg-type]


def test_what_is_no_p_value_or_no_method_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        benjamini_yekutieli([0.1, float("nan")])
    with pytest.raises(ValueError, match="no correction"):
        adjust([0.1], "sidak")  # type: ignore[arg-type]
    assert adjust([], "bh") == []
