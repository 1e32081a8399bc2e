"""Any order of hand edits, engine calls and crashes: every edit is seen at once, and none is ever lost.

The person's side is a plain dictionary of what each file says, known because the file was made from it; no codec
of the engine is asked. Each file is `head + content + newline`, so that a text can be changed without reading it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders_store import facts_of, shard
from crash.faults import Fault, FaultyFiles, Killed, QuickFiles
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from deermem import Corruption, DeerMem, DuplicateFact, FactConflict, FactNotFound, Memory, Settings
from deermem.service import apply, view

AGENTS = ("coder", "writer")
FOLDERS = ("", "ab/", "notes/", "notes/deep er/", "Ünï/")
NAMES = (
    "0plain",
    "(my note)",
    "日本語",
    "v1..2",
    "a (conflicted copy)",
    "README",
    "-dash",
    "caf\udce9",
    "UPPER",
    "x.y",
)
IGNORED = (".#lock.md", "._apple.md", ".hidden/in.md", "draft.txt", "backup.md~")
AT_MOST = 14

agents = st.sampled_from(AGENTS)
picks = st.integers(0, 1000)
folders = st.sampled_from(FOLDERS)
names = st.sampled_from(NAMES)
hows = st.sampled_from(["in place", "temp and rename", "remove and write", "write twice"])
expectations = st.sampled_from(["none", "present", "stale"])


@dataclass(frozen=True)
class Text:
    """What a person or an engine put into a file. `fact_id` and `owner` as its front matter says them, else None."""

    head: bytes
    content: str
    fact_id: str | None = None
    owner: str | None = None
    kind: str = "good"  # good, broken (no YAML), empty

    @property
    def data(self) -> bytes:
        if self.kind == "empty":
            return b""
        return self.head if self.kind == "broken" else self.head + self.content.encode() + b"\n"

    def saying(self, content: str) -> Text:
        """The same file with another text, its heading with it."""
        return replace(self, head=self.head.replace(self.content.encode(), content.encode()), content=content)


@dataclass(frozen=True)
class Known:
    """A file that serves what it said before it was broken, and since when."""

    fact_id: str
    text: Text
    since: datetime


def id_of_name(path: str) -> str:
    stem = path.rpartition("/")[2].removesuffix(".md")
    if re.fullmatch("[A-Za-z0-9_-]+", stem):
        return stem
    mark = hashlib.sha256(stem.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{re.sub('[^A-Za-z0-9_-]', '-', stem)}-{mark}"


def canonical(fact_id: str) -> str:
    return f"{shard(fact_id)}/{fact_id}.md"


class HandEdits(RuleBasedStateMachine):
    """`files` is the truth: (agent, path) to what lies there. `good_before` are files that broke meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="hand-edits-"))
        self.root = self.folder / "root"
        self.now = datetime(2026, 11, 30, 12, tzinfo=UTC)
        self.monotonic = 1000.0
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(view, "time", SimpleNamespace(monotonic=lambda: self.monotonic))
        numbers = itertools.count()
        self.patch.setattr(apply, "secrets", SimpleNamespace(token_hex=lambda _: f"{next(numbers):016x}"))
        self.engines = [self.open("fts5"), self.open(""), self.open("fts5")]
        self.files: dict[tuple[str, str], Text] = {}
        self.good_before: dict[tuple[str, str], Known] = {}
        self.seen: list[tuple[str, str, str, bytes]] = []
        self.history: list[tuple[tuple[str, str], Text, int]] = []
        self.branch: dict[tuple[str, str], Text] = {}
        self.outside: list[Path] = []
        self.tokens: list[str] = []
        self.count = 0

    def teardown(self) -> None:
        self.patch.undo()
        for engine in self.engines:
            engine.close()
        shutil.rmtree(self.folder)

    def open(self, adapter: str = "fts5", files: QuickFiles | None = None) -> DeerMem:
        made = Settings(max_facts=0, retrieval_adapter=adapter)
        return DeerMem(self.root, made, clock=lambda: self.now, files=files or QuickFiles())

    def memory(self, pick: int, agent: str) -> Memory:
        return self.engines[pick % len(self.sure())].memory("alice", agent)

    def sure(self) -> list[DeerMem]:
        """Who looks at everything; the third looks now and then, so it may know another last good version."""
        return self.engines[:2] if self.good_before else self.engines

    # --- the person's side

    def path(self, key: tuple[str, str]) -> Path:
        return facts_of(self.root, "alice", key[0]) / key[1]

    def content(self) -> str:
        """A new text: all of one length, so that an edit may keep the size."""
        self.count += 1
        self.tokens.append(f"tok{self.count:05}")
        return f"Says {self.tokens[-1]} and no more"

    def put(self, key: tuple[str, str], text: Text, how: str = "in place") -> None:
        """Saves a file the way some editor does; the other names of the same file change with it."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        same = [other for other in self.files if self.files_are_one(other, key)] if key in self.files else []
        if how == "in place" and key in self.files:
            with path.open("r+b") as file:
                file.write(text.data)
                file.truncate()
        elif how == "temp and rename":
            beside = path.with_name(f".{path.name}.swp")
            beside.write_bytes(text.data)
            os.replace(beside, path)
        elif how == "remove and write":
            path.unlink(missing_ok=True)
            path.write_bytes(text.data)
        else:
            path.write_bytes(b"---\nhalf: [")
            path.write_bytes(text.data)
        for other in same if how in ("in place", "write twice") else ():
            self.say(other, text)
        self.say(key, text)

    def say(self, key: tuple[str, str], text: Text | None) -> None:
        """The model learns what a file says now, None for a file that is gone."""
        old = self.files.get(key)
        if old is not None:
            self.history.append((key, old, self.count))
        known = self.good_before.pop(key, None)
        if text is None:
            self.files.pop(key, None)
            return
        self.files[key] = text
        if text.kind == "broken" and old is not None:
            fact = self.fact(key, old)
            last = Known(fact[0], old, self.now) if fact is not None else known
            if last is not None:
                self.good_before[key] = last

    def files_are_one(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        return one == other or os.path.samefile(self.path(one), self.path(other))

    def key(self, pick: int) -> tuple[str, str]:
        return sorted(self.files)[pick % len(self.files)]

    def has_files(self) -> bool:
        return bool(self.files)

    def has_room(self) -> bool:
        return len(self.files) < AT_MOST

    # --- what there is to see

    @staticmethod
    def fact(key: tuple[str, str], text: Text) -> tuple[str, Text] | None:
        """Id and text of a file that is served."""
        if text.kind != "good" or text.owner not in (None, key[0]):
            return None
        return text.fact_id or id_of_name(key[1]), text

    def last_good(self, key: tuple[str, str]) -> tuple[str, Text] | None:
        known = self.good_before.get(key)
        if known is None or self.now - known.since >= timedelta(seconds=60):
            return None
        return known.fact_id, known.text

    def speakers(self, agent: str) -> dict[str, tuple[tuple[str, str], Text]]:
        """Id → the file that speaks for it, and what it says."""
        found: dict[str, list[tuple[bool, bool, str, Text]]] = {}
        for key, text in self.files.items():
            fact = self.fact(key, text) or self.last_good(key)
            if key[0] == agent and fact is not None:
                stem = key[1].rpartition("/")[2].removesuffix(".md")
                place = (key[1] != canonical(fact[0]), stem != fact[0], key[1], fact[1])
                found.setdefault(fact[0], []).append(place)
        first = {fact_id: min(said, key=lambda place: place[:3]) for fact_id, said in found.items()}
        return {fact_id: ((agent, path), text) for fact_id, (_, _, path, text) in first.items()}

    def said(self, agent: str) -> dict[str, str]:
        return {fact_id: text.content for fact_id, (_, text) in self.speakers(agent).items()}

    def find(self, agent: str, fact_id: str) -> tuple[str, str] | type[Exception]:
        """The file that an engine may write for an id, or how it must refuse."""
        home = (agent, canonical(fact_id))
        if home in self.files:
            fact = self.fact(home, self.files[home])
            if fact is None:
                return Corruption
            if fact[0] == fact_id:
                return home
        speaker = self.speakers(agent).get(fact_id)
        if speaker is None:
            stems = [path.rpartition("/")[2] for other, path in self.unserved() if other == agent]
            return Corruption if f"{fact_id}.md" in stems else FactNotFound
        return speaker[0] if self.files[speaker[0]].kind == "good" else Corruption

    def unserved(self) -> set[tuple[str, str]]:
        return {key for key, text in self.files.items() if self.fact(key, text) is None}

    def pick_id(self, pick: int, agent: str) -> str:
        ids = sorted({*self.said(agent), *(id_of_name(path) for other, path in self.files if other == agent)})
        return ids[pick % len(ids)] if ids else "nothing-there"

    def lies_there(self, key: tuple[str, str], content: str, fact_id: str) -> Text:
        """The model of a file that an engine just wrote: its bytes must end in the content."""
        data = self.path(key).read_bytes()
        end = content.encode() + b"\n"
        assert data.endswith(end)
        before = self.files.get(key)
        owner = before.owner if before is not None and before.owner is not None else key[0]
        return Text(data[: -len(end)], content, fact_id, owner)

    # --- rules: a person with an editor

    @initialize()
    def some_facts(self) -> None:
        for number in range(2):
            self.add(number, "coder")

    @precondition(has_room)
    @rule(agent=agents, folder=folders, name=names, how=hows)
    def write_a_note(self, agent, folder, name, how):
        self.put((agent, f"{folder}{name}.md"), Text(b"", self.content()), how)

    @precondition(has_room)
    @rule(agent=agents, folder=folders, name=names, pick=picks, other_id=st.booleans(), foreign=st.booleans())
    def write_with_front_matter(self, agent, folder, name, pick, other_id, foreign):
        fact_id = self.pick_id(pick, agent) if other_id else None
        owner = {True: "writer", False: "coder"}[agent == "coder"] if foreign else agent if pick % 2 else None
        head = "---\ncategory: goal # mine\nmood: {b: 1, a: [x, y]}\n"
        head += f"id: {fact_id}\n" if fact_id else ""
        head += f"agent_name: {owner}\n" if owner else ""
        self.put(
            (agent, f"{folder}{name}.md"), Text(f"{head}---\n\n# A note\n\n".encode(), self.content(), fact_id, owner)
        )

    @precondition(has_files)
    @rule(pick=picks, how=hows)
    def edit(self, pick, how):
        key = self.key(pick)
        text = self.files[key]
        if text.kind == "good":
            self.put(key, text.saying(self.content()), how)

    @precondition(has_files)
    @rule(pick=picks, fresh=st.booleans())
    def edit_within_a_tick(self, pick, fresh):
        """Several saves of one size while the clock of the file system stands still, each looked at."""
        key = self.key(pick)
        fact = self.fact(key, self.files[key])
        if fact is None or self.speakers(key[0])[fact[0]][0] != key:
            return
        engine = self.open() if fresh else self.engines[pick % 2]
        memory = engine.memory("alice", key[0])
        for _ in range(4):
            text = self.files[key].saying(self.content())
            self.put(key, text)
            assert text.content in [found.content for found in memory.list()]
        if fresh:
            engine.close()

    @precondition(has_files)
    @rule(pick=picks, how=hows, number=st.booleans(), delete=st.booleans())
    def write_on_what_was_before_the_edit(self, pick, how, number, delete):
        """W14: whoever decided on an older state is refused, and the edit stays."""
        key = self.key(pick)
        fact = self.fact(key, self.files[key])
        if fact is None or self.find(key[0], fact[0]) != key:
            return
        memory = self.memory(pick, key[0])
        before = memory.get(fact[0])
        self.put(key, self.files[key].saying(self.content()), how)
        expected = before.revision if number else before.version
        with pytest.raises(FactConflict) as caught:
            memory.delete(fact[0], expected) if delete else memory.update(fact[0], self.content(), expected=expected)
        assert caught.value.current is not None
        assert caught.value.current.content == self.files[key].content

    @precondition(has_files)
    @rule(pick=picks)
    def append(self, pick):
        key = self.key(pick)
        text = self.files[key]
        if text.kind == "good":
            more = self.content()
            same = [other for other in self.files if self.files_are_one(other, key)]
            with self.path(key).open("ab") as file:
                file.write(more.encode() + b"\n")
            for other in same:
                self.say(other, replace(text, content=f"{text.content}\n{more}"))

    @precondition(has_files)
    @rule(pick=picks, how=hows)
    def cut_in_half(self, pick, how):
        """A file in the middle of being saved."""
        key = self.key(pick)
        text = self.files[key]
        if text.kind == "good" and text.head:
            at = max(len(text.head) // 2, text.head.index(b": ") + 2)
            self.put(key, replace(text, head=text.head[:at], kind="broken"), how)
        elif text.kind == "good" and len(text.content) > 8:
            self.put(key, replace(text, content=text.content[: len(text.content) // 2].strip()), how)

    @precondition(has_files)
    @rule(pick=picks, how=hows)
    def break_the_yaml(self, pick, how):
        key = self.key(pick)
        text = self.files[key]
        if text.kind == "good":
            head = b"---\ntitle: L2 (Split: Core): [\n" + text.head.removeprefix(b"---\n")
            closed = head if text.head else head + b"---\n"
            self.put(key, replace(text, head=closed + text.content.encode(), kind="broken"), how)

    @precondition(has_files)
    @rule(pick=picks, how=hows)
    def empty(self, pick, how):
        key = self.key(pick)
        self.put(key, replace(self.files[key], kind="empty"), how)

    @precondition(lambda self: bool(self.history))
    @rule(pick=picks, how=hows, old_times=st.booleans())
    def restore(self, pick, how, old_times):
        """An older version, as a backup tool or an editor's undo brings it back; a broken file is mended so."""
        key, text, _ = self.history[pick % len(self.history)]
        self.put(key, text, how)
        if old_times:
            os.utime(self.path(key), (1_700_000_000, 1_700_000_000))

    @precondition(has_files)
    @rule(pick=picks)
    def touch(self, pick):
        path = self.path(self.key(pick))
        os.utime(path, (1_600_000_000 + pick, 1_600_000_000 + pick))

    @precondition(has_files)
    @rule(pick=picks)
    def delete_the_file(self, pick):
        key = self.key(pick)
        self.path(key).unlink()
        self.say(key, None)

    @precondition(has_files)
    @rule(pick=picks, agent=agents, folder=folders, name=names, rename_only=st.booleans())
    def move(self, pick, agent, folder, name, rename_only):
        key = self.key(pick)
        target = (key[0] if rename_only else agent, f"{folder}{name}.md")
        if target != key:
            self.path(target).parent.mkdir(parents=True, exist_ok=True)
            one_file = target in self.files and self.files_are_one(key, target)
            os.replace(self.path(key), self.path(target))
            if not one_file:
                text = self.files[key]
                self.say(key, None)
                self.say(target, text)

    @precondition(has_files)
    @rule(pick=picks, name=names)
    def rename_the_folder(self, pick, name):
        agent, path = self.key(pick)
        first, _, rest = path.partition("/")
        target = facts_of(self.root, "alice", agent) / f"dir {name}"
        if rest and not target.exists():
            os.rename(target.with_name(first), target)
            for key in [key for key in self.files if key[0] == agent and key[1].startswith(f"{first}/")]:
                text = self.files[key]
                self.say(key, None)
                self.say((agent, f"dir {name}/{key[1].removeprefix(f'{first}/')}"), text)

    @precondition(lambda self: self.has_files() and self.has_room())
    @rule(pick=picks, agent=agents, folder=folders, name=names, link=st.booleans())
    def copy(self, pick, agent, folder, name, link):
        """A sync client's copy, or a second name for one file."""
        key = self.key(pick)
        target = (agent, f"{folder}{name}.md") if pick % 2 else (key[0], f"(copy {pick % 3}).md")
        if target not in self.files:
            self.path(target).parent.mkdir(parents=True, exist_ok=True)
            (os.link if link else shutil.copy2)(self.path(key), self.path(target))
            self.say(target, self.files[key])

    @precondition(has_files)
    @rule(pick=picks)
    def edit_by_a_name_elsewhere(self, pick):
        """No event tells of it: seen by the next comparison of all files, ten seconds later at most."""
        key = self.key(pick)
        text = self.files[key]
        if text.kind == "good":
            outside = self.folder / f"outside-{self.count}.md"
            os.link(self.path(key), outside)
            changed = text.saying(self.content())
            same = [other for other in self.files if self.files_are_one(other, key)]
            outside.write_bytes(changed.data)
            for other in same:
                self.say(other, changed)
            self.monotonic += 11

    @rule(agent=agents, name=st.sampled_from(IGNORED))
    def write_what_is_no_fact(self, agent, name):
        path = facts_of(self.root, "alice", agent) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("tok99999 is nobody's fact\n")

    @rule(save=st.booleans())
    def switch_the_branch(self, save):
        """Like git: many files change, come and go at once."""
        if save:
            self.branch = dict(self.files)
            return
        for key in [key for key in self.files if key not in self.branch]:
            self.path(key).unlink()
            self.say(key, None)
        for key, text in self.branch.items():
            if self.files.get(key) != text:
                self.put(key, text, "remove and write")

    @rule(garbage=st.booleans())
    def lose_the_index(self, garbage):
        index = self.root / "users" / "alice" / ".retrieval"
        shutil.rmtree(index, ignore_errors=True)
        if garbage:
            index.mkdir()
            (index / "index.sqlite3").write_bytes(b"no database at all" * 100)

    @rule(seconds=st.sampled_from([5, 30, 61]))
    def wait(self, seconds):
        self.now += timedelta(seconds=seconds)
        self.monotonic += seconds / 10

    # --- rules: agents

    @rule(pick=picks, agent=agents)
    def add(self, pick, agent):
        content = self.content()
        fact = self.memory(pick, agent).add(content)
        self.wrote((agent, canonical(fact.id)), content, fact.id)

    def wrote(self, key: tuple[str, str], content: str, fact_id: str) -> None:
        self.say(key, self.lies_there(key, content, fact_id))

    @precondition(has_files)
    @rule(pick=picks)
    def add_what_is_there(self, pick):
        key = self.key(pick)
        fact = self.fact(key, self.files[key])
        if fact is not None:
            with pytest.raises(DuplicateFact):
                self.memory(pick, key[0]).add(f"  {fact[1].content.upper()} ")

    def version(self, pick: int, agent: str, fact_id: str, kind: str) -> tuple[str | None, bool]:
        """A version to expect, and whether it still is the present one."""
        target = self.find(agent, fact_id)
        if kind == "none" or isinstance(target, type):
            return None, True
        if kind == "present":
            return self.memory(pick, agent).get(fact_id).version, True
        old = [(version, data) for other, said, version, data in self.seen if (other, said) == (agent, fact_id)]
        if not old:
            return None, True
        version, data = old[pick % len(old)]
        return version, data == self.files[target].data

    def attempt(self, call: Callable[[str | None], object], pick: int, agent: str, fact_id: str, kind: str) -> bool:
        """Whether a write went through; it must be refused when the fact is broken, gone or another one."""
        target = self.find(agent, fact_id)
        expected, matches = self.version(pick, agent, fact_id, kind)
        if isinstance(target, type):
            with pytest.raises(target):
                call(expected)
        elif not matches:
            with pytest.raises(FactConflict) as caught:
                call(expected)
            assert caught.value.current is not None
            assert caught.value.current.content == self.files[target].content
        else:
            call(expected)
            return True
        return False

    @rule(pick=picks, agent=agents, kind=expectations)
    def update(self, pick, agent, kind):
        fact_id = self.pick_id(pick, agent)
        content = self.content()
        target = self.find(agent, fact_id)

        def call(expected):
            assert self.memory(pick, agent).update(fact_id, content, expected=expected).content == content

        if self.attempt(call, pick, agent, fact_id, kind):
            assert not isinstance(target, type)
            assert self.path(target).stat().st_nlink == 1
            self.wrote(target, content, fact_id)

    @rule(pick=picks, agent=agents, kind=expectations)
    def delete(self, pick, agent, kind):
        fact_id = self.pick_id(pick, agent)
        target = self.find(agent, fact_id)
        call = lambda expected: self.memory(pick, agent).delete(fact_id, expected)  # noqa: E731
        if self.attempt(call, pick, agent, fact_id, kind):
            assert not isinstance(target, type)
            self.say(target, None)

    @precondition(has_room)
    @rule(pick=picks, agent=agents)
    def import_a_document(self, pick, agent):
        """One fact that may be there, one that is new: both or none."""
        there, new = self.pick_id(pick, agent), f"import-{self.count}"
        texts = {there: self.content(), new: self.content()}
        target = self.find(agent, there)
        home = (agent, canonical(there))
        document = {"facts": [{"id": fact_id, "content": text} for fact_id, text in texts.items()]}
        memory = self.memory(pick, agent)
        try:
            memory.import_document(document)
        except (Corruption, FactConflict):
            assert target is Corruption or (target is FactNotFound and home in self.files)
            return
        assert not isinstance(target, type) or home not in self.files
        self.wrote(home if isinstance(target, type) else target, texts[there], there)
        self.wrote((agent, canonical(new)), texts[new], new)

    @rule(pick=picks, agent=agents)
    def clear(self, pick, agent):
        """Everything of this agent goes, unreadable files too; what belongs to somebody else stays."""
        if pick % 5:
            return
        self.memory(pick, agent).clear()
        for key in [key for key in self.files if key[0] == agent]:
            if self.files[key].owner in (None, agent) or self.files[key].kind != "good":
                self.say(key, None)

    @rule(pick=picks, agent=agents, at=st.integers(0, 40), kind=st.sampled_from(["add", "update", "delete", "import"]))
    def die(self, pick, agent, at, kind):
        """A process is killed in the middle of a write: all of it is there afterwards, or nothing."""
        engine = self.open("fts5", FaultyFiles(Fault(at, "kill")))
        memory = engine.memory("alice", agent)
        fact_id, content = self.pick_id(pick, agent), self.content()
        target = self.find(agent, fact_id)
        before = self.said(agent)
        writes: dict[str, str | None] = {}
        try:
            if kind == "add":
                memory.add(content)
            elif kind == "import":
                writes = {f"import-{self.count}-{number}": f"{content} {number}" for number in range(3)}
                memory.import_document({"facts": [{"id": one, "content": text} for one, text in writes.items()]})
            elif isinstance(target, tuple):
                writes = {fact_id: content if kind == "update" else None}
                memory.update(fact_id, content) if kind == "update" else memory.delete(fact_id)
        except Killed:
            pass
        finally:
            engine.close()
        self.learn_the_outcome(agent, before, writes, content, target)

    def learn_the_outcome(self, agent, before, writes, content, target):
        readers = [engine.memory("alice", agent) for engine in self.sure()]
        now = [{fact.id: fact.content for fact in reader.list()} for reader in readers]
        assert all(seen == now[0] for seen in now)
        self.engines[0].memory("alice", agent).update_summaries({"topOfMind": self.content()})
        assert {fact.id: fact.content for fact in readers[0].list()} == now[0]
        added = now[0].keys() - before.keys()
        done = {fact_id for fact_id, text in now[0].items() if before.get(fact_id) != text}
        if writes and None in writes.values():
            (fact_id,) = writes
            if not self.path(target).exists():
                self.say(target, None)
        elif not writes:
            assert len(added) <= 1
            assert all(now[0][fact_id] == content for fact_id in added)
        else:
            assert done in (set(), set(writes))
        for fact_id in done & ({*writes} or added):
            if writes.get(fact_id, content) is not None:
                place = target if fact_id in before and isinstance(target, tuple) else (agent, canonical(fact_id))
                self.wrote(place, now[0][fact_id], fact_id)

    # --- what must hold after each of them

    @invariant()
    def nothing_is_lost(self):
        assert {key: text.data for key, text in self.files.items()} == dict(self.on_disk())
        for agent in AGENTS:
            said = {fact_id: text for fact_id, (_, text) in self.speakers(agent).items()}
            # The third has more to catch up with, from the index and from the kernel.
            for engine in self.sure() if self.count % 3 == 0 else self.engines[:2]:
                self.agrees(engine.memory("alice", agent), said)
            for fact in self.engines[0].memory("alice", agent).list():
                target = self.find(agent, fact.id)
                if not isinstance(target, type):
                    mark = (agent, fact.id, fact.version, self.files[target].data)
                    self.seen = [*self.seen[-60:], mark]

    def on_disk(self) -> Iterator[tuple[tuple[str, str], bytes]]:
        for agent in AGENTS:
            facts = facts_of(self.root, "alice", agent)
            for folder, _, files in os.walk(facts):
                for name in files:
                    path = Path(folder, name)
                    relative = path.relative_to(facts).as_posix()
                    if name.endswith(".md") and not any(part.startswith(".") for part in relative.split("/")):
                        yield (agent, relative), path.read_bytes()

    def agrees(self, memory: Memory, texts: dict[str, Text]) -> None:
        said = {fact_id: text.content for fact_id, text in texts.items()}
        assert {fact.id: fact.content for fact in memory.list()} == said
        for fact_id, content in said.items():
            assert memory.get(fact_id).content == content
        for token in self.tokens[-3:]:
            found = {hit.fact.id: hit.fact.content for hit in memory.search(token, top_k=50)}
            assert found == {fact_id: said[fact_id] for fact_id, text in texts.items() if token.encode() in text.data}
        assert memory.search("tok99999") == []

    @rule(agent=agents)
    def the_prompt_says_nothing_else(self, agent):
        said = " ".join(self.said(agent).values())
        for engine in self.engines:
            facts = engine.memory("alice", agent).context()
            summary = engine.memory("alice", agent).summaries().top_of_mind.summary
            assert set(re.findall(r"tok\d+", facts)) <= set(re.findall(r"tok\d+", said + summary))

    @rule()
    def a_new_process_sees_the_same(self):
        with self.open("fts5") as engine:
            for agent in AGENTS:
                memory = engine.memory("alice", agent)
                seen = {fact.id: fact.content for fact in memory.list()}
                said = self.said(agent)
                known = [last for key in self.good_before if (last := self.last_good(key))]
                uncertain = {(fact_id, text.content) for fact_id, text in known}
                assert {*seen.items()} - {*said.items()} <= uncertain | self.shadowed(agent)
                assert {*said.items()} - {*seen.items()} <= uncertain
                assert {hit.fact.id for hit in memory.search("says", top_k=50)} >= seen.keys() - {
                    fact_id for fact_id, text in seen.items() if "Says" not in text
                }

    def shadowed(self, agent: str) -> set[tuple[str, str]]:
        """What files say that don't speak for their id: they do in a process that knows no last good version."""
        facts = [fact for key, text in self.files.items() if key[0] == agent and (fact := self.fact(key, text))]
        return {(fact_id, text.content) for fact_id, text in facts}

    @rule(pick=picks)
    def check_names_what_is_not_served(self, pick):
        findings = self.engines[pick % 2].check("alice")
        errors = {finding.path for finding in findings if finding.severity == "error"}
        bad = {str(self.path(key)) for key in self.unserved()}
        assert errors == bad
        speaking = {key for agent in AGENTS for key, _ in self.speakers(agent).values()}
        named = {finding.path for finding in findings if finding.code == "duplicate-id"}
        silent = {key for key, text in self.files.items() if self.fact(key, text) and key not in speaking}
        assert named >= {str(self.path(key)) for key in silent}


def test_hand_edits_and_engines_in_any_order():
    """Hand edits lost: none."""
    run_state_machine_as_test(HandEdits, settings=settings(max_examples=20, stateful_step_count=25, deadline=None))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_hand_edits_and_engines_for_long():
    """The same, for as long as one likes to wait."""
    run_state_machine_as_test(HandEdits, settings=settings(max_examples=1000, stateful_step_count=60, deadline=None))
