"""A folder of captioned figures, and a server for the tests that ask models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from item_serving import ItemServer

SERVER = Path(__file__).with_name("item_server.py")
TISSUES = ("cortex", "villus", "tubule", "alveolus", "follicle", "sinusoid", "glomerulus", "septum")


@pytest.fixture(scope="session")
def running_server() -> Iterator[ItemServer]:
    process = subprocess.Popen([sys.executable, str(SERVER)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, process.stdout:
        try:
            yield ItemServer(int(process.stdout.readline()))
        finally:
            process.kill()


@pytest.fixture
def item_server(running_server: ItemServer) -> ItemServer:
    """As if just started: nothing was asked of it yet."""
    running_server.forget()
    return running_server


@pytest.fixture
def captioned(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    """Sixteen micrographs with captions, some with a paragraph that mentions them."""
    folder = tmp_path / "figures"
    folder.mkdir()
    with (folder / "captions.jsonl").open("w") as file:
        for number in range(16):
            (folder / f"{number}.png").write_bytes(picture(number, (48, 40)))
            tissue = TISSUES[number % len(TISSUES)]
            row = {
                "id": f"fig{number}",
                "article": f"PMC{100 + number // 3}",
                "image": f"{number}.png",
                "caption": f"Light microscopy of the {tissue} in specimen {number}, with dense "
                f"staining of membrane and lumen. Scale bar {10 + number} um.",
                "references": [f"The {tissue} was intact in specimen {number}."]
                if number % 2
                else [],
                "licence": "CC BY 4.0",
                # Half of a surrogate pair, as a cut emoji leaves it.
                "attribution": f"Ada\ud83d. Tissues {number // 3}",
                "primary": "microscopy",
                "secondary": "light microscopy",
            }
            file.write(json.dumps(row) + "\n")
    return folder
