"""Engines under test. The Ray cluster is real: three nodes on this machine, one core each."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import engine_tasks
import psutil
import pytest
from engine_cluster import QUICK_TO_NOTICE, STORE_BYTES, RayCluster

from heldout.engine import Engine, LocalEngine, RayEngine
from heldout.engine.ray_engine import import_ray


@pytest.fixture(scope="session", autouse=True)
def ray_token() -> None:
    """A token of this session's own: Ray neither reads nor writes one in the home folder."""
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


class Nodes:
    """The cluster that this folder's tests share: started by the first that asks for it.

    Nodes without work use a tenth of a core: they end with the last of the tests here that are about Ray. A
    hook of this file would not see that test if the tests of another folder follow it, so this is a plugin.
    """

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()
        self._cluster: RayCluster | None = None

    def cluster(self, plugins: pytest.PytestPluginManager) -> RayCluster:
        if self._cluster is None:
            self._cluster = self._open.enter_context(three_nodes())
            plugins.register(self)
            self._open.callback(plugins.unregister, self)
        return self._cluster

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> Iterator[None]:
        yield
        here = nextitem is not None and nextitem.path.parent == HERE
        if nextitem is None or not here or not nextitem.get_closest_marker("ray"):
            self._cluster = None
            self._open.close()


HERE = Path(__file__).parent
NODES = Nodes()


@contextlib.contextmanager
def three_nodes() -> Iterator[RayCluster]:
    ray = import_ray()
    from ray.cluster_utils import Cluster

    # The nodes do not have this folder on their path: these functions travel by value.
    ray.cloudpickle.register_pickle_by_value(engine_tasks)
    before = set(psutil.Process().children(recursive=True))
    cluster = Cluster()
    try:
        cluster.add_node(
            num_cpus=1,
            object_store_memory=STORE_BYTES,
            include_dashboard=False,
            _system_config=QUICK_TO_NOTICE,
        )
        nodes = RayCluster(cluster, cluster.address)
        nodes.add_node()
        nodes.add_node()
        cluster.wait_for_nodes()
        yield nodes
    finally:
        ray.cloudpickle.unregister_pickle_by_value(engine_tasks)
        ray.shutdown()
        cluster.shutdown()
        left = set(psutil.Process().children(recursive=True)) - before
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=10)


@pytest.fixture(scope="module")
def ray_cluster(pytestconfig: pytest.Config) -> RayCluster:
    if importlib.util.find_spec("ray") is None:  # import_ray() sets what ray reads when imported
        pytest.skip("the Ray engine needs heldout[ray]")
    return NODES.cluster(pytestconfig.pluginmanager)


@pytest.fixture(scope="module")
def ray_connection(ray_cluster: RayCluster) -> Iterator[RayCluster]:
    """One connection for a whole file: every new one makes the nodes start new processes."""
    ray = import_ray()
    ray.init(address=ray_cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    yield ray_cluster
    ray.shutdown()


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
