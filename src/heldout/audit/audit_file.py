"""The audit file's schema: every key an audit.yaml may have, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from heldout.benchmark import CheckSettings
from heldout.detect import TWIN_SCORES, Need, detectors
from heldout.errors import InputError, percent
from heldout.model import AskSettings, ModelServer, ScoreSettings
from heldout.overlap import OverlapSettings
from heldout.report import ReportSettings
from heldout.stats import PERMUTATIONS
from heldout.synth import SynthSettings
from heldout.verdict import Overall, is_leak


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("expected a text that is not empty")
    return text


Text = Annotated[StrictStr, AfterValidator(_filled)]
Count = Annotated[StrictInt, Field(ge=1)]
Kind = Literal["scores", "answers"]


class Keys(BaseModel):
    """A mapping of the audit file: a key that is not listed is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BenchmarkEntry(Keys):
    name: Text
    source: Text  # a path, path#split=test,lang=en, a preset or a hub name
    images: Text | None = None
    preset: Text | None = None
    reader: Text | None = None
    map: dict[Text, Text] = Field(default_factory=dict)  # field: column
    against: list[Text] | None = None  # names of corpora; default: all
    twins: dict[Text, Text] = Field(default_factory=dict)  # twin or twin-NAME: benchmark
    leaks: Text | None = None  # labels made elsewhere: a file, or FILE#unlisted=clean


class CorpusEntry(Keys):
    name: Text
    source: Text


class ModelEntry(Keys):
    """One of local, endpoint, or recorded files (scores, answers, or both)."""

    name: Text
    local: Text | None = None  # a folder, a hub name, or onnx:FOLDER
    endpoint: ModelServer | None = None
    scores: Text | dict[Text, Text] | None = None  # a file, or one for each benchmark
    answers: Text | dict[Text, Text] | None = None
    record: list[Kind] | None = None  # default: local both, an endpoint answers
    variants: Text | None = None  # as `heldout ask --variants`
    max_new_tokens: Count = 64
    dtype: Text = "auto"
    device: Text = "auto"
    revision: Text | None = None
    trust_remote_code: StrictBool = False
    allow_missing: StrictBool = False  # of recorded scores
    map: dict[Text, Text] = Field(default_factory=dict)  # of recorded answers: field: column
    base: Text | None = None  # the language model it was made from, by its name here
    family: Text | None = None  # its lineage: models of one base are one family of references
    degree: float | None = None  # how often it is known to have seen the benchmarks

    def ask_settings(self, file: AuditFile, location: str = "") -> AskSettings:
        """How this model is asked; ``location``: its checkpoint, relative to the audit file's folder."""
        return AskSettings.read(
            {
                **self._shared(file, location),
                "variants": self.variants or (),
                "max_new_tokens": self.max_new_tokens,
                "choice_logprobs": file.reads_choices,
            }
        )

    def score_settings(self, file: AuditFile, location: str = "", **more: Any) -> ScoreSettings:
        """How this model is scored; ``more``: what detectors of the file need."""
        return ScoreSettings.read({**self._shared(file, location), **more})

    def _shared(self, file: AuditFile, location: str) -> dict[str, Any]:
        names = ("name", "endpoint", "dtype", "device", "revision", "trust_remote_code")
        return {
            "model": location or None,
            "limit": file.budget.items,
            "seed": file.seed,
            **{name: getattr(self, name) for name in names},
        }


class CleanReferences(Keys):
    """References that are clean: the model of the perplexity ratio, items that no model can have seen,
    pictures."""

    model: Text | None = None
    items: dict[Text, Text] = Field(default_factory=dict, max_length=1)  # metadata field: value
    pictures: Text | None = None  # a null for nearness


class ControlEntry(Keys):
    name: Text
    source: Text
    domain: Literal["in-domain", "out-of-domain"]


class Search(OverlapSettings):
    """How corpora are searched: the settings of `heldout overlap`, and where the search runs."""

    engine: Text = "local"
    workers: Count | None = None

    @model_validator(mode="after")
    def _in_one_piece(self) -> Self:
        if self.part is not None:
            raise ValueError(
                "part: an audit concludes, and a part cannot: search in parts with heldout overlap, and name "
                "the merged run in the audit"
            )
        return self


