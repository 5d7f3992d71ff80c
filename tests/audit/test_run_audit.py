"""A whole audit: what it says, that it goes on after a kill, and does nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "verdict"))
from measured_by_hand import measured

import heldout
from command_line import ForkedCommand
from heldout.audit import conclude, conclusion, runner
from heldout.audit.reader import read_audit
from heldout.audit.runner import AuditResult, run_audit
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.review import open_desks
from heldout.store import Run, make_table


def _run(folder: Path) -> AuditResult:
    return run_audit(read_audit(folder / "audit.yaml"), quiet=True)


def _change(folder: Path, old: str, new: str) -> None:
    path = folder / "audit.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.fixture
def done(finished_folder: Path) -> AuditResult:
    return _run(finished_folder)


def test_a_verdict_per_benchmark_and_corpus_or_model(
    done: AuditResult, finished_folder: Path
) -> None:
    cells = {(cell.cell.benchmark, cell.on): cell for cell in done.overall.cells}
    leak = cells["leaky", "web"]
    assert leak.status == "survives"
    assert leak.leak is not None
    assert (leak.leak.leaked, leak.leak.items) == (20, 40)
    assert leak.evidence == {"same image": 20}
    assert cells["fresh", "web"].status == "clean"
    assert ("fresh", "target") in cells
    assert ("leaky", "clean") not in cells  # a baseline is a control, not a cell
    told = json.loads((finished_folder / "out/verdict.json").read_text())
    assert {(c["benchmark"], c["corpus"] or c["model"]) for c in told["cells"]} == set(cells)
    assert all(claim["rule"] for cell in told["cells"] for claim in cell["claims"])
    for name in ("leaky", "fresh"):
        assert (finished_folder / f"out/{name}/report.html").exists()
        assert (finished_folder / f"out/{name}/audit.yaml").exists()


def test_recommendations_and_corrected_scores_come_from_claims(
    done: AuditResult, finished_folder: Path
) -> None:
    told = {advice["kind"]: advice for advice in done.overall.recommendations}
    assert told["safer benchmark"]["sentence"].startswith("Prefer fresh ")
    assert told["safer benchmark"]["claims"] == ["overlap/web"]
    assert told["items"]["items"] == 20
    listed = (finished_folder / "out/leaky/actions.jsonl").read_text().splitlines()
    assert len(listed) == 20
    assert json.loads(listed[0])["evidence"] == "same image"
    corrected = json.loads((finished_folder / "out/leaky/corrected.json").read_text())
    target = next(
        m for m in corrected["models"] if (m["model"], m["metric"]) == ("target", "accuracy")
    )
    lines = {line["subset"]: line for line in target["lines"]}
    assert lines["leaked"]["items"] == lines["non-leaked"]["items"] == 20
    assert lines["leaked"]["value"] > 0.8 > 0.4 > lines["non-leaked"]["value"]
    assert lines["random"]["sd"] > 0
    ranking = next(r for r in corrected["rankings"] if r["measure"] == "accuracy")
    assert ranking["tau_b"] == -1.0  # without what leaked the other one is the better model
    assert ranking["ranks"]["target"]["full"]["rank"] == 1
    assert ranking["ranks"]["target"]["clean"]["rank"] == 2
    advice = next(a for a in done.overall.recommendations if "Report target" in a["sentence"])
    assert "they differ" in advice["sentence"]


def test_a_second_run_does_nothing_and_says_the_same(
    done: AuditResult, finished_folder: Path
) -> None:
    first = (finished_folder / "out/verdict.json").read_bytes()
    again = heldout.audit(finished_folder / "audit.yaml", quiet=True)
    assert again.made == []
    assert set(again.claims["audited"]) == set(again.runs)
    assert set(again.claims["status"]) and again.findings.height
    assert "<table>" in again._repr_html_()
    assert "\n" not in repr(again) and len(repr(again)) < 400
    assert len(again.kept) == 16
    assert done.made == []  # not even after the whole folder was copied elsewhere
    assert (finished_folder / "out/verdict.json").read_bytes() == first


def test_only_what_rests_on_a_changed_input_is_done_again(
    done: AuditResult, finished_folder: Path
) -> None:
    path = finished_folder / "target-fresh.jsonl"
    path.write_text(path.read_text().replace('"logprobs": [-', '"logprobs": [-1', 1))
    again = _run(finished_folder)
    assert "fresh/scores/target" in again.made
    assert "fresh/tests" in again.made
    # The other benchmark's claims are corrected together with these; its evidence is not touched.
    assert not {"leaky/overlap", "fresh/overlap", "leaky/tests", "leaky/scores/target"} & set(
        again.made
    )


def test_a_changed_benchmark_says_what_to_do_before_any_work(finished_folder: Path) -> None:
    path = finished_folder / "leaky/test.jsonl"
    path.write_text(path.read_text().replace("leaky asks 7?", "leaky wonders 7?"))
    stages = (finished_folder / "out/stages.json").read_bytes()
    with pytest.raises(InputError) as told:
        _run(finished_folder)
    message = str(told.value)
    assert "benchmark leaky changed" in message and "(40 items, revision" in message
    assert "`output: out-2`" in message and str(finished_folder / "audit.yaml") in message
    assert f"heldout compare {finished_folder / 'out'} {finished_folder / 'out-2'}" in message
    assert f"remove {finished_folder / 'out/leaky'}: all else" in message
    assert (finished_folder / "out/stages.json").read_bytes() == stages
    shutil.rmtree(finished_folder / "out/leaky")  # the second way it names
    again = _run(finished_folder)
    assert "leaky/overlap" in again.made
    assert "fresh/overlap" not in again.made
    audit = finished_folder / "audit.yaml"
    audit.write_text(audit.read_text() + "\nseed: 1\n")
    with pytest.raises(InputError, match=r"\bfresh\b.*\bseed\b"):
        _run(finished_folder)


def test_rates_of_an_own_lab_change_claims_and_no_evidence(
    done: AuditResult, finished_folder: Path
) -> None:
    _change(finished_folder, "permutations: 499", "permutations: 9999")  # enough for it to fire
    _run(finished_folder)
    off = measured("order-trend", (20, 20), (20, 20))
    (finished_folder / "rates.json").write_text(off.model_dump_json())
    _change(finished_folder, "output: out", "output: out\nrates: rates.json")
    again = _run(finished_folder)
    assert set(again.made) <= {
        f"{name}/{stage}" for name in ("leaky", "fresh") for stage in ("claims", "report")
    }
    claims = json.loads((finished_folder / "out/fresh/claims.json").read_text())["claims"]
    capped = next(one for one in claims if one["id"] == "order/target")
    assert capped["rule"] == "order/fires-on-clean"
    (alarms,) = (one["false_alarms"] for one in capped["controls"] if one.get("false_alarms"))
    assert (alarms["detector"], alarms["clean"]["fired"]) == ("order-trend", 20)
    _change(finished_folder, "rates: rates.json", "rates: nowhere.json")
    with pytest.raises(InputError, match=r"nowhere\.json: "):
        _run(finished_folder)


def test_an_output_that_went_missing_is_made_again(
    done: AuditResult, finished_folder: Path
) -> None:
    (finished_folder / "out/leaky/report.html").unlink()
    assert _run(finished_folder).made == ["leaky/report"]


def test_a_benchmark_is_concluded_once_after_all_that_its_claims_rest_on(
    done: AuditResult, finished_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (finished_folder / "out/leaky/report.html").unlink()
    (finished_folder / "out/leaky/tables/matches.parquet").unlink()
    concluded = []

    def counting(run: Run, **settings: Any) -> conclusion.Conclusion:
        concluded.append(run.path.name)
        return conclude(run, **settings)

    for module in (conclusion, runner):
        monkeypatch.setattr(module, "conclude", counting)
    assert {"leaky/overlap", "leaky/report"} <= set(_run(finished_folder).made)
    assert concluded == ["leaky"]


def test_a_model_that_is_no_longer_named_leaves_the_family(
    done: AuditResult, finished_folder: Path
) -> None:
    before = {(cell.cell.benchmark, cell.on) for cell in done.overall.cells}
    text = (finished_folder / "audit.yaml").read_text()
    start, end = text.index("  - name: other"), text.index("  - name: clean")
    (finished_folder / "audit.yaml").write_text(text[:start] + text[end:])
    after = {(cell.cell.benchmark, cell.on) for cell in _run(finished_folder).overall.cells}
    assert before - after == {
        ("leaky", "other"),
        ("fresh", "other"),
        ("leaky", "other & target"),
        ("fresh", "other & target"),
    }


def test_an_audit_without_corpora_does_not_speak_of_an_earlier_search(
    finished_folder: Path,
) -> None:
    path = finished_folder / "audit.yaml"
    settings = yaml.safe_load(path.read_text())
    settings.pop("corpora")
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    with pytest.raises(InputError, match="names no corpora"):
        _run(finished_folder)
    path.write_text(yaml.safe_dump({**settings, "output": "models"}, sort_keys=False))
    _run(finished_folder)
    page = (finished_folder / "models/report.html").read_text()
    assert 'id="scores"' in page
    assert "owed to leaks" not in page  # nothing was searched, so nothing is clean of it


def test_the_family_is_corrected_over_all_benchmarks(
    done: AuditResult, finished_folder: Path
) -> None:
    """Alone, a benchmark's claims are corrected over fewer: their p only grow with the family."""
    together = _p_of(finished_folder / "out/fresh/claims.json")
    _change(finished_folder, "  - {name: leaky, source: leaky/test.jsonl}\n", "")
    for name in ("target", "other", "clean"):
        _change(
            finished_folder,
            f"{{leaky: {name}-leaky.jsonl, fresh: {name}-fresh.jsonl}}",
            f"{{fresh: {name}-fresh.jsonl}}",
        )
    for line in ("answers: {leaky: answers-leaky.jsonl}", "answers: {leaky: other-answers.jsonl}"):
        _change(finished_folder, f"    {line}\n", "")
    _change(finished_folder, "output: out", "output: alone")
    alone = _run(finished_folder)
    assert alone.plan.family == done.plan.family // 2
    fewer = _p_of(finished_folder / "alone/fresh/claims.json")
    assert set(fewer) == set(together)
    assert all(fewer[claim] <= together[claim] for claim in fewer)
    assert any(fewer[claim] < together[claim] for claim in fewer)


