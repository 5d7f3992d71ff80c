"""Rows that show the same picture: the part of the model that looks at it looks once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def one_look(model: Any, name: str | None, rows: int) -> Iterator[None]:
    """Within, the vision tower called ``name`` is given the first row's pictures for all ``rows``."""
    tower = None
    if name is not None and rows > 1:
        tower = getattr(model, name, None) or getattr(getattr(model, "model", None), name, None)
    if tower is None:
        yield
        return

    def first(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if args:
            return (args[0][: len(args[0]) // rows], *args[1:]), kwargs
        pixels = kwargs["pixel_values"]
        return args, {**kwargs, "pixel_values": pixels[: len(pixels) // rows]}

    def every(_module: Any, _args: Any, output: Any) -> Any:
        for key, value in output.items():
            if hasattr(value, "repeat"):
                output[key] = value.repeat(rows, *([1] * (value.dim() - 1)))
        return output

    hooks = [
        tower.register_forward_pre_hook(first, with_kwargs=True),
        tower.register_forward_hook(every),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
