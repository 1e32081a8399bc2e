"""How well and how fast facts are found, beside plain FTS5, bm25s and substring search.

    python scripts/bench/retrieval.py --data FOLDER [--json FILE]

Every `*.jsonl` of the folder is one data set, every line of it one store: `scope`, `facts` (id, content, createdAt) and
`queries` (text, gold: the ids of the facts that answer it). Prints recall@5, recall@10, MRR, nDCG@10 and the median and
95th percentile of a query's time, as a table and as JSON. bm25s is measured where it is
installed (`pip install bm25s`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from deermem.clock import parse_timestamp
from deermem.index.query import parse_query
from deermem.index.search import search, substring_rank
from deermem.index.tokens import FTS_TOKENIZE, index_text
from deermem.model.fact import Fact, derive_title
from deermem.model.records import SearchFilter

DATA_VARIABLE = "DEERMEM_BENCH_DATA"
TOP_K = 10
ANY = SearchFilter()
SCHEMA = f"""
    CREATE TABLE files (id INTEGER PRIMARY KEY, agent TEXT NOT NULL, path TEXT NOT NULL, fact_id TEXT, category TEXT,
        confidence REAL, created REAL, updated REAL, thread TEXT, topics TEXT, expires REAL, length INTEGER, fact TEXT);
    CREATE VIRTUAL TABLE words USING fts5(body, tokenize={FTS_TOKENIZE});
"""
HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+")
PEER = "bm25s"
PEER_TOKENS = "its own words (English stems), its English and Chinese stop words, runs of Han as overlapping pairs"
Finder = Callable[[str], list[str]]


@dataclass(frozen=True)
class Question:
    """A query and the ids of the facts that answer it."""

    text: str
    gold: frozenset[str]


@dataclass(frozen=True)
class Scope:
    """One store."""

    facts: tuple[Fact, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Row:
    """One line of the table: means over all questions of a data set; times in milliseconds."""

    data: str
    way: str
    questions: int
    recall5: float
    recall10: float
    mrr: float
    ndcg10: float
    median_ms: float
    p95_ms: float


def read_scopes(path: Path) -> Iterator[Scope]:
    """The stores of one data set."""
    for line in path.read_text(encoding="utf-8").splitlines():
        given = json.loads(line)
        facts = tuple(_fact(item) for item in given["facts"])
        yield Scope(facts, tuple(Question(item["text"], frozenset(item["gold"])) for item in given["queries"]))


def _fact(item: dict[str, str]) -> Fact:
    moment = parse_timestamp(item["createdAt"]) or datetime.now(UTC)
    title = derive_title(item["content"])
    return Fact(id=item["id"], content=item["content"], title=title, created_at=moment, updated_at=moment)


def build(connection: sqlite3.Connection, facts: Sequence[Fact], today: float | None) -> None:
    """Fills the tables as the index does; `today` takes the place of the real dates."""
    connection.executescript(SCHEMA)
    for row, fact in enumerate(facts, 1):
        body, length = index_text(fact.title, fact.content)
        moment = fact.updated_at.timestamp() if today is None else today
        connection.execute(
            "INSERT INTO files (id, agent, path, fact_id, confidence, updated, length) VALUES (?, 'a', ?, ?, ?, ?, ?)",
            (row, f"{fact.id}.md", fact.id, fact.confidence, moment, length),
        )
        connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (row, body))
    connection.commit()


def engine(connection: sqlite3.Connection) -> Finder:
    """The search that deermem does."""
    now = time.time()

    def find(text: str) -> list[str]:
        hits = search(connection, parse_query(text), where=ANY, top_k=TOP_K, now=now)
        return [hit.fact_id for hit in hits]

    return find


def plain_fts5(connection: sqlite3.Connection) -> Finder:
    """The same tokens and the same MATCH, in FTS5's own order."""
    statement = (
        "SELECT fact_id FROM files JOIN"
        " (SELECT rowid AS row, rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?) ON id = row ORDER BY rank"
    )

    def find(text: str) -> list[str]:
        match = parse_query(text).match
        return [row[0] for row in connection.execute(statement, (match, TOP_K))] if match else []

    return find


def with_bm25s(facts: Sequence[Fact]) -> Finder:
    """The peer as its guide sets it up, with its own tokeniser, stop words and weights (Lucene's BM25).

    It takes a run of Han for one word, so it is given the pairs of each run as words. Raises ImportError.
    """
    import bm25s
    import Stemmer
    from bm25s.stopwords import STOPWORDS_CHINESE, STOPWORDS_EN

    dropped = [*STOPWORDS_EN, *STOPWORDS_CHINESE]
    stemmer = Stemmer.Stemmer("english")

    def tokens(texts: list[str]) -> list[list[str]]:
        spaced = [HAN.sub(_pairs, text) for text in texts]
        return bm25s.tokenize(spaced, stopwords=dropped, stemmer=stemmer, return_ids=False, show_progress=False)

    index = bm25s.BM25()
    index.index(tokens([fact.content for fact in facts]), show_progress=False)
    count = min(TOP_K, len(facts))

    def find(text: str) -> list[str]:
        places, scores = index.retrieve(tokens([text]), k=count, show_progress=False)
        return [facts[place].id for place, score in zip(places[0], scores[0], strict=True) if score > 0]

    return find


