"""Counting with tiktoken: only what lies here, never waited for, never asked of the network."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import deermem
from deermem.config import tokenizer_folder
from deermem.policy.tokens_estimate import Count
from deermem.service import token_counter
from deermem.service.token_counter import CL100K, Encoding, Loader, TokenCounter

REAL_DATA = CL100K.file()  # before a test gets an empty folder of its own
TOKENS = [bytes([number]) for number in range(256)] + [b"th", b"the", b" the"]
DATA = b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(TOKENS))
TINY = Encoding("tiny", "https://tokens.invalid/tiny", hashlib.sha256(DATA).hexdigest(), r" ?\p{L}+|\s+|[^\s\p{L}]+")
FILE = hashlib.sha1(TINY.url.encode()).hexdigest()
MISSING = Path("missing")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """tiktoken's folder, with the tiny encoding in it."""
    place = tmp_path / "kept"
    place.mkdir()
    (place / FILE).write_bytes(DATA)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(place))
    return place


class Slow:
    """A load that goes on when it is told to, and counts how often it was begun."""

    def __init__(self, path: Path | None = MISSING, error: Exception | None = None) -> None:
        self.path = path
        self.error = error
        self.looked = 0
        self.begun = 0
        self.go_on = threading.Event()

    def find(self) -> Path | None:
        self.looked += 1
        return self.path

    def load(self, path: Path) -> Count:
        assert path == self.path
        self.begun += 1
        assert self.go_on.wait(30)
        if self.error is not None:
            raise self.error
        return len

    def loader(self) -> Loader:
        return Loader(self.find, self.load)


# --- where the data lies


def test_data_is_found_where_tiktoken_keeps_it(folder, monkeypatch, tmp_path):
    assert TINY.file() == folder / FILE
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path))
    assert tokenizer_folder() == str(folder)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    assert tokenizer_folder() == str(tmp_path)
    assert TINY.file() is None
    monkeypatch.delenv("DATA_GYM_CACHE_DIR")
    assert tokenizer_folder() == os.path.join(tempfile.gettempdir(), "data-gym-cache")


def test_no_folder_no_data(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert TINY.file() is None


def test_without_the_package_there_is_nothing_to_load(folder, monkeypatch):
    monkeypatch.setattr(token_counter, "find_spec", lambda name: None)
    assert TINY.file() is None


# --- reading it


def test_the_encoding_counts_as_its_data_says(folder):
    pytest.importorskip("tiktoken")
    count = TINY.load(folder / FILE)
    assert [count(text) for text in ("", "the", "in the", "thin", "<|endoftext|>")] == [0, 1, 3, 3, 13]


def test_other_bytes_than_the_encodings_are_refused_and_left(folder):
    pytest.importorskip("tiktoken")
    (folder / FILE).write_bytes(DATA[:-9])
    with pytest.raises(ValueError, match="is not the data of tiny"):
        TINY.load(folder / FILE)
    assert (folder / FILE).read_bytes() == DATA[:-9]


@pytest.mark.parametrize("character", ["x", " ", "=", "字"])
def test_a_long_run_is_counted_in_pieces(folder, character):
    pytest.importorskip("tiktoken")
    count = TINY.load(folder / FILE)
    assert count(character * 40_000) == 40_000 * len(character.encode())


@pytest.mark.skipif(REAL_DATA is None, reason="the data of cl100k_base does not lie on this machine")
def test_cl100k_is_what_tiktoken_has_under_this_name(monkeypatch):
    import tiktoken

    assert REAL_DATA is not None
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(REAL_DATA.parent))
    theirs, ours = tiktoken.get_encoding("cl100k_base"), CL100K.load(REAL_DATA)
    docs = Path(deermem.__file__).resolve().parent.rglob("*.py")
    texts = ["It's 1234567 o'clock, they'LL say… \r\n\n \t x", "用户喜欢。한국어 क्‍ष 👍🏽\u00a0\u2028 end  \n", ""]
    for text in texts + [file.read_text(encoding="utf-8") for file in docs]:
        assert ours(text) == len(theirs.encode_ordinary(text))


