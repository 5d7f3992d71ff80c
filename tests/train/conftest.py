"""Tiny checkpoints and tiny training sets."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from colour_rows import write_rows

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def tiny_families() -> ModuleType:
    """The makers of tiny checkpoints, of every family that model/local knows."""
    spec = importlib.util.spec_from_file_location(
        "tiny_models_of_training", TESTS / "model/local/tiny_models.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def libraries() -> Iterator[None]:
    """Trainers collect garbage several times a training. Half of a tiny training would be spent on the
    objects of imported libraries, which never become garbage."""
    import peft  # noqa: F401
    import trl.trainer.grpo_trainer
    import trl.trainer.sft_trainer  # noqa: F401

    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def checkpoint(
    tmp_path_factory: pytest.TempPathFactory, tiny_families: ModuleType, libraries: None
) -> Path:
    """A Qwen2-VL of a few thousand random weights, with a chat template."""
    folder: Path = tiny_families.save("qwen2_vl", tmp_path_factory.mktemp("tiny") / "qwen2-vl-tiny")
    return folder


@pytest.fixture(scope="session")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve training rows."""
    return write_rows(tmp_path_factory.mktemp("rows"), 12)


@pytest.fixture
def make_rows(tmp_path: Path) -> Callable[..., Path]:
    def make(count: int, seed: int = 0, name: str = "rows.jsonl") -> Path:
        return write_rows(tmp_path / f"made-{seed}", count, seed, name)

    return make