def _pairs(run: re.Match[str]) -> str:
    text = run[0]
    return f" {' '.join(text[at : at + 2] for at in range(max(len(text) - 1, 1)))} "


def peer(scopes: Sequence[Scope]) -> list[Finder]:
    """One for each store, none where the package is missing."""
    try:
        return [with_bm25s(scope.facts) for scope in scopes]
    except ImportError:
        return []


def substring(facts: Sequence[Fact]) -> Finder:
    """The fallback without an index."""

    def find(text: str) -> list[str]:
        return [fact.id for fact in substring_rank(text, facts, ANY, TOP_K)]

    return find


def measure(data: str, way: str, runs: Sequence[tuple[Finder, Sequence[Question]]]) -> Row:
    """Asks every question once."""
    times: list[float] = []
    scores: list[tuple[float, float, float, float]] = []
    for find, questions in runs:
        for question in questions:
            start = time.perf_counter()
            hits = find(question.text)
            times.append((time.perf_counter() - start) * 1000)
            scores.append(_scores(hits, question.gold))
    means = [round(statistics.fmean(column), 3) for column in zip(*scores, strict=True)]
    times.sort()
    median, late = round(statistics.median(times), 3), round(times[int(len(times) * 0.95)], 3)
    return Row(data, way, len(times), means[0], means[1], means[2], means[3], median, late)


def _scores(hits: Sequence[str], gold: frozenset[str]) -> tuple[float, float, float, float]:
    places = [place for place, hit in enumerate(hits[:TOP_K]) if hit in gold]
    ideal = sum(1 / math.log2(place + 2) for place in range(min(len(gold), TOP_K)))
    return (
        sum(place < 5 for place in places) / len(gold),
        len(places) / len(gold),
        1 / (places[0] + 1) if places else 0.0,
        sum(1 / math.log2(place + 2) for place in places) / ideal,
    )


def run(path: Path, folder: str) -> Iterator[Row]:
    """All ways of searching one data set."""
    scopes = [scope for scope in read_scopes(path) if scope.questions]
    stores: dict[str, list[sqlite3.Connection]] = {"today": [], "dates": []}
    for name, today in (("today", time.time()), ("dates", None)):
        for number, scope in enumerate(scopes):
            connection = sqlite3.connect(os.path.join(folder, f"{path.stem}-{name}-{number}.sqlite3"))
            build(connection, scope.facts, today)
            stores[name].append(connection)
    ways = {
        "deermem, facts of today": [engine(store) for store in stores["today"]],
        "deermem, real dates": [engine(store) for store in stores["dates"]],
        "FTS5 alone": [plain_fts5(store) for store in stores["dates"]],
        PEER: peer(scopes),
        "substring": [substring(scope.facts) for scope in scopes],
    }
    for way, finders in ways.items():
        if not finders:
            continue
        asked = [scope.questions if way != "substring" else scope.questions[:50] for scope in scopes]
        yield measure(path.stem, way, list(zip(finders, asked, strict=True)))
    for store in (*stores["today"], *stores["dates"]):
        store.close()


def show(rows: Sequence[Row]) -> None:
    """The table."""
    names = ("data", "way", "questions", "recall@5", "recall@10", "MRR", "nDCG@10", "median ms", "p95 ms")
    lines = [names, *(tuple(str(value) for value in asdict(row).values()) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    measured = any(row.way == PEER for row in rows)
    print(f"{PEER}: {PEER_TOKENS}" if measured else f"{PEER}: not installed, not measured (pip install {PEER})")


def main() -> int:
    """Exit 0 with results, 2 without data."""
    parser = argparse.ArgumentParser(description="Measures how well and how fast facts are found.")
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE), help=f"folder of *.jsonl (${DATA_VARIABLE})")
    parser.add_argument("--json", help="also writes the results to this file")
    given = parser.parse_args()
    paths = sorted(Path(given.data).glob("*.jsonl")) if given.data else []
    if not paths:
        print(
            f"no data: give --data or ${DATA_VARIABLE}, a folder of *.jsonl files; one JSON object a line with",
            file=sys.stderr,
        )
        print('"scope", "facts" [{id, content, createdAt}] and "queries" [{text, gold: [ids]}]', file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for path in paths for row in run(path, folder)]
    show(rows)
    text = json.dumps([asdict(row) for row in rows], indent=2)
    print(text)
    if given.json:
        Path(given.json).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
