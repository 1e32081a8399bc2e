"""What a bucket serves: which file speaks for which id, and the state token of what was seen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from deermem.format.paths import fact_path, facts_folder
from deermem.index.rows import Row
from deermem.model.fact import Fact


@dataclass(frozen=True)
class Snapshot:
    """One bucket at one moment.

    `rows` is by fact id in lower case; `facts` are by id; `shadowed` are files whose id another file speaks for;
    `unreadable` are the files that can't be read now; one that was half-written a moment ago is in `rows` too.
    """

    rows: Mapping[str, Row]
    shadowed: tuple[Row, ...] = ()
    unreadable: tuple[Row, ...] = ()

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Every fact that is served, by id."""
        found = (row.fact for row in self.rows.values())
        return tuple(sorted((fact for fact in found if fact is not None), key=attrgetter("id")))

    def row(self, fact_id: str) -> Row | None:
        """The file that speaks for an id."""
        return self.rows.get(fact_id.lower())

    def exact(self, fact_id: str) -> Row | None:
        """The file that speaks for an id, or, where that one spells it in another case, the one that spells it so."""
        row = self.row(fact_id)
        if row is None or row.fact_id == fact_id:
            return row
        return next((other for other in self.shadowed if other.fact_id == fact_id), row)

    def all_rows(self) -> list[Row]:
        """Every file once."""
        broken = [row for row in self.unreadable if row.kept is None]
        return [*self.rows.values(), *self.shadowed, *broken]

    def token_parts(self) -> Iterable[bytes]:
        """What the state token is made of: path and content hash of every file."""
        for row in sorted(self.all_rows(), key=lambda row: row.path):
            yield f"{row.agent}/{row.path}\0".encode(errors="surrogatepass") + row.hash


def resolve(rows: Iterable[Row]) -> Snapshot:
    """Of two files with one id, the canonical path wins, then the stem that equals the id, then the first path."""
    speakers: dict[str, Row] = {}
    shadowed: list[Row] = []
    unreadable: list[Row] = []
    for row in rows:
        if row.problem is not None:
            unreadable.append(row)
        if row.fact_id is None:
            continue
        key = row.fact_id if row.fact_id.islower() else row.fact_id.lower()
        other = speakers.get(key)
        if other is None:
            speakers[key] = row
        else:
            first, second = sorted((other, row), key=_precedence)
            speakers[key] = first
            shadowed.append(second)
    return Snapshot(speakers, tuple(shadowed), tuple(unreadable))


def _precedence(row: Row) -> tuple[bool, bool, str]:
    fact_id = row.fact_id or ""
    stem = row.path.rpartition("/")[2].removesuffix(".md")
    return not is_canonical(row.agent, row.path, fact_id), stem != fact_id, row.path


def is_canonical(agent: str, path: str, fact_id: str) -> bool:
    """Whether a path below `facts/` is the place where deermem itself would put that fact."""
    return f"{facts_folder(agent)}/{path}" == fact_path(agent, fact_id)


def state_token(manifest: bytes | None, snapshots: Iterable[Snapshot]) -> str:
    """Names the state of memory.json and all files; hand edits move it as commits do."""
    digest = hashlib.sha256(hashlib.sha256(manifest or b"").digest())
    for snapshot in snapshots:
        for part in snapshot.token_parts():
            digest.update(part)
    return digest.hexdigest()[:32]
