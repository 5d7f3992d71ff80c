"""The files of a run folder: all are opened, replaced, locked, recorded and verified here.

A run folder may come from a stranger, or from a machine that died. So no link is followed in it, nothing outside of
it is opened, and what differs from the record in its manifest is not read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from heldout.errors import InputError

if TYPE_CHECKING:  # a machine that scores may do without it
    from pydantic import BaseModel

Shape = TypeVar("Shape", bound="BaseModel")

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
MANIFEST_LOCK = ".manifest.lock"
FILES = "files"  # of the manifest: the SHA-256 of each table and JSON document
#: files of which one lies in every folder of ours: below it no link is followed
_OURS = (MANIFEST, "verdict.json", "stages.json")
_NOT_PLAIN = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENOTDIR)


def opened(path: Path, mode: str = "rb", **how: Any) -> IO[Any]:
    """``path`` as ``open`` gives it, if it is a plain file or a new one. ``how``: as of ``open``."""
    refuse_links(path)
    try:
        return open(path, mode, opener=_plain, **how)
    except OSError as error:
        if error.errno in _NOT_PLAIN:
            raise _not_plain(path) from error
        raise


def _plain(path: str, flags: int) -> int:
    """Not following a link, and not waiting for the other end of a pipe."""
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _not_plain(Path(path))
    return handle


def _not_plain(path: Path) -> InputError:
    kind = "a link" if path.is_symlink() else "a folder" if path.is_dir() else "no plain file"
    return InputError(f"{path} is {kind}; expected a file: remove it, or get the folder again")


def cure(path: Path) -> str:
    """What to do about a file of a run that cannot be used."""
    if path.name == MANIFEST:
        return "get the folder again, or use another one"
    first = "remove it and " if os.path.lexists(path) else ""
    return f"{first}run the command again that wrote it, or get the folder again"


def refuse_links(path: Path) -> None:
    """Raise an error if a folder on the way to ``path`` is a link that lies in a folder of ours."""
    for folder in path.absolute().parents:
        if folder.is_symlink() and any(_is_ours(above) for above in folder.parents):
            raise InputError(
                f"{folder} is a link, and {path} would lie elsewhere; expected a folder: "
                f"remove the link, or get the folder again"
            )


def _is_ours(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in _OURS)


def inside(folder: Path, name: str) -> Path:
    """The path of what a table or document of the run calls ``name``; an error if it leads out of ``folder``."""
    path = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts or path.is_symlink():
        raise InputError(
            f"{folder} names {name!r:.80}, a file outside of the run folder: get the folder again"
        )
    refuse_links(path)
    return path


# One writer per run folder. The kernel releases the lock when the process dies, however it dies.


@contextlib.contextmanager
def exclusive(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold ``path`` as a lock. With ``busy``, raise it as an error instead of waiting."""
    refuse_links(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with opened(path, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            file.seek(0)
            holder = file.read(20).decode(errors="replace").strip() or "unknown"
            raise InputError(f"{busy} (process {holder})") from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()).encode())
        file.flush()
        yield


# Write a file so that a reader sees the old one or the new one, never half of either.


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends without an error.

    Of a table or a document of a run the manifest says its SHA-256 afterwards. It says none meanwhile: a process that
    is killed between the two leaves a file without a record, and never a wrong record.
    """
    refuse_links(path)
    if path.is_dir() and not path.is_symlink():
        raise _not_plain(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        place = _place(path)
        with opened(temporary) as file:
            digest = _digest(file) if place else None
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        if place and _recorded(*place) != digest:
            _record(*place, None)
        temporary.replace(path)
        _keep_names(path.parent)
        if place:
            _hashed[path.absolute()] = (_looks(path.stat()), digest or "")
            if _recorded(*place) != digest:
                _record(*place, digest)
    finally:
        temporary.unlink(missing_ok=True)


def _keep_names(folder: Path) -> None:
    """After this, not even a failing machine forgets what was renamed in ``folder``."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot do it
            raise
    finally:
        os.close(handle)


def write_atomic(path: Path, content: str | bytes) -> None:
    with replacing(path) as temporary:
        data = content.encode() if isinstance(content, str) else content
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False) + "\n")


def remove(path: Path) -> None:
    """Remove a file or a folder of a run and what the manifest says of it, if they are there."""
    refuse_links(path)
    place = _place(path)
    if place and _recorded(*place) is not None:
        _record(*place, None)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# What the manifest says of tables and documents.


_Looks = tuple[int, int, int, int]
#: what heldout report makes of the others
_REBUILT = {
    "calibration.json",
    "claims.json",
    "corrected.json",
    "findings.json",
    "tables/leaks.parquet",
}
#: folders of a run with what is recorded in them; so are the documents beside the manifest
_PLACES = {"tables": (".parquet",), "synth": (".parquet", ".json")}
_read: dict[Path, tuple[_Looks, dict[str, str] | None]] = {}  # manifests, and what they record
_hashed: dict[Path, tuple[_Looks, str]] = {}  # by this process; a large table is hashed once


def verify(path: Path) -> None:
    """Raise an error if ``path`` is a table or a document of a run, and not the one that the manifest records."""
    place = _place(path)
    if place is None:
        return
    while (expected := _recorded(*place)) is not None and _found(path) != expected:
        if _recorded(*place) == expected:  # else another process is replacing it
            raise InputError(
                f"{path} {_fault(path)}: {cure(path)} (heldout report --verify lists all files)"
            )


