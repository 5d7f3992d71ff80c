"""Rows of a dataset on the Hugging Face hub, with every image's original bytes left on disk."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.benchmark.readers import FileRow
from heldout.benchmark.readers.parquet import arrow_rows
from heldout.errors import InputError, require
from heldout.image import FileOnDisk, ImageRef, arrow_table
from heldout.remote import is_remote
from heldout.store import Dropped

_PREFIX = "hf://"
_SECONDS = 3.0  # in which a hub that can be reached at all takes a connection
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_DATA_ENDINGS = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".arrow", ".txt", ".zip", ".tar")
_SPELLINGS = {
    "val": ("validation", "val", "dev", "valid"),
    "test": ("test", "testing"),
    "train": ("train", "training"),
}


def hub_name(location: str) -> str | None:
    """'owner/name' where ``location`` means a dataset on the hub and not a path, else None."""
    if is_remote(location):
        return None
    if location.startswith(_PREFIX):
        return location.removeprefix(_PREFIX)
    if Path(location).exists() or not _NAME.fullmatch(location):
        return None
    # 'data/tset.json' is a mistyped path, not a dataset on the hub.
    if location.lower().endswith(_DATA_ENDINGS) or Path(location).parent.is_dir():
        return None
    return location


def hub_rows(name: str, config: str | None, split: str | None) -> Iterator[FileRow | Dropped]:
    """Rows of one split, read from the memory-mapped files ``datasets`` keeps in its cache."""
    require("datasets", "hub", f"reading '{name}' from the hub")
    dataset = _load(name, config, split)
    images = {column: feature for column, feature in dataset.features.items() if _is_image(feature)}
    files = [Path(entry["filename"]) for entry in dataset.cache_files]
    whole = files and sum(arrow_table(str(path)).num_rows for path in files) == len(dataset)
    if whole and dataset._indices is None:
        number = 0
        for path in files:
            for row in arrow_rows(path, number):
                number += 1
                yield (
                    FileRow(row.number, _opened(row.values, images, name))
                    if isinstance(row, FileRow)
                    else row
                )
        return
    # Rows that exist only in memory: the bytes travel with them.
    import datasets

    for column, feature in images.items():
        dataset = dataset.cast_column(column, _undecoded(feature, datasets))
    for number, values in enumerate(dataset, 1):
        yield FileRow(number, _opened(dict(values), images, name))


def _load(name: str, config: str | None, split: str | None) -> Any:
    import datasets

    spellings = (
        dict.fromkeys([split, *_SPELLINGS.get(split or "", ())]) if split else {"test": None}
    )
    problem: Exception | None = None
    reachable = Path(name).exists() or _reachable()
    for spelling in spellings:
        try:
            with contextlib.nullcontext() if reachable else _Offline():
                return datasets.load_dataset(name, config, split=spelling)
        except ValueError as error:
            problem = error
            if "split" not in str(error).lower():
                break
        except Exception as error:  # the hub, the network and files raise many kinds of errors
            problem = error
            break
    reason = f"{type(problem).__name__}: {' '.join(str(problem).split()).rstrip('.'):.400}"
    if not reachable:
        reason = "the hub cannot be reached from here, and it was not downloaded before"
    configuration = f" (configuration {config})" if config else ""
    raise InputError(
        f"'{name}'{configuration} is not a file or folder here and could not be read from the hub, split "
        f"'{split or 'test'}': {reason}. Check the name and "
        f"'#split=…,config=…'; without a network, download the dataset elsewhere and give its "
        f"folder instead (a named benchmark: its path and the setting preset)"
    ) from problem


def _reachable() -> bool:
    """Whether the hub can be reached: huggingface_hub tries for most of a minute before it gives up."""
    from huggingface_hub import constants

    if urllib.request.getproxies():  # they reach it for us
        return True
    address = urllib.parse.urlsplit(constants.ENDPOINT)
    place = address.hostname, address.port or (80 if address.scheme == "http" else 443)
    answered = threading.Event()

    def connect() -> None:
        with contextlib.suppress(OSError):
            socket.create_connection(place, timeout=_SECONDS).close()
            answered.set()

    # In a thread, because looking up a name has no time limit.
    knock = threading.Thread(target=connect, daemon=True)
    knock.start()
    knock.join(_SECONDS)
    return answered.is_set()


class _Offline:
    """Read what was downloaded before, without a request."""

    def __enter__(self) -> None:
        import datasets
        from huggingface_hub import constants

        self._kept = [(module, module.HF_HUB_OFFLINE) for module in (constants, datasets.config)]
        for module, _ in self._kept:
            module.HF_HUB_OFFLINE = True

    def __exit__(self, *_: object) -> None:
        for module, value in self._kept:
            module.HF_HUB_OFFLINE = value


def _is_image(feature: Any) -> bool:
    import datasets

    inner = getattr(feature, "feature", feature)
    inner = inner[0] if isinstance(inner, list) and inner else inner
    return isinstance(inner, datasets.Image)


def _undecoded(feature: Any, datasets: Any) -> Any:
    original = datasets.Image(decode=False)
    return original if isinstance(feature, datasets.Image) else datasets.Sequence(original)


def _opened(values: dict[str, Any], images: dict[str, Any], name: str) -> dict[str, Any]:
    """Images that ``datasets`` unpacked into files: found there, and only there."""
    for column in images:
        values[column] = _file(values.get(column), name)
    return values


def _file(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_file(part, name) for part in value]
    if isinstance(value, dict) and value.get("bytes") is None:
        value = value.get("path")
    if not isinstance(value, str):
        return value
    import datasets

    allowed = [Path(datasets.config.HF_CACHE_HOME), Path(datasets.config.HF_DATASETS_CACHE)]
    allowed += [Path(name)] if Path(name).is_dir() else []
    path = Path(value)
    inside = any(path.resolve().is_relative_to(root.resolve()) for root in allowed)
    return ImageRef(path.name, FileOnDisk(str(path))) if path.is_absolute() and inside else value
