"""evaluate on models that run here: in this process, and on the workers of an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

import heldout
from heldout.engine import LocalEngine
from heldout.errors import InputError
from heldout.evaluate import evaluate
from heldout.evaluate._answers import EngineAsker, LocalModelSpec
from heldout.scenes import write_benchmark

pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
MODEL = Path(heldout.__file__).parent / "lab/demo/weights/clean"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_benchmark(folder, images=6, seed=3)
    suite = folder / "suite.yaml"
    suite.write_text(
        "name: world\nmax_new_tokens: 8\nbenchmarks: [{name: scenes, source: ., questions: closed}]\n"
    )
    return suite


@pytest.mark.usefixtures("forked_workers")
def test_workers_answer_as_this_process_does(world: Path, tmp_path: Path) -> None:
    how = {"suite": str(world), "models": (f"onnx:{MODEL}",), "quiet": True}
    here = evaluate(out=tmp_path / "here", **how)  # type: ignore[arg-type]
    there = evaluate(out=tmp_path / "there", workers=2, **how)  # type: ignore[arg-type]
    assert here.models == there.models == ("clean",)
    assert len(here.grades["clean"][0].ids) == len(there.grades["clean"][0].ids) > 12
    assert here.table.equals(there.table)
    assert here.table["prompt_tokens"][0] > 0


def test_a_model_that_no_worker_can_open(tmp_path: Path) -> None:
    with (
        LocalEngine(1) as engine,
        pytest.raises(InputError, match=r"no worker\b.*nothing"),
    ):
        EngineAsker(engine, LocalModelSpec(f"onnx:{tmp_path}/nothing"))


def test_a_model_that_cannot_be_opened_leaves_no_run(world: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        evaluate(
            suite=str(world), models=(f"onnx:{tmp_path}/nothing",), out=tmp_path / "run", quiet=True
        )
    assert not (tmp_path / "run").exists()
