"""ScoreSettings, AskSettings: how a model is scored and asked, once, for command line, audit file and Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from heldout.errors import InputError, require

if TYPE_CHECKING:
    from heldout.model.local import RunningModel
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from heldout.model.asking.variants import Variant, is_twin, parse_variants
from heldout.model.endpoint.settings import ModelServer
from heldout.model.order import CONTEXT
from heldout.settings import Settings

# Open a model that runs here: a checkpoint by transformers, or ``onnx:FOLDER`` by onnxruntime.


ONNX = "onnx:"


def open_model(
    name: str,
    *,
    dtype: str = "auto",
    device: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    batch_tokens: int | None = None,
) -> RunningModel:
    """``name``: a folder or hub name of a checkpoint, or ``onnx:FOLDER``."""
    how: dict[str, Any] = {"dtype": dtype, "device": device}
    if batch_tokens is not None:
        how["batch_tokens"] = batch_tokens
    folder = onnx_folder(name)
    if folder is not None:
        if revision is not None:
            raise InputError(f"revision {revision}: {name} is a folder here, which has only one")
        from heldout.model.onnx import OnnxModel

        return OnnxModel.load(folder, **how)
    _refuse_unmarked(name)
    for package in ("torch", "transformers"):
        require(package, "hf", f"running the local model {name}")
    from heldout.model.local import LocalModel

    return LocalModel.load(name, revision=revision, trust_remote_code=trust_remote_code, **how)


def onnx_folder(name: str) -> Path | None:
    """The folder of ``onnx:FOLDER``; None for any other name."""
    return Path(name.removeprefix(ONNX)) if name.startswith(ONNX) else None


def _refuse_unmarked(name: str) -> None:
    from heldout.model.onnx.graphs import CARD

    if (Path(name).expanduser() / CARD).is_file():
        raise InputError(f"model {name}: a folder of ONNX graphs; give {ONNX}{name} to run it")


REPLY_TOKENS, THOUGHT_TOKENS, SENTENCE_TOKENS = 64, 1024, 256


class OneModel(Settings):
    """Where a verb finds its model: a checkpoint that runs here, a server, or a file of its results."""

    model: str | None = None
    """A folder, hub name or onnx:FOLDER to run here; with an endpoint: the model that it serves."""
    endpoint: ModelServer | None = None
    """OpenAI-compatible server that runs the model."""
    name: str | None = None
    """What the run calls this model."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Only the first items."""
    dtype: str = "auto"
    """auto, float32, bfloat16 …; of an endpoint: what it runs in."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1 …"""
    batch_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens in one forward pass."""
    revision: str | None = None
    """Revision of a hub model."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Columns of a recorded file, by field: id, prediction, correct, answer, model, …"""
    seed: int = 0
    """Seed of every random draw."""

    @property
    def served(self) -> str | None:
        """What the endpoint calls the model."""
        return self.endpoint.model or self.model if self.endpoint is not None else None

    @property
    def served_dtype(self) -> str:
        return "unknown" if self.dtype == "auto" else self.dtype

    @property
    def local(self) -> dict[str, Any]:
        """What ``open_model`` takes besides the name."""
        names = ("dtype", "device", "revision", "trust_remote_code", "batch_tokens")
        return {name: getattr(self, name) for name in names}

    @property
    def local_name(self) -> str:
        """A folder is called by its own name, a hub model by its whole one."""
        assert self.model is not None
        model = str(onnx_folder(self.model) or self.model)
        return self.name or (Path(model).resolve().name if Path(model).is_dir() else model)

    def open_local(self) -> Any:
        assert self.model is not None
        return open_model(self.model, **self.local)

    def require_source(self, recorded: Path | None) -> None:
        """Refuse settings that name no model, or two."""
        if recorded is not None and self.endpoint is not None:
            raise InputError(
                "recorded: reads a file, and the setting endpoint asks a server: leave out one of the two"
            )
        if recorded is None and self.endpoint is None and self.model is None:
            raise InputError(
                "which model? Give the setting model, the setting endpoint, or the setting recorded"
            )


