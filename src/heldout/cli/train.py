"""heldout train: SFT or GRPO on rows that passed the gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from heldout.cli.from_settings import Shown, command, or_none, panel
from heldout.cli.options import EngineName, Json, Quiet, Workers
from heldout.cli.show import console, print_dropped, print_json
from heldout.train import TrainSettings

GATE = "The gate"
EXAMPLE = (
    "Example: heldout train rows.jsonl --model HuggingFaceTB/SmolVLM-256M-Instruct --recipe sft "
    "--against slake#split=test --remove-leaks --out runs/sft"
)
SHOWN = (
    Shown("data", "TRAIN", argument=True),
    Shown("model", "CHECKPOINT"),
    Shown("recipe"),
    Shown("preset", "NAME"),
    Shown("prompt", "TEXT"),
    *panel(
        GATE,
        "against BENCH",
        "remove_leaks",
        "open_gate REASON",
        "strict",
        Shown("image_encoder", "E", convert=or_none),
        "text_encoder E",
    ),
    *panel(
        "Optimization",
        "learning_rate",
        "schedule",
        "warmup",
        "batch",
        "micro_batch",
        "epochs",
        "max_steps",
        "weight_decay",
        "max_grad_norm",
        "precision",
        "lora RANK",
        "freeze_vision",
        "gradient_checkpointing",
    ),
    *panel(
        "GRPO",
        "mini_batch",
        "group",
        "kl",
        "entropy",
        "temperature",
        "reply_tokens",
        "reply_batch",
    ),
    *panel("The run", "limit", "save_every", "device", "revision", "trust_remote_code", "seed"),
)


@command(TrainSettings, SHOWN)
def train_command(
    settings: TrainSettings,
    out: Annotated[
        Path, typer.Option("--out", metavar="RUN", help="Run folder, new or of this training.")
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="verl", help="Write files for verl in place of training here."
        ),
    ] = "",
    gate_from: Annotated[
        Path | None,
        typer.Option(
            "--gate-from",
            metavar="RUN",
            help="Take over what another training compared, where rows and benchmarks are the same.",
            rich_help_panel=GATE,
        ),
    ] = None,
    engine: EngineName = "local",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Train a model with SFT or GRPO. Exits 1 where training rows hold items of a benchmark."""
    from heldout.audit import train_model

    result = train_model(
        settings,
        out=out,
        engine=engine,
        workers=workers,
        quiet=quiet or as_json,
        to=to,
        gate_from=gate_from,
    )
    if as_json:
        print_json(result.as_json())
    else:
        _show(result, out, to)


def _show(result: Any, out: Path, to: str) -> None:
    screen = console()
    screen.print(Text(result.gate.verdict), soft_wrap=True)
    screen.print(Text(f"{result.rows:,} rows to train on"), soft_wrap=True)
    print_dropped(result.run)
    if to:
        screen.print(
            Text(f"files for {to}: {out}/{to}; start with {out}/{to}/run.sh"), soft_wrap=True
        )
        return
    last = result.steps.tail(1).to_dicts()[0] if result.steps.height else {}
    shown = {
        "loss": "loss {:.4f}",
        "reward": "reward {:.3f}",
        "format_rate": "well-formed {:.0%}",
        "kl": "KL {:.4f}",
        "reply_tokens": "length {:.0f}",
    }
    texts = [form.format(last[name]) for name, form in shown.items() if last.get(name) is not None]
    screen.print(
        Text(f"{result.steps.height:,} updates; the last: {', '.join(texts)}"), soft_wrap=True
    )
    for warning in result.warnings:
        screen.print(Text(f"note: {warning}"), soft_wrap=True)
    screen.print(Text(f"model: {result.model}\nreport: {out}/report.html"), soft_wrap=True)
