"""What `.ci/install.py` installs: the files that constraints.txt names, and no others."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.fixture
def installer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("installer", ROOT / ".ci/install.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_extra_is_pinned_with_hashes(installer: ModuleType) -> None:
    chosen = installer.pinned(installer.names(EXTRAS), CONSTRAINTS)
    builders = {
        name for entry in chosen.values() for name in installer._named(installer._BUILDS, entry)
    }
    entries = (chosen | installer.pinned(builders, CONSTRAINTS)).values()
    assert len(entries) > 200
    for entry in entries:
        assert re.match(r"[\w.-]+==[\w.]+(?: ; [^\\\n]+)? \\\n", entry), entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    # and nothing beside them
    assert sorted(entries) == sorted(entry[0] for entry in installer._ENTRY.finditer(CONSTRAINTS))


def test_an_extra_brings_what_it_needs_and_no_more(installer: ModuleType) -> None:
    core, more = (
        set(installer.pinned(installer.names(extras), CONSTRAINTS)) for extras in ([], ["vision"])
    )
    assert more - core == {"opencv-python-headless"}
    assert {"setuptools", "numpy", "pydantic-core"} <= core and "torch" not in core
    models = installer.names(["hf"])
    with_torch, without = (
        set(installer.pinned(models, CONSTRAINTS, given)) for given in ([], ["torch"])
    )
    assert {"torch", "triton", "sympy"} <= with_torch - without and "transformers" in without


def test_what_is_installed_is_what_is_pinned() -> None:
    different = []
    for name, pin in re.findall(r"^([\w.-]+)==(\S+)", CONSTRAINTS, re.M):
        try:
            found = version(name).partition("+")[0]
        except PackageNotFoundError:
            continue
        if found != pin and name != "setuptools":  # an environment brings one of its own
            different.append((name, pin, found))
    assert not different


def _wheel(folder: Path, name: str) -> str:
    """A wheel of one module; its SHA-256."""
    path = folder / f"{name}-1-py3-none-any.whl"
    facts = f"{name}-1.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{facts}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        archive.writestr(
            f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{facts}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("given", ["its own", "another"])
def test_a_file_of_another_hash_is_not_installed(
    given: str, installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, target = tmp_path / "project", tmp_path / "installed"
    folder.mkdir()
    digest = _wheel(folder, "needed_part")
    _wheel(folder, "whole")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\n[project]\ndependencies = ["needed-part>=1"]\n'
        "[project.optional-dependencies]\n"
    )
    digest = digest if given == "its own" else "0" * 64
    (folder / "constraints.txt").write_text(f"needed-part==1 \\\n    --hash=sha256:{digest}\n")
    monkeypatch.setattr(installer, "ROOT", folder)
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(folder)), ("TARGET", str(target))):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)

    def install() -> None:
        wheel = folder / "whole-1-py3-none-any.whl"
        installer.install(wheel, [], editable=False, python=sys.executable)

    if given == "its own":
        install()
        assert (target / "whole.py").exists() and (target / "needed_part.py").exists()
    else:
        with pytest.raises(SystemExit):
            install()
        assert not target.exists()
