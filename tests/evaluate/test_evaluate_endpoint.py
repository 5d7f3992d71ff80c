"""evaluate against a server: prompts word for word, resuming, costs, comparison of runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from suite_serving import SuiteServer

import heldout
from command_line import run_inside
from heldout.errors import InputError
from heldout.evaluate import compare_runs, read_evaluation
from heldout.evaluate.result import FOLDER
from heldout.store import Run


@pytest.fixture(scope="module")
def runs(
    suite_file: Path, suite_server: SuiteServer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Run folders ``plain``, ``weak`` and ``loud``."""
    folder = tmp_path_factory.mktemp("runs")
    for how in ("plain", "weak", "loud"):
        heldout.evaluate(
            suite=str(suite_file),
            out=folder / how,
            quiet=True,
            endpoints=[{"url": suite_server.url(how), "price_in": 2.0, "price_out": 10.0}],
        )  # type: ignore[operator]
    return folder


def test_accuracy_per_benchmark_and_unweighted_mean(runs: Path) -> None:
    made = read_evaluation(Run.open(runs / "weak"))
    table = {row["benchmark"]: row for row in made.table.to_dicts()}
    assert table["organs"]["accuracy"] == pytest.approx(24 / 36)
    assert table["sides"]["accuracy"] == pytest.approx(16 / 24)
    assert table["mean"]["accuracy"] == pytest.approx((24 / 36 + 16 / 24) / 2)
    assert (table["organs"]["n"], table["organs"]["clusters"]) == (36, 12)
    assert table["mean"]["low"] < table["mean"]["accuracy"] < table["mean"]["high"]
    assert made.costs == {"weak": pytest.approx((60 * 100 * 2 + 60 * 20 * 10) / 1e6)}


def test_the_prompt_is_the_published_one_word_for_word(
    suite_server: SuiteServer, runs: Path
) -> None:
    sent = suite_server.counts()["last"][0]
    assert sent["messages"].startswith(
        "You will solve a problem/request. You should provide your thoughts within <think> </think> tags "
        "before providing the answer.\\nWrite your final answer within <answer> </answer> tags.\n\n"
        "Question: "
    )
    assert "\n\nOptions:\n\nA. " in sent["messages"]
    assert (sent["temperature"], sent["max_tokens"]) == (0, 64)


def test_the_limit_is_called_as_the_server_calls_it(
    suite_file: Path, suite_server: SuiteServer, tmp_path: Path
) -> None:
    told = run_inside(
        "evaluate",
        suite_file,
        "--endpoint",
        suite_server.url(),
        "--limit",
        "1",
        "--token-field",
        "max_completion_tokens",
        "--attempts",
        "2",
        "--quiet",
        "--out",
        tmp_path / "run",
    )
    assert told.returncode == 0, told.stderr
    sent = suite_server.counts()["last"][0]
    assert (sent["max_completion_tokens"], "max_tokens" in sent) == (64, False)
    (kept,) = Run.open(tmp_path / "run").manifest()["evaluate"]["settings"]["endpoints"]
    assert (kept["token_field"], kept["attempts"]) == ("max_completion_tokens", 2)


def test_disagreements_with_the_published_scorer_are_kept(runs: Path) -> None:
    kept = pl.read_parquet(runs / "loud/tables/disagreements.parquet")
    assert kept["scorer"].unique().to_list() == ["medvlthinker"]
    assert kept.height == 60
    first = kept.to_dicts()[0]
    assert (first["strict"], first["scorer_right"]) == ("right", False)
    assert first["why"].startswith("strict: right, ")
    told = run_inside("evaluate", "--compare", runs / "loud", runs / "plain")
    assert "be told apart" in told.stdout


def test_what_a_dead_server_answered_is_not_asked_again(
    suite_file: Path, suite_server: SuiteServer, tmp_path: Path
) -> None:
    out, how = tmp_path / "run", "mortal"
    again = {"url": suite_server.url("mortal-50"), "timeout": 2.0, "concurrency": 2}
    with pytest.raises(InputError, match="api_key_env"):
        heldout.evaluate(suite=str(suite_file), out=out, quiet=True, endpoints=[again])  # type: ignore[operator]
    half = read_evaluation(Run.open(out))
    answered = sum(one.n for one in half.accuracies if one.benchmark != "mean")
    assert 36 <= answered <= 50
    other = {**again, "url": suite_server.url("plain")}
    with pytest.raises(InputError, match="'mortal' at .*'plain' at "):
        heldout.evaluate(suite=str(suite_file), out=out, quiet=True, name=how, endpoints=[other])  # type: ignore[operator]
    # The same model at another address: what the first had answered is not asked again.
    moved = {**again, "url": suite_server.url("mortal-99999")}
    for fresh in (60 - answered, 0):
        before = suite_server.counts()["posted"].get("mortal-99999", 0)
        whole = heldout.evaluate(suite=str(suite_file), out=out, quiet=True, endpoints=[moved])  # type: ignore[operator]
        assert suite_server.counts()["posted"].get("mortal-99999", 0) - before == fresh
    assert whole.mean(how).value == 1.0
    remarks = Run.open(out).manifest()["evaluate"]["remarks"]
    assert [text.count("/mortal-99999/v1") for text in remarks if "then at" in text] == [1]


