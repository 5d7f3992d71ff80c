"""What is protected: Example, Benchmark, one reader per format, presets, lint."""

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.example import Example
from heldout.benchmark.read import read_benchmark, read_examples
from heldout.benchmark.source import Source, parse_source

__all__ = ["Benchmark", "Example", "Source", "parse_source", "read_benchmark", "read_examples"]
