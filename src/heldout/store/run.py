"""Run: a folder that holds the inputs' identity, the tables, the findings and the claims."""

from __future__ import annotations

import contextlib
import functools
import itertools
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from heldout.errors import InputError, blame_the_machine
from heldout.store.files import (
    FILES,
    MANIFEST,
    MANIFEST_LOCK,
    MANIFEST_VERSION,
    Shape,
    checked,
    exclusive,
    read_document,
    read_manifest,
    remove,
    verify_run,
    write_json,
)
from heldout.store.invocation import invocation
from heldout.store.schema import read_batches, read_table, write_batches, write_table
from heldout.store.stage import Stage

if TYPE_CHECKING:
    import polars as pl

_PACKAGES = ("numpy", "scipy", "polars", "pyarrow", "pillow", "ray", "datasets")


#: user:password of an address, and the values of its query that are called a key, a token or a signature
_CREDENTIALS = re.compile(
    r"(?<=://)[^/@\s?#]*(?=@)|(?<=[?&])([^=&\s#]*(?:key|token|credential|secret|password|sig|auth)[^=&\s#]*=)[^&\s#]*",
    re.IGNORECASE,
)


def without_credentials(text: str) -> str:
    """``text`` without the credentials in its addresses: run folders are passed on."""
    return _CREDENTIALS.sub(lambda match: f"{match[1] or ''}***", text)


_refusal: list[str] = []  # why this process may not begin a run


@contextlib.contextmanager
def no_new_runs(reason: str) -> Iterator[None]:
    """In this block no run is created or continued: ``reason`` is raised instead."""
    _refusal.append(reason)
    try:
        yield
    finally:
        _refusal.pop()


