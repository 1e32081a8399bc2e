"""What the crash tests do: operations, each with the store before and after it in plain words.

The model of a store is a dictionary: "agent/id" to content, "summary/name" to text. Ids and the clock are fixed, so
files can be compared byte for byte.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from builders_v1 import as_json, v1_document, v1_fact
from faults import Fault, FaultyFiles, Killed, QuickFiles

from deermem import DeerMem, Settings
from deermem.errors import DeerMemError
from deermem.model.changes import ABSENT, Amend, ChangeSet, Delete, Upsert
from deermem.model.fact import Draft
from deermem.store.files import Files

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
State = dict[str, str]
HAND_MADE = "Written by hand, without front matter.\n"
CHANGED = {"__default__/f_a": "Now drinks tea.", "__default__/f_b": "Moved to Porto."}
CREATED = {"__default__/g_1": "Plays the oboe.", "__default__/g_2": "Keeps bees."}

BASE: State = {
    "__default__/f_a": "Drinks coffee.",
    "__default__/f_b": "Lives in Bergen.",
    "__default__/f_c": "Cycles to work.",
    "__default__/f_d": "Reads the paper.",
    "__default__/note": HAND_MADE.strip(),
    "coder/f_a": "Prefers tabs.",
    "coder/f_e": "Ships on Thursdays.",
    "summary/work_context": "Surveys bridges.",
}


def opened(
    root: Path, files: Files | None = None, *, retrieval: str = "", cap: int = 100, timeout: float = 10.0
) -> DeerMem:
    """An engine at a time that stands still."""
    settings = Settings(retrieval_adapter=retrieval, max_facts=cap, file_lock_timeout_seconds=timeout)
    return DeerMem(root, settings, clock=lambda: NOW, files=files or QuickFiles())


def put(engine: DeerMem, entries: State, confidence: float = 0.5) -> None:
    """Adds these facts, one commit each, and the summaries."""
    for key, text in entries.items():
        bucket, _, name = key.partition("/")
        if bucket == "summary":
            engine.memory("ann").update_summaries({name: text})
        else:
            engine.memory("ann", agent_of(bucket)).apply(
                ChangeSet([Draft(content=text, id=name, confidence=confidence)])
            )


def agent_of(bucket: str) -> str | None:
    """The name to open a bucket by."""
    return None if bucket == "__default__" else bucket


def base(root: Path) -> None:
    """Two buckets with a sidecar, a host's file, a hand-made fact, and a second user."""
    with opened(root) as engine:
        put(engine, {key: text for key, text in BASE.items() if key != "__default__/note"})
        engine.memory("bob").apply(ChangeSet([Draft(content="Bob stays out of this.", id="f_a")]))
    ann = root / "users" / "ann"
    (ann / "agents/__default__/facts/note.md").write_text(HAND_MADE)
    (ann / "agents/coder/config.yaml").write_text("model: none\n")
    usage = ann / "agents/__default__/.metadata/fact-usage.json"
    usage.parent.mkdir()
    usage.write_text(json.dumps({"version": 1, "facts": {"f_b": {"useCount": 2}, "f_d": {"useCount": 5}}}))


def nothing(root: Path) -> None:
    """No store at all."""


@dataclass(frozen=True)
class Operation:
    """Something that changes memory. `due`: a mere read does it, so that nothing is ever read in the state before."""

    name: str
    act: Callable[[DeerMem], object]
    after: State
    before: State = field(default_factory=lambda: BASE)
    prepare: Callable[[Path], None] = base
    cap: int = 100
    due: bool = False


# --- what is done


def six(engine: DeerMem) -> object:
    """Two created, two updated, two deleted, each on what was read."""
    memory = engine.memory("ann")
    version = {fact.id: fact.version for fact in memory.list()}
    new = [Upsert(Draft(content=text, id=key.partition("/")[2]), ABSENT) for key, text in CREATED.items()]
    changed = [
        Amend(fact_id, content=CHANGED[f"__default__/{fact_id}"], expected=version[fact_id])
        for fact_id in ("f_a", "f_b")
    ]
    gone = [Delete("f_c", version["f_c"]), Delete("f_d", version["f_d"])]
    return memory.apply(ChangeSet([*new, *changed], gone))


