"""Several requests at a time, with as few under way as there are hands to do them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from heldout.model.endpoint.connection import EndpointError

Asked = TypeVar("Asked")
Given = TypeVar("Given")


def in_parallel(
    ask: Callable[[Asked], Given],
    requests: Iterable[Asked],
    concurrency: int,
    stop: Callable[[], None] = lambda: None,
) -> Iterator[Given]:
    """In the order of their arrival; what is answered before the server dies is still given. ``stop`` is
    called when somebody puts an end to it: requests under way are waited for, and not made once more."""
    pending: set[Future[Given]] = set()
    ended: EndpointError | None = None
    with ThreadPoolExecutor(concurrency) as pool:
        try:
            for request in requests:
                pending.add(pool.submit(ask, request))
                while len(pending) >= 2 * concurrency and ended is None:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    ended = yield from _given(done)
                if ended is not None:
                    break
            if ended is not None:
                pending = {one for one in pending if not one.cancel()}
            last = yield from _given(wait(pending).done)
        except BaseException:  # an interrupt, or nobody wants the rest
            stop()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if (error := ended or last) is not None:
        raise error


def _given(done: Iterable[Future[Given]]) -> Generator[Given, None, EndpointError | None]:
    """What the finished ones gave; returns the error that ends everything, if one of them met it."""
    ended: EndpointError | None = None
    for one in done:
        try:
            yield one.result()
        except EndpointError as error:
            ended = error
    return ended
