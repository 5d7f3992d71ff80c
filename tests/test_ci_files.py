"""The GitHub Action, the pre-commit hooks and the Dockerfile keep their hosts' contracts."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from command_line import command_on_path, run_inside
from heldout.scenes import write_benchmark, write_corpus
from lying_modules import installed_command, lying_modules

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
BASH = shutil.which("bash")


@pytest.fixture
def dataset(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    """A repository with a benchmark of four items and a training set that holds one of its pictures."""
    folder = tmp_path / "dataset"
    for name, seeds in (("bench", range(4)), ("train", (3, 10, 11))):
        (folder / name).mkdir(parents=True)
        rows = []
        for seed in seeds:
            (folder / name / f"{seed}.png").write_bytes(picture(seed))
            row = {"id": seed, "image": f"{seed}.png", "question": f"what is in number {seed}?"}
            rows.append(row | {"answer": f"a thing of kind {seed}"})
        (folder / name / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with command_on_path(tmp_path_factory.mktemp("command")) as folder:
        yield folder


@pytest.fixture
def on_path(command: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command called heldout, as an installer makes it."""
    monkeypatch.setenv("PATH", f"{command}{os.pathsep}{os.environ['PATH']}")


class Runner:
    """What GitHub's runner does with a composite action: inputs and outputs, files, exit codes."""

    def __init__(self, folder: Path, inputs: dict[str, str]) -> None:
        declared = ACTION["inputs"]
        assert set(inputs) <= set(declared)
        needed = {name for name, facts in declared.items() if facts.get("required")}
        assert needed <= set(inputs)
        self.folder = folder
        self.inputs = {name: facts.get("default", "") for name, facts in declared.items()} | inputs
        self.outputs: dict[str, dict[str, str]] = {}
        self.summary = folder.parent / "summary.md"
        self.summary.touch()
        self.printed = ""

    def value(self, text: str) -> str:
        return EXPRESSION.sub(lambda match: self._expression(match[1]), text)

    def _expression(self, name: str) -> str:
        if name == "github.action_path":
            return str(ROOT)
        kind, _, rest = name.partition(".")
        if kind == "inputs":
            return self.inputs[rest]
        step, field = re.fullmatch(r"steps\.([\w-]+)\.outputs\.([\w-]+)", name).groups()  # type: ignore[union-attr]
        return self.outputs.get(step, {}).get(field, "")

    def run(self) -> int:
        for step in ACTION["runs"]["steps"]:
            if "uses" in step or step["name"].startswith("Install"):
                continue
            if "if" in step and not self._holds(step["if"]):
                continue
            code = self._step(step)
            if code:
                return code
        return 0

    def _holds(self, condition: str) -> bool:
        name = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) != '' \}\}", condition)[1]  # type: ignore[index]
        return self.inputs[name] != ""

    def _step(self, step: dict[str, str]) -> int:
        assert step["shell"] == "bash"
        output = self.folder.parent / "output.txt"
        output.write_text("")
        script = self.folder.parent / "step.sh"
        script.write_text(self.value(step["run"]))
        environment = os.environ | {
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            **{name: self.value(text) for name, text in step.get("env", {}).items()},  # type: ignore[attr-defined]
        }
        command = [str(BASH), "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        self.printed += done.stdout + done.stderr
        lines = dict(line.split("=", 1) for line in output.read_text().splitlines())
        self.outputs[step.get("id", step["name"])] = lines
        return done.returncode


needs_bash = pytest.mark.skipif(BASH is None, reason="the action's steps are bash")


@needs_bash
def test_the_action_fails_where_training_rows_hold_the_benchmark(
    dataset: Path, on_path: None
) -> None:
    runner = Runner(dataset, {"benchmark": "bench", "against": "train=train\n"})
    assert runner.run() == 1
    assert runner.outputs["check"] == {"check": "0"}
    assert runner.outputs["gate"] == {"gate": "1", "report": "heldout-ci/run/report.html"}
    errors = [line for line in runner.printed.splitlines() if line.startswith("::error ")]
    (error,) = errors
    assert error.startswith(
        "::error title=heldout gate%3A bench::1 training row holds 1 of 4 items"
    )
    suite = ElementTree.parse(dataset / "heldout-ci/junit-gate.xml").getroot()
    assert suite.find("testsuite").get("failures") == "1"  # type: ignore[union-attr]
    assert (dataset / "heldout-ci/run/report.html").is_file()
    summary = runner.summary.read_text()
    assert "## heldout check" in summary and "::" not in summary.split("## Claims")[0]
    assert "1 of 4" in summary


@needs_bash
def test_the_action_reports_without_failing_and_passes_where_nothing_is_held(
    dataset: Path, on_path: None
) -> None:
    inputs = {"benchmark": "bench", "against": "train=train", "gate": "false"}
    lenient = Runner(dataset, inputs)
    assert lenient.run() == 0
    assert lenient.outputs["gate"]["gate"] == "1"
    rows = (dataset / "train/rows.jsonl").read_text().splitlines(keepends=True)
    (dataset / "train/rows.jsonl").write_text("".join(rows[1:]))
    (dataset / "train/3.png").unlink()
    clean = Runner(dataset, inputs | {"gate": "true", "out": "second"})
    assert clean.run() == 0, clean.printed
    assert clean.outputs["gate"]["gate"] == "0"


@needs_bash
def test_the_action_fails_where_the_check_does_and_says_so_beside_the_file(
    dataset: Path, on_path: None
) -> None:
    runner = Runner(dataset, {"benchmark": "bench/rows.jsonl", "split-of": "train/rows.jsonl"})
    assert runner.run() == 1
    assert "::error title=heldout check%3A shared-images" in runner.printed
    assert "file=bench/rows.jsonl" in runner.printed
    suite = ElementTree.parse(dataset / "heldout-ci/junit-check.xml").getroot()
    assert int(suite.find("testsuite").get("failures", "0")) >= 1  # type: ignore[union-attr]
    assert "gate" not in runner.outputs  # nothing to compare with


def test_every_expression_and_output_of_the_action_is_there() -> None:
    steps = {step.get("id"): step for step in ACTION["runs"]["steps"]}
    text = (ROOT / "action.yml").read_text()
    for expression in EXPRESSION.findall(text):
        name = expression.split(" ")[0]
        if name.startswith("inputs."):
            assert name.removeprefix("inputs.") in ACTION["inputs"]
        elif name.startswith("steps."):
            _, step, _, field = name.split(".")
            assert f'echo "{field}=' in steps[step]["run"]
    for step in ACTION["runs"]["steps"]:
        # what users give reaches the shell by the environment alone: in the script it would be code
        assert "${{" not in step.get("run", "")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert ACTION["inputs"]["extras"]["default"] in extras


def test_what_others_wrote_is_pinned_by_its_hash() -> None:
    text = "".join((ROOT / name).read_text() for name in ("action.yml", "docs/ci.md"))
    used = [name for name in re.findall(r"uses: (\S+)", text) if not name.startswith("OWNER/")]
    assert len(used) == 3
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name) for name in used)


