"""The command line: one small module per verb."""

from heldout.cli.app import main

__all__ = ["main"]
