"""Files that lie elsewhere: addresses as paths, read by ranges, retried, kept in a cache if asked."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.remote.access import (
        VARIABLE,
        is_remote,
        known_schemes,
        use_cache,
        without_secrets,
    )
    from heldout.remote.listing import cache_folder, files_below, refresh
    from heldout.remote.path import (
        QuantisedRows,
        RemotePath,
        bare_name,
        entries,
        located,
        number_of,
        open_rows,
        ranges,
        remember,
    )
    from heldout.remote.stores import (
        CHANGED,
        LOST,
        NO_RANGES,
        REFUSED,
        RemoteError,
        pinned,
        reason_of,
    )

__all__ = [
    "CHANGED",
    "LOST",
    "NO_RANGES",
    "REFUSED",
    "VARIABLE",
    "QuantisedRows",
    "RemoteError",
    "RemotePath",
    "bare_name",
    "cache_folder",
    "entries",
    "files_below",
    "is_remote",
    "known_schemes",
    "located",
    "number_of",
    "open_rows",
    "pinned",
    "ranges",
    "reason_of",
    "refresh",
    "remember",
    "use_cache",
    "without_secrets",
]

__getattr__ = load_on_first_use(__name__, __file__)
