"""heldout cluster check on a real cluster, and tasks that are given a GPU."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import engine_tasks
import pytest

import heldout
from command_line import run_inside
from heldout.engine import Kind, RayEngine, check_cluster
from heldout.engine.cluster import ClusterNode, _problems
from heldout.engine.ray_engine import RayMap
from heldout.errors import InputError
from ray_nodes import STORE_BYTES, RayCluster

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def test_every_node_says_what_it_has(ray_connection: RayCluster) -> None:
    done = run_inside("cluster", "check", "--engine", f"ray:{ray_connection.address}", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == []
    assert len(report["nodes"]) == 3
    for node in report["nodes"]:
        assert node["cores"] == 1 and node["gpus"] == 0 and node["memory_gib"] > 0
        assert node["heldout"] == heldout.__version__
        assert node["python"] == platform.python_version()
        assert "vision" in node["extras"]
    shown = run_inside("cluster", "check", "--engine", f"ray:{ray_connection.address}")
    assert "3 nodes, 3 cores, 0 GPUs" in shown.stdout


def test_nodes_with_another_version_are_named_and_fail_the_check(
    ray_connection: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heldout, "__version__", "99.0")
    report = check_cluster(f"ray:{ray_connection.address}")
    assert len(report.problems) == 3 and report.frame.height == 3
    assert "heldout 99.0" in report.problems[0]
    done = run_inside("cluster", "check", "--engine", f"ray:{ray_connection.address}")
    assert done.returncode == 3 and "99.0" in done.stderr


def test_tasks_run_where_the_gpu_is_and_where_the_data_is(
    ray_connection: RayCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # a node takes it from this process
    with RayEngine(ray_connection.address) as engine:
        (plain,) = engine.map(engine_tasks.visible_gpus, [0], on_gpu=True)
        assert plain.value in ("", None)  # no node has one: it runs all the same
        node = ray_connection.cluster.add_node(
            num_cpus=2, num_gpus=1, resources={"near": 1}, object_store_memory=STORE_BYTES
        )
        ray_connection.cluster.wait_for_nodes()
        try:
            outcomes = list(engine.map(engine_tasks.visible_gpus, range(3), on_gpu=True))
            assert [outcome.value for outcome in outcomes] == ["0"] * 3
            both = RayMap[int, str](b"", [], workers=None, tries=1)
            assert both.share == 0.5  # one task for each core of that node
            (without,) = engine.map(engine_tasks.visible_gpus, [0])
            assert without.value != "0"
            meet, place = engine_tasks.meet, str(tmp_path)
            compare = Kind(meet, [(place, "compared", "embedded")] * 4)
            embed = Kind(meet, [(place, "embedded", "compared")] * 4, on_gpu=True)
            together = list(engine.map_kinds([compare, embed]))
            assert [o.error for _, o in together if not o.ok] == []
            assert sorted((kind, o.value == "0") for kind, o in together) == (
                [(0, False)] * 4 + [(1, True)] * 4
            )
            monkeypatch.setenv("HELDOUT_RAY_NODES", "near")
            places = {outcome.value for outcome in engine.map(engine_tasks.ray_node, range(4))}
            assert places == {node.node_id}
            monkeypatch.setenv("HELDOUT_RAY_NODES", "nowhere")
            with pytest.raises(InputError, match="nowhere"):
                next(iter(engine.map(engine_tasks.ray_node, [0])))
        finally:
            ray_connection.cluster.remove_node(node)


def _node(name: str, **facts: object) -> ClusterNode:
    known: dict[str, object] = {
        "heldout": heldout.__version__,
        "python": platform.python_version(),
        "ray": "2.9",
    }
    return ClusterNode(name, "10.0.0.1", 4, 0, (), 8, 1, **(known | facts))  # type: ignore[arg-type]


def test_what_differs_between_nodes_is_a_problem() -> None:
    same = [_node("a", extras=("vision",)), _node("b", extras=("vision",))]
    assert list(_problems(same, "2.9")) == []
    (extra,) = _problems([same[0], _node("b")], "2.9")
    assert extra.startswith("node b (10.0.0.1): ") and "vision" in extra
    (missing,) = _problems([same[0], _node("b", heldout="", extras=("vision",))], "2.9")
    assert "has no heldout" in missing
    (python,) = _problems([_node("a", python="3.1.4")], "2.9")
    assert "has python 3.1.4" in python
    (silent,) = _problems([same[0], _node("b", problem="no answer within 60 s")], "2.9")
    assert silent == "node b (10.0.0.1): no answer within 60 s"


def test_only_a_ray_cluster_can_be_checked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="^engine: .*ray:auto"):
        check_cluster("local")
    assert not list(tmp_path.iterdir())
