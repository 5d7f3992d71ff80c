"""What is the machine's fault, and what is the data's."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from heldout.engine import LocalEngine
from heldout.errors import (
    InputError,
    MachineError,
    blame_the_machine,
    machine_trouble,
    nearest_name,
    percent,
)
from heldout.image import FileOnDisk, image_error


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), "disk is full (at /x/y)"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.EFBIG, "File too large"), "ulimit -f"),
        (OSError("43 requested and 0 written"), "disk is full"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (ImportError("libx.so: failed to map segment from shared object"), "memory ran out"),
        (ImportError("libx.so: cannot allocate memory"), "memory ran out"),
        (Exception("No space left on device (os error 28)"), "disk is full"),
    ],
)
def test_an_exhausted_machine_is_blamed(error: Exception, word: str) -> None:
    assert word in (machine_trouble(error) or "")
    with pytest.raises(MachineError):
        blame_the_machine(error)
    with pytest.raises(MachineError):
        image_error(error)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file"),
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.EIO, "Input/output error"),  # one bad sector is one lost file
        ValueError("row 3 says 'No space left on device'"),  # a quotation
        InputError("Too many open files"),
        ImportError("No module named 'x'"),
        MemoryError(),
    ],
)
def test_data_and_single_items_are_not_blamed_on_the_machine(error: Exception) -> None:
    assert machine_trouble(error) is None


def test_numpy_says_a_full_disk_as_expected() -> None:
    with open("/dev/full", "wb") as file, pytest.raises(OSError) as caught:  # noqa: PTH123
        np.zeros(1 << 20).tofile(file)
    assert machine_trouble(caught.value) is not None


def exhaust(number: int) -> int:
    if number == 2:
        raise OSError(errno.ENOSPC, "No space left on device")
    return number


def too_many_files(number: int) -> bytes:
    import resource

    with open("/dev/null") as file:  # noqa: PTH123
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (file.fileno(), limit[1]))
        try:
            return FileOnDisk(__file__).read()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("function", [exhaust, too_many_files])
def test_a_worker_whose_machine_gave_out_ends_the_map(function: object, workers: int) -> None:
    with LocalEngine(workers) as engine, pytest.raises(MachineError):
        list(engine.map(function, range(6)))  # type: ignore[arg-type, type-var]


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0.816, 1, "81.6 %"),
        (0.0, 1, "0.0 %"),
        (1.0, 0, "100 %"),
        (1 - 1e-15, 1, "100.0 %"),  # an error of rounding
        (0.9999, 1, "99.990 %"),  # not quite all
        (0.0004, 1, "0.040 %"),  # not quite none
        (1e-7, 1, "below 0.001 %"),
        (1 - 1e-7, 0, "above 99.99 %"),
        (-0.031, 1, "-3.1 %"),
    ],
)
def test_shares_are_written_one_way_and_never_rounded_to_all_or_nothing(
    value: float, digits: int, shown: str
) -> None:
    assert percent(value, digits) == shown


def test_a_name_that_does_not_exist_is_answered_with_the_nearest() -> None:
    assert nearest_name("twindrop", ["circular", "twin-drop"]).startswith(
        "did you mean 'twin-drop'?"
    )
    assert nearest_name("blood", ["circular", "twin-drop"]) == "there are circular, twin-drop"