def test_a_run_of_another_suite_is_refused(
    suite_file: Path, suite_server: SuiteServer, runs: Path
) -> None:
    other = suite_file.with_name("other.yaml")
    other.write_text(suite_file.read_text().replace("name: two", "name: other"))
    with pytest.raises(InputError, match="suite 'two'.*'other'"):
        heldout.evaluate(
            suite=str(other), out=runs / "weak", quiet=True, endpoints=[{"url": suite_server.url()}]
        )  # type: ignore[operator]


def test_runs_are_compared_item_by_item(runs: Path) -> None:
    made = compare_runs([runs / "plain", runs / "weak"])
    (pair,) = made.pairs.values()
    organs = pair.differences[0]
    assert organs.table is not None
    assert tuple(organs.table) == (24, 12, 0, 0)
    assert organs.value == pytest.approx(12 / 36)
    assert pair.overall.benchmark == "mean"
    assert pair.overall.value == pytest.approx(1 / 3)
    assert pair.overall.p < 0.001
    assert (made.ranks["plain"].rank, made.ranks["weak"].rank) == (1, 2)
    assert made.ranks["weak"].low == 2  # surely below
    assert made.comparisons["benchmark"].to_list() == ["organs", "sides", "mean"]


def test_a_run_without_finished_answers_is_not_left_out_in_silence(
    runs: Path, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    shutil.copytree(runs / "weak", begun)
    half = read_evaluation(Run.open(begun)).run
    (half.path / FOLDER / "sides" / "tables" / "answers.parquet").unlink()
    made = compare_runs([runs / "plain", begun])
    assert any("no answers to sides" in remark for remark in made.remarks)
    (half.path / FOLDER / "organs" / "tables" / "answers.parquet").unlink()
    with pytest.raises(InputError, match="begun .*finished answers"):
        compare_runs([runs / "plain", runs / "loud", begun])


def test_several_endpoints_are_several_models(
    suite_file: Path, suite_server: SuiteServer, tmp_path: Path
) -> None:
    urls = [part for how in ("plain", "weak") for part in ("--endpoint", suite_server.url(how))]
    done = run_inside("evaluate", suite_file, *urls, "--quiet", "--json", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert read_evaluation(Run.open(tmp_path / "run")).models == ("plain", "weak")
    refused = run_inside("evaluate", suite_file, *urls, "--model", "a", "--out", tmp_path / "other")
    assert refused.returncode == 2
    assert "2 times and --model 1 times" in refused.stderr


def test_the_command_prints_tables_of_at_most_120_columns(runs: Path) -> None:
    told = run_inside("evaluate", "--compare", *(runs / how for how in ("plain", "weak", "loud")))
    assert told.returncode == 0
    assert max(map(len, told.stdout.splitlines())) <= 120
    assert "plain less weak" in told.stdout
    assert "4 times out of 5" in told.stdout
    value = json.loads(
        run_inside("evaluate", "--json", "--compare", runs / "plain", runs / "weak").stdout
    )
    assert value["comparisons"][0]["differences"][-1]["benchmark"] == "mean"


def test_two_revisions_of_a_benchmark_are_not_paired(
    suite_file: Path, suite_server: SuiteServer, runs: Path, tmp_path: Path
) -> None:
    changed = suite_file.with_name("changed.yaml")
    rows = (suite_file.parent / "sides/test.jsonl").read_text().splitlines()
    (suite_file.parent / "sides/fewer.jsonl").write_text("\n".join(rows[:-1]) + "\n")
    changed.write_text(suite_file.read_text().replace("sides/test.jsonl", "sides/fewer.jsonl"))
    heldout.evaluate(
        suite=str(changed),
        out=tmp_path / "run",
        quiet=True,
        endpoints=[{"url": suite_server.url()}],
    )  # type: ignore[operator]
    with pytest.raises(InputError, match=r"\bsides\b.*revision"):
        compare_runs([runs / "weak", tmp_path / "run"])


def test_what_is_missing_is_said() -> None:
    told = run_inside("evaluate", "mmstar")
    assert (told.returncode, "give one SUITE" in told.stderr) == (2, True)
    told = run_inside("evaluate", "mmstar", "--out", "nowhere")
    assert told.returncode == 2
    assert "--model: " in told.stderr
    assert run_inside("evaluate", "--compare").returncode == 2
    assert "medvlsynther-originals" in run_inside("evaluate", "--suites").stdout


def test_a_key_is_named_by_its_option(suite_file: Path, tmp_path: Path) -> None:
    told = run_inside(
        "evaluate",
        suite_file,
        "--endpoint",
        "http://127.0.0.1:9/v1",
        "--api-key-env",
        "HELDOUT_UNSET",
        "--out",
        tmp_path / "run",
    )
    assert told.returncode == 2
    assert "--api-key-env: the" in told.stderr


def test_the_page_is_made_again_from_the_folder(runs: Path) -> None:
    page = runs / "loud/report.html"
    first = page.read_text()
    assert "two: loud 100.0" in first
    assert "medvlthinker says otherwise" in first
    assert (runs / "loud/figures/accuracy-1.svg").exists()
    page.unlink()
    told = run_inside("report", runs / "loud")
    assert (told.returncode, page.read_text() == first) == (0, True)