class InVariants(OneModel):
    """A model that sees items in further forms."""

    variants: tuple[str, ...] = ()

    @field_validator("variants", mode="before")
    @classmethod
    def _between_commas(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @property
    def parsed_variants(self) -> list[Variant]:
        """The original and those that were given; empty where none were."""
        return parse_variants(",".join(self.variants)) if self.variants else []


class ScoreSettings(InVariants):
    """Settings of ``heldout score``."""

    recorded: Path | None = None
    """Scores made elsewhere: parquet, jsonl, csv."""
    options: bool = False
    """Score every option in the answer's place, too."""
    variants: tuple[str, ...] = ()
    """twin=BENCH, twin-NAME=BENCH: score the answers to original and twin on both pictures, too; twin alone: the
    twins that heldout twin made in this run."""
    entropies: bool = False
    """Read the entropies over picture, question and answer, too; needs a local checkpoint or an ONNX folder."""
    order_joint: bool = False
    """Score shards in released and shuffled order; needs a budget."""
    budget: Annotated[int, Field(ge=1)] | None = None
    """Tokens that order-joint may read."""
    context: Annotated[int, Field(ge=16)] = CONTEXT
    """Longest shard of order-joint in tokens."""
    interleaved: bool = False
    """Show pictures in the documents of the order tests, too."""
    order_neighbour: bool = False
    """Score items after their predecessor and after others."""
    parity: str | None = None
    """Compare a sample with this local copy of the model first."""
    allow_missing: bool = False
    """Of recorded scores: items without a score are dropped."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.order_joint != (self.budget is not None):
            raise ValueError(
                "order_joint: goes together with the setting budget, which decides what is read"
            )
        if self.interleaved and not (self.order_joint or self.order_neighbour):
            raise ValueError("interleaved: is of order_joint and order_neighbour; give one of them")
        if self.parity is not None and self.endpoint is None:
            raise ValueError(
                "parity: compares a server with a local copy; give the setting endpoint"
            )
        more = (
            self.options
            or self.variants
            or self.entropies
            or self.order_joint
            or self.order_neighbour
            or self.limit
        )
        if self.recorded is not None and more:
            raise ValueError(
                "recorded: a file is taken as it is, without options, twins, order tests or limit"
            )
        try:
            others = [v.name for v in self.parsed_variants[1:] if not is_twin(v.name)]
        except InputError as error:
            raise ValueError(str(error)) from None
        if others:
            raise ValueError(
                f"variants {', '.join(others)}: only twins are scored; heldout ask asks the others"
            )
        return self


class AskSettings(InVariants):
    """Settings of ``heldout ask``."""

    recorded: Path | None = None
    """Answers made elsewhere: VLMEvalKit's xlsx or tsv, lmms-eval's samples, inspect_ai logs, csv, jsonl."""
    variants: tuple[str, ...] = ()
    """original, rotation-K, rotation-all, shuffle-K, no-image, no-question, confused-choices, twin=BENCH,
    slot, slot-paraphrase[=COLUMN], ngram, ngram-paraphrase[=COLUMN]; twin alone: the twins that this run
    holds, or of a recorded file of answers to twins. Default: original and all rotations."""
    chain_of_thought: bool = False
    """Reason first, then <answer>…</answer>."""
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Relative error that a number may have."""
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    """Longest reply in tokens; default: 64, with reasoning 1024."""
    choice_logprobs: bool = False
    """Keep the log-probabilities of the options' letters, where the model gives them."""
    paraphraser: ModelServer | None = None
    """Server that rewords questions for slot-paraphrase and ngram-paraphrase."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.recorded is not None and (self.chain_of_thought or self.limit):
            raise ValueError("recorded: a file is taken as it is, without limit or reasoning")
        try:
            _ = self.recorded_variant if self.recorded is not None else self.parsed_variants
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def recorded_variant(self) -> str | None:
        """What the rows of a recorded file are called: programs without twins do not name it."""
        if self.variants in ((), ("original",)):
            return None
        name = self.variants[0]
        if len(self.variants) > 1 or not is_twin(name) or set(name) & set(",="):
            raise InputError(
                f"variants {','.join(self.variants)}: a recorded file is taken as it is. If it holds "
                f"answers to twins, give twin (or twin-NAME); otherwise leave the setting variants out"
            )
        return name

    @property
    def reply_tokens(self) -> int:
        return self.max_new_tokens or (THOUGHT_TOKENS if self.chain_of_thought else REPLY_TOKENS)
