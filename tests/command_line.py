"""The `heldout` command inside this process: what it prints and how it ends, without a start-up."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path
from unittest import mock

from heldout.cli import main


def run_inside(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = ["heldout", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch("sys.argv", words),
        mock.patch.dict("os.environ", {"COLUMNS": "120"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
