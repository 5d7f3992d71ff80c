"""Settings every detector reads: fixed before the run, the same for all cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from heldout.settings import Settings
from heldout.stats import PERMUTATIONS

ALPHA = 0.05


def _pairs(alone: bool) -> BeforeValidator:
    """A mapping, or texts MODEL=VALUE, or VALUE for all models where it may stand ``alone``."""

    def read(values: Any) -> Any:
        if isinstance(values, Mapping):
            return tuple(values.items())
        if isinstance(values, str):
            values = (values,)
        return tuple(pair(value) if isinstance(value, str) else value for value in values)

    def pair(text: str) -> tuple[str, str]:
        model, equals, value = text.rpartition("=")  # a model's name may hold one, too
        if not value or (not equals and not alone) or (equals and not model):
            raise ValueError(
                "expected MODEL=VALUE"
                + (" or VALUE for all models" if alone else "")
                + f"; got {text!r}"
            )
        return model, value

    return BeforeValidator(read)


def _field_value(value: Any) -> Any:
    if isinstance(value, Mapping) and len(value) == 1:
        return next(iter(value.items()))
    if isinstance(value, str):
        field, equals, text = value.partition("=")
        if not (field and equals and text):
            raise ValueError("expected FIELD=VALUE, for example origin=fresh")
        return field, text
    return value


def _no_strata(value: Any) -> Any:
    if isinstance(value, str):
        value = (value,)
    return () if value is None or list(value) == ["none"] else value


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class DetectSettings(Settings):
    """Settings of ``heldout detect``, ``heldout.detect`` and of every detector."""

    baselines: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    """Models that cannot have seen the benchmark."""
    families: Annotated[tuple[tuple[str, str], ...], _pairs(alone=False)] = ()
    """The lineage of each model: models of one base are one family, and models without a lineage another."""
    reference: str | None = None
    """The model of the perplexity ratio; default: the first baseline."""
    unseen: Annotated[tuple[str, str] | None, BeforeValidator(_field_value)] = None
    """Metadata field and value of items that no model can have seen: the comparison of item scores."""
    strata: Annotated[tuple[str, ...], BeforeValidator(_no_strata)] = (
        "answer_type",
        "answer_length",
    )
    """Metadata fields within which items are compared; ``none`` for no strata."""
    bases: Annotated[tuple[tuple[str, str], ...], _pairs(alone=True)] = ()
    """The language model that a model was made from, by model; one for all models if no model is named."""
    degrees: Annotated[tuple[tuple[str, float], ...], _pairs(alone=False)] = ()
    """How often a model is known to have seen the benchmark, by model: consistency of twin drops."""
    category: str | None = None
    """Metadata field by which drops are broken down."""
    permutations: Annotated[int, Field(ge=99, le=1_000_000)] = PERMUTATIONS
    """Most permutations per test; tests of clean cells stop earlier."""
    share: Annotated[float, Field(ge=0.01, le=1.0)] = 0.2
    """K of Min-K: the share of an answer's tokens, hardest first."""
    top: Annotated[int, Field(ge=1)] = 25
    """K of top-k overlap."""
    rank_by: Literal["score", "delta"] = "score"
    """Top-k overlap: rank items by each model's own score, or by its delta to the cohort."""
    tail: float = 100.0
    """Tail enrichment: Δ above which an item is in the tail."""
    flag: float = 0.05
    """Tail enrichment: share of items in the tail above which a model is flagged."""
    seed: int = 0
    """Seed of every random draw."""

    @property
    def reference_model(self) -> str | None:
        return self.reference or next(iter(self.baselines), None)

    def family_of(self, model: str) -> str:
        """The family named for this model, else the base it was made from; "" if neither is given."""
        return dict(self.families).get(model) or self.base_of(model) or ""

    def base_of(self, model: str) -> str | None:
        """The base named for this model, else the one named for all."""
        named = dict(self.bases)
        return named.get(model, named.get(""))
