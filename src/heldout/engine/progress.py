"""Progress on standard error for long work: a bar on a terminal, one line in a notebook that is written
over, a plain line now and then elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import IO, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Display
from rich.progress import Task as Row
from rich.text import Text

from heldout.engine.underway import listening

PRICE = "HELDOUT_PRICE"  # dollars that all machines cost in an hour
APPEARS_AFTER_SECONDS = 2.0
LINE_EVERY_SECONDS = 10.0
# What a shard is depends on the reader of a corpus (a file, 512 pictures, a range of rows): people are told the
# share that is done, and how many items those were.
SHARDS = "shards"


class ProgressStep(Protocol):
    def __call__(self, count: int = 1, **extra: int) -> None:
        """``count`` more units are done; ``extra`` counts what was inside: ``items=4096``."""
        ...


@contextlib.contextmanager
def progress(
    title: str,
    total: int | None = None,
    unit: str = "items",
    *,
    done: int = 0,
    disabled: bool = False,
    file: TextIO | None = None,
    appears_after: float = APPEARS_AFTER_SECONDS,
    line_every: float = LINE_EVERY_SECONDS,
    note: Callable[[], str] | None = None,
) -> Iterator[ProgressStep]:
    """Show the progress of the work in this block; nothing if it ends within two seconds.

    ``done`` units were finished by an earlier run: they count, but not towards the rate. ``note`` is
    asked at every refresh for what else to say, such as the loss of a training.
    """
    work = Progress(title, total, unit, done=done, note=note)
    if disabled:
        yield work.step
        return
    finished = threading.Event()
    # A thread shows it, not the steps: the first step may take minutes.
    show = threading.Thread(
        target=_show,
        args=(work, Console(file=file or sys.stderr), finished, appears_after, line_every),
        daemon=True,
    )
    show.start()
    try:
        with listening(work.within):
            yield work.step
    finally:
        finished.set()
        show.join()


class Progress:
    """The progress of a piece of work, and its description."""

    def __init__(
        self,
        title: str,
        total: int | None,
        unit: str,
        *,
        done: int = 0,
        note: Callable[[], str] | None = None,
    ) -> None:
        self.title = title
        self._note = note
        self.total = total
        self.done = done
        self._unit = unit
        self._earlier = done
        self._extra: dict[str, int] = {}
        self._underway: Counter[str] = Counter()  # done by tasks that have not ended
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def step(self, count: int = 1, **extra: int) -> None:
        with self._lock:
            self.done += count
            for name, number in extra.items():
                self._extra[name] = self._extra.get(name, 0) + number
            for name, number in {self._unit: count, **extra}.items():
                self._underway[name] = max(0, self._underway[name] - number)

    def within(self, name: str, count: int) -> None:
        """Tasks that have not ended did so much more."""
        with self._lock:
            self._underway[name] += count

    @property
    def completed(self) -> int:
        """Units done, also by tasks that have not ended."""
        most = self.done + self._underway[self._unit]
        return most if self.total is None else min(most, self.total)

    def noted(self) -> bool:
        """Whether there is something to say besides counts."""
        return self._note is not None and bool(self._note())

    def describe(self) -> str:
        """Count, rate and time left: "12/100 pictures · 4 pictures/s · 0:22 left", and of shards the share:
        "12 % · 49,152 items · 1,024 items/s · 1:28 left"."""
        with self._lock:
            elapsed = max(time.monotonic() - self._started, 1e-9)
            done = self.completed
            new = done - self._earlier
            parts = self._counted(done)
            within = {name: number for name, number in self._underway.items() if name != self._unit}
            extra = {
                name: self._extra.get(name, 0) + within.get(name, 0)
                for name in {**self._extra, **within}
            }
            parts += [f"{number:,} {name}" for name, number in extra.items()]
            # The finer count moves more evenly, so its rate says more.
            name, number = next(iter(extra.items()), (self._unit, new))
            if number and name != SHARDS:
                rate = number / elapsed
                parts.append(f"{rate:,.0f} {name}/s" if rate >= 10 else f"{rate:.2g} {name}/s")
            left = 0.0
            if self.total is not None and new and done < self.total:
                left = (self.total - done) * elapsed / new
                parts.append(f"{_clock(round(left))} left")
            if price := _price():
                whole = f" of ${price * (elapsed + left) / 3600:,.2f}" if left else ""
                parts.append(f"${price * elapsed / 3600:,.2f}{whole}")
            if self._note is not None and (message := self._note()):
                parts.append(message)
            return " · ".join(parts) or "started"

    def _counted(self, done: int) -> list[str]:
        if self._unit != SHARDS:
            of_total = f"/{self.total:,}" if self.total is not None else ""
            return [f"{done:,}{of_total} {self._unit}"]
        # Rounded down: 100 % is the end. Until the first shard has ended, the items alone say that it moves.
        return [f"{100 * done // self.total} %"] if self.total and done else []


class _Status(ProgressColumn):
    """Everything after the bar, asked anew at every refresh so that the rate falls when we wait."""

    def __init__(self, work: Progress) -> None:
        super().__init__()
        self._work = work

    def render(self, task: Row) -> Text:
        return Text(self._work.describe(), style="progress.remaining")


# Two bars on one terminal would write over each other: the outermost one is shown.
_terminal = threading.Lock()


def _show(
    work: Progress, console: Console, finished: threading.Event, after: float, every: float
) -> None:
    if finished.wait(after):
        return
    if console.is_terminal and not console.is_dumb_terminal:
        if _terminal.acquire(blocking=False):
            try:
                _draw(work, console, finished)
            finally:
                _terminal.release()
        return
    if console.is_jupyter:
        _rewrite(work, console.file, finished)
        return
    while True:
        console.file.write(f"{work.title}: {work.describe()}\n")
        console.file.flush()
        if finished.wait(every):
            # The first line may come before anything was known, so a last line is printed.
            if work.noted():
                console.file.write(f"{work.title}: {work.describe()}\n")
                console.file.flush()
            return


def _rewrite(work: Progress, file: IO[str], finished: threading.Event) -> None:
    """One line of a notebook's output, each second in the place of the last, and gone at the end."""
    width = 0
    while not finished.is_set():
        line = f"{work.title}: {work.describe()}"
        file.write(f"\r{line:<{width}}")
        file.flush()
        width = len(line)
        finished.wait(1.0)
    file.write(f"\r{'':<{width}}\r")
    file.flush()


def _draw(work: Progress, console: Console, finished: threading.Event) -> None:
    title = TextColumn("{task.description}", markup=False)
    # The bar goes when the work is done; what stays is what the command prints.
    with Display(
        SpinnerColumn(), title, BarColumn(), _Status(work), console=console, transient=True
    ) as display:
        row = display.add_task(work.title, total=work.total, completed=work.done)
        while not finished.wait(0.1):
            display.update(row, completed=work.completed)


def _price() -> float:
    with contextlib.suppress(ValueError):
        return max(0.0, float(os.environ.get(PRICE, "")))
    return 0.0


def _clock(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