def _p_of(path: Path) -> dict[str, float]:
    claims = json.loads(path.read_text())["claims"]
    return {
        claim["id"]: float(claim["sentence"].split("corrected p = ")[1].split(";")[0].rstrip(")."))
        for claim in claims
        if "corrected p = " in claim["sentence"]
    }


def _wait_for(path: Path, text: str) -> None:
    for _ in range(3000):
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} never had {text}")


@pytest.mark.parametrize(
    ("how", "after", "code"),
    [(signal.SIGKILL, "leaky/overlap", -9), (signal.SIGINT, "leaky/scores/target", 130)],
)
def test_a_killed_audit_goes_on_and_ends_as_if_nothing_had_happened(
    audit_folder: Path, finished: Path, how: signal.Signals, after: str, code: int
) -> None:
    process = ForkedCommand("audit", audit_folder / "audit.yaml", "--json")
    _wait_for(audit_folder / "out/stages.json", after)
    os.kill(process.pid, how)
    process.communicate(timeout=60)
    assert process.returncode == code
    stages = set(json.loads((audit_folder / "out/stages.json").read_text())["stages"])
    assert after in stages
    assert not (audit_folder / "out/verdict.json").exists()
    went_on = _run(audit_folder)
    assert stages <= set(went_on.kept)
    assert went_on.made
    verdict = (audit_folder / "out/verdict.json").read_text()
    assert verdict == (finished / "out/verdict.json").read_text()


