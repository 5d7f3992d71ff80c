"""Settings every detector reads: fixed before the run, the same for all cells."""

from __future__ import annotations

from dataclasses import dataclass

from heldout.stats import PERMUTATIONS

ALPHA = 0.05


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    permutations: int = PERMUTATIONS  # the most per test; clean cells stop earlier
    share: float = 0.2  # the K of Min-K %: which share of the hardest tokens counts
    top: int = 25  # the K of top-k overlap
    rank_by: str = "score"  # top-k overlap: each model's own score, or "delta" to the cohort
    tail: float = 100.0  # tail enrichment: Δ above which an item is in the tail
    flag: float = 0.05  # tail enrichment: share of the tail from which on a cell is flagged
    #: models that cannot have seen the benchmark
    baselines: tuple[str, ...] = ()
    #: the model of the perplexity ratio; the first baseline if none is named
    reference: str | None = None
    #: (metadata field, value) of items that no model can have seen: the comparison of set-level tests
    unseen: tuple[str, str] | None = None
    strata: tuple[str, ...] = ("answer_type", "answer_length")
    #: (model, the language model it was made from); an empty model means all: multimodal leakage
    bases: tuple[tuple[str, str], ...] = ()
    #: (model, how often it is known to have seen the benchmark): consistency of twin drops
    degrees: tuple[tuple[str, float], ...] = ()
    category: str | None = None  # metadata field by which twin drops are broken down

    @property
    def reference_model(self) -> str | None:
        return self.reference or next(iter(self.baselines), None)

    def base_of(self, model: str) -> str | None:
        """The base named for this model, else the one named for all."""
        named = dict(self.bases)
        return named.get(model, named.get(""))
