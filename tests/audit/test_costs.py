"""heldout plan: hours and dollars follow from rates, sizes and machines; rates are measured on a sample."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

import pytest

import heldout
from command_line import run_inside
from heldout.audit import MachineSpec, StageRates, read_machines
from heldout.audit.costs import _measured, costs_of
from heldout.corpus import open_corpus
from heldout.errors import InputError
from heldout.overlap import SearchSample


def sample() -> SearchSample:
    """A thousand shards of 200 items of 50 kB, of which ten shards were looked at."""
    return SearchSample(
        shards=1000,
        looked_at=10,
        items=2000,
        measured=100,
        image_bytes=5_000_000,
        benchmark_pictures=50,
        pairs=500,
        core_seconds={"compare": 0.5, "embed": 2.0, "join": 0.1, "verify": 4.0, "texts": 0.2},
        units={"compare": 100, "embed": 100, "join": 100, "verify": 20, "texts": 100},
    )


def test_hours_are_work_over_cores() -> None:
    machines = MachineSpec(machines=2, cores=10, price_per_hour=3.0)
    stages = {stage.stage: stage for stage in costs_of("c", sample(), machines)}
    assert list(stages) == ["compare", "embed", "join", "verify", "texts"]
    embed = stages["embed"]
    assert embed.units == 200_000 and embed.bytes == pytest.approx(10e9)
    assert embed.core_hours == pytest.approx(200_000 * 0.02 / 3600)
    assert embed.hours == pytest.approx(embed.core_hours / 20)
    assert embed.dollars == pytest.approx(embed.hours * 2 * 3.0)
    assert stages["verify"].units == 500
    assert stages["verify"].core_hours == pytest.approx(500 * 0.2 / 3600)
    assert stages["verify"].bytes == pytest.approx(10e9 / 2)  # 500 pairs in 1,000 shards
    assert {stage.limited_by for stage in stages.values()} == {"cores"}


def test_reading_limits_what_cores_do_not() -> None:
    slow = MachineSpec(machines=1, cores=1000, read_mb_per_s=10, price_per_hour=0, price_per_gb=0.1)
    compare = next(iter(costs_of("c", sample(), slow)))
    assert compare.limited_by == "reading"
    assert compare.hours == pytest.approx(10e9 / 10e6 / 3600)
    assert compare.dollars == pytest.approx(1.0)


def test_given_rates_sizes_and_gpus_replace_what_was_measured() -> None:
    spec = MachineSpec(cores=4, gpus=2, items=4e6, speed=2, rates=StageRates(embed=1000))
    stages = {stage.stage: stage for stage in costs_of("c", sample(), spec)}
    assert stages["embed"].limited_by == "GPUs"
    assert stages["embed"].hours == pytest.approx(4e6 / 1000 / 2 / 3600)
    assert stages["compare"].core_hours == pytest.approx(4e6 * 0.005 / 2 / 3600)
    assert stages["compare"].bytes == pytest.approx(4e6 * 50_000)
    assert stages["compare"].dollars is None
    assert stages["verify"].units == 500  # as many pairs, however large the corpus is


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cores: 0", "on: cores: "),
        ("core: 4", "on: core: "),
        ("gpus: 1", "rates.embed"),
        ("- 1", "such as cores: 16"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_specification_that_is_wrong_is_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "machines.yaml"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_machines(path)
    assert message in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_machines(tmp_path / "nothing.yaml")


def test_a_search_is_measured_and_planned(near_data: Path, tmp_path: Path) -> None:
    spec = tmp_path / "machines.yaml"
    spec.write_text("machines: 3\ncores: 8\nprice_per_hour: 2.5\nitems: 1e9\n")
    command = ["plan", near_data / "bench", "--against", f"c={near_data / 'corpus'}"]
    options = ["--on", spec, "--seconds", "1", "--encoder", "pixels", "--text-encoder", "none"]
    done = run_inside(*command, *options, "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert [stage["stage"] for stage in plan["stages"]] == [
        "compare",
        "embed",
        "join",
        "verify",
        "texts",
    ]
    assert all(stage["hours"] > 0 and stage["dollars"] > 0 for stage in plan["stages"])
    measured = plan["measured"]["c"]
    assert measured["shards"] == 15 and measured["looked_at"] == 8 and measured["items"] == 16
    assert 0 < measured["pairs"] < 5 * 40
    total = sum(stage["hours"] for stage in plan["stages"])
    assert plan["total"]["hours"] == pytest.approx(total)
    shown = run_inside(*command, "--seconds", "1", "--exact", "--no-text")
    assert shown.returncode == 0, shown.stderr
    assert "compare" in shown.stdout and "embed" not in shown.stdout and "30 items" in shown.stdout
    result = heldout.plan(near_data / "bench", near_data / "corpus", seconds=1, exact=True)
    assert result.frame.height == 2 and result.dollars is None


def test_what_is_measured_has_the_one_thread_of_a_worker(
    near_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    look: Any = functools.partial(os.getenv, "OPENBLAS_NUM_THREADS")
    assert _measured(look, open_corpus(near_data / "corpus")) == "1"
