"""EvaluateSettings: every setting of ``heldout evaluate``, once, for the command line and Python."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from heldout.model import ModelEndpoint
from heldout.settings import Settings


class SuiteEndpoint(ModelEndpoint):
    """A model that is asked the items of a suite: replies with reasoning take long."""

    timeout: Annotated[float, Field(gt=0)] = 600.0
    """Seconds that one whole request may take."""


class EvaluateSettings(Settings):
    """Settings of ``heldout evaluate``."""

    suite: str
    """Name of a built-in suite, or a YAML file."""
    models: tuple[str, ...] = ()
    """Checkpoints to run here: folders, hub names or onnx:FOLDER."""
    endpoints: tuple[SuiteEndpoint, ...] = ()
    """Models behind OpenAI-compatible servers."""
    recorded: tuple[str, ...] = ()
    """Files of answers made elsewhere: FILE, or BENCHMARK=FILE where each benchmark has its own."""
    name: str | None = None
    """What the tables call the model; only where there is one."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Where benchmarks of the suite are, by their names in the suite (``*``: all others): a path,
    path#split=test, a preset."""
    images: dict[str, str] = Field(default_factory=dict)
    """Folders with the images of benchmarks, by their names in the suite."""
    leaks: tuple[str, ...] = ()
    """What leaked: a run folder of ``heldout overlap`` or a table of labels; or BENCHMARK=SOURCE."""
    benchmarks: tuple[str, ...] = ()
    """Only these benchmarks of the suite."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Ask only the first items of every benchmark; for a first look, not for a result."""
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    """Longest reply in tokens; default: what the suite says."""
    scorers: tuple[str, ...] | None = None
    """Published scorers to show beside strict grading; default: those that the suite names."""
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Relative error that a number in an open answer may have."""
    price_in: Annotated[float, Field(ge=0)] = 0.0
    """Price of a million prompt tokens, for models that are not endpoints with prices of their own."""
    price_out: Annotated[float, Field(ge=0)] = 0.0
    """Price of a million reply tokens."""
    dtype: str = "auto"
    """Number format of local models."""
    device: str = "auto"
    """Device of local models."""
    revision: str | None = None
    """Revision of a hub model."""
    trust_remote_code: bool = False
    """Run Python code that comes with a checkpoint."""
    batch_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens of one forward pass of a local model."""
    mapping: dict[str, str] = Field(default_factory=dict)
    """Columns of recorded files, by field: id, prediction, model, benchmark, …"""
    seed: int = 0
    """Seed of permutation tests, and of endpoints that take one."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        named = [*self.models, *self.endpoints]
        if not named and not self.recorded:
            raise ValueError("models: name a model, an endpoint or a recorded file to evaluate")
        if self.limit is not None and self.recorded:
            raise ValueError("limit: recorded files are taken as they are; leave it out")
        if self.name is not None and len(named) + bool(self.recorded) > 1:
            raise ValueError("name: several models are evaluated; only one can be renamed")
        return self
