"""The calibration flags of `heldout overlap`, and how their text is read."""

from __future__ import annotations

from typing import Annotated

import typer

from heldout.cli.options import parse_named
from heldout.corpus import open_corpus
from heldout.errors import InputError
from heldout.overlap import ALPHA, CalibrationPlan, ControlSet, Domain

__all__ = ["ALPHA", "Alpha", "Controls", "NullSource", "SecondEncoder", "calibration_plan"]

_DOMAINS: dict[str, Domain] = {"in-domain": "in domain", "out-of-domain": "out of domain"}

Alpha = Annotated[
    float,
    typer.Option(
        "--alpha",
        help="With --encoder: share of different pictures that the nearness threshold may flag.",
    ),
]
NullSource = Annotated[
    str | None,
    typer.Option(
        "--null",
        metavar="[NAME=]SOURCE",
        help="Calibrate on these pictures, known not to be in the corpora, instead of each corpus "
        "against itself.",
    ),
]
Controls = Annotated[
    list[str],
    typer.Option(
        "--control",
        metavar="NAME=SOURCE:DOMAIN",
        help="Pictures that cannot be in the corpora and must not be flagged; DOMAIN is in-domain "
        "(the benchmark's kind) or out-of-domain. Repeatable.",
    ),
]
SecondEncoder = Annotated[
    list[str],
    typer.Option(
        "--second-encoder",
        metavar="E",
        help="Calibrate with this encoder, too, and show where the two disagree. Repeatable.",
    ),
]


def calibration_plan(
    encoder: str | None,
    alpha: float,
    null: str | None,
    controls: list[str],
    encoders: list[str],
) -> CalibrationPlan:
    if encoder is None and (null or controls or encoders):
        raise InputError(
            "--null, --control and --second-encoder calibrate a near search: add --encoder"
        )
    reference = None
    if null is not None:
        name, source = parse_named(null)
        reference = open_corpus(source, name=name)
    return CalibrationPlan(
        alpha=alpha,
        null=reference,
        controls=tuple(_control(text) for text in controls),
        encoders=tuple(one for one in encoders if one != encoder),
    )


def _control(text: str) -> ControlSet:
    named, colon, domain = text.rpartition(":")
    if not colon or domain not in _DOMAINS:
        raise InputError(
            f"--control {text}: expected NAME=SOURCE:in-domain or NAME=SOURCE:out-of-domain, for "
            f"example --control rad=data/vqa_rad/images:in-domain"
        )
    name, source = parse_named(named)
    return ControlSet(open_corpus(source, name=name), _DOMAINS[domain])
