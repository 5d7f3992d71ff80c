"""Engines under test. The Ray cluster is real, see ray_nodes.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import engine_tasks
import pytest

from heldout.engine import Engine, LocalEngine, RayEngine
from heldout.engine.ray_engine import import_ray
from ray_nodes import RayCluster, own_token


@pytest.fixture(scope="session", autouse=True)
def ray_token() -> None:
    own_token()


@pytest.fixture(scope="module")
def ray_connection(ray_connection: RayCluster) -> RayCluster:
    # The nodes do not have this folder on their path: these functions travel by value.
    import_ray().cloudpickle.register_pickle_by_value(engine_tasks)
    return ray_connection


@pytest.fixture(params=["serial", "local", pytest.param("ray", marks=pytest.mark.ray)])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Every engine there is, held to the same promises."""
    if request.param == "ray":
        chosen: Engine = RayEngine(request.getfixturevalue("ray_connection").address)
    else:
        chosen = LocalEngine(1 if request.param == "serial" else 3)
    with chosen:
        yield chosen


@pytest.fixture
def worker_environment() -> dict[str, str]:
    """The environment in which a script finds engine_tasks, and its workers do too."""
    folder = str(Path(engine_tasks.__file__).parent)
    known = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{known}" if known else folder}
