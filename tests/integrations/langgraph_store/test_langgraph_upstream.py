"""LangGraph's own tests of its stores, out of its source distributions, run against ours.

They need a package index and half a minute, so they run where CI=true is set, as `.ci/run` does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("langgraph.store.base")

import deermem

pytestmark = [
    pytest.mark.skipif(os.environ.get("CI") != "true", reason="fetches LangGraph's own tests; run with CI=true"),
    pytest.mark.timeout(300),
]

PLUGINS = ["pytest-asyncio>=0.24", "pytest-mock>=3.14"]
IMPORTS = re.compile(r"from langgraph\.store\.(?:sqlite|memory)\S* import (\(.*?\)|[^\n]+)", re.DOTALL)
DOUBLE = """
import tempfile
from contextlib import asynccontextmanager, contextmanager

from deermem import DeerMem, Settings
from deermem.integrations.langgraph_store import DeerMemStore

NS_MATCH_FUNCTION = BaseSqliteStore = SqliteIndexConfig = _escape_glob_literal = _namespace_match_pattern = None


class InMemoryStore(DeerMemStore):
    def __init__(self, *, index=None):
        super().__init__(DeerMem(tempfile.mkdtemp(dir="stores"), Settings(max_facts=0)))


class SqliteStore(InMemoryStore):
    @classmethod
    @contextmanager
    def from_conn_string(cls, _, *, index=None):
        yield cls()

    def setup(self):
        pass


class AsyncSqliteStore(InMemoryStore):
    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _, *, index=None):
        yield cls()

    async def setup(self):
        pass
"""

# These look at vectors and their distances, at the SQL of the store that they were written for, or take long.
VECTORS = [
    "vector_store_initialization",
    "vector_search_with_filters",
    "batched_vector",
    "embed_with_path",
    "test_scores",
]
SQL = ["migrations", "escape_glob", "namespace_match_pattern", "indexable_condition", "no_running_loop"]
LONG = ["large_batches"]


def pip(*arguments: str) -> None:
    """Runs pip; skips the test where it can't get what is asked for."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    if done.returncode != 0:
        pytest.skip(f"pip has no {arguments[-1]} to give: {done.stderr.strip()[-200:]}")


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what those tests need, outside every environment."""
    folder = tmp_path_factory.mktemp("plugins")
    pip("install", "--quiet", "--no-deps", "--target", str(folder), *PLUGINS)
    return folder


@pytest.mark.parametrize(
    ("package", "files", "least"),
    [
        ("langgraph-checkpoint==4.3.2", ["test_store.py", "embed_test_utils.py"], 110),
        ("langgraph-checkpoint-sqlite==3.1.2", ["test_store.py", "test_async_store.py"], 110),
    ],
)
def test_the_tests_of_its_own_stores_pass(tmp_path: Path, plugins: Path, package: str, files: list[str], least: int):
    # Of this package alone: else what builds it would be built first.
    source_only = f"--no-binary={package.partition('=')[0]}"
    pip("download", "--quiet", "--no-deps", source_only, "--dest", str(tmp_path / "sdist"), package)
    (archive,) = (tmp_path / "sdist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    tests = tmp_path / "run" / "tests"
    tests.mkdir(parents=True)
    (tests.parent / "stores").mkdir()
    (tests / "__init__.py").touch()
    (tests.parent / "deermem_double.py").write_text(DOUBLE)
    for name in files:
        text = (source / "tests" / name).read_text("utf-8")
        (tests / name).write_text(IMPORTS.sub(r"from deermem_double import \1", text), "utf-8")
    paths = [str(tests.parent), str(plugins), str(Path(deermem.__file__).resolve().parent.parent)]
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "pytest_asyncio",
                "-p",
                "pytest_mock",
                "-p",
                "no:cacheprovider",
            ),
            *("-c", os.devnull, "--rootdir", str(tests.parent), "-o", "asyncio_mode=auto"),
            *("-k", f"not ({' or '.join(VECTORS + SQL + LONG)})", "tests"),
        ],
        cwd=tests.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= least
