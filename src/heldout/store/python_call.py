"""Runs of calls from Python: a folder for those that name none, and the call as the run's command."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heldout.store.run import Run

FOLDER = Path("heldout-runs")


def default_folder(verb: str, name: str = "") -> Path:
    """A new folder ``heldout-runs/VERB-NAME-N`` in the working directory; standard error says which."""
    words = [verb, *filter(None, [re.sub(r"[^\w.-]+", "-", name).strip(".-")[:80]])]
    for number in itertools.count(1):
        folder = FOLDER / "-".join([*words, str(number)])
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        sys.stderr.write(f"heldout: {verb} writes to {folder}\n")
        return folder
    raise AssertionError("unreachable")


def open_run(
    run: Run | str | Path | None,
    verb: str,
    name: str,
    *,
    command: Sequence[str],
    seed: int = 0,
) -> Run:
    """The run that a verb writes to.

    Args:
        run: A run, its folder, or None for a new folder.
        verb: What is run.
        name: The benchmark's name, for a new folder.
        command: What a new run records as its command.
        seed: Seed of a new run.
    """
    if isinstance(run, Run):
        return run
    folder = Path(run) if run is not None else default_folder(verb, name)
    return Run.create(folder, command=list(command), seed=seed)


def python_command(verb: str, *inputs: Any, **settings: Any) -> list[str]:
    """A call of ``heldout.VERB`` as a command for a shell."""
    words = [repr(value) for value in inputs]
    words += [f"{name}={value!r}" for name, value in settings.items()]
    return ["python", "-c", f"import heldout; heldout.{verb}({', '.join(words)})"]
