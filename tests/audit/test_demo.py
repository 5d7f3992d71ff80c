"""The demo at a small size: an audit that is told nothing, kept to what was planted, and resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from heldout.audit.demo import DemoResult, run_demo
from heldout.audit.demo_data import BENCHMARK, CORPUS, FILE, MODELS, TABLE, WHO, DemoSize
from heldout.audit.demo_models import (
    CLEAN,
    CONTAMINATED,
    OUTSIDER,
    RECIPE,
    ROLES,
    SUSPECTS,
    WEIGHTS,
    DemoModels,
    file_sha256,
    models_for,
    open_models,
    shipped_models,
)
from heldout.audit.read_audit import read_audit
from heldout.cli import demo as command
from heldout.errors import InputError
from heldout.lab.releases import write_release

SMALL = DemoSize(images=96, shown=10, corpus=36)
MOST = 12_000_000  # bytes that the three checkpoints may have together


@pytest.fixture(scope="module")
def data_side(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    """Of a seed that no shipped model knows, in a folder where an earlier demo was killed."""
    folder = tmp_path_factory.mktemp("demo") / "five"
    for part in (".half/release/images", f"{BENCHMARK}/images", CORPUS):
        (folder / part).mkdir(parents=True)
    (folder / CORPUS / "00000.tar").write_bytes(b"half of it")
    return run_demo(folder, seed=5, size=SMALL, quiet=True)


def test_the_data_side_is_right_about_what_was_planted(data_side: DemoResult) -> None:
    found = {(row.group, row.kind): (row.planted, row.found) for row in data_side.planted}
    for (group, kind), (planted, called) in found.items():
        if group == "exact copy":
            assert called == planted, kind
        elif group in ("decoy", "broken"):
            assert called == 0, kind
    assert {group for group, _ in found} == {
        "exact copy", "changed copy", "words alone", "decoy", "broken"
    }  # fmt: skip
    cell = next(one for one in data_side.audited.overall.cells if one.cell.corpus == CORPUS)
    assert cell.status == "survives"


def test_without_models_of_the_seed_it_says_what_is_missing(
    data_side: DemoResult, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not data_side.models and "--models" in data_side.missing
    command._show(data_side)
    told = capsys.readouterr().out
    assert "no model was audited" in told and str(data_side.report)[-20:] in told


def test_given_again_nothing_is_made_again(data_side: DemoResult) -> None:
    folder = data_side.audit_file.parent
    before = (folder / BENCHMARK / TABLE).stat().st_mtime_ns
    again = run_demo(folder, seed=5, size=SMALL, quiet=True)
    assert not again.audited.made and again.planted == data_side.planted
    assert (folder / BENCHMARK / TABLE).stat().st_mtime_ns == before
    with pytest.raises(InputError, match="demo of seed 5"):
        run_demo(folder, seed=6, size=SMALL, quiet=True)


def test_another_folder_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("no")
    with pytest.raises(InputError, match="other things than a demo"):
        run_demo(tmp_path, seed=5, size=SMALL, quiet=True)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no")
    with pytest.raises(InputError, match="is a file"):
        run_demo(tmp_path / "notes", seed=5, size=SMALL, quiet=True)


def test_weights_that_are_cut_short_are_told_in_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from heldout.model.local.load import load

    shutil.copytree(shipped_models().folder / CLEAN, tmp_path / "cut")
    weights = tmp_path / "cut" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:100_000])
    with pytest.raises(InputError, match="cut"):
        load(
            str(tmp_path / "cut"), revision=None, dtype="float32", device="cpu",
            trust_remote_code=False,
        )  # fmt: skip


def test_suspects_are_named_by_a_coin() -> None:
    drawn = [DemoModels(Path()).names(seed) for seed in range(10)]
    assert {names["model-a"] for names in drawn} == {CONTAMINATED, CLEAN}
    assert all(set(names) == {*SUSPECTS, OUTSIDER} for names in drawn)
    assert drawn[3] == DemoModels(Path()).names(3)


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no checkpoint called contaminated"):
        open_models(tmp_path)


def test_models_of_another_seed_or_with_other_weights_are_refused(tmp_path: Path) -> None:
    for role in ROLES:
        (tmp_path / role).mkdir()
        (tmp_path / role / WEIGHTS).write_bytes(role.encode())
    told = {role: {"sha256": file_sha256(tmp_path / role / WEIGHTS)} for role in ROLES}
    (tmp_path / RECIPE).write_text(json.dumps({"release": {"seed": 4}, "models": told}))
    assert open_models(tmp_path, 4).recipe["release"]["seed"] == 4
    with pytest.raises(InputError, match="seed 4, not of seed 5"):
        open_models(tmp_path, 5)
    (tmp_path / CLEAN / WEIGHTS).write_bytes(b"other")
    with pytest.raises(InputError, match="is not the file that"):
        open_models(tmp_path, 4)


def test_the_shipped_models_are_what_their_recipe_says(tmp_path: Path) -> None:
    shipped = shipped_models()  # compares the hashes
    sizes = [path.stat().st_size for role in ROLES for path in (shipped.folder / role).iterdir()]
    assert sum(sizes) < MOST
    assert set(shipped.recipe["models"]) == set(ROLES)
    assert all(
        shipped.recipe["models"][role]["base"] in shipped.recipe["bases"]
        for role in (CONTAMINATED, CLEAN)
    )
    assert all(base["log"] for base in shipped.recipe["bases"].values())
    assert {"command", "training", "release"} <= set(shipped.recipe)
    known = shipped.recipe["release"]
    release = write_release(
        tmp_path, known["world"], images=known["images"], seed=known["seed"],
        first=known["shown"], twinned=False,
    )  # fmt: skip
    assert file_sha256(release.folder / TABLE) == shipped.release_digest(known["shown"])
    assert known["shown"] == DemoSize().shown
    assert isinstance(models_for(known["seed"] + 1, None), str)


@pytest.mark.timeout(300)
def test_three_models_are_audited_under_names_that_tell_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    loose = tmp_path / "models"  # without a recipe: this is not the release they know
    for role in ROLES:
        shutil.copytree(shipped_models().folder / role, loose / role)
    tiny = DemoSize(images=12, shown=8, corpus=30)
    made = run_demo(tmp_path / "demo", seed=2, models=loose, size=tiny, quiet=True)
    assert not made.missing
    assert {model.name: model.role for model in made.models} == json.loads(
        (made.audit_file.parent / WHO).read_text()
    )
    text = (made.audit_file.parent / FILE).read_text()
    assert CONTAMINATED not in text and f"baselines: [{OUTSIDER}]" in text
    assert sorted(path.name for path in (made.audit_file.parent / MODELS).iterdir()) == sorted(
        [*SUSPECTS, OUTSIDER]
    )
    assert read_audit(made.audit_file).file.baselines == [OUTSIDER]
    detectors = {text.split()[0] for model in made.models for text in model.evidence}
    assert detectors == {"twin-drop", "option-order"}
    again = run_demo(tmp_path / "demo", seed=2, models=loose, size=tiny, quiet=True)
    assert not again.audited.made and again.as_json()["models"] == made.as_json()["models"]
