"""A Ray cluster on this machine, three nodes of one core each, that all tests of a process share.

Its start, and that of a process on every node, takes longer than most of what is asked of it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import psutil
import pytest

from heldout.engine.ray_engine import import_ray

TOKEN = secrets.token_hex(32)
STORE_BYTES = 100_000_000
QUICK_TO_NOTICE = {  # a dead node, which by default takes fifteen seconds
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 3,
}


@dataclass
class RayCluster:
    cluster: Any
    address: str
    client_port: int  # of the server that clients at ray:// talk to

    def add_node(self) -> Any:
        return self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def own_token() -> None:
    """A token of this process's own: Ray neither reads nor writes one in the home folder."""
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}


class Nodes:
    """The cluster, started by the first test that asks for it.

    Nodes without work use a tenth of a core: they end with the last of the tests that are about Ray, which
    come one after another.
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
        if nextitem is None or not nextitem.get_closest_marker("ray"):
            self._cluster = None
            self._open.close()


NODES = Nodes()


@contextlib.contextmanager
def three_nodes() -> Iterator[RayCluster]:
    own_token()
    ray = import_ray()
    from ray.cluster_utils import Cluster

    before = set(psutil.Process().children(recursive=True))
    cluster, port = Cluster(), free_port()
    # Otherwise the head's client server runs gRPC's fork handlers, which now and then abort it.
    without = {"GRPC_ENABLE_FORK_SUPPORT": "0"}
    try:
        with mock.patch.dict(os.environ, without):
            cluster.add_node(
                num_cpus=1,
                object_store_memory=STORE_BYTES,
                include_dashboard=False,
                ray_client_server_port=port,
                _system_config=QUICK_TO_NOTICE,
            )
        nodes = RayCluster(cluster, cluster.address, port)
        nodes.add_node()
        nodes.add_node()
        cluster.wait_for_nodes()
        yield nodes
    finally:
        ray.shutdown()
        cluster.shutdown()
        started = set(psutil.Process().children(recursive=True)) - before
        left = [process for process in started if _is_ray(process)]
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=10)


def _is_ray(process: psutil.Process) -> bool:
    """Tests start servers of their own while the nodes are up, and go on with them."""
    try:
        return any("/ray/" in part or part.startswith("ray::") for part in process.cmdline())
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def ray_connection(pytestconfig: pytest.Config) -> RayCluster:
    """One connection for all that use the cluster: every new one makes the nodes start new processes."""
    if importlib.util.find_spec("ray") is None:  # import_ray() sets what ray reads when imported
        pytest.skip("the Ray engine needs heldout[ray]")
    nodes = NODES.cluster(pytestconfig.pluginmanager)
    if not import_ray().is_initialized():
        _connect(nodes)
    return nodes


@contextlib.contextmanager
def workers_with(nodes: RayCluster, environment: dict[str, str]) -> Iterator[None]:
    """Another connection, for which the nodes start processes with more in their environment."""
    ray = import_ray()
    ray.shutdown()
    _connect(nodes, runtime_env={"env_vars": environment})
    try:
        yield
    finally:
        ray.shutdown()
        _connect(nodes)


def _connect(nodes: RayCluster, **more: Any) -> None:
    import_ray().init(
        address=nodes.address, log_to_driver=False, logging_level=logging.ERROR, **more
    )