def test_a_second_audit_into_the_same_output_is_refused(audit_folder: Path) -> None:
    from heldout.store import exclusive

    (audit_folder / "out").mkdir()
    with (
        exclusive(audit_folder / "out/.audit.lock"),
        pytest.raises(InputError, match="another audit"),
    ):
        _run(audit_folder)


def _command(folder: Path, *more: str) -> Any:
    return CliRunner().invoke(app, ["audit", str(folder / "audit.yaml"), *more])


def test_gates_decide_the_exit_code(done: AuditResult, finished_folder: Path) -> None:
    assert _command(finished_folder, "--json").exit_code == 0
    fired = _command(finished_folder, "--json", "--fail-on", "survives")
    assert fired.exit_code == 1
    (gate,) = json.loads(fired.stdout)["gates"]
    assert gate.endswith("survives: leaky × web: overlap/web")
    assert _command(finished_folder, "--fail-on", "leak-rate>0.4").exit_code == 1
    assert _command(finished_folder, "--fail-on", "leak-rate>0.6").exit_code == 0
    _change(finished_folder, "output: out", "output: out\nfail_on: [leak-rate>0.4]")
    assert _command(finished_folder).exit_code == 1


def test_json_is_one_document_and_people_read_a_table(
    done: AuditResult, finished_folder: Path
) -> None:
    told = json.loads(_command(finished_folder, "--json").stdout)
    assert told["stages"]["made"] == []
    shown = _command(finished_folder).stdout
    assert "corpus web" in shown and "confirmed" in shown
    assert "20 of 40 items, 50.0 %" in shown
    assert "agree to" not in shown and "Prefer fresh" not in shown and "--verbose" in shown
    verbose = _command(finished_folder, "--verbose").stdout
    assert "50.0 % of items" in verbose and "20 items: copy" in verbose
    assert "Prefer fresh" in verbose and "agree to -1.00" in verbose
    assert f"report: {finished_folder / 'out/report.html'}" in shown


