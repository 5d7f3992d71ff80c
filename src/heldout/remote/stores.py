"""Object stores, web servers and the hub behind one small interface: facts, ranges, listings.

s3fs, gcsfs, adlfs and huggingface_hub do the talking (fsspec's backends); https needs no package of its
own. Errors are Python's: FileNotFoundError, PermissionError, RemoteError, and any other for a fault that
may pass. Nothing is retried here.
"""

from __future__ import annotations

import functools
import html.parser
import logging
import os
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, unquote, urljoin, urlsplit

from heldout.errors import InputError, require
from heldout.remote.access import WEB, access, harmless

CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
PAGE = 1000  # objects of one listing request

# Reasons that dropped items and shards carry.
LOST, REFUSED, CHANGED, NO_RANGES = (
    "connection lost",
    "access refused",
    "object changed",
    "server without ranges",
)


class RemoteError(OSError):
    """A remote file that cannot be read: ``reason`` in few stable words; ``detail``: what happened."""

    def __init__(self, reason: str, detail: str, address: str = "") -> None:
        super().__init__(5, f"{reason}: {detail}", address or None)  # EIO
        self.reason, self.detail, self.address = reason, detail, address

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"

    def __reduce__(self) -> tuple[type[RemoteError], tuple[str, str, str]]:
        return RemoteError, (self.reason, self.detail, self.address)


def reason_of(error: BaseException, otherwise: str) -> str:
    """The reason that a remote fault carries; ``otherwise`` for any other error."""
    return error.reason if isinstance(error, RemoteError) else otherwise


class Facts(NamedTuple):
    """``mark`` changes with the content: an ETag, or what the store has like it; "" if nothing."""

    size: int
    mark: str


class Child(NamedTuple):
    """An entry of a remote folder; ``facts`` is None for a folder."""

    name: str
    facts: Facts | None


class Store(Protocol):
    flat: bool  # whether ``page`` lists what is below a folder, whatever its depth

    def facts(self, place: str) -> Facts | None:
        """Of a file; None if there is no file."""
        ...

    def is_folder(self, place: str) -> bool: ...

    def get(self, place: str, start: int, end: int) -> tuple[bytes, str | None]:
        """Bytes from ``start`` up to ``end`` and the mark of the file they are from, if it comes along."""
        ...

    def whole(self, place: str, limit: int) -> bytes:
        """A file of at most ``limit`` bytes in one request; a longer one is cut one byte behind it."""
        ...

    def children(self, place: str, token: str) -> tuple[list[Child], str]:
        """Some entries of a folder, and the token that the next ones are asked for with; "" at the end."""
        ...

    def page(self, place: str, after: str) -> tuple[list[Child], bool]:
        """The first files below a folder whose names come after ``after``, in the order of their bytes, and
        whether there are more."""
        ...


def open_store(scheme: str) -> Store:
    """The store of this process for addresses that begin with ``scheme``."""
    return _open_store(scheme, os.getpid())


@functools.lru_cache(maxsize=16)
def _open_store(scheme: str, process: int) -> Store:
    if scheme in WEB:
        return Web(scheme)
    if scheme == "s3":
        return S3()
    return FileSystem(scheme)


def renew_stores() -> None:
    """Open connections anew, with the credentials that are there now."""
    _open_store.cache_clear()


def _require(module: str, scheme: str) -> None:
    require("fsspec", "remote", f"reading {scheme}://")
    require(module, "remote", f"reading {scheme}://")


# S3 and compatible stores. The client is s3fs's; its own retries are turned off.


