"""Build sdist and wheel, and try them in fresh environments. Called by `make dist`.

The wheel is built from the sdist, so a file missing there is noticed. It must hold every data file of the
package and the type marker, be importable without extras, and run the demo from an environment outside the
checkout. A wheel without compiled parts must carry no platform tag.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

from install import install

ROOT = Path(__file__).resolve().parents[1]
NOT_SHIPPED = {".c", ".so", ".pyc"}


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    shown = " ".join(str(part) for part in command)
    print(f"$ {shown}", flush=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment | variables,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{shown} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(target: Path, *what: str, source: Path = ROOT, **variables: str) -> Path:
    """The one file that this build adds to ``target``."""
    before = set(target.glob("*"))
    # Without an environment of its own: that would be made of whatever setuptools is the newest.
    words = ("-m", "build", "--no-isolation", *what)
    run(sys.executable, *words, "--outdir", target, source, cwd=ROOT, **variables)
    (made,) = set(target.glob("*")) - before
    return made


def check_contents(wheel: Path) -> None:
    """Everything git tracks in the package is in the wheel, but for what is compiled."""
    tracked = run("git", "ls-files", "src/heldout").splitlines()
    expected = {
        str(Path(name).relative_to("src"))
        for name in tracked
        if Path(name).suffix not in NOT_SHIPPED
    }
    missing = sorted(expected - set(zipfile.ZipFile(wheel).namelist()))
    if missing:
        sys.exit(
            f"{wheel.name} lacks {len(missing)} files of the package: {', '.join(missing[:10])}"
        )
    if "heldout/py.typed" not in expected:
        sys.exit("src/heldout/py.typed is not tracked: type checkers would not read our types")


def fresh(folder: Path, wheel: Path, *extras: str) -> Path:
    """A new environment's folder of programs, with this wheel and what it needs with these extras."""
    venv.create(folder, with_pip=True)
    programs = folder / "bin"
    install(wheel, extras, editable=False, python=str(programs / "python"))
    return programs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--no-demo", action="store_true", help="do not run the demo (3 minutes)")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for old in asked.out.glob("heldout-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        sdist = build(asked.out, "--sdist")
        run("tar", "-xf", sdist, "-C", work)
        unpacked = work / sdist.name.removesuffix(".tar.gz")
        wheel = build(asked.out, "--wheel", source=unpacked)
        check_contents(wheel)
        pure = build(work, "--wheel", source=unpacked, HELDOUT_PURE="1")
        check_contents(pure)
        if not pure.name.endswith("-py3-none-any.whl"):
            sys.exit(f"a wheel without compiled parts carries a platform tag: {pure.name}")
        core = fresh(work / "core", pure)
        print(run(core / "heldout", "--version", cwd=work), end="")
        run(core / "python", "-c", "import heldout; heldout.read_benchmark", cwd=work)
        full = fresh(work / "full", wheel, "demo")
        print(run(full / "heldout", "--version", cwd=work), end="")
        size = run("du", "-sm", work / "full").split()[0]
        print(f"{wheel.name} with [demo] installed: {size} MB")
        if not asked.no_demo:
            print(run(full / "heldout", "demo", "--out", work / "demo", "--quiet", cwd=work))
    print(f"built and tried: {sdist.name}, {wheel.name}")


if __name__ == "__main__":
    main()
