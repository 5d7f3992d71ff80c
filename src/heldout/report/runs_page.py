"""``heldout serve``: one page over many run folders, and a server that only reads."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

from heldout.errors import HeldoutError, InputError, counted
from heldout.report._reproduce import templates
from heldout.report.outline import OutlineRow, outline, outline_of
from heldout.report.settings import ServeSettings
from heldout.store import Run, opened_table, read_document

MANIFEST = "manifest.json"
DEPTH = 3  # folders below the named ones in which run folders are looked for
_PAGES = {"report.html", "summary.html", "summary.pdf", "matrix.html", "report.md", "junit.xml"}
_DATA = {"claims.json", "findings.json", "verdict.json", "matrix.json", "gate.json"}
_UNTESTED = (
    "what models answered or scored is recorded and not tested yet: heldout detect does that"
)
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_KINDS = {"synth": "synthesis", "train": "training", "evaluate": "evaluation", "twin": "twins"}
_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@dataclass(frozen=True)
class ListedRun:
    """One row of the page: a run folder, or the output of an audit with all its benchmarks."""

    name: str  # where it is, below the folder that was named
    path: Path
    kind: str
    created: str
    benchmarks: list[str]
    items: int | None
    rows: list[OutlineRow] = field(default_factory=list)
    trouble: str = ""  # why it has no numbers
    has_report: bool = False

    @property
    def link(self) -> str:
        return f"runs/{quote(self.name)}/report.html"


def list_runs(folders: Sequence[Path]) -> list[ListedRun]:
    """Run folders and audits in and below these folders, newest first.

    Args:
        folders: Run folders, or folders that hold some.
    """
    listed = [_listed(name, path, _stamp(path)) for name, path in _named(folders).items()]
    return sorted(listed, key=lambda run: (run.created, run.name), reverse=True)


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Run folders by where they are below the named folders, which is their address, too."""
    named: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: there is no such folder")
        root = folder.resolve()
        for path in _run_folders(root, DEPTH):
            name = path.name if path == root else path.relative_to(root).as_posix()
            if named.get(name, path) != path:
                name = f"{root.name}/{name}"
            while named.get(name, path) != path:  # folders of equal names
                name += "~"
            named[name] = path
    return named


def _stamp(path: Path) -> tuple[int, ...]:
    """Changes when a run is concluded again."""
    files = [path / name for name in (MANIFEST, "claims.json", "verdict.json", "report.html")]
    return tuple(file.stat().st_mtime_ns if file.is_file() else 0 for file in files)


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / "verdict.json").is_file() or (folder / MANIFEST).is_file():
        if not _is_no_run(folder):
            yield folder  # runs inside an audit are on its own page
        return
    for child in sorted(folder.iterdir()) if depth else ():
        if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
            yield from _run_folders(child, depth - 1)


def _is_no_run(folder: Path) -> bool:
    """Whether this is a clean split, or what a verb that refused its input left: a manifest, and no results."""
    try:
        manifest = read_document(folder / MANIFEST)
    except (OSError, InputError):
        return False  # an audit, or a run that is listed with its trouble
    # Names that begin with a dot are locks.
    results = (path for path in folder.iterdir() if path.name[0] != "." and path.name != MANIFEST)
    return "sanitize_version" in manifest or not any(results)


@lru_cache(maxsize=4096)
def _listed(name: str, path: Path, stamp: tuple[int, ...]) -> ListedRun:
    """A folder that cannot be read is listed with the reason: others must not vanish for it."""
    try:
        if (path / "verdict.json").is_file():
            return _audit(name, path)
        return _single(name, path)
    except (HeldoutError, OSError, ValueError, KeyError, TypeError) as error:
        trouble = f"cannot be read: {error}" if str(error) else "cannot be read"
        return ListedRun(name, path, "run", "", [], None, [], trouble, _has_report(path))


def _has_report(path: Path) -> bool:
    return (path / "report.html").is_file()


def _audit(name: str, path: Path) -> ListedRun:
    verdict = read_document(path / "verdict.json")
    benchmarks = list(verdict["corrected"])
    runs = [
        run
        for manifest in sorted(path.glob("*/manifest.json"))
        if (run := Run.open(manifest.parent)).manifest().get("inputs", {}).get("benchmark")
    ]
    manifests = [run.manifest() for run in runs]
    created = max((str(manifest.get("created", "")) for manifest in manifests), default="")
    items = sum(manifest["inputs"]["benchmark"].get("items", 0) for manifest in manifests)
    rows = outline(verdict["cells"], runs, []).rows
    return ListedRun(name, path, "audit", created, benchmarks, items, rows, "", _has_report(path))


def _single(name: str, path: Path) -> ListedRun:
    run = Run.open(path)
    manifest = run.manifest()
    known: dict[str, Any] = manifest.get("inputs", {}).get("benchmark") or {}
    kinds = [kind for key, kind in _KINDS.items() if key in manifest]
    created = str(manifest.get("created", ""))
    names = [known["name"]] if known.get("name") else []
    rows: list[OutlineRow] = []
    trouble = ""
    if (path / "claims.json").is_file():
        rows = outline_of(run).rows
        kind = "search" if manifest.get("stages") else "models"
        trouble = "" if rows else _UNTESTED
    else:
        kind = kinds[0] if kinds else "models" if manifest.get("models") else "run"
        if not _has_report(path):
            trouble = "has no page of its own" if kind == "twins" else _recorded(run)
    items = known.get("items")
    if items is None and (path / "synth/funnel.json").is_file():
        items = read_document(path / "synth/funnel.json")["steps"][-1]["left"]
    return ListedRun(name, path, kind, created, names, items, rows, trouble, _has_report(path))


