"""Options that several verbs share, and how their text is read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from heldout.benchmark import FIELDS
from heldout.errors import InputError
from heldout.model import ALIASES, SYNONYMS, Backoff, Connection, Pace, onnx_folder
from heldout.store import Run

Map = Annotated[
    list[str],
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="Name a column yourself; fields are id, image, question, options, answer, cluster. "
        "Several columns: options=A+B+C+D.",
    ),
]
MapRecorded = Annotated[
    list[str],
    typer.Option(
        "--map-recorded",
        metavar="FIELD=COLUMN",
        help="Of --recorded: name a column yourself (id, prediction, correct, answer, model, …).",
    ),
]
Images = Annotated[
    Path | None, typer.Option("--images", metavar="DIR", help="Folder that holds the images.")
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="Read BENCH as this named benchmark."),
]
Reader = Annotated[
    str | None, typer.Option("--reader", metavar="NAME", help="Use this reader; do not look.")
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document on standard output, nothing else there."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress on standard error.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random draw.")]
Bench = Annotated[
    str, typer.Argument(metavar="BENCH", help="A path, path#split=test,lang=en, or a preset.")
]
EngineName = Annotated[
    str, typer.Option("--engine", metavar="ENGINE", help="local, ray, or ray://HOST:PORT.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes to use; default: one per core.")
]

# Of the verbs that need a model.
ModelRun = Annotated[
    Path, typer.Option("--out", metavar="RUN", help="Run folder, new or of this benchmark.")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="A folder, hub name or onnx:FOLDER; what an endpoint serves.",
    ),
]
EndpointUrl = Annotated[
    str | None, typer.Option("--endpoint", metavar="URL", help="http://host:8000/v1")
]
CalledAs = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help="What the run calls this model.")
]
Dtype = Annotated[
    str,
    typer.Option("--dtype", help="auto, float32, bfloat16 …; of an endpoint: what it runs in."),
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1 …")]
BatchTokens = Annotated[
    int | None, typer.Option("--batch-tokens", min=1, help="Tokens in one forward.")
]
Revision = Annotated[str | None, typer.Option("--revision", help="Of a hub model.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run Python that comes with the model.")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first items.")]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option("--api-key-env", metavar="VAR", help="Variable that holds the key."),
]
Rate = Annotated[
    str | None, typer.Option("--rate", metavar="N/s", help="Most requests: 5/s, 100/m.")
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="S",
        min=0.1,
        help="Seconds for one attempt at a request, from connecting to the last byte of the answer.",
    ),
]
Attempts = Annotated[
    int | None,
    typer.Option(
        "--attempts",
        metavar="N",
        min=1,
        max=100,
        help="At a request that fails or is told to wait, before the server counts as gone; 6.",
    ),
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, max=256, help="Requests at a time.")
]


def local_settings(
    dtype: str, device: str, revision: str | None, trust: bool, batch_tokens: int | None
) -> dict[str, Any]:
    """What ``open_model`` takes besides the name."""
    return {
        "dtype": dtype,
        "device": device,
        "revision": revision,
        "trust_remote_code": trust,
        "batch_tokens": batch_tokens,
    }


def connect(
    url: str,
    api_key_env: str | None,
    *,
    timeout: float = 120.0,
    rate: str | None = None,
    attempts: int | None = None,
) -> Connection:
    return Connection(
        url,
        api_key=key_from(api_key_env),
        timeout=timeout,
        pace=Pace(per_second(rate)),
        backoff=Backoff() if attempts is None else Backoff(attempts),
    )


def parse_map_beside(entries: list[str], recorded: Path | None) -> dict[str, str]:
    """--map where there is also --map-recorded: a field that only recorded files have says so."""
    mapping = parse_map(entries)
    for field, column in mapping.items():
        if field not in FIELDS and field in (*ALIASES, *SYNONYMS):
            where = "the --recorded file" if recorded is not None else "a --recorded file"
            raise InputError(
                f"--map {field}={column}: --map names columns of the benchmark; columns of {where} are "
                f"named by --map-recorded {field}={column}"
            )
    return mapping


def check_out(out: Path, seed: int) -> None:
    """An --out that is there is looked at before a model is loaded; a new one is made only afterwards,
    so that a model that cannot be loaded leaves no run behind."""
    if out.is_file() or (
        out.is_dir() and any(not path.name.startswith(".") for path in out.iterdir())
    ):
        Run.create(out, seed=seed)


def parse_map(entries: list[str]) -> dict[str, str]:
    mapping = {}
    for entry in entries:
        field, equals, column = entry.partition("=")
        if not equals or not field or not column:
            raise InputError(f"--map {entry}: expected FIELD=COLUMN, for example --map answer=gold")
        mapping[field] = column
    return mapping


def short_name(model: str) -> str:
    """A folder is called by its own name, a hub model by its whole one."""
    model = str(onnx_folder(model) or model)
    return Path(model).resolve().name if Path(model).is_dir() else model


def key_from(variable: str | None, option: str = "--api-key-env") -> str | None:
    if variable is None:
        return None
    if not variable.isidentifier():  # most likely the key itself, which is not to be repeated
        raise InputError(f"{option} takes the name of an environment variable that holds the key")
    value = os.environ.get(variable, "").strip()
    if not value:
        raise InputError(f"{option} {variable}: this environment variable is not set")
    return value


def parse_prices(text: str | None, option: str = "--price") -> dict[str, float]:
    """Prices of a million tokens as settings of an endpoint."""
    if text is None:
        return {}
    try:
        read, written = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{option} {text}: expected two numbers, of a million tokens read and written: 2.5,10"
        ) from None
    return {"price_in": read, "price_out": written}


def per_second(text: str | None, option: str = "--rate") -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|h))?", text.strip())
    if match is None or float(match[1]) <= 0:
        raise InputError(
            f"{option} {text}: expected requests per second or minute, like 5/s or 100/m"
        )
    return float(match[1]) / {"s": 1, "m": 60, "h": 3600, None: 1}[match[2]]
