"""Fresh items as an entry of the audit file: planned, made last, kept, and against what is audited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from typer.testing import CliRunner

from heldout.audit.reader import read_audit
from heldout.audit.runner import run_audit
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.model import Journal, Reply, prompt_key
from heldout.store import Run
from heldout.synth import PaperFigure, SynthSettings
from heldout.synth._generate import generate_prompt
from heldout.synth.ingest import read_figures
from heldout.synth.ledger import journal_path

RENDERED = {"name": "rendered", "source": "scenes", "limit": 5, "image_encoder": None}
MODELS = {
    "generator": {"url": "http://localhost:9/v1"},
    "verifier": {"url": "http://localhost:9/other/v1"},
    "shortcut": {"url": "http://localhost:9/third/v1"},
}


def _with(folder: Path, entry: dict[str, Any], **others: Any) -> Path:
    path = folder / "audit.yaml"
    told = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**told, "synth": [entry], **others}))
    return path


@pytest.fixture
def figures(audit_folder: Path) -> Path:
    """Four captioned figures beside the audit file, one of them under no licence."""
    folder = audit_folder / "figures"
    folder.mkdir()
    rows = []
    for number in range(4):
        Image.new("RGB", (64, 56), (40 * number, 90, 120)).save(folder / f"{number}.png")
        licence = "CC BY 4.0" if number else "all rights reserved"
        rows.append(
            {
                "image": f"{number}.png",
                "caption": "A chest radiograph.",
                "licence": licence,
                "attribution": "Ada",
            }
        )
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_the_plan_counts_what_models_would_be_asked(audit_folder: Path, figures: Path) -> None:
    path = _with(audit_folder, {"name": "made", "source": "figures", **MODELS})
    done = CliRunner().invoke(app, ["audit", str(path), "--plan", "--json"])
    assert done.exit_code == 0, done.output
    (step,) = [one for one in json.loads(done.stdout)["steps"] if one["stage"] == "synth"]
    # Three figures have a licence; two of the three items pass, as published, with eleven probes each.
    assert (step["benchmark"], step["items"], step["requests"]) == ("made", 3, 3 + 3 + 2 * 11)
    assert step["forward_tokens"] > 1_000
    assert step["note"].endswith("against leaky, fresh")
    assert not (audit_folder / "out").exists()
    path = _with(
        audit_folder, {"name": "made", "source": "figures", **MODELS}, budget={"requests": 9}
    )
    with pytest.raises(InputError, match=r"\b28 requests\b.*\b9\b"):
        run_audit(read_audit(path))


def test_the_plan_leaves_out_what_is_paid_for(audit_folder: Path, figures: Path) -> None:
    """Replies that the entry's run folder holds are no requests, whether or not a stage was finished."""
    path = _with(audit_folder, {"name": "made", "source": "figures", **MODELS})
    run = Run.create(audit_folder / "out/made", seed=42)
    settings = SynthSettings.read({"source": str(figures), **MODELS})
    asked_as = {"model": "writer", "max_new_tokens": "4096", "seed": "42"}
    run.update("synth", {"generator": {"asked_as": asked_as}})
    kept = [one for one in read_figures(settings, Path()) if isinstance(one, PaperFigure)][1:3]
    with Journal(journal_path(run, "generator")) as journal:
        for figure in kept:
            prompt = generate_prompt(figure, run.path, settings.conditioning)
            journal.keep(prompt_key(asked_as, prompt, lambda image: image.name), Reply("x", "{}"))
    done = CliRunner().invoke(app, ["audit", str(path), "--plan", "--json"])
    (step,) = [one for one in json.loads(done.stdout)["steps"] if one["stage"] == "synth"]
    assert (step["items"], step["requests"]) == (3, 1 + 3 + 2 * 11)
    assert "generate 1 (2 done)" in step["note"]


def test_items_are_made_last_kept_and_compared_with_what_is_audited(finished_folder: Path) -> None:
    before = json.loads((finished_folder / "out/verdict.json").read_text())
    done = run_audit(read_audit(_with(finished_folder, RENDERED)), quiet=True)
    assert done.made == ["rendered/synth"]
    assert done.overall.as_json() == before
    folder = done.datasets["rendered"]
    assert (folder / "report.html").exists() and (folder / "synth/dataset/README.md").exists()
    page = (finished_folder / "out/report.html").read_text()
    assert 'href="rendered/report.html">rendered</a>: 5 items published' in page
    reports = json.loads((folder / "synth/contamination.json").read_text())["benchmarks"]
    assert [one["benchmark"] for one in reports] == ["leaky", "fresh"]
    again = run_audit(read_audit(finished_folder / "audit.yaml"), quiet=True)
    assert again.made == [] and "rendered/synth" in again.kept
    changed = run_audit(read_audit(_with(finished_folder, {**RENDERED, "limit": 4})), quiet=True)
    assert changed.made == ["rendered/synth"]
    with pytest.raises(InputError, match=r"synth\[1\]\.seed: .*\b42\b"):
        run_audit(read_audit(_with(finished_folder, {**RENDERED, "seed": 7})), quiet=True)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({**RENDERED, "name": "leaky"}, "the run folder"),
        ({**RENDERED, "limits": 4}, "'limit'"),
        ({"name": "a", "source": "figures", "generator": {"link": "x"}}, "key 'link'"),
        ({"name": "a", "source": "nowhere"}, "does not exist"),
        ({"name": "a", "source": "figures"}, "setting generator"),
        ({**RENDERED, "against": ["nothing"]}, "nothing"),
        (
            {**RENDERED, "verifier": {"url": "http://me:hunter2@localhost/v1"}},
            "a password",
        ),
        ({**RENDERED, "verifier": {"url": "http://x/v1", "api_key_env": "sk-1 2"}}, "api_key_env"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_before_any_work(
    audit_folder: Path, figures: Path, entry: dict[str, Any], told: str
) -> None:
    path = _with(audit_folder, entry)
    with pytest.raises(InputError) as caught:
        run_audit(read_audit(path))
    words = str(caught.value)
    assert told in words and "line " in words
    assert "hunter2" not in words and "sk-1" not in words
    assert not (audit_folder / "out").exists()