# --- when


def test_nobody_waits_for_a_load_and_one_is_enough(clock):
    slow = Slow()
    loader = slow.loader()
    assert [loader.count(clock()) for _ in range(5)] == [None] * 5
    assert loader.wait(clock(), timeout=0) is False
    clock.advance(seconds=601)
    assert loader.count(clock()) is None
    slow.go_on.set()
    assert loader.wait(clock(), timeout=30)
    assert loader.count(clock()) is len
    clock.advance(days=1)
    assert loader.count(clock()) is len
    assert (slow.looked, slow.begun) == (1, 1)


@pytest.mark.parametrize("slow", [Slow(None), Slow(error=ValueError("no such data")), Slow(error=ImportError("half"))])
def test_what_could_not_be_done_is_tried_again_after_ten_minutes(clock, slow, caplog):
    slow.go_on.set()
    loader = slow.loader()
    assert not loader.wait(clock(), timeout=30)
    clock.advance(seconds=599)
    assert not loader.wait(clock(), timeout=30)
    assert slow.looked == 1
    clock.advance(seconds=1)
    slow.path, slow.error = MISSING, None
    assert loader.wait(clock(), timeout=30)
    assert slow.looked == 2
    assert ("can't be used" in caplog.text) == (slow.begun == 2)


def test_a_clock_that_was_set_back_makes_no_failure_last_longer(clock):
    slow = Slow(None)
    loader = slow.loader()
    loader.count(clock())
    clock.advance(days=-1)
    loader.count(clock())
    assert slow.looked == 2


def test_where_no_thread_can_start_tokens_are_estimated(clock, monkeypatch, caplog):
    slow = Slow()
    slow.go_on.set()

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG, "deermem"):
        patch.setattr(threading.Thread, "start", start)
        assert not slow.loader().wait(clock(), timeout=30)
    assert "can't start new thread" in caplog.text
    assert slow.begun == 0


def test_char_never_looks(clock):
    slow = Slow()
    counter = TokenCounter("char", clock, slow.loader())
    assert counter.count() is None
    assert counter.load() is False
    assert slow.looked == 0


def test_tiktoken_counts_from_when_it_is_there(clock):
    slow = Slow()
    counter = TokenCounter("tiktoken", clock, slow.loader())
    assert counter.count() is None
    slow.go_on.set()
    assert counter.load(30)
    assert counter.count() is len


def test_a_damaged_file_is_said_once_and_no_request_is_made(folder, clock, monkeypatch, caplog):
    pytest.importorskip("tiktoken")
    (folder / FILE).write_bytes(b"half")

    def refuse(*arguments: object) -> None:
        raise AssertionError(f"the network was asked: {arguments}")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    counter = TokenCounter("tiktoken", clock, Loader(TINY.file, TINY.load))
    assert not counter.load(30)
    assert not counter.load(30)
    assert [record.getMessage() for record in caplog.records] == [
        f"tokens are estimated, tiktoken can't be used: {folder / FILE} is not the data of tiny"
    ]
    assert list(folder.iterdir()) == [folder / FILE]


FORKS = """
import os, sys, threading
from datetime import UTC, datetime
from deermem.service.token_counter import SHARED
hold = threading.Event()
SHARED._find = lambda: "a path"
SHARED._load = lambda path: hold.wait() and len
now = datetime(2026, 1, 1, tzinfo=UTC)
SHARED.count(now)
held = threading.Thread(target=SHARED._lock.acquire)
held.start()
held.join()
child = os.fork()
if not child:
    SHARED._load = lambda path: len
    os._exit(0 if SHARED.wait(now, 30) and SHARED.count(now) is len else 9)
SHARED._lock.release()
hold.set()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_loads_for_itself():
    path = str(Path(deermem.__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", FORKS], env=environment, timeout=60, check=False)
    assert done.returncode == 0
