"""A folder in which modules lie that are called like everybody's, and say so when they run."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

# What Python imports before it looks at `-m heldout`: nobody but Python can do anything about those.
_BEFORE_US = subprocess.run(
    [sys.executable, "-c", "import runpy, sys; print(*sys.modules)"],
    capture_output=True,
    text=True,
    check=True,
).stdout.split()


@contextlib.contextmanager
def lying_modules(folder: Path) -> Iterator[None]:
    """``folder`` with a module for every one of the standard library and of every package that is installed.
    Whatever runs one of them in this block fails the test."""
    ran = folder.parent / f"{folder.name}-ran"
    names = {*sys.stdlib_module_names, *packages_distributions()} - {*_BEFORE_US, "heldout"}
    for name in filter(str.isidentifier, names):
        text = f"open({str(ran)!r}, 'a').write('{name} '); raise SystemExit('{name} ran')\n"
        (folder / f"{name}.py").write_text(text)
    yield
    assert not ran.exists(), f"these ran: {ran.read_text()}"


def installed_command(folder: Path) -> Path:
    """The command heldout, as an installer makes it: a script in a folder that is not the working directory."""
    command = folder / "heldout"
    command.parent.mkdir(parents=True)
    words = f"#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} \"$0\" \"$@\"\n' '''\n"
    command.write_text(f"{words}from heldout.cli import main\nmain()\n")
    command.chmod(0o755)
    return command