class S3:
    flat = True

    def __init__(self) -> None:
        _require("s3fs", "s3")
        import fsspec

        retries = {"retries": {"total_max_attempts": 1}}
        timeouts = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}
        self._system = fsspec.filesystem(
            "s3",
            skip_instance_cache=True,
            use_listings_cache=False,
            config_kwargs={**retries, **timeouts},
        )
        self._system.retries = 1
        if not self._system.anon and not self._has_credentials():
            self._system.anon = True  # a public bucket

    def _has_credentials(self) -> bool:
        import botocore.session

        if self._system.key or self._system.token or self._system.kwargs.get("profile"):
            return True
        return botocore.session.get_session().get_credentials() is not None

    def facts(self, place: str) -> Facts | None:
        bucket, _, key = place.partition("/")
        if not key:
            return None
        try:
            reply = self._system.call_s3("head_object", Bucket=bucket, Key=key)
        except FileNotFoundError:
            return None
        return Facts(int(reply["ContentLength"]), str(reply.get("ETag", "")))

    def is_folder(self, place: str) -> bool:
        reply = self._list(place, MaxKeys=1)
        return bool(reply.get("Contents")) or "/" not in place  # an empty bucket is one, too

    def get(self, place: str, start: int, end: int) -> tuple[bytes, str | None]:
        reply = self._object(place, Range=f"bytes={start}-{end - 1}")
        return self._body(reply), str(reply.get("ETag", "")) or None

    def whole(self, place: str, limit: int) -> bytes:
        reply = self._object(place)
        if int(reply["ContentLength"]) > limit:
            reply["Body"].close()
            return bytes(limit + 1)
        return self._body(reply)

    def children(self, place: str, token: str) -> tuple[list[Child], str]:
        going_on = {"ContinuationToken": token} if token else {}
        reply = self._list(place, Delimiter="/", MaxKeys=PAGE, **going_on)
        start = len(_below(place))
        children = [
            Child(folder["Prefix"][start:].rstrip("/"), None)
            for folder in reply.get("CommonPrefixes", ())
        ]
        children += [
            Child(name, Facts(int(entry["Size"]), str(entry.get("ETag", ""))))
            for entry in reply.get("Contents", ())
            if (name := entry["Key"][start:])
        ]
        return children, str(reply.get("NextContinuationToken", ""))

    def page(self, place: str, after: str) -> tuple[list[Child], bool]:
        prefix = _below(place)
        start = {"StartAfter": prefix + after} if after else {}
        reply = self._list(place, MaxKeys=PAGE, **start)
        children = [
            Child(entry["Key"][len(prefix) :], Facts(int(entry["Size"]), entry.get("ETag", "")))
            for entry in reply.get("Contents", ())
        ]
        return children, bool(reply.get("IsTruncated") and children)

    def _list(self, place: str, **options: Any) -> Any:
        bucket = place.partition("/")[0]
        return self._system.call_s3(
            "list_objects_v2", Bucket=bucket, Prefix=_below(place), **options
        )

    def _object(self, place: str, **options: Any) -> Any:
        bucket, _, key = place.partition("/")
        return self._system.call_s3("get_object", Bucket=bucket, Key=key, **options)

    def _body(self, reply: Any) -> bytes:
        from fsspec.asyn import sync

        with_body = reply["Body"]
        try:
            return bytes(sync(self._system.loop, with_body.read))
        finally:
            with_body.close()


def _below(place: str) -> str:
    """The beginning of the keys below a folder of a bucket."""
    key = place.partition("/")[2]
    return f"{key}/" if key else ""


# Web servers: ranges by httpx. Redirects lead to other web servers only.


