"""An output folder that holds another revision of a benchmark, or another seed: said before any work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from heldout.audit.cases import Case
from heldout.audit.reader import Audit
from heldout.errors import InputError
from heldout.store import Run


def refuse_changed(audit: Audit, cases: Sequence[Case]) -> None:
    """Results of two revisions are never mixed: say what to write instead, and what is kept."""
    told = [reason for case in cases if (reason := _changed(case, audit.file.seed))]
    if not told:
        return
    fresh = _free(audit.output)
    written = Path(audit.file.output).with_name(fresh.name)
    stale = " ".join(str(case.folder) for case in cases if _changed(case, audit.file.seed))
    raise InputError(
        f"{audit.output} holds results that do not fit {audit.path} any more: {'; '.join(told)}. To keep "
        f"both, write `output: {written}` in {audit.path} and run the audit again; then heldout "
        f"compare {audit.output} {fresh} says what changed. To start over, remove {stale}: all else "
        f"in {audit.output} is kept"
    )


def _changed(case: Case, seed: int) -> str:
    if not (case.folder / "manifest.json").exists():
        return ""
    manifest = Run.open(case.folder).manifest()
    if manifest["seed"] != seed:
        return f"{case.name} was audited with seed {manifest['seed']}, not {seed}"
    known = manifest["inputs"].get("benchmark")
    if known is None or known["fingerprint"] == case.benchmark.fingerprint:
        return ""
    items = known.get("items"), len(case.benchmark)
    count = f"{items[0]:,} items → {items[1]:,}" if items[0] != items[1] else f"{items[1]:,} items"
    return (
        f"the benchmark {case.name} changed its content or order ({count}, revision "
        f"{known['fingerprint'][:12]} → {case.benchmark.fingerprint[:12]})"
    )


def _free(output: Path) -> Path:
    """A name beside ``output`` that is not taken."""
    number = 2
    while (found := output.with_name(f"{output.name}-{number}")).exists():
        number += 1
    return found
