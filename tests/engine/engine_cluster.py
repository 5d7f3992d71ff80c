"""A Ray cluster on this machine, as the tests see it."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

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

    def add_node(self) -> Any:
        return self.cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
