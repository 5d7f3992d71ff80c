"""TwinSettings: how twins are made, once, for the command line and Python."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from heldout.model import ModelServer
from heldout.settings import Settings
from heldout.twin.edges import HIGH, LOW
from heldout.twin.filtering import POLICIES
from heldout.twin.ledger import DESCRIBE, PUBLISH, RENDER, RESAMPLE, STAGES
from heldout.twin.renderers import EDIT, KINDS
from heldout.twin.verify import LONGEST_CAPTION


class TwinSettings(Settings):
    """Settings of ``heldout twin``."""

    renderer: str | None = None
    """What draws the pictures: scene (redraws procedural scenes exactly, on any machine), flux (FLUX.1-dev
    with a Canny ControlNet, on a GPU), edit (an OpenAI-compatible image edit endpoint)."""
    render: dict[str, Any] = Field(default_factory=dict)
    """Settings of the renderer, such as steps=30."""
    render_model: str | None = None
    """Model of flux or edit."""
    render_endpoint: ModelServer | None = None
    """Server of the renderer edit."""
    describer: ModelServer | None = None
    """Writes the captions that flux draws from."""
    verifier: ModelServer | None = None
    """Judges the twins."""
    keep: str | None = None
    """Who decides which twins are kept: verifier, people, both, either. Default: the verifier; without one,
    people."""
    unfiltered: bool = False
    """Publish twins that were not judged, marked as such."""
    first: str = RESAMPLE
    """Stage to begin with; the run holds what earlier ones made."""
    last: str = PUBLISH
    """Stage to end with: resample, describe, edges, render, filter, publish."""
    edges: tuple[int, int] = (LOW, HIGH)
    """Thresholds of the edge map."""
    longest_caption: Annotated[int, Field(ge=1)] = LONGEST_CAPTION
    """Most words of a caption; items with longer ones are left out."""
    max_new_tokens: Annotated[int, Field(ge=1)] = 1024
    """Longest caption or verdict in tokens."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Only the first items."""
    seed: int = 0
    """Seed of every random draw."""

    @field_validator("edges", mode="before")
    @classmethod
    def _between_commas(cls, value: Any) -> Any:
        """``100,200``, as on the command line."""
        parts = value.split(",") if isinstance(value, str) else value
        try:
            low, high = map(int, parts)
        except (TypeError, ValueError):
            raise ValueError("expected two whole numbers, like 100,200") from None
        return low, high

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("first", "last"):
            if getattr(self, name) not in STAGES:
                raise ValueError(
                    f"{name}: there is no stage '{getattr(self, name)}'; there are {', '.join(STAGES)}"
                )
        if not self.stages:
            raise ValueError(f"last: the stage {self.last} comes before {self.first}")
        if self.keep is not None and self.keep not in POLICIES:
            raise ValueError(f"keep: expected one of {', '.join(POLICIES)}, not '{self.keep}'")
        if self.keep is not None and self.unfiltered:
            raise ValueError("unfiltered: keeps every twin; leave out the setting keep")
        if self.renderer is not None and self.renderer not in KINDS:
            raise ValueError(f"renderer: there are {', '.join(KINDS)}, no '{self.renderer}'")
        draws = self.renderer is not None and RENDER in self.stages
        if draws and self.needs_caption and DESCRIBE in self.stages and self.describer is None:
            raise ValueError(
                f"renderer: {self.renderer} draws from captions; say which model writes them with the "
                f"setting describer"
            )
        if draws and self.renderer == EDIT and not (self.render_endpoint and self.render_model):
            raise ValueError(
                "renderer: edit needs its server and what that serves, the settings render_endpoint and "
                "render_model"
            )
        return self

    @property
    def stages(self) -> tuple[str, ...]:
        return STAGES[STAGES.index(self.first) : STAGES.index(self.last) + 1]

    @property
    def needs_caption(self) -> bool:
        return self.renderer is not None and KINDS[self.renderer].needs_caption
