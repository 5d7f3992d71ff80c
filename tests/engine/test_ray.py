"""RayEngine on a real cluster of several nodes: a node dies, a worker dies, versions differ."""

from __future__ import annotations

from pathlib import Path

import engine_tasks
import pytest

import heldout
from heldout.engine import LocalEngine, RayEngine
from heldout.engine.ray_engine import import_ray
from heldout.errors import InputError, PrerequisiteError
from ray_nodes import RayCluster

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


def test_a_node_that_dies_half_way_loses_and_repeats_nothing(
    ray_connection: RayCluster, tmp_path: Path
) -> None:
    doomed = ray_connection.add_node()
    ray_connection.cluster.wait_for_nodes()
    tasks = [(str(tmp_path), n) for n in range(80)]
    with RayEngine(ray_connection.address) as engine:
        outcomes = engine.map(engine_tasks.note_node, tasks)
        found = [next(outcomes)]
        while not list(tmp_path.glob(f"*-{doomed.node_id}")):
            found.append(next(outcomes))
        ray_connection.cluster.remove_node(doomed, allow_graceful=False)
        assert len(found) < 0.9 * len(tasks)  # a new node may be slow to begin
        found += outcomes
    with LocalEngine(1) as serial:
        expected = [o.value for o in serial.map(engine_tasks.plain_block, range(80))]
    assert sorted(o.index for o in found) == list(range(80))
    assert [o.error for o in found if not o.ok] == []
    assert [o.value for o in sorted(found, key=lambda o: o.index)] == expected


def test_a_task_that_kills_its_worker_is_given_up_alone_and_quietly(
    ray_connection: RayCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    tasks = [("kill" if n == 2 else "", n) for n in range(6)]
    with RayEngine(ray_connection.address) as engine:
        outcomes = list(engine.map(engine_tasks.die, tasks, ordered=True))
    assert [o.value for o in outcomes] == [0, 1, None, 3, 4, 5]
    assert outcomes[2].error is not None and "died 3 times" in outcomes[2].error
    assert capfd.readouterr().out == ""


def test_a_node_with_another_version_is_named(
    ray_connection: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = heldout.__version__
    monkeypatch.setattr(heldout, "__version__", "99.0")
    with RayEngine(ray_connection.address) as engine, pytest.raises(PrerequisiteError) as caught:
        list(engine.map(engine_tasks.square, range(4)))
    assert f"heldout {here}, " in str(caught.value)


def test_a_function_the_nodes_cannot_load_is_refused(ray_connection: RayCluster) -> None:
    ray = import_ray()
    ray.cloudpickle.unregister_pickle_by_value(engine_tasks)
    try:
        with RayEngine(ray_connection.address) as engine, pytest.raises(InputError) as caught:
            list(engine.map(engine_tasks.square, range(4)))
    finally:
        ray.cloudpickle.register_pickle_by_value(engine_tasks)
    assert "No module named 'engine_tasks'" in str(caught.value)


def test_every_library_on_a_node_keeps_to_the_one_core_of_its_task(
    ray_connection: RayCluster,
) -> None:
    with RayEngine(ray_connection.address) as engine:
        (outcome,) = engine.map(engine_tasks.threads, [0])
    assert outcome.value is not None, outcome.error
    outcome.value.pop("running")  # Ray starts threads of its own
    assert set(outcome.value.values()) == {1}, outcome.value