def test_python_in_the_action_is_isolated() -> None:
    """`python -m pip` would run a pip.py of the repository that is checked."""
    starts = [
        word
        for step in ACTION["runs"]["steps"]
        for word in re.findall(r"\bpython\d* (\S+)", step.get("run", ""))
    ]
    assert starts == ["-I"]


@needs_bash
def test_the_action_runs_nothing_that_lies_in_the_repository(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = installed_command(tmp_path / "bin").parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    # Enough to read, and to read it with, that workers are started.
    monkeypatch.setenv("HELDOUT_CORES", "2")
    write_corpus(
        dataset / "crawl", write_benchmark(tmp_path / "other", images=4), items=30, shard_size=10
    )
    runner = Runner(dataset, {"benchmark": "bench", "against": "train=train\ncrawl\n"})
    with lying_modules(dataset):
        assert runner.run() == 1, runner.printed
        assert runner.outputs["gate"]["gate"] == "1"


def test_annotations_keep_to_one_line(tmp_path: Path) -> None:
    from heldout.cli.annotations import annotation

    line = annotation("error", "a: b, c", "50 %\n::error::forged", "x,y.csv")
    assert line == "::error title=a%3A b%2C c,file=x%2Cy.csv::50 %25%0A::error::forged"


def test_hooks_name_commands_that_exist() -> None:
    for hook in HOOKS.values():
        assert hook["language"] == "python" and hook["pass_filenames"] is False
        verb = hook["entry"].split()[1]
        assert run_inside(verb, "--help").returncode == 0
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    vision = project["optional-dependencies"]["vision"]
    assert HOOKS["heldout-gate"]["additional_dependencies"] == vision


@pytest.mark.skipif(
    importlib.util.find_spec("pre_commit") is None or shutil.which("git") is None,
    reason="pre-commit is not installed",
)
def test_pre_commit_runs_the_hooks(dataset: Path, on_path: None, tmp_path: Path) -> None:
    """The hooks as they are, but for their environment: making one needs a package index."""
    environment = os.environ | {"PRE_COMMIT_HOME": str(tmp_path / "cache")}

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, command)),
            cwd=dataset,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    valid = run(
        sys.executable, "-m", "pre_commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml"
    )
    assert valid.returncode == 0, valid.stdout
    check = HOOKS["heldout-check"] | {"language": "system", "args": ["--quiet", "bench"]}
    gate = HOOKS["heldout-gate"] | {"language": "system", "additional_dependencies": []}
    gate["args"] = ["--quiet", "bench", "--against", "train=train", "--out", ".heldout/gate"]
    config = {"repos": [{"repo": "local", "hooks": [check, gate]}]}
    (dataset / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (dataset / ".gitignore").write_text(".heldout/\n")
    run("git", "init", "-q")
    run("git", "add", "-A")
    failed = run(sys.executable, "-m", "pre_commit", "run")
    assert failed.returncode == 1
    assert re.search(r"heldout check\.+Passed", failed.stdout), failed.stdout
    assert re.search(r"heldout gate\.+Failed", failed.stdout)
    assert "Gate failed: 1 training row" in failed.stdout
    rows = (dataset / "train/rows.jsonl").read_text().splitlines(keepends=True)
    (dataset / "train/rows.jsonl").write_text("".join(rows[1:]))
    (dataset / "train/3.png").unlink()
    run("git", "add", "-A")
    passed = run(sys.executable, "-m", "pre_commit", "run")
    assert passed.returncode == 0, passed.stdout  # the run folder of the last commit goes on
    (dataset / "readme.txt").write_text("no data")
    run("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "data")
    run("git", "add", "-A")
    idle = run(sys.executable, "-m", "pre_commit", "run")
    assert idle.stdout.count("Skipped") == 2  # no data changed


def test_the_dockerfile_copies_what_is_there_and_ends_as_a_plain_user() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    orders = [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]
    known = {"FROM", "COPY", "RUN", "USER", "WORKDIR", "ENTRYPOINT", "CMD"}
    assert {order for order, _ in orders} <= known
    assert orders[0] == ("FROM", "python:3.12-slim")
    copied = set()
    for order, rest in orders:
        if order == "COPY":
            *sources, _ = rest.split()
            copied |= set(sources)
            assert all((ROOT / source).exists() for source in sources)
        if order == "RUN":
            for extra in re.search(r"install\.py ([\w,]+)", rest)[1].split(","):  # type: ignore[index]
                project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
                assert extra in project["optional-dependencies"]
    # what a build reads: its settings, what they name, and the package
    assert copied >= {"pyproject.toml", "setup.py", "README.md", "LICENSE", "src"}
    names = [order for order, _ in orders]
    assert names.index("USER") > names.index("RUN") and dict(orders)["USER"] != "root"
    assert json.loads(dict(orders)["ENTRYPOINT"]) == ["heldout"]
