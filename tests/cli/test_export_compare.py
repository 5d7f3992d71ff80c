"""heldout export and heldout compare, on real runs: a corpus that grew between two audits."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from PIL import Image

from command_line import run_inside
from heldout.overlap.judgements import match_subject
from heldout.report._match_changes import match_changes
from heldout.report._scores_owed import NOT_CLEAN, corrected_of, rankings_without, score_rows
from heldout.store import Run, make_table
from heldout.store.judgements import MATCH, Judgement, append

jsonschema = pytest.importorskip("jsonschema", reason="comes with ray, which is an extra")

ITEMS = 12
HOSTILE = "<b>|x|`;=1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


@pytest.fixture(scope="module")
def runs(folder: Path) -> Path:
    """``one``: 3 of 12 pictures are in the corpus, two models were asked. ``two``: 5, and one fewer."""
    (folder / "bench/images").mkdir(parents=True)
    rows = []
    for number in range(ITEMS):
        (folder / f"bench/images/{number}.png").write_bytes(_picture(number))
        rows.append(
            {
                "id": f"q{number}",
                "image": f"{number}.png",
                "question": f"What is {number}?",
                "answer": f"thing {number}",
            }
        )
    _write(folder / "bench/test.jsonl", rows)
    for name, seen in (("one", range(3)), ("two", range(1, 6))):
        (folder / name / "web").mkdir(parents=True)
        for number in (*seen, *range(100, 110)):
            (folder / name / f"web/{number}.png").write_bytes(_picture(number))
        _told(
            "overlap",
            folder / "bench",
            "--against",
            f"web={folder / name / 'web'}",
            "--exact",
            "--workers",
            "1",
            "--out",
            folder / name / "run",
            "--json",
        )
        for model, right in (("careful", range(0, ITEMS, 2)), (HOSTILE, range(3))):
            replies = [
                {"id": f"q{n}", "reply": f"thing {n}" if n in right else "no idea"}
                for n in range(ITEMS)
            ]
            _write(folder / f"{name}/answers.jsonl", replies)
            _told(
                "ask",
                folder / "bench",
                "--recorded",
                folder / f"{name}/answers.jsonl",
                "--as",
                model,
                "--out",
                folder / name / "run",
                "--json",
            )
        _told("report", folder / name / "run", "--json")
    return folder


def _picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _told(*arguments: str | Path) -> str:
    done = run_inside(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_card_section_says_what_leaked_and_what_to_do(runs: Path) -> None:
    card = _told("export", runs / "one/run", "--to", "hf-card")
    assert card.startswith("## Contamination\n")
    (line,) = (line for line in card.splitlines() if line.startswith("| corpus web"))
    assert "survives" in line and "3 of 12 items leaked" in line and "%" in line
    assert "Leave out 3 items" in card
    assert "actions.jsonl" not in card and str(runs) not in card  # its readers have no run folder


def test_conda_rows_have_the_databases_columns_and_percentages_of_items(runs: Path) -> None:
    text = _told("export", runs / "one/run", "--to", "conda")
    (row,) = csv.DictReader(io.StringIO(text), delimiter=";")
    # The file since pull request 17 of the database's space; a row of pull request 21 there has these 11
    # fields: gsm8k;;BAAI/Aquila2-34B;;model;;;100.0;model-based;(reference);21
    assert list(row) == [
        "Evaluation Dataset",
        "Subset",
        "Contaminated Source",
        "Version",
        "Model or corpus",
        "Train Split",
        "Development Split",
        "Test Split",
        "Approach",
        "Reference",
        "PR",
    ]
    assert (row["Contaminated Source"], row["Model or corpus"]) == ("web", "corpus")
    assert (row["Test Split"], row["Train Split"], row["Approach"]) == ("25", "", "data-based")


def test_helm_points_are_yaml_that_helm_reads(runs: Path) -> None:
    """ContaminationPoint of helm.benchmark.presentation.contamination, commit 07e9da1: all four needed."""
    (point,) = yaml.safe_load(_told("export", runs / "one/run", "--to", "helm"))["points"]
    assert set(point) == {"models", "groups", "level", "description"}
    assert (point["models"], point["groups"], point["level"]) == ([], ["bench"], "strong")
    assert ": 3 of 12 items " in point["description"]


def _strings() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"type": "string"}}


def _object(required: list[str], closed: bool = False, **properties: Any) -> dict[str, Any]:
    made = {"type": "object", "required": required, "properties": properties}
    return {**made, "additionalProperties": False} if closed else made


# What eval.schema.json asks of the fields we write, field by field: version 0.3.0, in the schemas of the
# package every_eval_ever 0.3.0.
# The schema is theirs and is not copied here: these are its required names, types and words. Closed there
# are the document itself and generation_args; closed here is all that we write, so that a misspelt
# optional field, which their schema would let pass, fails.
_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
RECORD = _object(
    [
        "schema_version",
        "evaluation_id",
        "retrieved_timestamp",
        "source_metadata",
        "model_info",
        "eval_library",
        "evaluation_results",
    ],
    closed=True,
    schema_version=_TEXT,
    evaluation_id=_TEXT,
    evaluation_timestamp=_TEXT,
    retrieved_timestamp=_TEXT,
    source_metadata=_object(
        ["source_type", "source_organization_name", "evaluator_relationship"],
        closed=True,
        source_name=_TEXT,
        source_organization_name=_TEXT,
        source_type={"enum": ["documentation", "evaluation_run"]},
        evaluator_relationship={"enum": ["first_party", "third_party", "collaborative", "other"]},
    ),
    eval_library=_object(["name", "version"], closed=True, name=_TEXT, version=_TEXT),
    model_info=_object(
        ["name", "id"],
        closed=True,
        name=_TEXT,
        id=_TEXT,
        developer=_TEXT,
        inference_engine=_object([], closed=True, name=_TEXT, version=_TEXT),
        additional_details={
            **_strings(),
            "required": ["deployment_type", "model_availability"],
            "properties": {
                "deployment_type": {"enum": ["self_deployed", "externally_managed", "unknown"]},
                "model_availability": {"enum": ["open_weights", "closed_weights", "unknown"]},
            },
        },
    ),
    evaluation_results={
        "type": "array",
        "minItems": 1,
        "items": _object(
            ["evaluation_name", "source_data", "metric_config", "score_details"],
            closed=True,
            evaluation_result_id=_TEXT,
            evaluation_name=_TEXT,
            source_data={
                "oneOf": [
                    _object(
                        ["dataset_name", "source_type", "hf_repo"],
                        closed=True,
                        dataset_name=_TEXT,
                        source_type={"const": "hf_dataset"},
                        hf_repo=_TEXT,
                        hf_split={"enum": ["train", "val", "test"]},
                        samples_number={"type": "integer"},
                    ),
                    _object(
                        ["dataset_name", "source_type"],
                        closed=True,
                        dataset_name=_TEXT,
                        source_type={"const": "other"},
                        source_id=_TEXT,
                        source_version=_TEXT,
                    ),
                ]
            },
            metric_config=_object(
                ["lower_is_better", "min_score", "max_score"],
                closed=True,
                lower_is_better={"type": "boolean"},
                score_type={"const": "continuous"},
                min_score=_NUMBER,
                max_score=_NUMBER,
                metric_id=_TEXT,
                metric_name=_TEXT,
                metric_kind=_TEXT,
                metric_unit=_TEXT,
                evaluation_description=_TEXT,
            ),
            score_details=_object(
                ["score"],
                closed=True,
                score=_NUMBER,
                details=_strings(),
                uncertainty=_object(
                    [],
                    closed=True,
                    confidence_interval=_object(
                        ["lower", "upper"],
                        closed=True,
                        lower=_NUMBER,
                        upper=_NUMBER,
                        method=_TEXT,
                        confidence_level={"type": "number", "minimum": 0, "maximum": 1},
                    ),
                    num_samples={"type": "integer"},
                ),
            ),
        ),
    },
)


def test_every_eval_ever_records_fit_the_schema(runs: Path, tmp_path: Path) -> None:
    written = json.loads(
        _told(
            "export", runs / "one/run", "--to", "every-eval-ever", "--out", tmp_path / "e", "--json"
        )
    )["written"]
    assert len(written) == 2
    for path in written:
        record = json.loads(Path(path).read_text())
        jsonschema.validate(record, RECORD)
        assert Path(path).parent == tmp_path / "e"
    alone = json.loads(
        _told("export", runs / "one/run", "--to", "every-eval-ever", "--model", "careful")
    )
    results = alone["evaluation_results"]
    scores = {one["evaluation_name"]: one["score_details"]["score"] for one in results}
    assert scores["bench (all items)"] == pytest.approx(0.5)
    assert scores["bench (leaked items)"] == pytest.approx(2 / 3)
    assert scores["bench (clean items)"] == pytest.approx(4 / 9)
    assert str(runs) not in json.dumps(alone)  # no path of this machine


def test_no_clean_score_is_given_of_a_model_that_has_seen_the_benchmark(
    runs: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "one/run", run)
    claims = json.loads((run / "claims.json").read_text())
    seen = {
        "id": "twin-drop/careful",
        "cell": {"benchmark": "bench", "model": "careful"},
        "findings": [],
        "sentence": "It falls.",
        "status": "survives",
        "why": "it falls",
        "rule": "answers/stands",
    }
    Run.open(run).write_json("claims.json", {**claims, "claims": [*claims["claims"], seen]})

    def exported(model: str) -> dict[str, dict[str, Any]]:
        record = json.loads(_told("export", run, "--to", "every-eval-ever", "--model", model))
        jsonschema.validate(record, RECORD)
        return {
            one["evaluation_name"]: one["score_details"] for one in record["evaluation_results"]
        }

    told = exported("careful")
    assert set(told) == {"bench (all items)", "bench (leaked items)"}
    assert all("has seen" in one["details"]["contamination of the model"] for one in told.values())
    assert "bench (clean items)" in exported(HOSTILE)
    corrected = corrected_of(Run.open(run))
    rows = {row["model"]: row for row in score_rows(corrected, {"careful"})}
    assert rows["careful"]["subsets"]["non-leaked"] == NOT_CLEAN
    assert rows["careful"]["owed"] is None
    assert rows["careful"]["subsets"]["original"]["items"] == ITEMS
    (ranking,) = rankings_without(corrected["rankings"], {"careful"})
    assert {model: set(ranks) for model, ranks in ranking["ranks"].items()} == {
        "careful": {"full"},
        HOSTILE: {"full", "clean"},
    }
    assert (ranking["compared"], ranking["tau_b"]) == (1, None)  # one model has no order
    (ranking,) = rankings_without(corrected["rankings"], ())
    assert (ranking["compared"], ranking["tau_b"]) == (2, corrected["rankings"][0]["tau_b"])


def test_a_benchmark_of_the_hub_goes_by_its_path_there(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "one/run", run)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["inputs"]["benchmark"] |= {
        "source": "owner/bench#split=validation",
        "split": "validation",
    }
    manifest["models"]["careful"] |= {"model": "maker/careful-7b", "backend": "transformers"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    record = json.loads(_told("export", run, "--to", "every-eval-ever", "--model", "careful"))
    jsonschema.validate(record, RECORD)
    assert record["model_info"]["additional_details"]["deployment_type"] == "self_deployed"
    source = record["evaluation_results"][0]["source_data"]
    assert (source["hf_repo"], source["hf_split"]) == ("owner/bench", "val")
    assert (record["model_info"]["id"], record["model_info"]["developer"]) == (
        "maker/careful-7b",
        "maker",
    )
    assert record["evaluation_id"].startswith("bench/maker/careful-7b/")
    names = [one["evaluation_result_id"] for one in record["evaluation_results"]]
    assert len(set(names)) == len(names)
    (row,) = csv.DictReader(io.StringIO(_told("export", run, "--to", "conda")), delimiter=";")
    assert (row["Evaluation Dataset"], row["Development Split"]) == ("owner/bench", "25")


def test_bibtex_cites_what_ran(runs: Path, tmp_path: Path) -> None:
    text = _told("export", runs / "one/run", "--to", "bibtex")
    assert text.startswith("@software{heldout,")
    assert "oren2024proving" not in text
    assert text.count("{") == text.count("}")


def test_a_record_of_no_scores_and_a_format_nobody_knows_are_refused(
    runs: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "run"
    shutil.copytree(runs / "one/run", bare)
    Run.open(bare).remove("tables/answers.parquet")
    refused = run_inside("export", bare, "--to", "every-eval-ever")
    assert refused.returncode == 2
    assert "model's answers" in refused.stderr
    unknown = run_inside("export", runs / "one/run", "--to", "docx")
    assert unknown.returncode == 2
    assert "hf-card, conda, helm" in " ".join(unknown.stderr.split())
    several = run_inside("export", runs / "one/run", "--to", "every-eval-ever")
    assert several.returncode == 2
    assert "--model" in several.stderr


def test_figures_become_pdf_where_a_browser_is(runs: Path, tmp_path: Path) -> None:
    none = run_inside("export", runs / "one/run", "--to", "pdf")
    assert none.returncode == 2
    assert "has no figures" in none.stderr
    run = tmp_path / "run"
    shutil.copytree(runs / "one/run", run)
    (run / "figures").mkdir(exist_ok=True)
    (run / "figures/a.svg").write_text(
        '<svg width="300" height="200" xmlns="http://www.w3.org/2000/svg"><circle r="90"/></svg>'
    )
    if shutil.which("chromium") is None:
        pytest.skip("no browser to print with")
    (path,) = json.loads(_told("export", run, "--to", "pdf", "--json"))["written"]
    data = Path(path).read_bytes()
    assert data.startswith(b"%PDF")
    box = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", data)
    assert box is not None
    assert float(box[1]) / float(box[2]) == pytest.approx(1.5, rel=0.02)


def test_the_run_has_its_report_as_text_and_for_ci(runs: Path) -> None:
    text = (runs / "one/run/report.md").read_text()
    # The steps have their commands, as on the page.
    assert {"sanitize", "gate"} <= set(re.findall(r"^  `heldout (\w+) ", text, re.MULTILINE))
    assert re.match(r"# .*“bench”.*\? No\.\n", text)
    assert "3 of 12 items leaked" in text
    prose, _, commands = text.partition("## Reproduce")
    assert "\\<b\\>" in prose and "<b>" not in prose.replace("\\<b\\>", "")  # a name is text
    assert all(line.startswith("    ") for line in commands.splitlines() if line)  # a block of code
    suite = ElementTree.parse(runs / "one/run/junit.xml").getroot()
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    failure = cases["overlap/web"].find("failure")
    assert failure is not None
    assert "3 of 12 images" in (failure.get("message") or "")


def test_two_audits_of_one_benchmark_are_compared(runs: Path, wording: Callable[..., None]) -> None:
    changes = json.loads(_told("compare", runs / "one/run", runs / "two/run", "--json"))
    assert changes["inputs"]["corpora"]["changed"] == {"web": ["fingerprint"]}
    assert changes["inputs"]["revision"] is None
    assert changes["matches"]["copies"] == [3, 5]
    assert (changes["matches"]["appeared"], changes["matches"]["gone"]) == (3, 1)
    changed = changes["findings"]["changed"]
    moved = {one["id"]: (one["before"]["value"], one["after"]["value"]) for one in changed}
    assert moved["image-overlap/web/images"] == (pytest.approx(3 / 12), pytest.approx(5 / 12))
    assert changes["claims"]["changed"] == []  # it leaked, and it leaks
    subsets = {(one["model"], one["subset"]) for one in changes["scores"]}
    assert ("careful", "leaked") in subsets
    assert ("careful", "original") not in subsets
    shown = _told("compare", runs / "one/run", runs / "two/run").replace(str(runs), "RUNS")
    wording("\n".join(line.rstrip() for line in shown.splitlines() if line.strip()))


def test_pairs_are_compared_alike_however_little_memory_there_is(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [("one", "two"), ("two", "one")]
    pairs = [tuple(Run.open(runs / name / "run") for name in both) for both in names]
    whole = [match_changes(before, after, 2) for before, after in pairs]
    monkeypatch.setattr("heldout.store.partitions._HELD", 1)
    assert [match_changes(before, after, 2) for before, after in pairs] == whole
    assert [len(changes["examples"]) for changes in whole] == [2, 2]


def test_a_corpus_item_that_is_only_called_otherwise_is_the_same(
    runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "web").mkdir()
    for path in (runs / "one/web").iterdir():
        shutil.copy(path, tmp_path / f"web/renamed-{path.name}")
    _told(
        "overlap",
        runs / "bench",
        "--against",
        f"web={tmp_path / 'web'}",
        "--exact",
        "--workers",
        "1",
        "--out",
        tmp_path / "run",
        "--json",
    )
    changes = json.loads(_told("compare", runs / "one/run", tmp_path / "run", "--json"))
    assert (changes["matches"]["appeared"], changes["matches"]["gone"]) == (0, 0)
    assert changes["matches"]["items"]["leaked"] == [3, 3]


def test_what_people_judged_anew_is_not_gone_from_the_corpus(runs: Path, tmp_path: Path) -> None:
    """q1 of run two is dismissed by a rater; q0 is no longer in its corpus."""
    judged = tmp_path / "run"
    shutil.copytree(runs / "two/run", judged)
    row = next(
        row
        for row in Run.open(judged).read_table("matches").to_pylist()
        if row["benchmark_id"] == "q1"
    )
    subject = match_subject(json.loads(row["evidence"]), row["corpus"], row["corpus_id"])
    found = Run.open(judged).read_table("matches").to_pylist()
    # As registration finds it: of equal bytes people's word changes nothing.
    rows = [{**one, "method": "hash"} if one == row else one for one in found]
    Run.open(judged).write_table("matches", make_table("matches", rows))
    append(judged, Judgement("zelda", MATCH, subject, "unrelated"))
    _told("report", judged, "--json")

    changes = json.loads(_told("compare", runs / "two/run", judged, "--json"))["matches"]
    assert (changes["gone"], changes["changed"], changes["changed_by_people"]) == (0, 1, 1)
    assert changes["items"]["no_longer_by_people"] == ["q1"]
    shown = " ".join(_told("compare", runs / "one/run", judged).split())
    assert "3 → 4 (3 newly, 2 no longer)" in shown
    assert re.search(r"no longer: q0 .* people, .*: q1\b", shown)
    assert "1 gone, 1 judged anew (1 " in shown
    assert "same image → unrelated" in shown
    back = json.loads(_told("compare", judged, runs / "two/run", "--json"))["matches"]
    assert (back["appeared"], back["items"]["newly_by_people"]) == (0, ["q1"])


def test_what_is_no_pair_of_audits_is_said(runs: Path, tmp_path: Path) -> None:
    gone = run_inside("compare", runs / "one/run", tmp_path / "gone")
    assert (gone.returncode, "gone is no" in " ".join(gone.stderr.split())) == (2, True)
    output = tmp_path / "audit"
    shutil.copytree(runs / "one/run", output / "bench")
    (output / "verdict.json").write_text("{}")
    mixed = run_inside("compare", output, runs / "two/run")
    assert mixed.returncode == 2
    assert f"{output / 'bench'} is " in mixed.stderr


def test_a_run_does_not_differ_from_itself(runs: Path) -> None:
    assert "nothing changed" in _told("compare", runs / "one/run", runs / "one/run")


def test_another_benchmark_is_not_another_audit(runs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(runs / "bench", other)
    _told(
        "overlap",
        other,
        "--against",
        f"web={runs / 'one/web'}",
        "--exact",
        "--workers",
        "1",
        "--out",
        tmp_path / "run",
        "--json",
    )
    refused = run_inside("compare", runs / "one/run", tmp_path / "run")
    assert refused.returncode == 2
    told = " ".join(refused.stderr.split())
    assert "about the benchmark 'bench'" in told and "about 'other'" in told
