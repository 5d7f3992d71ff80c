"""heldout train: SFT or GRPO on rows that passed the gate."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.text import Text

from heldout.cli.options import EngineName, Json, Quiet, Workers
from heldout.cli.show import console, print_json
from heldout.errors import HeldoutError, InputError

GATE, LEARN, REWARD, RUN = "The gate", "Optimization", "GRPO", "The run"
EXAMPLE = (
    "Example: heldout train rows.jsonl --model HuggingFaceTB/SmolVLM-256M-Instruct --recipe sft "
    "--against slake#split=test --remove-leaks --out runs/sft"
)
# Settings that errors of the library name, as the command line writes them.
_FLAGS = re.compile(
    r"\b(open_gate|remove_leaks|learning_rate|gate_from|reply_tokens|gradient_checkpointing|mini_batch)\b"
)


def _option(name: str, panel: str, what: str, **more: Any) -> Any:
    return typer.Option(name, help=what, rich_help_panel=panel, **more)


def train_command(
    data: Annotated[
        str,
        typer.Argument(
            metavar="TRAIN",
            help="Training rows (JSON Lines, Parquet, any benchmark format), or a run of heldout synth.",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model", metavar="CHECKPOINT", help="Checkpoint to train: folder or hub name."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="RUN", help="Run folder, new or of this training.")
    ],
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", metavar="sft|grpo", help="How to train (default: sft)."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="Published recipe: medvlsynther-sft, medvlsynther-grpo-5k or medvlsynther-grpo-13k.",
        ),
    ] = None,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="verl", help="Write files for verl in place of training here."
        ),
    ] = "",
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            metavar="TEXT",
            help="medvlthinker, or a text with {question} and {options} (default: as heldout synth).",
        ),
    ] = None,
    against: Annotated[
        list[str],
        _option(
            "--against",
            GATE,
            "Benchmark, or suite of `heldout evaluate`, that the model will be evaluated on; may be given "
            "several times.",
            metavar="BENCH",
        ),
    ] = [],  # noqa: B006
    remove_leaks: Annotated[
        bool,
        _option(
            "--remove-leaks", GATE, "Remove rows that hold benchmark items; train on the rest."
        ),
    ] = False,
    open_gate: Annotated[
        str | None,
        _option(
            "--open-gate",
            GATE,
            "Train although the gate failed, or nothing was compared; the reason is "
            "recorded in the manifest and on the model's card.",
            metavar="REASON",
        ),
    ] = None,
    gate_from: Annotated[
        Path | None,
        _option(
            "--gate-from",
            GATE,
            "Take over what another training compared, where rows and benchmarks are the same.",
            metavar="RUN",
        ),
    ] = None,
    strict: Annotated[
        bool,
        _option(
            "--strict", GATE, "Undecided images and questions without their answer count as leaks."
        ),
    ] = False,
    image_encoder: Annotated[
        str | None,
        _option(
            "--image-encoder",
            GATE,
            "Encoder for near images (default: pixels); 'none': hashes only.",
        ),
    ] = None,
    text_encoder: Annotated[
        str | None, _option("--text-encoder", GATE, "Encoder for reworded texts.")
    ] = None,
    learning_rate: Annotated[
        float | None,
        _option("--learning-rate", LEARN, "Highest learning rate (default: the preset's)."),
    ] = None,
    schedule: Annotated[
        str | None,
        _option("--schedule", LEARN, "cosine, linear or constant (default: the preset's)."),
    ] = None,
    warmup: Annotated[
        float | None, _option("--warmup", LEARN, "Share of the updates over which the rate rises.")
    ] = None,
    batch: Annotated[
        int | None,
        _option("--batch", LEARN, "Rows of a batch; with grpo, prompts of a batch.", min=1),
    ] = None,
    mini_batch: Annotated[
        int | None, _option("--mini-batch", REWARD, "Prompts of one update.", min=1)
    ] = None,
    micro_batch: Annotated[
        int | None,
        _option(
            "--micro-batch",
            LEARN,
            "Sequences at a time (default: 8); halved when memory runs out.",
            min=1,
        ),
    ] = None,
    epochs: Annotated[float | None, _option("--epochs", LEARN, "Passes over the rows.")] = None,
    max_steps: Annotated[
        int | None, _option("--max-steps", LEARN, "Stop after this many updates.", min=1)
    ] = None,
    weight_decay: Annotated[
        float | None, _option("--weight-decay", LEARN, "Weight decay of AdamW.", min=0)
    ] = None,
    precision: Annotated[
        str | None, _option("--precision", LEARN, "bfloat16 (default) or float32.")
    ] = None,
    lora: Annotated[
        int | None,
        _option("--lora", LEARN, "Train LoRA adapters of this rank.", metavar="RANK", min=1),
    ] = None,
    freeze_vision: Annotated[
        bool, _option("--freeze-vision", LEARN, "Leave the vision tower as it is.")
    ] = False,
    gradient_checkpointing: Annotated[
        bool, _option("--gradient-checkpointing", LEARN, "Less memory, a fifth slower.")
    ] = False,
    group: Annotated[int | None, _option("--group", REWARD, "Replies per prompt.", min=2)] = None,
    kl: Annotated[float | None, _option("--kl", REWARD, "Weight of the KL loss.", min=0)] = None,
    temperature: Annotated[
        float | None, _option("--temperature", REWARD, "Sampling temperature of replies.")
    ] = None,
    reply_tokens: Annotated[
        int | None, _option("--reply-tokens", REWARD, "Longest reply in tokens.", min=8)
    ] = None,
    reply_batch: Annotated[
        int | None,
        _option("--reply-batch", REWARD, "Replies written at a time (default: 128).", min=1),
    ] = None,
    limit: Annotated[
        int | None, _option("--limit", RUN, "Train on the first rows only.", min=1)
    ] = None,
    save_every: Annotated[
        int | None,
        _option("--save-every", RUN, "Updates between checkpoints (default: 50).", min=1),
    ] = None,
    device: Annotated[str | None, _option("--device", RUN, "auto, cuda or cpu.")] = None,
    revision: Annotated[
        str | None, _option("--revision", RUN, "Revision of the checkpoint on the hub.")
    ] = None,
    trust_remote_code: Annotated[
        bool, _option("--trust-remote-code", RUN, "Run Python code that the checkpoint brings.")
    ] = False,
    seed: Annotated[int | None, _option("--seed", RUN, "Seed of every draw (default: 42).")] = None,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a model with SFT or GRPO. Exits 1 where training rows hold items of a benchmark."""
    from heldout.audit import train_model

    values: dict[str, Any] = {
        "data": data,
        "model": model,
        "recipe": recipe,
        "preset": preset,
        "against": tuple(against),
        "prompt": prompt,
        "remove_leaks": remove_leaks,
        "open_gate": open_gate,
        "strict": strict,
        "image_encoder": image_encoder,
        "text_encoder": text_encoder,
        "learning_rate": learning_rate,
        "schedule": schedule,
        "warmup": warmup,
        "batch": batch,
        "mini_batch": mini_batch,
        "micro_batch": micro_batch,
        "epochs": epochs,
        "max_steps": max_steps,
        "weight_decay": weight_decay,
        "precision": precision,
        "lora": lora,
        "freeze_vision": freeze_vision,
        "gradient_checkpointing": gradient_checkpointing,
        "group": group,
        "kl": kl,
        "temperature": temperature,
        "reply_tokens": reply_tokens,
        "reply_batch": reply_batch,
        "limit": limit,
        "save_every": save_every,
        "device": device,
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "seed": seed,
    }
    values = {key: value for key, value in values.items() if value is not None}
    if image_encoder == "none":
        values["image_encoder"] = None
    try:
        made = train_model(
            out=out,
            engine=engine,
            workers=workers,
            quiet=quiet or as_json,
            to=to,
            gate_from=gate_from,
            **values,
        )
    except ValidationError as error:
        raise InputError(_sentence(error)) from error
    except HeldoutError as error:
        error.args = (_with_flags(str(error)),)  # some kinds are made of more than a sentence
        raise
    if as_json:
        print_json(made.as_json())
    else:
        _show(made, out, to)