SIX = {key: text for key, text in {**BASE, **CHANGED, **CREATED}.items() if key[-3:] not in ("f_c", "f_d")}
SIX["coder/f_a"] = BASE["coder/f_a"]


def create(engine: DeerMem) -> object:
    """One new fact."""
    return engine.memory("ann").apply(ChangeSet([Upsert(Draft(content="Plays the oboe.", id="g_1"), ABSENT)]))


def update(engine: DeerMem) -> object:
    """One fact with another content."""
    memory = engine.memory("ann")
    return memory.apply(ChangeSet([Amend("f_a", content="Now drinks tea.", expected=memory.get("f_a").version)]))


def delete(engine: DeerMem) -> object:
    """One fact gone, and its entry in the sidecar."""
    memory = engine.memory("ann")
    return memory.delete("f_d", memory.get("f_d").version)


def without(*keys: str) -> State:
    """The base store without these."""
    return {key: text for key, text in BASE.items() if key not in keys}


DOCUMENT = {
    "facts": [
        {"id": "f_a", "content": "Now drinks tea."},
        *({"id": f"i_{number}", "content": f"Imported line {number}."} for number in range(7)),
    ],
    "user": {"workContext": {"summary": "Surveys tunnels."}},
}
IMPORTED = {f"__default__/i_{number}": f"Imported line {number}." for number in range(7)}
IMPORTED |= {"__default__/f_a": "Now drinks tea.", "summary/work_context": "Surveys tunnels."}
CHANGED_A = {"__default__/f_a": "Now drinks tea."}
SURVEYS = {"summary/work_context": "Surveys tunnels."}
CODER = {key: text for key, text in BASE.items() if key.startswith("coder/")}


def replace(engine: DeerMem) -> object:
    """A document of one fact and one summary in the place of everything in the bucket."""
    return engine.memory("ann").import_document({**DOCUMENT, "facts": DOCUMENT["facts"][:1]}, replace=True)


FULL = {f"__default__/h_{number}": f"Held line {number}." for number in range(5)}


def full(root: Path) -> None:
    """The base store with ten facts in the default bucket, the lowest of them h_0."""
    base(root)
    with opened(root) as engine:
        put(engine, {"__default__/h_0": FULL["__default__/h_0"]}, confidence=0.1)
        put(engine, {key: text for key, text in FULL.items() if key != "__default__/h_0"})


def evict(engine: DeerMem) -> object:
    """One more than the cap allows."""
    return engine.memory("ann").apply(ChangeSet([Draft(content="Plays the oboe.", id="g_1", confidence=0.9)]))


OLD = {
    "__default__/fact_1": "Ann plays the cello.",
    "coder/fact_2": "Prefers tabs.",
    "summary/work_context": "Surveys bridges.",
}


def old_store(root: Path) -> None:
    """Version 1: one document for the user, one for an agent."""
    ann = root / "users" / "ann"
    (ann / "agents/coder").mkdir(parents=True)
    (ann / "memory.json").write_bytes(as_json(v1_document(v1_fact(), work="Surveys bridges.")))
    other = v1_document(v1_fact("fact_2", "Prefers tabs."))
    (ann / "agents/coder/memory.json").write_bytes(as_json(other))
    (ann / "agents/coder/config.yaml").write_text("model: none\n")


OLD_MANY = OLD | {f"__default__/fact_m{number}": f"Ann owns bow {number}." for number in range(8)}


def old_store_of_many(root: Path) -> None:
    """The same, with as many facts as are flushed together."""
    old_store(root)
    more = [v1_fact(key.partition("/")[2], text) for key, text in OLD_MANY.items() if key not in OLD]
    document = v1_document(v1_fact(), *more, work="Surveys bridges.")
    (root / "users/ann/memory.json").write_bytes(as_json(document))


def migrate(engine: DeerMem) -> object:
    """The whole user."""
    report = engine.migrate(["ann"])
    failed = [problem for user in report.users if user.outcome == "failed" for problem in user.problems]
    if failed:
        raise DeerMemError(failed[0])
    return report


