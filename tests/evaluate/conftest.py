"""A suite on disk and a server that knows its answers, once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_suite import make_suite
from suite_serving import SuiteServer


@pytest.fixture(scope="session")
def suite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_suite(tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="session")
def suite_server(suite_file: Path) -> Iterator[SuiteServer]:
    running = SuiteServer(suite_file.parent / "answers.json")
    yield running
    running.stop()