def verify_run(folder: Path) -> None:
    """``verify`` for all that the manifest of ``folder`` records; what ``heldout report`` makes may be missing."""
    for name in read_manifest(folder).get(FILES, {}):
        if name not in _REBUILT or os.path.lexists(folder / name):
            verify(folder / name)


def compared_with_record(folder: Path) -> dict[str, str]:
    """What is wrong with each table and document of a run, by name; "" where it is as recorded."""
    recorded = read_manifest(folder).get(FILES)
    if recorded is None:
        raise InputError(
            f"{folder} has no checksums recorded: an earlier version of heldout wrote it; "
            f"heldout report {folder} records those of what it writes anew"
        )
    there = [
        *folder.glob("*.json"),
        *(path for kind in _PLACES for path in folder.glob(f"{kind}/*")),
    ]
    places = [place for path in there if (place := _place(path)) is not None]
    names = {*recorded, *(name for _, name in places)}
    faults = {}
    for name in sorted(names):
        path = folder / name
        if name not in recorded:
            faults[name] = (
                "is not recorded: an earlier version wrote it, or a process that was killed"
            )
        else:
            faults[name] = "" if _found(path) == recorded[name] else _fault(path)
    return faults


def _fault(path: Path) -> str:
    if not os.path.lexists(path):
        return "is missing, though the manifest of the run lists it"
    return "is not the file that the run wrote: its SHA-256 is not the one in the manifest"


def _found(path: Path) -> str | None:
    """The SHA-256 of a file; None where there is none."""
    try:
        with opened(path) as file:
            looks = _looks(os.fstat(file.fileno()))
            known = _hashed.get(path.absolute())
            if known is None or known[0] != looks:
                known = _hashed[path.absolute()] = (looks, _digest(file))
            return known[1]
    except FileNotFoundError:
        return None


def sha256(path: Path) -> str:
    with opened(path) as file:
        return _digest(file)


def _digest(file: IO[bytes]) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def _looks(about: os.stat_result) -> _Looks:
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _place(path: Path) -> tuple[Path, str] | None:
    """The run of which ``path`` is a table or a document, and its name there."""
    if path.suffix in _PLACES.get(path.parent.name, ()):
        folder, name = path.parent.parent, f"{path.parent.name}/{path.name}"
    elif path.suffix == ".json" and path.name != MANIFEST:
        folder, name = path.parent, path.name
    else:
        return None
    return (folder, name) if is_run(folder) else None


def _recorded(folder: Path, name: str) -> str | None:
    return (_files(folder) or {}).get(name)


def _record(folder: Path, name: str, digest: str | None) -> None:
    with exclusive(folder / MANIFEST_LOCK):
        manifest = read_manifest(folder)
        files = manifest.setdefault(FILES, {})
        files.pop(name, None)
        if digest is not None:
            files[name] = digest
        write_json(folder / MANIFEST, manifest)


# JSON documents: read, and refused unless their shape is the one that heldout writes.


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object at ``path``, as it was recorded and of the shape that its name has."""
    verify(path)
    from heldout.store._documents import DOCUMENTS, RunDocument

    return _shaped(path, DOCUMENTS.get(path.name, RunDocument))


def read_manifest(folder: Path) -> dict[str, Any]:
    from heldout.store._documents import Manifest, RunDocument

    manifest = _shaped(folder / MANIFEST, RunDocument)
    version = manifest.get("manifest_version")
    if version != MANIFEST_VERSION:
        raise InputError(
            f"{folder} was written with manifest version {version}, "
            f"this heldout reads {MANIFEST_VERSION}: use another folder"
        )
    checked(folder / MANIFEST, Manifest, manifest)
    return manifest


def is_run(folder: Path) -> bool:
    """Whether ``folder`` has a manifest of ours; other programs write files of that name, too."""
    return _files(folder) is not None


def _files(folder: Path) -> dict[str, str] | None:
    """What the manifest records of files; None where there is no manifest of ours. Read again when it changed."""
    path = folder.absolute() / MANIFEST
    try:
        looks = _looks(path.lstat())
        if path not in _read or _read[path][0] != looks:
            with opened(path) as file:
                record = json.load(file)
            ours = isinstance(record, dict) and "manifest_version" in record
            _read[path] = looks, record.get(FILES, {}) if ours else None
        return _read[path][1]
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError, InputError):
        return None


def _shaped(path: Path, shape: type[BaseModel]) -> dict[str, Any]:
    try:
        with opened(path) as file:
            value: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: has this run finished?") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}; {cure(path)}") from error
    checked(path, shape, value)
    return value


def checked(path: Path, shape: type[Shape], value: Any) -> Shape:
    """What ``path`` says as ``shape``; an error names the first place at which it is none."""
    from pydantic import ValidationError

    from heldout.settings import plain_words

    try:
        return shape.model_validate(value)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        said = re.sub(r" or instance of \w+", "", plain_words(problem["msg"]))
        raise InputError(
            f"{path} is not as this heldout writes it: {place + ': ' if place else ''}{said}; {cure(path)}"
        ) from None
