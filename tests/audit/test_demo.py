"""The demo at a small size: an audit that is told nothing, kept to what was planted, and resumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from command_line import run_forked
from heldout.audit.demo import DemoResult, _not_installed, run_demo
from heldout.audit.reader import read_audit
from heldout.cli import demo as command
from heldout.errors import InputError
from heldout.lab.demo.data import (
    BENCHMARK,
    CLEAN,
    CONTAMINATED,
    CORPUS,
    FILE,
    MODELS,
    OUTSIDERS,
    RECIPE,
    ROLES,
    SUSPECTS,
    TABLE,
    WEIGHTS,
    WHO,
    DemoModels,
    DemoSize,
    models_for,
    open_models,
    shipped_models,
)
from heldout.lab.models.releases import write_release
from heldout.model.onnx.graphs import CARD, file_sha256, read_card

SMALL = DemoSize(images=12, shown=8, corpus=26)
MOST = 20_000_000  # bytes that the five models may have together


@pytest.fixture(scope="module")
def data_side(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    """Of a seed that no shipped model knows, in a folder where an earlier demo was killed."""
    folder = tmp_path_factory.mktemp("demo") / "five"
    for part in (".half/release/images", f"{BENCHMARK}/images", CORPUS):
        (folder / part).mkdir(parents=True)
    (folder / CORPUS / "00000.tar").write_bytes(b"half of it")
    return run_demo(folder, seed=2, size=SMALL, quiet=True)


def test_the_demo_is_known_as_a_rendered_benchmark(data_side: DemoResult) -> None:
    assert all(cell.rendered for cell in data_side.audited.overall.cells)


def test_the_data_side_is_right_about_what_was_planted(data_side: DemoResult) -> None:
    found = {(row.group, row.kind): (row.planted, row.found) for row in data_side.planted}
    for (group, kind), (planted, called) in found.items():
        if group == "exact copy":
            assert called == planted, kind
        elif group in ("decoy", "broken"):
            assert called == 0, kind
    assert {group for group, _ in found} == {
        "exact copy",
        "changed copy",
        "words alone",
        "decoy",
        "broken",
    }
    cell = next(one for one in data_side.audited.overall.cells if one.cell.corpus == CORPUS)
    assert cell.status == "survives"


def test_without_models_of_the_seed_it_says_what_is_missing(
    data_side: DemoResult, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not data_side.models and "setting models" in data_side.missing
    command._show(data_side)
    told = capsys.readouterr().out
    assert "was audited" in told and str(data_side.report)[-20:] in told


def test_given_again_nothing_is_made_again(data_side: DemoResult) -> None:
    folder = data_side.audit_file.parent
    before = (folder / BENCHMARK / TABLE).stat().st_mtime_ns
    again = run_demo(folder, seed=2, size=SMALL, quiet=True)
    assert not again.audited.made and again.planted == data_side.planted
    assert (folder / BENCHMARK / TABLE).stat().st_mtime_ns == before
    with pytest.raises(InputError, match="demo of seed 2"):
        run_demo(folder, seed=6, size=SMALL, quiet=True)


def test_another_folder_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("no")
    with pytest.raises(InputError, match="than a demo"):
        run_demo(tmp_path, seed=2, size=SMALL, quiet=True)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no")
    with pytest.raises(InputError, match="is a file"):
        run_demo(tmp_path / "notes", seed=2, size=SMALL, quiet=True)


def test_suspects_are_named_by_a_coin() -> None:
    drawn = [DemoModels(Path()).names(seed) for seed in range(10)]
    assert {names["model-a"] for names in drawn} == {CONTAMINATED, CLEAN}
    assert all(set(names) == {*SUSPECTS, *OUTSIDERS} for names in drawn)
    assert drawn[3] == DemoModels(Path()).names(3)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\bcontaminated\b"):
        open_models(tmp_path)


def test_checkpoints_of_another_seed_or_with_other_weights_are_refused(tmp_path: Path) -> None:
    for role in ROLES:
        (tmp_path / role).mkdir()
        (tmp_path / role / WEIGHTS).write_bytes(role.encode())
    told = {role: {"sha256": file_sha256(tmp_path / role / WEIGHTS)} for role in ROLES}
    (tmp_path / RECIPE).write_text(json.dumps({"release": {"seed": 4}, "models": told}))
    found = open_models(tmp_path, 4)
    assert found.recipe["release"]["seed"] == 4
    assert found.needed() == {"torch": "hf", "transformers": "hf"}
    assert {found.prefix(role) for role in ROLES} == {""}
    with pytest.raises(InputError, match="seed 4.* seed 5"):
        open_models(tmp_path, 5)
    (tmp_path / CLEAN / WEIGHTS).write_bytes(b"other")
    with pytest.raises(InputError, match=r"model\.safetensors .*RECIPE\.json"):
        open_models(tmp_path, 4)


def test_graphs_that_are_not_those_of_the_recipe_are_refused(tmp_path: Path) -> None:
    shutil.copytree(shipped_models().folder, tmp_path / "models")
    card = tmp_path / "models" / CLEAN / CARD
    recipe = tmp_path / "models" / RECIPE
    found = open_models(tmp_path / "models")
    assert found.needed() == {"onnxruntime": "onnx", "tokenizers": "onnx"}
    assert {found.prefix(role) for role in ROLES} == {"onnx:"}
    told = json.loads(recipe.read_text())
    told["models"][CLEAN]["sha256"] = told["models"][CONTAMINATED]["sha256"]
    recipe.write_text(json.dumps(told))
    with pytest.raises(InputError, match=r"\bcheckpoint\b.*RECIPE\.json"):
        open_models(tmp_path / "models")
    shutil.copy(shipped_models().folder / RECIPE, recipe)
    card.write_text(card.read_text().replace('"places": 64', '"places": 65'))
    with pytest.raises(InputError, match=r"onnx\.json .*RECIPE\.json"):
        open_models(tmp_path / "models")
    (card.parent / "decoder.onnx").write_bytes(b"cut")
    with pytest.raises(InputError, match=r"decoder\.onnx .*onnx\.json"):
        open_models(tmp_path / "models")


def test_the_shipped_models_are_what_their_recipe_says(tmp_path: Path) -> None:
    shipped = shipped_models()  # compares the hashes
    sizes = [path.stat().st_size for role in ROLES for path in (shipped.folder / role).iterdir()]
    assert sum(sizes) < MOST
    assert set(shipped.recipe["models"]) == set(ROLES)
    for role, told in shipped.recipe["models"].items():
        card = read_card(shipped.folder / role)
        assert list(card.source.weights.values()) == [told["sha256"]] and card.stored == "float16"
        assert file_sha256(shipped.folder / role / CARD) == told["onnx"]["sha256"]
        assert card.largest_difference == told["onnx"]["largest_difference"] < 1e-4
        assert role not in (shipped.folder / role / CARD).read_text()  # the audit reads it
    assert all(
        shipped.recipe["models"][role]["base"] in shipped.recipe["bases"]
        for role in (CONTAMINATED, CLEAN)
    )
    assert all(base["log"] for base in shipped.recipe["bases"].values())
    assert {"command", "export", "training", "release"} <= set(shipped.recipe)
    known = shipped.recipe["release"]
    release = write_release(
        tmp_path,
        known["world"],
        images=known["images"],
        seed=known["seed"],
        first=known["shown"],
        twinned=False,
    )
    assert file_sha256(release.folder / TABLE) == shipped.release_digest(known["shown"])
    assert known["shown"] == DemoSize().shown
    assert isinstance(models_for(known["seed"] + 1, None), str)


DEMO = """
import json, sys
from pathlib import Path
from heldout.audit.demo import run_demo
from heldout.lab.demo.data import DemoSize

