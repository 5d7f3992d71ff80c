"""What is promised when a command ends: only commands that resume are said to go on."""

from __future__ import annotations

import sys

import pytest

from heldout.cli import app as command_line
from heldout.errors import MachineError


@pytest.mark.parametrize(
    ("arguments", "resumes"),
    [
        (["overlap", "bench", "--out", "run"], True),
        (["ask", "bench"], True),
        (["check", "bench"], False),
        (["impact", "p.csv"], False),
        (["detect", "run"], False),
        (["--version"], False),
    ],
)
@pytest.mark.parametrize(
    "error",
    [MachineError("the disk is full"), MemoryError(), ImportError("x: failed to map segment")],
)
def test_only_commands_that_resume_are_said_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    resumes: bool,
    error: Exception,
) -> None:
    def ends() -> None:
        raise error

    monkeypatch.setattr(sys, "argv", ["heldout", *arguments])
    monkeypatch.setattr(command_line, "app", ends)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 4
    told = " ".join(capsys.readouterr().err.split())
    assert ("same command again" in told) is resumes
    assert "bug" not in told