class _NoSecrets(logging.Filter):
    """httpx writes the address of every request to its log."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = harmless(record.getMessage()), None
        return True


class Web:
    flat = False

    def __init__(self, scheme: str) -> None:
        import httpx

        self._scheme = scheme
        self._unsupported = httpx.UnsupportedProtocol
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        # What is compressed on its way has other bytes than the file, and ranges count the file's.
        self._client = httpx.Client(
            follow_redirects=True, timeout=timeout, headers={"accept-encoding": "identity"}
        )
        log = logging.getLogger("httpx")
        if not any(isinstance(entry, _NoSecrets) for entry in log.filters):
            log.addFilter(_NoSecrets())
        if log.level == logging.NOTSET:  # a library that turns logging on would show every request
            log.setLevel(logging.WARNING)

    def facts(self, place: str) -> Facts | None:
        try:
            with self._send("HEAD", place) as reply:
                return None if _is_index(reply) else _facts(reply)
        except FileNotFoundError:
            return None

    def is_folder(self, place: str) -> bool:
        try:
            with self._send("GET", place + "/") as reply:
                return _is_index(reply)
        except FileNotFoundError:
            return False

    def get(self, place: str, start: int, end: int) -> tuple[bytes, str | None]:
        with self._send("GET", place, {"range": f"bytes={start}-{end - 1}"}) as reply:
            if reply.status_code != 206 and (start or _facts(reply).size > end):
                detail = "it sends whole files only; give the setting cache to keep copies of them"
                raise RemoteError(NO_RANGES, detail, f"{self._scheme}://{place}")
            return reply.read(), _facts(reply).mark or None

    def whole(self, place: str, limit: int) -> bytes:
        with self._send("GET", place) as reply:
            data = bytearray()
            for chunk in reply.iter_bytes():
                data += chunk
                if len(data) > limit:
                    break
            return bytes(data)

    def children(self, place: str, token: str) -> tuple[list[Child], str]:
        """The links of an index page that lead to files and folders right below it."""
        with self._send("GET", place + "/") as reply:
            page = _Links()
            page.feed(reply.read().decode("utf-8", "replace"))
            base = str(reply.url)
        names = dict.fromkeys(filter(None, (_child(base, link) for link in page.links)))
        children = [Child(name[:-1], None) for name in names if name.endswith("/")]
        for name in names:
            if not name.endswith("/") and (facts := self.facts(f"{place}/{name}")) is not None:
                children.append(Child(name, facts))
        return children, ""

    def page(self, place: str, after: str) -> tuple[list[Child], bool]:
        raise NotImplementedError

    def _send(self, method: str, place: str, headers: dict[str, str] | None = None) -> Any:
        return _Reply(self, method, place, headers or {})

    def request(self, method: str, place: str, headers: dict[str, str]) -> Any:
        secret = access().secret(f"{self._scheme}://{place}")
        address = f"{self._scheme}://{quote(place, safe='/:')}"
        login = tuple(unquote(part) for part in secret.login.partition(":")[::2])
        request = self._client.build_request(
            method, address + (f"?{secret.query}" if secret.query else ""), headers=headers
        )
        try:
            if secret.login:
                return self._client.send(request, stream=True, auth=login)  # type: ignore[arg-type]
            return self._client.send(request, stream=True)
        except self._unsupported as error:
            raise RemoteError(REFUSED, "it redirects to what is no web address", address) from error


class _Reply:
    """A response whose status was checked, closed at the end of the block."""

    def __init__(self, web: Web, method: str, place: str, headers: dict[str, str]) -> None:
        self._open = functools.partial(web.request, method, place, headers)
        self._place = place

    def __enter__(self) -> Any:
        self._reply = self._open()
        status = self._reply.status_code
        if status < 400:
            return self._reply
        self._reply.close()
        if status in (404, 410):
            raise FileNotFoundError(2, "there is no such file", self._place)
        if status in (401, 403, 407):
            raise PermissionError(13, f"the server says {status}", self._place)
        if status == 416:
            raise RemoteError(CHANGED, "it is shorter than it was", self._place)
        raise OSError(f"the server says {status}")

    def __exit__(self, *_: object) -> None:
        self._reply.close()


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _child(base: str, link: str) -> str | None:
    """What a link calls a file ("x.tar") or a folder ("x/") right below the page; None for others."""
    target, page = urlsplit(urljoin(base, link)), urlsplit(base)
    if (target.netloc, target.query) != (page.netloc, "") or not target.path.startswith(page.path):
        return None
    name = unquote(target.path[len(page.path) :])
    return name if name.strip("/") and "/" not in name[:-1] else None


def _is_index(reply: Any) -> bool:
    return reply.url.path.endswith("/") and "html" in reply.headers.get("content-type", "")


def _facts(reply: Any) -> Facts:
    whole = reply.headers.get("content-range", "").rpartition("/")[2]
    size = whole if whole.isdecimal() else reply.headers.get("content-length", "0")
    return Facts(int(size), reply.headers.get("etag") or reply.headers.get("last-modified") or "")


# Any other file system of fsspec: Google's, Azure's, the Hugging Face hub.


@dataclass(frozen=True)
class _Kind:
    protocol: str
    module: str
    marks: tuple[str, ...]  # what its records call an ETag, best first
    needs: str = "are its credentials set?"


_AZURE = "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and a key or token"
_KINDS = {
    "gs": _Kind("gs", "gcsfs", ("generation", "etag", "mtime")),
    "az": _Kind("az", "adlfs", ("etag", "last_modified"), _AZURE),
    "abfs": _Kind("abfs", "adlfs", ("etag", "last_modified"), _AZURE),
    "hf": _Kind("hf", "huggingface_hub", ("blob_id",)),
}


class FileSystem:
    flat = False

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
        self._kind = _KINDS[scheme]
        _require(self._kind.module, scheme)
        import fsspec

        # A file system of the same options would come from fsspec's memory, with the credentials of then.
        options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
        query = next((s.query for s in access().secrets if s.address.startswith(f"{scheme}:")), "")
        if query:
            options["sas_token"] = query
        if scheme == "gs":
            # What gcsfs registers asks another service for the kind of the bucket before every request, and warns each
            # time that it is not allowed to: always, where a bucket is public.
            from gcsfs.core import GCSFileSystem  # type: ignore[import-untyped]

            if os.environ.get("STORAGE_EMULATOR_HOST"):  # not Google's: it gets no credentials
                options["token"] = "anon"
            self._system = GCSFileSystem(**options)
        else:
            try:
                self._system = fsspec.filesystem(self._kind.protocol, **options)
            except ValueError as error:  # adlfs connects at once; without an account it cannot
                detail = f"{harmless(str(error))} ({self._kind.needs})"
                raise RemoteError(REFUSED, detail) from error

    def facts(self, place: str) -> Facts | None:
        try:
            record = self._system.info(place)
        except FileNotFoundError:
            return None
        return self._facts(record)

    def is_folder(self, place: str) -> bool:
        return bool(self._system.isdir(place))

    def get(self, place: str, start: int, end: int) -> tuple[bytes, str | None]:
        extra = {"cache_type": "none"} if self._scheme == "hf" else {}
        return self._system.cat_file(place, start=start, end=end, **extra), None

    def whole(self, place: str, limit: int) -> bytes:
        return bytes(self._system.cat_file(place, start=0, end=limit + 1))

    def children(self, place: str, token: str) -> tuple[list[Child], str]:
        if self._scheme == "hf" and place.strip("/").count("/") < 2:
            raise FileNotFoundError(2, "datasets of an owner are not listed", f"hf://{place}")
        children = []
        for record in self._system.ls(place, detail=True):
            path = str(record["name"]).rstrip("/")
            if path != place.rstrip("/"):  # a marker object of the folder itself
                children.append(Child(path.rpartition("/")[2], self._facts(record)))
        return children, ""

    def page(self, place: str, after: str) -> tuple[list[Child], bool]:
        raise NotImplementedError

    def _facts(self, record: Any) -> Facts | None:
        if record.get("type") != "file":
            return None
        mark = next((str(record[key]) for key in self._kind.marks if record.get(key)), "")
        return Facts(int(record.get("size") or 0), mark)


def pinned(location: str) -> str:
    """An address on the hub with the commit it means now; any other as it is."""
    if not location.startswith("hf://"):
        return location
    require("huggingface_hub", "remote", "reading hf://")
    from huggingface_hub import HfApi

    kind, _, rest = location.removeprefix("hf://").partition("/")
    owner, _, rest = rest.partition("/")
    named, _, below = rest.partition("/")
    name, _, revision = named.partition("@")
    if kind != "datasets" or not owner or not name:
        raise InputError(f"{location}: expected hf://datasets/owner/name, or …/name@revision")
    from heldout.remote._transfer import persist

    try:
        dataset = persist(
            location,
            lambda: HfApi().dataset_info(f"{owner}/{name}", revision=unquote(revision) or None),
        )
    except FileNotFoundError:
        raise InputError(
            f"{location}: the hub has no such dataset or revision, or it is private and HF_TOKEN is not set"
        ) from None
    return f"hf://datasets/{owner}/{name}@{dataset.sha}" + (f"/{below}" if below else "")