class Run:
    """A run folder. ``Run.create`` makes or continues one, ``Run.open`` reads a finished one."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"<Run {self.path}>"

    @classmethod
    def create(cls, path: str | Path, *, command: list[str] | None = None, seed: int = 0) -> Run:
        if _refusal:
            raise InputError(_refusal[-1])
        run = cls(Path(path))
        if run.path.exists() and not run.path.is_dir():
            raise InputError(f"{path} is a file; a run needs a folder")
        command = command if command is not None else invocation()
        command = [without_credentials(argument) for argument in command]
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            with exclusive(run.path / MANIFEST_LOCK):
                run._create_or_continue(command, seed)
            _announce(run.path)
        except OSError as error:
            blame_the_machine(error)
            raise InputError(
                f"the run folder {path} cannot be written: {error.strerror}"
            ) from error
        return run

    def _create_or_continue(self, command: list[str], seed: int) -> None:
        if self.manifest_path.exists():
            manifest = self.manifest()
            if manifest["seed"] != seed:
                raise InputError(
                    f"{self.path} was made with seed {manifest['seed']}, not {seed}: "
                    f"use another run folder or the same seed"
                )
            here, known = str(Path.cwd()), manifest.setdefault("directories", [])
            if manifest["commands"][-1] != command or here not in known:
                if manifest["commands"][-1] != command:
                    manifest["commands"].append(command)
                known += [here] if here not in known else []
                write_json(self.manifest_path, manifest)
            return
        # Files with a leading dot are ours (a lock) or were ours (a first write that was killed).
        if any(not entry.name.startswith(".") for entry in self.path.iterdir()):
            raise InputError(
                f"{self.path} is not empty and is not a run folder; choose another folder"
            )
        manifest = {
            "manifest_version": MANIFEST_VERSION,
            "created": _now(),
            "commands": [command],
            "directories": [str(Path.cwd())],  # relative names in tables start here
            "seed": seed,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "packages": _versions(),
            "inputs": {},
            "stages": {},
            FILES: {},
        }
        write_json(self.manifest_path, manifest)

    @classmethod
    def open(cls, path: str | Path) -> Run:
        run = cls(Path(path))
        run.manifest()
        return run

    @property
    def manifest_path(self) -> Path:
        return self.path / MANIFEST

    def manifest(self) -> dict[str, Any]:
        if not self.path.exists():
            raise InputError(f"{self.path}: no such folder; expected a run")
        if not self.manifest_path.exists():
            inside = sorted(str(path.parent) for path in self.path.glob("*/manifest.json"))
            hint = f"; there are {', '.join(inside[:5])}" if inside else ""
            raise InputError(f"{self.path} is not a run folder: it has no manifest.json{hint}")
        return read_manifest(self.path)

    def verify(self) -> None:
        """Raise an error unless all tables and documents are there, and as the manifest records them."""
        verify_run(self.path)

    def update(self, section: str, entries: Mapping[str, Any], *, replace: bool = False) -> None:
        """Merge ``entries`` into one section of the manifest, or make them all that is in it."""
        with exclusive(self.path / MANIFEST_LOCK):
            manifest = self.manifest()
            kept = {} if replace else manifest.get(section, {})
            manifest[section] = {**kept, **entries}
            manifest["updated"] = _now()
            write_json(self.manifest_path, manifest)

    def claim_benchmark(self, identity: Mapping[str, Any]) -> None:
        """Record what this run is about: one revision of one benchmark, from the first call on."""
        known = self.manifest()["inputs"].get("benchmark")
        if known is not None and known["name"] != identity["name"]:
            raise InputError(
                f"{self.path} is about the benchmark '{known['name']}', not '{identity['name']}': "
                f"a run folder holds one benchmark, use another folder"
            )
        if known is not None and known["fingerprint"] != identity["fingerprint"]:
            raise InputError(
                f"{self.path} holds results for '{known['name']}' with fingerprint "
                f"{known['fingerprint'][:12]}, but it now reads {identity['fingerprint'][:12]}: its "
                f"content or order changed. Choose another folder, or remove the folder to start over"
            )
        self.update("inputs", {"benchmark": dict(identity)})

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Make this process the only one that writes to the run."""
        with exclusive(
            self.path / ".writer.lock",
            busy=f"{self.path} is being written by another process; wait for it or use another folder",
        ):
            yield

    def stage(self, name: str, params: Mapping[str, Any]) -> Stage:
        return Stage(self.path / "stages" / name, params)

    def table_path(self, name: str) -> Path:
        return self.path / "tables" / f"{name}.parquet"

    def write_table(self, name: str, table: pa.Table) -> None:
        write_table(self.table_path(name), table)

    def write_batches(self, name: str, tables: Iterable[pa.Table]) -> None:
        """A table in pieces; they may be read from the table that this one replaces."""
        write_batches(self.table_path(name), tables)

    def read_table(self, name: str) -> pa.Table:
        return read_table(self.table_path(name))

    def batches(self, name: str, *, rows: int = 1 << 15) -> Iterator[pa.Table]:
        """A table in pieces of some ``rows``, in its order: what exceeds memory is read like this."""
        return read_batches(self.table_path(name), rows)

    def frame(self, name: str) -> pl.DataFrame:
        """A table as a data frame."""
        import polars as pl

        return pl.DataFrame(self.read_table(name))

    def write_json(self, name: str, value: Any) -> None:
        write_json(self.path / name, value)

    def read_json(self, name: str) -> dict[str, Any]:
        return read_document(self.path / name)

    def entries(self, name: str, shape: type[Shape]) -> list[Shape]:
        """What ``NAME.json`` lists under its name."""
        entries = self.read_json(f"{name}.json")[name]
        return [checked(self.path / f"{name}.json", shape, entry) for entry in entries]

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there, and its record."""
        remove(self.path / name)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _versions() -> dict[str, str]:
    from heldout import __version__

    return {"heldout": __version__, **_packages()}  # also of a source tree that is not installed


@functools.cache
def _packages() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


# Runs of calls from Python: a folder for those that name none, and the call as the run's command.


FOLDER = Path("heldout-runs")
_unannounced: dict[Path, str] = {}  # new folders that hold nothing yet, with their verbs


def _default_folder(verb: str, name: str) -> Path:
    """A new folder ``heldout-runs/VERB-NAME-N`` in the working directory."""
    words = [verb, *filter(None, [re.sub(r"[^\w.-]+", "-", name).strip(".-")[:80]])]
    for number in itertools.count(1):
        folder = FOLDER / "-".join([*words, str(number)])
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        _unannounced[folder] = verb
        return folder
    raise AssertionError("unreachable")


def _announce(folder: Path) -> None:
    """Say on standard error, once, where a call without a folder of its own writes to."""
    verb = _unannounced.pop(folder, None)
    if verb is not None:
        sys.stderr.write(f"heldout: {verb} writes to {folder}\n")


def open_run(
    run: Run | str | Path | None,
    verb: str,
    name: str,
    *,
    command: Callable[[Path], Sequence[str]],
    seed: int = 0,
) -> Run:
    """The run that a verb writes to.

    Args:
        run: A run, its folder, or None for a new folder.
        verb: What is run.
        name: The benchmark's name, for a new folder.
        command: What the run in this folder records as its command.
        seed: Seed of a new run.
    """
    if isinstance(run, Run):
        return Run.create(run.path, command=list(command(run.path)), seed=run.manifest()["seed"])
    with new_folder(run, verb, name) as folder:
        return Run.create(folder, command=list(command(folder)), seed=seed)


@contextlib.contextmanager
def new_folder(out: str | Path | None, verb: str, name: str = "") -> Iterator[Path]:
    """``out``; or a new folder, which is removed if the block fails before it wrote anything there.

    Standard error names a new folder as soon as a run is made in it, or when the block ends.
    """
    if out is not None:
        yield Path(out)
        return
    folder = _default_folder(verb, name)
    try:
        yield folder
        _announce(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise
    finally:
        _unannounced.pop(folder, None)
