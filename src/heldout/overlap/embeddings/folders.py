"""Where embeddings lie in a run folder, and which encoder a run asks for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from heldout.errors import InputError
from heldout.store import Run


def corpus_folder(name: str) -> str:
    """A corpus name as a folder name; different names stay different."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def encoder_folder(identity: str) -> str:
    """An encoder's identity as a folder name: the words a person knows it by, and a digest of all."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", identity.partition("|")[0]).strip("-")[:40]
    return f"{words}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def of_corpus(run: Run, corpus: str, identity: str) -> Path:
    return run.path / "embeddings" / corpus_folder(corpus) / encoder_folder(identity)


def of_benchmark(run: Run, identity: str) -> Path:
    return run.path / "queries" / f"{encoder_folder(identity)}.parquet"


def encoder_asked_for(run: Run, identity: str | None, found: Iterable[str], what: str) -> str:
    """``identity``, or the one encoder whose ``what`` this run holds."""
    known = sorted(set(found))
    if identity is None:
        if len(known) == 1:
            return known[0]
        if known:
            raise InputError(
                f"{run.path} holds {what} of {len(known)} encoders ({'; '.join(known)}): name one"
            )
    elif identity in known:
        return identity
    wanted = f" of '{identity}'" if identity else ""
    raise InputError(
        f"{run.path} holds no {what}{wanted}: run heldout overlap with the setting encoder into it first"
    )