def test_what_people_judged_reaches_claims_scores_and_verdict_together(
    done: AuditResult, finished_folder: Path
) -> None:
    _found_by_registration(finished_folder / "out/leaky")
    desk = open_desks(str(finished_folder / "out/leaky"), rater="ada")[0]
    desk.judge(0, "unrelated")
    again = _run(finished_folder)
    assert again.made == ["leaky/tests", "leaky/claims", "leaky/report"]
    cell = next(c for c in again.overall.cells if (c.cell.benchmark, c.on) == ("leaky", "web"))
    assert cell.leak is not None
    assert cell.leak.leaked == 18  # a picture carries two items
    assert "9 of 20 images" in cell.claims[0].sentence
    assert "1 pair judged" in cell.claims[0].why
    corrected = json.loads((finished_folder / "out/leaky/corrected.json").read_text())
    leaked = [
        line["items"] for line in corrected["models"][0]["lines"] if line["subset"] == "leaked"
    ]
    assert leaked == [18]
    assert _run(finished_folder).made == []
    desk.undo()
    undone = _run(finished_folder).overall.cells
    assert [c.leak.leaked for c in undone if c.leak is not None] == [20, 0]


def _found_by_registration(folder: Path) -> None:
    """As if digests had proven nothing: people may overrule registration alone."""
    run = Run.open(folder)
    rows = [{**row, "method": "hash"} for row in run.read_table("matches").to_pylist()]
    run.write_table("matches", make_table("matches", rows))


def test_a_rebuilt_report_renews_the_corrected_scores(
    done: AuditResult, finished_folder: Path
) -> None:
    run = finished_folder / "out/leaky"
    _found_by_registration(run)
    before = (run / "corrected.json").read_bytes()
    assert CliRunner().invoke(app, ["report", str(run)]).exit_code == 0
    assert (run / "corrected.json").read_bytes() == before
    open_desks(str(run), rater="ada")[0].judge(0, "unrelated")
    assert CliRunner().invoke(app, ["report", str(run)]).exit_code == 0
    models = json.loads((run / "corrected.json").read_text())["models"]
    counts = {
        line["items"] for one in models for line in one["lines"] if line["subset"] == "leaked"
    }
    assert counts == {18}
    actions = [json.loads(line) for line in (run / "actions.jsonl").read_text().splitlines()]
    told = Counter(one["evidence"] for one in actions)
    # One rater alone dismissed the picture of two items: for a second to judge.
    assert told == {"same image": 18, "undecided near-duplicate": 2}


def test_a_perfect_effect_that_permutations_cannot_tell_is_not_called_clean(
    audit_folder: Path,
) -> None:
    _change(audit_folder, "baselines: [clean]\n", "")
    few = _run(audit_folder)
    cell = next(c for c in few.overall.cells if (c.cell.benchmark, c.on) == ("fresh", "target"))
    claim = next(claim for claim in cell.claims if claim.id.startswith("order/"))
    assert claim.rule == "order/own-interval" and claim.status == "qualified"