size = DemoSize(*map(int, sys.argv[3:]))
made = run_demo(Path(sys.argv[1]), seed=2, models=Path(sys.argv[2]), size=size, quiet=True)
assert not made.missing and made.audited.made
print(json.dumps(made.as_json()["models"]))
"""


@pytest.mark.timeout(900)
def test_five_models_are_audited_without_torch_under_names_that_tell_nothing(
    data_side: DemoResult, tmp_path: Path
) -> None:
    """In a folder whose corpus was searched before there were models."""
    pytest.importorskip("onnxruntime")
    loose = tmp_path / "models"  # without a recipe: this is not the release they know
    for role in ROLES:
        shutil.copytree(shipped_models().folder / role, loose / role)
    folder = Path(shutil.copytree(data_side.audit_file.parent, tmp_path / "demo"))
    words = [folder, loose, SMALL.images, SMALL.shown, SMALL.corpus]
    done = run_forked(*map(str, words), script=DEMO, without="torch,transformers")
    assert done.returncode == 0, done.stderr
    made = run_demo(folder, seed=2, models=loose, size=SMALL, quiet=True)
    assert not made.missing and not made.audited.made
    assert {model.name: model.role for model in made.models} == json.loads(
        (folder / WHO).read_text()
    )
    text = (folder / FILE).read_text()
    assert CONTAMINATED not in text and f"baselines: [{', '.join(OUTSIDERS)}]" in text
    assert f"local: onnx:{MODELS}/{SUSPECTS[0]}" in text
    assert sorted(path.name for path in (folder / MODELS).iterdir()) == sorted(
        [*SUSPECTS, *OUTSIDERS]
    )
    assert read_audit(made.audit_file).file.baselines == list(OUTSIDERS)
    assert {name for model in made.models for name in model.evidence} == {
        "twin-margin",
        "option-margin",
    }
    assert all(len(set(model.least.values())) == 2 for model in made.models)  # each has its own
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == json.loads(json.dumps(made.as_json()["models"]))


def test_what_is_not_installed_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = _not_installed(shipped_models().needed())
    assert "onnxruntime and tokenizers" in told and "heldout[onnx]" in told