def _recorded(run: Run) -> str:
    """What a folder without claims holds: answers that nobody tested, or the reason why there are none."""
    tables = [name for name in ("answers", "scores") if run.table_path(name).exists()]
    if not tables:
        return "not finished"
    if any(_holds_rows(run.table_path(name)) for name in tables):
        return _UNTESTED
    dropped = run.frame("dropped") if run.table_path("dropped").exists() else None
    if dropped is None or dropped.is_empty():
        return "refused: nothing was recorded"
    reason, count = dropped["reason"].value_counts(sort=True).row(0)
    return f"refused: nothing was recorded, {counted(count, 'item', 'items')} dropped ({reason})"


def _holds_rows(table: Path) -> bool:
    with opened_table(table) as file:
        return bool(file.metadata.num_rows)


def runs_page(listed: Sequence[ListedRun], title: str) -> str:
    """The page as HTML.

    Args:
        listed: What ``list_runs`` returned.
        title: What the runs are of, for the heading.
    """
    return templates().get_template("runs.html.j2").render(title=title, runs=listed, scripts=[])


class RunsServer:
    """The page and the reports behind it; nothing is written, and nothing else is read."""

    def __init__(
        self, folders: Iterable[str | Path], host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.folders = [Path(folder) for folder in folders]
        _named(self.folders)  # a folder that is not there is said before anything is served
        self.host = host
        handler = type("RunsRequest", (_RunsRequest,), {"owner": self})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"port {port}: {host}:{port} cannot be used: {error}; leave it out for a free one"
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.url = f"http://{'127.0.0.1' if host in ('', '0.0.0.0') else host}:{self.port}/"

    def run(self) -> None:
        self._server.serve_forever(poll_interval=0.2)

    def stop(self) -> None:
        self._server.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def is_welcome(self, host: str, site: str) -> bool:
        """Whether a request is meant for this server.

        Another site may point its own name at 127.0.0.1 and read what is answered there: on this machine
        alone, the host must be this machine's.
        """
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        local = self.host in ("127.0.0.1", "localhost", "::1")
        return (not local or name.lower() in _LOCAL) and site in ("", "same-origin", "none")

    def file(self, path: str) -> Path | None:
        """The file of a run that an address names; None where it is none that may be shown."""
        parts = [part for part in path.split("/") if part]
        if any(part in (".", "..") or "\x00" in part for part in parts):
            return None
        for name, folder in _named(self.folders).items():
            own = name.split("/")
            if parts[: len(own)] == own:
                target = folder.joinpath(*parts[len(own) :])
                try:
                    inside = target.resolve(strict=True).relative_to(folder)
                except (OSError, ValueError):  # not there, or a link that leads out
                    continue
                if target.is_file() and _may_be_shown(inside):
                    return target
        return None


def _may_be_shown(inside: Path) -> bool:
    if inside.name in _PAGES | _DATA:
        return True
    return inside.suffix == ".svg" and inside.parent.name == "figures"


class _RunsRequest(BaseHTTPRequestHandler):
    owner: RunsServer
    server_version = "heldout"
    sys_version = ""

    def do_GET(self) -> None:
        self._serve(body=True)

    def do_HEAD(self) -> None:
        self._serve(body=False)

    def log_message(self, format: str, *args: Any) -> None:  # the terminal shows the address alone
        pass

    def _serve(self, *, body: bool) -> None:
        site = self.headers.get("sec-fetch-site", "")
        path = unquote(urlsplit(self.path).path)
        if not self.owner.is_welcome(self.headers.get("host", ""), "" if path == "/" else site):
            self._send(
                HTTPStatus.FORBIDDEN, b"This server answers to its own page alone.", body=body
            )
            return
        if path == "/":
            names = ", ".join(str(folder) for folder in self.owner.folders)
            page = runs_page(list_runs(self.owner.folders), names).encode()
            self._send(HTTPStatus.OK, page, "text/html; charset=utf-8", body=body)
            return
        target = self.owner.file(path.removeprefix("/runs/")) if path.startswith("/runs/") else None
        if target is None:
            self._send(HTTPStatus.NOT_FOUND, b"There is no such page.", body=body)
            return
        kind = mimetypes.guess_type(target.name)[0] or "text/plain"
        kind += "; charset=utf-8" if kind.startswith("text/") else ""
        self._send(HTTPStatus.OK, target.read_bytes(), kind, body=body)

    def _send(
        self,
        status: HTTPStatus,
        content: bytes,
        kind: str = "text/plain; charset=utf-8",
        *,
        body: bool,
    ) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", _POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)


def serve(
    runs: str | Path | Sequence[str | Path],
    *,
    settings: ServeSettings | None = None,
    ready: Callable[[str], None] = lambda url: None,
    **values: Any,
) -> None:
    """Serve one page over many run folders until interrupted; nothing is written.

    Args:
        runs: Run folders, outputs of audits, or folders that hold them.
        settings: All settings; or give them by name as further arguments.
        ready: Called with the address once it can be opened.
        **values: Fields of ``heldout.report.ServeSettings``.
    """
    chosen = ServeSettings.choose(settings, values)
    folders = [runs] if isinstance(runs, str | Path) else list(runs)
    with RunsServer(folders, chosen.host, chosen.port) as server:
        ready(server.url)
        server.run()
