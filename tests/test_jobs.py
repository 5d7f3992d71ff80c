"""The job files do what they say: their scripts are run here, with the variables a scheduler would set."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from command_line import command_on_path
from heldout.audit import read_machines
from heldout.store import Run

ROOT = Path(__file__).resolve().parents[1]
JOBS = ROOT / "examples" / "jobs"
TABLES = ("items", "matches", "dropped", "thumbnails")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One in which ``heldout`` is a command of this source tree."""
    with command_on_path(tmp_path_factory.mktemp("jobs")) as folder:
        yield os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def run(script: Path | str, environment: dict[str, str], **more: object) -> None:
    command = ["bash", str(script)] if isinstance(script, Path) else ["bash", "-c", script]
    variables = environment | {name: str(value) for name, value in more.items()}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def whole(near_data: Path, environment: dict[str, str], tmp_path_factory: Any) -> Run:
    out = tmp_path_factory.mktemp("whole") / "run"
    run(
        f"heldout overlap {near_data / 'bench'} --against corpus={near_data / 'corpus'} --exact --out {out}",
        environment,
    )
    return Run.open(out)


def assert_same(path: Path, whole: Run) -> None:
    for name in TABLES:
        ours = Run.open(path).table_path(name).read_bytes()
        assert ours == whole.table_path(name).read_bytes(), name


def test_a_slurm_array_and_its_merge_are_one_search(
    near_data: Path, environment: dict[str, str], whole: Run, tmp_path: Path
) -> None:
    inputs = {
        "BENCH": near_data / "bench",
        "CORPUS": f"corpus={near_data / 'corpus'}",
        "RUNS": tmp_path,
        "PARTS": 2,
        "SLURM_CPUS_PER_TASK": 1,
        "HELDOUT_OPTIONS": "--exact",
    }
    for number in (1, 2):
        run(JOBS / "slurm-parts.sbatch", environment, **inputs, SLURM_ARRAY_TASK_ID=number)
    run(JOBS / "slurm-merge.sbatch", environment, **inputs)
    assert_same(tmp_path / "whole", whole)


def test_skypilot_nodes_keep_their_parts_and_go_on_from_them(
    near_data: Path, environment: dict[str, str], whole: Run, tmp_path: Path
) -> None:
    job = yaml.safe_load((JOBS / "skypilot-parts.yaml").read_text())
    assert job["num_nodes"] > 1 and set(job["envs"]) == {"BENCH", "CORPUS", "BUCKET", "SCRATCH"}
    script = job["run"].replace("--quiet", "--quiet --exact --workers 1")
    for turn, rank in enumerate((0, 1, 1)):
        if turn == 2:  # the second node is lost while it copies, with its disk, and started again
            shutil.rmtree(tmp_path / "part-2")
            (last,) = (tmp_path / "copies/2.last").read_text().split()
            cut = tmp_path / f"copies/2-{'b' if last == 'a' else 'a'}"
            shutil.rmtree(cut, ignore_errors=True)
            cut.mkdir()
        run(
            script,
            environment,
            BENCH=near_data / "bench",
            CORPUS=f"corpus={near_data / 'corpus'}",
            BUCKET=tmp_path,
            SCRATCH=tmp_path / f"scratch-{turn}",
            SKYPILOT_NODE_RANK=rank,
            SKYPILOT_NUM_NODES=2,
        )
    parts = f"{tmp_path}/part-1 {tmp_path}/part-2"
    run(f"heldout merge {parts} --out {tmp_path}/whole --workers 1", environment)
    assert_same(tmp_path / "whole", whole)


def test_the_kubernetes_job_gives_commands_that_exist() -> None:
    import typer

    from heldout.cli.app import app

    job = yaml.safe_load((JOBS / "kubernetes-ray.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    groups = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert all(
        group["minReplicas"] <= group["replicas"] <= group["maxReplicas"] for group in groups
    )
    shell, flag, script = shlex.split(job["spec"]["entrypoint"])
    assert (shell, flag) == ("sh", "-c")
    known = typer.main.get_command(app)
    commands = [shlex.split(part) for part in script.split("&&")]
    assert [words[:2] for words in commands] == [["heldout", "cluster"], ["heldout", "overlap"]]
    for words in commands:
        name, command, rest = known.resolve_command(typer.Context(known), words[1:])
        if hasattr(command, "commands"):
            name, command, rest = command.resolve_command(typer.Context(command), rest)
        options = {option for each in command.params for option in each.opts}
        assert {word for word in rest if re.match("--", word)} <= options, name


def test_the_machines_of_a_plan_can_be_read() -> None:
    assert read_machines(JOBS / "machines.yaml").machines == 16