class Budget(Keys):
    """What an audit may spend. ``items`` and ``order_tokens`` make it smaller; an audit above the other limits
    is refused."""

    items: Count | None = None  # only the first items of every benchmark
    order_tokens: Count | None = None  # of order-joint, for each model and benchmark
    requests: Count | None = None
    forward_tokens: Count | None = None
    pictures: Count | None = None


class AuditFile(Keys):
    benchmarks: Annotated[list[BenchmarkEntry], Field(min_length=1)]
    corpora: list[CorpusEntry] = Field(default_factory=list)
    models: list[ModelEntry] = Field(default_factory=list)
    baselines: list[Text] = Field(default_factory=list)
    clean_references: CleanReferences = Field(default_factory=CleanReferences)
    controls: list[ControlEntry] = Field(default_factory=list)
    detectors: list[Text] = Field(default_factory=list)
    strata: list[Text] = Field(default_factory=lambda: ["answer_type", "answer_length"])
    category: Text | None = None
    rates: Text | None = None  # detector-rates.json of your own `heldout lab power`
    permutations: Annotated[StrictInt, Field(ge=99, le=1_000_000)] = PERMUTATIONS
    search: Search = Field(default_factory=Search)
    check: CheckSettings = Field(default_factory=CheckSettings)
    report: ReportSettings = Field(default_factory=ReportSettings)
    budget: Budget = Field(default_factory=Budget)
    synth: list[SynthSettings] = Field(default_factory=list)  # fresh items, one dataset each
    seed: StrictInt = 0
    output: Text = "audit"
    fail_on: list[Text] = Field(default_factory=list)

    @property
    def reads_choices(self) -> bool:
        """Whether a detector that it names reads log-probabilities of options."""
        return self._reads(Need.CHOICES)

    @property
    def reads_entropies(self) -> bool:
        """Whether a detector that it names reads entropies."""
        return self._reads(Need.ENTROPIES)

    @property
    def reads_twin_scores(self) -> bool:
        """Whether a detector that it names reads scores of both answers on both pictures."""
        known = detectors()
        return any(TWIN_SCORES in known[name].also for name in self.detectors if name in known)

    def _reads(self, need: Need) -> bool:
        known = detectors()
        return any(need in known[name].requires for name in self.detectors if name in known)


# Gates: when an audit ends with exit code 1.


SURVIVES = "survives"
_RATE = re.compile(r"leak-rate\s*>\s*(\d*\.?\d+)\s*(%?)")


@dataclass(frozen=True)
class Gate:
    """``most``: the share of items that may have leaked into a corpus; None: no claim may survive."""

    text: str
    most: float | None = None


def parse_gate(text: str) -> Gate:
    if text.strip() == SURVIVES:
        return Gate(SURVIVES)
    match = _RATE.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"fail-on '{text}': expected survives, or leak-rate>SHARE such as leak-rate>0.01"
        )
    most = float(match[1]) / (100 if match[2] else 1)
    if most >= 1:
        raise InputError(f"fail-on '{text}': a share of items is less than 1; write 5% or 0.05")
    return Gate(text.strip(), most)


def shut(overall: Overall, gates: Sequence[Gate]) -> list[str]:
    """Why gates fire; empty if all pass. Nearness is not a leak and fires no gate."""
    fired = []
    for gate in gates:
        for cell in overall.cells:
            where = f"{cell.cell.benchmark} × {cell.on}"
            if gate.most is None:
                stood = [c.id for c in cell.claims if c.status == SURVIVES and is_leak(c)]
                if stood:
                    fired.append(f"fail-on {gate.text}: {where}: {', '.join(stood)}")
            elif cell.leak is not None and cell.leak.value > gate.most:
                fired.append(
                    f"fail-on {gate.text}: {where}: {cell.leak.leaked:,} of {cell.leak.items:,} items "
                    f"leaked ({percent(cell.leak.value, 2)})"
                )
    return fired
