"""Studies kept in a run folder, one file a call: another model must not replace the one before."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.detect.impact.study import IMPACT_VERSION, Study
from heldout.errors import InputError, blame_the_machine
from heldout.store import Run, write_json

PREFIX = "impact"
_LONGEST = 80  # characters of a name that is made of file names


def keep_study(run: Run | None, study: Study, out: Path | None = None) -> Path | None:
    """Write ``study`` to ``out``, or into ``run`` under a name of its own; a call replaces itself.

    None where there is neither.
    """
    if out is None and run is None:
        return None
    if out is None:
        assert run is not None
        with run.writing():
            name = _free_name(run, study)
            run.write_json(name, study.as_json())
        return run.path / name
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_json(out, study.as_json())
    except OSError as error:
        blame_the_machine(error)
        raise InputError(f"out {out}: it cannot be written: {error.strerror}") from error
    return out


def kept_studies(run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file name, content) of every study a run folder holds, in the order of their names.

    Studies of another version use words for other things, and are passed over.
    """
    for path in sorted(run.path.glob(f"{PREFIX}-*.json")):
        content = run.read_json(path.name)
        if content.get("impact_version") == IMPACT_VERSION:
            yield path.name, content


def _free_name(run: Run, study: Study) -> str:
    stems = [Path(name).stem for name in study.call.get("predictions", ())]
    stems += study.call.get("encoders", ())
    if study.call["baseline"] is not None:
        stems += ["less", Path(study.call["baseline"]).stem]
    # A file's name may hold anything; this one is typed in a shell.
    base = re.sub(r"[^\w.-]+", "_", "-".join([PREFIX, *stems]))[:_LONGEST]
    names = itertools.chain([f"{base}.json"], (f"{base}-{n}.json" for n in itertools.count(2)))
    return next(name for name in names if _is_free(run, name, study))


def _is_free(run: Run, name: str, study: Study) -> bool:
    return not (run.path / name).exists() or run.read_json(name).get("call") == study.call
