"""Tokens as tiktoken counts them, where it is installed and its data lies on this machine; it is never waited for.

tiktoken downloads what it lacks, without a timeout, when an encoding is asked of it. So it isn't asked: the file is
looked for where tiktoken keeps it, its hash is compared, and the encoding is made from its bytes, in a thread.
"""

from __future__ import annotations

import binascii
import hashlib
import logging
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from deermem.clock import Clock
from deermem.config import tokenizer_folder
from deermem.policy.tokens_estimate import Count

REMEMBERED: Final = timedelta(seconds=600)
"""How long it isn't tried again after it could not be done."""

LOAD_TIMEOUT: Final = 10.0
_PIECE: Final = 1_000
_RUN: Final = re.compile(r"\w{1000}|\s{1000}|[^\w\s]{1000}")
_log = logging.getLogger("deermem")


@dataclass(frozen=True, slots=True)
class Encoding:
    """A tokenizer's data: where it comes from, the SHA-256 of its bytes, the pattern that splits text beforehand."""

    name: str
    url: str
    sha256: str
    pattern: str

    def file(self) -> Path | None:
        """The file that tiktoken keeps it in; None where tiktoken is missing, keeps nothing, or hasn't got it."""
        folder = tokenizer_folder()
        if not folder or find_spec("tiktoken") is None:
            return None
        path = Path(folder, hashlib.sha1(self.url.encode(), usedforsecurity=False).hexdigest())
        return path if path.is_file() else None

    def load(self, path: Path) -> Count:
        """Counts with the data of a file; raises ValueError where that isn't this encoding's, ImportError, OSError."""
        import tiktoken

        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise ValueError(f"{path} is not the data of {self.name}")
        ranks: dict[bytes, int] = {}
        for line in data.splitlines():
            token, rank = line.split()
            ranks[binascii.a2b_base64(token)] = int(rank)
        made = tiktoken.Encoding(self.name, pat_str=self.pattern, mergeable_ranks=ranks, special_tokens={})
        return lambda text: sum(len(made.encode_ordinary(part)) for part in _parts(text))


CL100K: Final = Encoding(
    name="cl100k_base",
    url="https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
    sha256="223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    pattern="|".join(
        (
            r"'(?i:s|t|d|m|re|ve|ll)",  # the end of a contraction
            r"[^\p{L}\p{N}\r\n]?\p{L}+",  # a word, with the blank or mark before it
            r"\p{N}{1,3}",
            r" ?[^\p{L}\p{N}\s]+[\r\n]*",  # marks, with the line's end behind them
            r"\s*[\r\n]+",
            r"\s+(?!\S)",  # blanks but the last, which goes with the next word
            r"\s+",
        )
    ),
)
"""What counts, whatever the model: no other vendor's count is to be had without asking it."""


def _parts(text: str) -> Sequence[str]:
    """The text, in pieces where it has a run so long that older tiktokens take seconds for it."""
    if _RUN.search(text) is None:
        return (text,)
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


class Loader:
    """Loads an encoding once for a process, in a thread, and remembers that it could not. Safe for threads and fork."""

    def __init__(self, find: Callable[[], Path | None], load: Callable[[Path], Count]) -> None:
        self._find = find
        self._load = load
        self._count: Count | None = None
        self._start_over()

    def _start_over(self) -> None:
        """In a forked child no thread goes on, and a lock that one held stays held."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failed: datetime | None = None

    def count(self, now: datetime) -> Count | None:
        """The counter; None while there is none, and a load begins where one is due. Never waits."""
        if self._count is None:
            self._begin(now)
        return self._count

    def wait(self, now: datetime, timeout: float) -> bool:
        """Loads where that is due, for at most `timeout` seconds; whether there is a counter now."""
        self._begin(now)
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        return self._count is not None

    def _begin(self, now: datetime) -> None:
        with self._lock:
            if self._count is not None or self._thread is not None:
                return
            # A clock that was set back makes no failure last longer.
            if self._failed is not None and abs(now - self._failed) < REMEMBERED:
                return
            self._failed = now
            path = self._find()
            if path is None:
                return
            thread = threading.Thread(target=self._run, args=(path,), name="deermem-tokens")
            try:
                thread.start()
            except RuntimeError as error:
                # No thread is to be had while the interpreter ends.
                _log.debug("tokens are estimated: %s", error)
                return
            self._thread = thread

    def _run(self, path: Path) -> None:
        try:
            self._count = self._load(path)
        except Exception as error:  # noqa: BLE001 - tiktoken is optional, and an estimate always does
            # A program that ends can't import any more, which is nothing to warn of.
            level = logging.WARNING if threading.main_thread().is_alive() else logging.DEBUG
            _log.log(level, "tokens are estimated, tiktoken can't be used: %s", error)
        with self._lock:
            self._thread = None


SHARED: Final = Loader(CL100K.file, CL100K.load)
os.register_at_fork(after_in_child=SHARED._start_over)


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """How the settings want tokens counted: `counting` "tiktoken" where that can be done, "char" never."""

    counting: str
    clock: Clock
    loader: Loader = field(default_factory=lambda: SHARED)

    def count(self) -> Count | None:
        """tiktoken's counter, None to estimate; it never waits, so it is None until a load in a thread is done."""
        return self.loader.count(self.clock()) if self.counting == "tiktoken" else None

    def load(self, timeout: float = LOAD_TIMEOUT) -> bool:
        """Waits, `timeout` seconds at most, until tiktoken counts; False at once where it can't.

        Takes about 0.3 seconds, once for a process, and never asks the network.
        """
        return self.counting == "tiktoken" and self.loader.wait(self.clock(), timeout)
