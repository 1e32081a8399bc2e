"""The tables of one user's index, and how the database is opened.

A cache needs no migrations: another schema or tokeniser version drops everything, and what is missing is built
again from the files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sqlite3
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

from deermem.index.tokens import FTS_TOKENIZE, TOKENIZER

SCHEMA: Final = "5"
VERSION: Final = f"{SCHEMA}/{TOKENIZER}"
BUSY_SECONDS: Final = 2.0
_USERS: Final = "users"
_LOG_PAGES: Final = 4000
_LOG_BYTES: Final = 16 << 20

_TABLES: Final = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE files (
  id INTEGER PRIMARY KEY,
  agent TEXT NOT NULL, path TEXT NOT NULL,
  dev INTEGER, ino INTEGER, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, looked_ns INTEGER,
  hash BLOB, rev INTEGER NOT NULL, flags INTEGER NOT NULL DEFAULT 0,
  fact_id TEXT, content_key BLOB, category TEXT, confidence REAL, created REAL, updated REAL,
  thread TEXT, topics TEXT, expires REAL, length INTEGER,
  fact TEXT, problem TEXT,
  UNIQUE (agent, path)
);
CREATE VIRTUAL TABLE words USING fts5(body, tokenize={FTS_TOKENIZE});
"""

# Made once the rows are there: kept up row by row they cost a rebuild as much as all else that it writes.
_INDEXES: Final = (
    "files_by_rev ON files (agent, rev)",
    "files_by_id ON files (agent, fact_id COLLATE NOCASE)",
    "files_by_content ON files (agent, content_key)",
    "files_by_rank ON files (agent, confidence, created, fact_id)",
    "files_by_end ON files (agent, expires) WHERE expires IS NOT NULL",
)
_INDEX_COUNT: Final = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name GLOB 'files_by_*'"


def connect(path: Path, *, wal: bool = True) -> sqlite3.Connection:
    """An open database with the present tables, made where missing.

    `wal` false: with a rollback journal, for file systems on which the shared memory of a write-ahead log is not
    shared by all machines.
    Raises sqlite3.Error where the file is damaged or can't be written, OSError where its place can't be made.
    """
    make_folder(path.parent)
    _make_file(path)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
        # The index is derived: losing its last transactions to a power cut costs a sweep, flushing costs every write.
        connection.execute("PRAGMA synchronous = NORMAL")
        # A rebuild writes the whole database: a short log would be flushed for every few hundred facts, and without
        # a limit its file would stay as long as the longest transaction ever was.
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
        if _version(connection) != _version_at(path):
            _create(connection, _version_at(path))
        elif not is_whole(connection):
            start_over(connection)
        os.chmod(path, 0o600)
    except BaseException:
        connection.close()
        raise
    return connection


def ended_with(owner: object, connection: sqlite3.Connection) -> Callable[[], object]:
    """Closes a connection, by its owner's end at the latest: Python warns of one that is left to be collected.

    In the process that opened it alone: a forked child that closes its parent's may take its log away.
    """
    end = weakref.finalize(owner, _end, connection, os.getpid())
    end.atexit = False
    return end


def _end(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()


def connect_to_read(path: Path) -> sqlite3.Connection:
    """The database as it is, nothing written; raises sqlite3.Error where that is not to be had, OSError for a link."""
    _refuse_link(path)
    place = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        if _version(connection) != _version_at(path) or not is_whole(connection):
            raise sqlite3.OperationalError("it is not of this version or user, or not whole")
    except BaseException:
        connection.close()
        raise
    return connection


def make_folder(folder: Path) -> None:
    """The index's folder, private; only what is missing of it."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for item in reversed(missing):
        item.mkdir(mode=0o700, exist_ok=True)


def _make_file(path: Path) -> None:
    """An empty private file where there is none: SQLite gives the files beside a database the database's mode.

    It is linked into place closed: opening a live database as a plain file would drop SQLite's locks on it.
    """
    _refuse_link(path)
    if path.exists():
        return
    staged = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    os.close(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        # There already, or a file system without second names: SQLite then makes it with the usual mode.
        with contextlib.suppress(OSError):
            os.link(staged, path)
    finally:
        staged.unlink()


def _refuse_link(path: Path) -> None:
    if os.path.islink(path) or os.path.islink(path.parent):
        raise OSError(errno.ELOOP, "the index is a link, and links are not followed", str(path))


def _version_at(path: Path) -> str:
    """The version that a database at this place must have; another user's, put there by a copy, tells his words."""
    user = path.parent.parent
    return f"{VERSION} {user.name}" if user.parent.name == _USERS else VERSION


def _version(connection: sqlite3.Connection) -> str | None:
    try:
        row = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
    return str(row[0]) if row else None


def is_whole(connection: sqlite3.Connection) -> bool:
    """Whether each fact has its words: an index that lost some would find less without saying so."""
    try:
        (words, facts) = connection.execute(
            "SELECT (SELECT count(*) FROM words_docsize), (SELECT count(*) FROM files WHERE fact_id IS NOT NULL)"
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return False
        raise
    return bool(words == facts)


def data_version(connection: sqlite3.Connection) -> int:
    """Another number after each write through another connection."""
    (found,) = connection.execute("PRAGMA data_version").fetchone()
    return int(found)


def mend(connection: sqlite3.Connection, *, read_only: bool) -> None:
    """Starts over where another program left facts without their words; raises DatabaseError where it mayn't."""
    if is_whole(connection):
        return
    if read_only:
        raise sqlite3.DatabaseError("the words of some facts are missing")
    start_over(connection)


def roll_back(connection: sqlite3.Connection) -> None:
    """Ends a transaction; on a full disk SQLite has ended it itself, and a second end would hide that error."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def start_over(connection: sqlite3.Connection) -> None:
    """Empties the database, which gets another identity; others who have it open see that at their next question.

    The file stays: unlinking a live database would leave its users with two, and their logs mixed up.
    """
    _create(connection, _version(connection) or VERSION, anew=True)


def _create(connection: sqlite3.Connection, version: str, *, anew: bool = False) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have made them while this one waited.
        if anew or _version(connection) != version:
            _make_tables(connection, version)
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def _make_tables(connection: sqlite3.Connection, version: str) -> None:
    for name in ("words", "files", "meta"):
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in filter(str.strip, _TABLES.split(";\n")):
        connection.execute(statement)
    rows = [("version", version), ("identity", secrets.token_hex(8)), ("rev", 0)]
    connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)


def lacks_indexes(connection: sqlite3.Connection) -> bool:
    """Whether `make_indexes` has something to do: every answer is right without, but costs a look at each row."""
    (found,) = connection.execute(_INDEX_COUNT).fetchone()
    return bool(found < len(_INDEXES))


def make_indexes(connection: sqlite3.Connection) -> None:
    """The indexes that new tables are filled without; within the caller's transaction."""
    for index in _INDEXES:
        connection.execute(f"CREATE INDEX IF NOT EXISTS {index}")


def delete(path: Path) -> None:
    """Removes a database with its write-ahead log; absent is fine, and what lies behind a link stays."""
    if os.path.islink(path.parent):
        return
    # The database last: once it is gone others make a new one, whose log must not be removed.
    for suffix in ("-wal", "-shm", "-journal", ""):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
