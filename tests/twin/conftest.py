"""What tests of twins share: one server, and one rendered benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import TwinServer

from heldout.scenes import write_benchmark


@pytest.fixture(scope="module")
def server() -> Iterator[TwinServer]:
    running = TwinServer()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 pictures with about seventy closed questions."""
    folder = tmp_path_factory.mktemp("scenes") / "shapes"
    write_benchmark(folder, images=20, seed=3)
    return folder
