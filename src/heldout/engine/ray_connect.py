"""Joining a Ray cluster, or starting one on this machine, with errors that say what to do."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import Any
from urllib.parse import urlsplit

from heldout.errors import InputError, PrerequisiteError, require

_CONNECT_SECONDS = 5.0
# A cluster's client server forks a server for every client while its own gRPC threads run, and now
# and then that child dies at birth ("Starting Ray client server failed"); the next one lives.
_CLIENT_ATTEMPTS = 4
_STORE_BYTES = 500_000_000  # of a cluster we start ourselves: tables and file names, not images


def import_ray() -> Any:
    require("ray", "ray", "the Ray engine")
    # Read when ray is imported: no usage report leaves this machine, and nothing that Ray says
    # about dying workers goes to standard output, where log_to_driver=False still lets it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    import ray

    return ray


def connect(address: str | None, workers: int | None, object_store_memory: int | None) -> bool:
    """Connect this process to Ray; False when it already was, so it is not ours to disconnect."""
    ray = import_ray()
    if ray.is_initialized():
        _check_same_cluster(ray, address)
        return False
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == "local":
        options |= {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": object_store_memory or _STORE_BYTES,
        }
    elif address != "auto":
        _check_reachable(address)
    for attempt in range(1, _CLIENT_ATTEMPTS + 1):
        try:
            ray.init(address=address, **options)
            return True
        except (ConnectionError, RuntimeError) as error:
            ray.shutdown()  # half a connection would make the next attempt fail for another reason
            if attempt == _CLIENT_ATTEMPTS or not _died_at_birth(error):
                raise _explain(address, error) from error
            time.sleep(attempt)
    raise AssertionError("unreachable")


def _died_at_birth(error: Exception) -> bool:
    return isinstance(error, ConnectionAbortedError) and (
        "Starting Ray client server failed" in str(error) or "Proxy failed to Connect" in str(error)
    )


def _explain(address: str, error: Exception) -> Exception:
    if "ersion mismatch" in str(error):
        return PrerequisiteError(
            f"the Ray cluster at '{address}' runs other versions than this program: {error}"
        )
    if isinstance(error, ConnectionError):
        return InputError(
            f"no Ray cluster lets this program in at '{address}' ({error}); check that one runs "
            f"there ('ray start --head') and, if it asks for a token, that RAY_AUTH_MODE and "
            f"RAY_AUTH_TOKEN are set here as they are there"
        )
    return error


def _check_same_cluster(ray: Any, address: str | None) -> None:
    if address in (None, "auto", "local") or ray.util.client.ray.is_connected():
        return
    current = ray.get_runtime_context().gcs_address
    if address != current:
        raise InputError(
            f"this process is already connected to Ray at {current}, not at {address}; call "
            f"ray.shutdown() first, or give no address"
        )


def _check_reachable(address: str) -> None:
    """Ask the port first: Ray tries for minutes, and may end the process when nobody answers."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme == "ray":
        port = port or 10001
    if not host or not port:
        raise InputError(
            f"'{address}' is not the address of a Ray cluster; expected host:port, "
            f"ray://host:port or auto"
        )
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise InputError(
            f"no Ray cluster answers at '{address}' ({error.strerror or error}); check that it "
            f"runs and that this machine may reach it"
        ) from error
