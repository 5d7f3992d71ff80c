"""--plan says what will run and what it costs, and runs nothing; --init writes what it finds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from heldout.audit import conclusion
from heldout.audit.cases import open_cases
from heldout.audit.init_file import look_around
from heldout.audit.plan import corpus_size, make_plan
from heldout.audit.reader import read_audit
from heldout.audit.runner import run_audit
from heldout.cli.app import app
from heldout.cli.audit import show_plan
from heldout.errors import InputError
from heldout.stats.contrast import benjamini_yekutieli
from heldout.store import Run


def _edit(folder: Path, **changed: Any) -> Path:
    path = folder / "audit.yaml"
    told = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**told, **changed}))
    return path


def _plan(path: Path) -> Any:
    audit = read_audit(path)
    return make_plan(open_cases(audit), audit.file)


def test_a_plan_runs_nothing_and_names_the_family(audit_folder: Path) -> None:
    done = CliRunner().invoke(app, ["audit", str(audit_folder / "audit.yaml"), "--plan", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert not (audit_folder / "out").exists()
    steps = {(step["benchmark"], step["stage"], step["on"]): step for step in told["steps"]}
    assert steps["leaky", "overlap", "web"]["pictures"] == 20 + 40
    assert set(told["family"]["claims"]["fresh"]) == {
        "order/other",
        "order/target",
        "cohort/other",
        "cohort/target",
        "cohort/other & target",
    }
    assert told["family"]["size"] == 10
    lacking = {test["detector"]: test["lacks"] for test in told["family"]["tests"] if test["lacks"]}
    assert "clean_references.items" in lacking["min-k"]
    assert "budget.order_tokens" in lacking["order-joint"]
    shown = CliRunner().invoke(app, ["audit", str(audit_folder / "audit.yaml"), "--plan"]).stdout
    assert "Benjamini–Yekutieli over all 10" in shown


def test_too_few_permutations_for_the_family_are_told(audit_folder: Path) -> None:
    plan = _plan(audit_folder / "audit.yaml")
    others = [1.0] * (plan.family - 1)
    needed = plan.permutations_needed
    assert benjamini_yekutieli([1 / (needed + 1), *others])[0] <= 0.05
    assert benjamini_yekutieli([1 / needed, *others])[0] > 0.05
    path = _edit(audit_folder, permutations=needed - 1)
    shown = CliRunner().invoke(app, ["audit", str(path), "--plan"]).stdout
    assert f"give at least {needed:,}" in shown
    path = _edit(audit_folder, permutations=needed)
    assert "too few" not in CliRunner().invoke(app, ["audit", str(path), "--plan"]).stdout


def test_a_baseline_that_is_the_reference_of_ratios_is_warned_about(audit_folder: Path) -> None:
    items = {"training": "fresh"}
    assert _plan(audit_folder / "audit.yaml").warnings == []  # no test of ratios is planned
    path = _edit(audit_folder, clean_references={"items": items})
    starts = "clean is a baseline"
    assert sum(warning.startswith(starts) for warning in _plan(path).warnings) == 1
    shown = CliRunner().invoke(app, ["audit", str(path), "--plan"]).stdout
    assert "cannot survive" in " ".join(shown.split())
    path = _edit(audit_folder, clean_references={"items": items, "model": "other"})
    assert not any(warning.startswith(starts) for warning in _plan(path).warnings)


def test_an_audit_in_which_nothing_can_be_confirmed_is_warned_about(audit_folder: Path) -> None:
    path = _edit(audit_folder, baselines=[])
    (warning,) = _plan(path).warnings
    assert warning.startswith("no baselines ")
    shown = CliRunner().invoke(app, ["audit", str(path), "--plan"]).stdout
    assert "possible, not confirmed" in " ".join(shown.split())


def test_a_plan_with_nothing_to_test_says_what_to_add(
    audit_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = _plan(audit_folder / "audit.yaml")
    lacking = [test for test in plan.tests if test.lacks]
    nothing = replace(plan, tests=lacking, claims={})
    show_plan(nothing, read_audit(audit_folder / "audit.yaml"))
    shown = capsys.readouterr().out
    assert "nothing can be tested" in shown and lacking[0].lacks in shown
    assert "Benjamini" not in shown


def test_a_plan_has_time_and_price_of_endpoints(audit_folder: Path) -> None:
    path = audit_folder / "audit.yaml"
    named = yaml.safe_load(path.read_text())["models"]
    server = {
        "url": "http://localhost:9/v1",
        "model": "m",
        "concurrency": 2,
        "requests_per_second": 0.5,
    }
    asked = {"name": "asked", "endpoint": server, "variants": "original", "max_new_tokens": 10}
    _edit(audit_folder, models=[*named, asked])
    (step, *_) = steps = [step for step in _plan(path).steps if step.on == "asked"]
    assert [step.price for step in steps] == [0.0] * len(steps)
    assert step.seconds == step.requests / 0.5  # the rate is slower than two seconds by two
    shown = " ".join(CliRunner().invoke(app, ["audit", str(path), "--plan"]).stdout.split())
    assert "price: not known" in shown
    server |= {"price_in": 2.0, "price_out": 10.0}
    _edit(audit_folder, models=[*named, {**asked, "endpoint": server}])
    (step, *_) = [step for step in _plan(path).steps if step.on == "asked"]
    written = 10 * step.requests
    expected = ((step.forward_tokens - written) * 2.0 + written * 10.0) / 1e6
    assert step.price == pytest.approx(expected) and expected > 0
    shown = " ".join(CliRunner().invoke(app, ["audit", str(path), "--plan"]).stdout.split())
    assert "the prices of" in shown and "time: " in shown


def test_what_is_planned_is_what_is_tested(finished: Path) -> None:
    plan = _plan(finished / "audit.yaml")
    for name in ("leaky", "fresh"):
        claims = json.loads((finished / f"out/{name}/claims.json").read_text())["claims"]
        tested = {
            one["id"] for one in claims if one["cell"]["model"] and one["status"] != "not testable"
        }
        assert tested <= set(plan.claims[name])


def test_a_live_model_costs_requests_and_tokens(audit_folder: Path) -> None:
    served = {"name": "served", "endpoint": {"url": "http://localhost:9/v1", "model": "m"}}
    plan = _plan(_edit(audit_folder, models=[served], baselines=[]))
    (step, other) = [one for one in plan.steps if one.stage == "answers"]
    assert step.requests == other.requests == 40
    assert step.forward_tokens > 40 * 600  # every request shows its picture
    fewer = _plan(_edit(audit_folder, models=[served], baselines=[], budget={"items": 10}))
    assert [one.requests for one in fewer.steps if one.stage == "answers"] == [10, 10]


def test_over_budget_nothing_is_run(audit_folder: Path) -> None:
    path = _edit(audit_folder, budget={"pictures": 50})
    plan = _plan(path)
    (over,) = plan.over
    assert over.startswith("120 pictures ") and over.endswith(" 50")
    with pytest.raises(InputError, match="nothing was run"):
        run_audit(read_audit(path), quiet=True)
    assert not (audit_folder / "out").exists()


def test_a_file_that_names_another_model_is_refused_before_the_run(audit_folder: Path) -> None:
    path = audit_folder / "target-fresh.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "model": "someone"}) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"\bsomeone\b.*'target'"):
        _plan(audit_folder / "audit.yaml")


def test_a_large_corpus_is_estimated_from_its_first_shards(near_data: Path) -> None:
    from heldout.corpus import open_corpus

    corpus = open_corpus(near_data / "corpus")
    assert corpus_size(corpus) == (30, "30 of 30 items with a picture")


def test_init_writes_a_file_that_plans(audit_folder: Path) -> None:
    (audit_folder / "audit.yaml").unlink()
    done = CliRunner().invoke(app, ["audit", "--init", str(audit_folder)])
    assert done.exit_code == 0, done.output
    made = read_audit(audit_folder / "audit.yaml").file
    assert {one.source for one in made.benchmarks} == {"leaky/test.jsonl", "fresh/test.jsonl"}
    assert [one.source for one in made.corpora] == ["web"]
    assert _plan(audit_folder / "audit.yaml").steps
    again = CliRunner().invoke(app, ["audit", "--init", str(audit_folder)])
    assert isinstance(again.exception, InputError)


def test_init_lists_a_table_and_its_pictures_as_one_corpus(tmp_path: Path) -> None:
    (tmp_path / "c/img").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "c/img/1.png")
    row = {"id": "1", "image": "img/1.png", "question": "What is it?", "answer": "a cat"}
    (tmp_path / "c/corpus.jsonl").write_text(json.dumps(row) + "\n")
    assert look_around(tmp_path).corpora == {"c-corpus": "c/corpus.jsonl"}


def test_init_takes_recorded_files_where_one_benchmark_is_meant(audit_folder: Path) -> None:
    (audit_folder / "audit.yaml").unlink()
    for path in (*audit_folder.glob("fresh/*"), *audit_folder.glob("*-fresh.jsonl")):
        path.unlink()
    CliRunner().invoke(app, ["audit", "--init", str(audit_folder)])
    made = read_audit(audit_folder / "audit.yaml").file
    found = {one.name: (one.scores, one.answers) for one in made.models}
    assert found["target-leaky"] == ("target-leaky.jsonl", None)
    assert found["answers-leaky"] == (None, "answers-leaky.jsonl")


def test_init_of_an_empty_folder_writes_an_example_to_fill_in(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["audit", "--init", str(tmp_path)])
    assert done.exit_code == 0
    text = (tmp_path / "audit.yaml").read_text()
    assert "my-benchmark" in text
    with pytest.raises(InputError, match="nothing to compare"):
        read_audit(tmp_path)


def test_nearness_of_all_benchmarks_is_one_family(
    audit_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cv2", reason="OpenCV is not installed")
    path = _edit(audit_folder, search={"encoder": "pixels", "second_encoders": ["pixels"]})
    assert _plan(path).nearness == 2 * 2  # two benchmarks, with and without proven copies
    runs = {name: Run.create(tmp_path / name, command=["test"]) for name in "ab"}
    p_values = {"a": [0.01, 0.2], "b": [0.03]}
    monkeypatch.setattr(conclusion, "_p_values", lambda run: p_values[run.path.name])
    conclusion.share_nearness(runs)
    assert runs["a"].manifest()["audit"] == {"nearness": [0.03]}
    assert runs["b"].manifest()["audit"] == {"nearness": [0.01, 0.2]}
