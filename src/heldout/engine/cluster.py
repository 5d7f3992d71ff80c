"""check_cluster: what the nodes of a Ray cluster have, and whether they can work together."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

import heldout
from heldout.engine.ray_engine import RayEngine, import_ray
from heldout.errors import InputError, counted
from heldout.settings import Settings

if TYPE_CHECKING:
    import polars as pl

#: a module of every extra that workers need
EXTRAS = {
    "vision": "cv2",
    "hf": "transformers",
    "clip": "open_clip",
    "onnx": "onnxruntime",
    "text": "wordllama",
    "ocr": "rapidocr",
    "dicom": "pydicom",
    "remote": "fsspec",
}
_GIB = 2**30


class ClusterSettings(Settings):
    """Settings of ``heldout cluster check``."""

    timeout: Annotated[float, Field(gt=0)] = 60.0
    """Seconds within which a node has to answer."""


@dataclass(frozen=True)
class ClusterNode:
    """One node: what Ray says it offers, and what a worker on it found installed."""

    name: str
    address: str
    cores: float
    gpus: float
    accelerators: tuple[str, ...]
    memory_gib: float
    store_gib: float
    python: str = ""
    heldout: str = ""
    ray: str = ""
    extras: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class ClusterReport:
    """What ``heldout.check_cluster`` returns."""

    address: str
    nodes: tuple[ClusterNode, ...]
    problems: tuple[str, ...] = field(default=())

    @property
    def frame(self) -> pl.DataFrame:
        """One row for each node."""
        import polars as pl

        return pl.DataFrame([asdict(node) for node in self.nodes])

    @property
    def summary(self) -> str:
        """One line: nodes, cores, GPUs, memory."""
        cores = sum(node.cores for node in self.nodes)
        gpus = sum(node.gpus for node in self.nodes)
        memory = sum(node.memory_gib for node in self.nodes)
        kinds = ", ".join(sorted({kind for node in self.nodes for kind in node.accelerators}))
        words = [
            counted(len(self.nodes), "node", "nodes"),
            f"{cores:g} cores",
            f"{gpus:g} GPUs ({kinds})" if kinds else f"{gpus:g} GPUs",
            f"{memory:,.0f} GiB for tasks",
        ]
        return ", ".join(words)

    def as_json(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "nodes": [asdict(node) for node in self.nodes],
            "problems": list(self.problems),
        }

    def __repr__(self) -> str:
        return f"<Cluster at {self.address}: {self.summary}>"


def check_cluster(
    engine: str = "ray:auto", *, settings: ClusterSettings | None = None, **values: Any
) -> ClusterReport:
    """Ask every node of a Ray cluster what it has, and whether all have the same versions.

    Args:
        engine: The cluster, as for other verbs: ``ray:auto`` (that of this machine), ``ray:host:port``,
            ``ray://host:port``.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.engine.ClusterSettings``.

    Returns:
        A row for each node, and what would make a run fail or its results depend on the node.
    """
    chosen = ClusterSettings.choose(settings, values)
    if not engine.startswith("ray"):
        raise InputError(
            f"engine: got '{engine}'; expected a Ray cluster: ray:auto, ray:host:port or ray://host:port"
        )
    address = engine if engine.startswith("ray://") else engine.partition(":")[2]
    with RayEngine(address or None):
        ray = import_ray()
        nodes = tuple(_asked(ray, chosen.timeout))
    return ClusterReport(address or "local", nodes, tuple(_problems(nodes, ray.__version__)))


def _asked(ray: Any, timeout: float) -> Iterator[ClusterNode]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote = ray.remote(_probe(EXTRAS))
    waiting = []
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        # Without a core of its own: a busy node answers, too.
        place = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        options = {"num_cpus": 0, "max_retries": 1, "scheduling_strategy": place}
        waiting.append((node, remote.options(**options).remote()))
    for node, reference in waiting:
        try:
            installed, problem = ray.get(reference, timeout=timeout), ""
        except ray.exceptions.GetTimeoutError:
            installed, problem = {}, f"no answer within {timeout:g} s"
        except ray.exceptions.RayError as error:
            installed, problem = {}, str(error).strip().splitlines()[-1]
        has = node["Resources"]
        kinds = [name.partition(":")[2] for name in has if name.startswith("accelerator_type:")]
        yield ClusterNode(
            node["NodeManagerHostname"],
            node["NodeManagerAddress"],
            has.get("CPU", 0.0),
            has.get("GPU", 0.0),
            tuple(sorted(kinds)),
            has.get("memory", 0.0) / _GIB,
            has.get("object_store_memory", 0.0) / _GIB,
            problem=problem,
            **installed,
        )


def _probe(extras: dict[str, str]) -> Callable[[], dict[str, Any]]:
    """A function that Ray sends whole, because it is defined inside another one: a node may have no
    heldout."""

    def probe() -> dict[str, Any]:
        import importlib.util
        import platform

        import ray

        try:
            import heldout

            version = heldout.__version__
        except ImportError:
            version = ""
        return {
            "python": platform.python_version(),
            "heldout": version,
            "ray": ray.__version__,
            "extras": tuple(
                name for name, module in extras.items() if importlib.util.find_spec(module)
            ),
        }

    return probe


def _problems(nodes: Sequence[ClusterNode], ray: str) -> Iterator[str]:
    if not any(node.cores for node in nodes):
        yield "no node offers a core: tasks would wait until one joins"
    for node in nodes:
        if node.problem:
            yield f"{_name(node)}: {node.problem}"
    answered = [node for node in nodes if not node.problem]
    for what, ours in (
        ("heldout", heldout.__version__),
        ("python", platform.python_version()),
        ("ray", ray),
    ):
        for node in answered:
            theirs = getattr(node, what)
            if _version(what, theirs) != _version(what, ours):
                yield (
                    f"{_name(node)} has {f'{what} {theirs}' if theirs else f'no {what}'}, this program has "
                    f"{what} {ours}: install the same version on every node"
                )
    for extra in EXTRAS:
        having = [node for node in answered if extra in node.extras]
        if having and len(having) < len(answered):
            lacking = ", ".join(_name(node) for node in answered if extra not in node.extras)
            yield (
                f"{lacking}: without the extra {extra}, which other nodes have: results would depend on the "
                f"node; pip install 'heldout[{extra}]' there"
            )


def _version(what: str, text: str) -> str:
    """Of Python the first two numbers count: Ray's pickles and the wheels are the same."""
    return text.rpartition(".")[0] if what == "python" else text


def _name(node: ClusterNode) -> str:
    return f"node {node.name} ({node.address})"
