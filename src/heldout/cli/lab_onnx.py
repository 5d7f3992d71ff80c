"""heldout lab onnx: a checkpoint as a folder of ONNX graphs, which runs without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.cli.options import Json, Quiet, Revision, TrustRemoteCode
from heldout.cli.show import complain, console, print_json
from heldout.lab import export_onnx

EXAMPLE = "Example: heldout lab onnx models/llava-small --out models/llava-small-onnx"


def onnx_command(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="A LLaVA-style folder or hub name.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the graphs.")],
    revision: Revision = None,
    trust: TrustRemoteCode = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Export vision tower, projector and decoder as ONNX graphs, and compare them with the checkpoint.

    `heldout score` and `heldout ask` read the folder as --model onnx:FOLDER.
    """
    silent = quiet or as_json
    card = export_onnx(
        checkpoint,
        out,
        revision=revision,
        trust_remote_code=trust,
        tell=(lambda _: None) if silent else complain,
    )
    if as_json:
        print_json({"folder": str(out), **card.model_dump(mode="json")})
        return
    console().print(
        f"{out}: log-probabilities at most {card.largest_difference:.1e} from the checkpoint's; weights "
        f"stored in {card.stored}, calculated in float32",
        soft_wrap=True,
        markup=False,
    )
    console().print(
        f"next: heldout score BENCH --model onnx:{out} --out RUN", soft_wrap=True, markup=False
    )