def _with_flags(told: str) -> str:
    """Settings as this command line writes them."""
    flagged = _FLAGS.sub(lambda found: f"--{found[0].replace('_', '-')}", told)
    return flagged.replace("the setting against", "--against")


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    option = (
        "--" + ".".join(str(part) for part in first["loc"]).replace("_", "-")
        if first["loc"]
        else ""
    )
    return _with_flags(f"{option}: {first['msg'].removeprefix('Value error, ')}".lstrip(": "))


def _show(made: Any, out: Path, to: str) -> None:
    screen = console()
    screen.print(Text(made.gate.verdict), soft_wrap=True)
    screen.print(Text(f"{made.rows:,} rows to train on"), soft_wrap=True)
    if to:
        screen.print(
            Text(f"files for {to}: {out}/{to}; start with {out}/{to}/run.sh"), soft_wrap=True
        )
        return
    last = made.steps.tail(1).to_dicts()[0] if made.steps.height else {}
    shown = {
        "loss": "loss {:.4f}",
        "reward": "reward {:.3f}",
        "format_rate": "well-formed {:.0%}",
        "kl": "KL {:.4f}",
        "reply_tokens": "length {:.0f}",
    }
    told = [form.format(last[name]) for name, form in shown.items() if last.get(name) is not None]
    screen.print(
        Text(f"{made.steps.height:,} updates; the last: {', '.join(told)}"), soft_wrap=True
    )
    for warning in made.warnings:
        screen.print(Text(f"note: {warning}"), soft_wrap=True)
    screen.print(Text(f"model: {made.model}\nreport: {out}/report.html"), soft_wrap=True)
