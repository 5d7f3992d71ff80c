"""evaluate on a real cluster: several models, the same tables as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

import heldout
from heldout.evaluate import evaluate
from heldout.scenes import write_benchmark
from ray_nodes import RayCluster

pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
WEIGHTS = Path(heldout.__file__).parent / "lab/demo/weights"


def test_two_models_on_two_benchmarks_answer_on_a_cluster_as_in_one_process(
    ray_connection: RayCluster, tmp_path: Path
) -> None:
    for number in (3, 4):
        write_benchmark(tmp_path / f"world{number}", images=6, seed=number)
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: worlds\nmax_new_tokens: 8\nbenchmarks:\n"
        "  - {name: first, source: world3, questions: closed}\n"
        "  - {name: second, source: world4, questions: closed}\n"
    )
    models = tuple(f"onnx:{WEIGHTS / name}" for name in ("clean", "outsider-a"))
    here = evaluate(suite=str(suite), models=models, out=tmp_path / "here", quiet=True)
    there = evaluate(
        suite=str(suite),
        models=models,
        out=tmp_path / "there",
        engine=f"ray:{ray_connection.address}",
        quiet=True,
    )
    assert here.models == there.models == ("clean", "outsider-a")
    assert here.table.height >= 4 and here.table.equals(there.table)
