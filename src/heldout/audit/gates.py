"""Gates: when an audit ends with exit code 1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heldout.errors import InputError
from heldout.verdict import Overall, is_leak

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
    """Why gates fire; nothing where all are passed. Nearness is no leak and fires none."""
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
                    f"leaked ({cell.leak.value:.2%})"
                )
    return fired
