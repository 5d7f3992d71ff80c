"""Options that several verbs share, and how their text is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from heldout.benchmark import FIELDS
from heldout.cli.from_settings import Shown, panel
from heldout.errors import InputError
from heldout.model import ALIASES, SYNONYMS

Map = Annotated[
    list[str],
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="Name a column yourself; fields are id, image, question, options, answer, cluster. "
        "Several columns: options=A+B+C+D.",
    ),
]
Images = Annotated[
    str | None, typer.Option("--images", metavar="DIR", help="Folder that holds the images.")
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="Read BENCH as this named benchmark."),
]
Reader = Annotated[
    str | None,
    typer.Option(
        "--reader", metavar="NAME", help="Use this reader instead of recognising the format."
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document on standard output, nothing else there."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress on standard error.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Print the details behind the summary, too.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of every random draw.")]
Bench = Annotated[
    str, typer.Argument(metavar="BENCH", help="A path, path#split=test,lang=en, or a preset.")
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine", metavar="ENGINE", help="local, ray, ray:HOST:PORT or ray://HOST:PORT."
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes to use; default: one per core.")
]

Revision = Annotated[str | None, typer.Option("--revision", help="Of a hub model.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run Python that comes with the model.")
]
ModelRun = Annotated[
    Path, typer.Option("--out", metavar="RUN", help="Run folder, new or of this benchmark.")
]
MODEL, SERVER, READING = "Model", "Endpoint", "Benchmark"
#: of the verbs that need one model: settings of heldout.model.OneModel
MODEL_SHOWN = panel(
    MODEL,
    Shown("model", "NAME", also=("endpoint.model",)),
    Shown("endpoint.url", "URL"),
    "recorded FILE",
    Shown("name", "NAME", flag="--as"),
    Shown("columns", "FIELD=COLUMN", flag="--map-recorded"),
    "limit",
    "dtype",
    "device",
    "batch_tokens",
    "revision",
    "trust_remote_code",
)


def shared_server(*roles: str) -> tuple[Shown, ...]:
    """Options that set how all servers of a verb are asked."""
    return panel(
        SERVER,
        Shown("requests_per_second", "N/s", flag="--rate", roles=roles, convert=per_second),
        Shown("timeout", "S", roles=roles),
        Shown("attempts", "N", roles=roles),
        Shown("concurrency", "N", roles=roles),
        Shown("token_field", roles=roles),
    )


def parse_map_beside(entries: list[str], recorded: Path | None) -> dict[str, str]:
    """--map where there is also --map-recorded: a field of recorded files only is marked."""
    mapping = parse_map(entries)
    for field, column in mapping.items():
        if field not in FIELDS and field in (*ALIASES, *SYNONYMS):
            where = "the --recorded file" if recorded is not None else "a --recorded file"
            raise InputError(
                f"--map {field}={column}: --map names columns of the benchmark; columns of {where} are "
                f"named by --map-recorded {field}={column}"
            )
    return mapping


def parse_map(entries: list[str]) -> dict[str, str]:
    mapping = {}
    for entry in entries:
        field, equals, column = entry.partition("=")
        if not equals or not field or not column:
            raise InputError(f"--map {entry}: expected FIELD=COLUMN, for example --map answer=gold")
        mapping[field] = column
    return mapping


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