def undo_journal(root: Path) -> None:
    """DeerFlow died in a write: f_a is overwritten, f_z is new, memory.json is one further."""
    base(root)
    ann = root / "users" / "ann"
    fact = next((ann / "agents/__default__/facts").rglob("f_a.md"))
    backups = ann / ".recovery" / "op1"
    backups.mkdir(parents=True)
    shutil.copy(fact, backups / "f_a.md")
    shutil.copy(ann / "memory.json", backups / "memory.json")
    fact.write_bytes(fact.read_bytes().replace(b"coffee", b"cocoa"))
    with opened(root / "spare") as engine:
        new = engine.memory("ann").apply(ChangeSet([Draft(content="Half of a write.", id="f_z")]))
        assert new.facts
        text = engine.memory("ann").path("f_z").read_bytes()
        where = engine.memory("ann").path("f_z").relative_to(root / "spare/users/ann")
    shutil.rmtree(root / "spare")
    (ann / where).parent.mkdir(exist_ok=True)
    (ann / where).write_bytes(text)
    document = json.loads((ann / "memory.json").read_text())
    (ann / "memory.json").write_text(json.dumps({**document, "revision": document["revision"] + 1}))
    said = {
        "operationId": "op1",
        "state": "prepared",
        "factIds": ["f_a", "f_z"],
        "oldEntries": {"f_a": {"path": fact.relative_to(ann).as_posix()}},
        "expectedRevision": document["revision"],
        "agentName": None,
    }
    (ann / ".memory.journal.json").write_text(json.dumps(said))


def killed_at(act: Callable[[DeerMem], object], words: str, more: int) -> Callable[[Path], None]:
    """The base store with an operation killed some calls after the first call of that name."""

    def prepare(root: Path) -> None:
        base(root)
        copy = root.with_name(root.name + "-dry")
        shutil.copytree(root, copy)
        dry = FaultyFiles()
        with opened(copy, dry) as engine:
            act(engine)
        shutil.rmtree(copy)
        at = next(number for number, call in enumerate(dry.calls) if words in call) + more
        with suppress(Killed):
            act(opened(root, FaultyFiles(Fault(at, "kill"))))

    return prepare


def next_create(engine: DeerMem) -> object:
    """What the next holder of the lock came for."""
    return engine.memory("ann", "coder").apply(ChangeSet([Draft(content="Came later.", id="g_9")]))


LATER = {"coder/g_9": "Came later."}
SUMMARIES = {"work_context": "Surveys tunnels.", "top_of_mind": "The strait."}
SAID = {f"summary/{name}": text for name, text in SUMMARIES.items()}

OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("first", create, {"__default__/g_1": "Plays the oboe."}, {}, nothing),
        Operation("create", create, {**BASE, "__default__/g_1": "Plays the oboe."}),
        Operation("update", update, {**BASE, "__default__/f_a": "Now drinks tea."}),
        Operation("delete", delete, without("__default__/f_d")),
        Operation("six", six, SIX),
        Operation("import", lambda e: e.memory("ann").import_document(DOCUMENT), {**BASE, **IMPORTED}),
        Operation("replace", replace, {**CODER, **CHANGED_A, **SURVEYS}),
        Operation("summaries", lambda e: e.memory("ann").update_summaries(SUMMARIES), {**BASE, **SAID}),
        Operation("clear", lambda e: e.memory("ann").clear(), {**CODER, "summary/work_context": "Surveys bridges."}),
        Operation("clear-user", lambda e: e.clear("ann"), {}),
        Operation(
            "evict",
            evict,
            {key: text for key, text in {**BASE, **FULL}.items() if key != "__default__/h_0"}
            | {"__default__/g_1": "Plays the oboe."},
            {**BASE, **FULL},
            full,
            cap=10,
        ),
        Operation("migrate", migrate, OLD, OLD, old_store, due=True),
        Operation("migrate-many", migrate, OLD_MANY, OLD_MANY, old_store_of_many, due=True),
        Operation("undo", next_create, {**BASE, **LATER}, BASE, undo_journal, due=True),
        Operation("sealed", next_create, {**SIX, **LATER}, SIX, killed_at(six, "flush record", 4)),
        Operation("unswapped", next_create, {**SIX, **LATER}, SIX, killed_at(six, "flush record", 1)),
        Operation(
            "leftover",
            next_create,
            {**BASE, **LATER, "__default__/g_1": "Plays the oboe."},
            {**BASE, "__default__/g_1": "Plays the oboe."},
            killed_at(create, "exchange memory.json", 0),
        ),
    )
}
