"""The fact-path map and the previous default bucket: old stores whose facts are files already."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from builders_v1 import (
    ANN,
    LEAD,
    LEAD_USAGE,
    NOW,
    V2,
    MemoryFiles,
    as_json,
    created,
    old_fact_file,
    one,
    plan,
    stop,
    v1_fact,
)

from deermem.errors import MigrationError, UnexpectedFiles
from deermem.format import manifest, markdown
from deermem.format.paths import fact_path
from deermem.migrate.legacy import needs_migration
from deermem.migrate.plan import plan_user
from deermem.model.changes import FileChange


class TestPathMap:
    path = "agents/__default__/facts/93/fact_x1.md"
    data = old_fact_file("fact_x1", "Mapped.", agent="__default__")

    def mapped(self, entry: object, **files: bytes) -> dict[str, bytes]:
        document = as_json({"version": "1.5", "facts": {"fact_x1": entry}})
        return {"memory.json": document, self.path: self.data}

    def test_files_stay_where_they_are(self) -> None:
        digest = hashlib.sha256(self.data).hexdigest()
        done = plan(self.mapped({"path": self.path, "contentHash": f"sha256:{digest}"}))
        assert (done.outcome, done.facts, done.changes) == ("migrate", 1, ())
        assert [backup.path for backup in done.backups] == ["memory.json.v1.bak"]

    @pytest.mark.parametrize(
        "path",
        [
            "../bob/memory.json",
            "agents/__default__/facts/../../../../bob/x.md",
            "/etc/passwd",
            "agents//facts/93/fact_x1.md",
            "agents/__default__/facts\\93\\fact_x1.md",
            "agents/__default__/facts/./fact_x1.md",
            "agents/NO GOOD/facts/93/fact_x1.md",
            "agents/__default__/config.yaml",
            "agents/__default__/facts/93/fact_x1.md\0",
            "memory.json",
            "",
        ],
    )
    def test_paths_that_leave_the_fact_folders_are_never_read(self, path: str) -> None:
        files = MemoryFiles(self.mapped({"path": path}))
        with pytest.raises(MigrationError, match="escapes"):
            plan_user(files, ANN, now=NOW)
        assert path == "memory.json" or path not in files.reads

    @pytest.mark.parametrize("entry", [None, "path", {}, {"path": 5}])
    def test_entries_of_another_shape_stop(self, entry: object) -> None:
        stop(MigrationError, self.mapped(entry), "users/ann/memory.json", "fact_x1", "contentHash")

    @pytest.mark.parametrize("stated", ["sha256:" + "0" * 64, 5])
    def test_another_hash_stops(self, stated: object) -> None:
        stop(MigrationError, self.mapped({"path": self.path, "contentHash": stated}), "fact_x1", "does not match")

    def test_missing_file_stops(self) -> None:
        entry = {"path": "agents/__default__/facts/00/fact_x1.md"}
        stop(MigrationError, self.mapped(entry), "fact_x1", "does not exist")

    def test_the_file_must_parse_and_be_that_fact(self) -> None:
        other = self.mapped({"path": self.path})
        stop(MigrationError, {**other, self.path: b"---\nid: [\n---\n"}, "can't be read")
        stop(MigrationError, {**other, self.path: old_fact_file("fact_y", "Y.")}, "holds 'fact_y'")
        stop(MigrationError, {**other, self.path: old_fact_file("fact_x1", "X.", agent="coder")}, "agent_name", "coder")

    def test_a_file_of_another_owner_stops(self) -> None:
        """Nobody would be served what is counted as migrated."""
        other = old_fact_file("fact_x1", "Mapped.", user="bob", agent="__default__")
        stop(MigrationError, {**self.mapped({"path": self.path}), self.path: other}, "fact_x1", "'bob'", self.path)

    def test_a_file_that_moves_to_the_default_bucket_counts_once(self) -> None:
        document = as_json({"version": "1.5", "facts": {"fact_u1": {"path": LEAD}}})
        done = plan({"memory.json": document, LEAD: old_fact_file("fact_u1", "Deploys on Thursdays.")})
        assert (done.facts, list(created(done))) == (1, [fact_path("__default__", "fact_u1")])


class TestOldDefaultBucket:
    def store(self, **more: bytes) -> dict[str, bytes]:
        return {"memory.json": V2, LEAD: old_fact_file("fact_u1", "Deploys on Thursdays.")}

    def test_facts_move_to_the_default_bucket(self) -> None:
        done = plan(self.store())
        fact = created(done)[fact_path("__default__", "fact_u1")]
        assert (fact.agent_name, fact.user_id, fact.revision) == ("__default__", "ann", 2)
        assert fact.updated_at == datetime(2026, 2, 2, 9, tzinfo=UTC)
        assert FileChange(LEAD, self.store()[LEAD], None) in done.changes
        assert done.remove_dirs == (
            "agents/lead-agent/facts/2b",
            "agents/lead-agent/facts",
            "agents/lead-agent",
        )
        assert (done.backups, done.facts) == ((), 1)
        assert manifest.decode(done.manifest_after or b"").summaries.revision == 4

    def test_own_keys_and_comments_move_along(self) -> None:
        data = self.store()[LEAD].replace(b"topics: []\n", b"topics: []\nmood: good # mine\n")
        done = plan({**self.store(), LEAD: data})
        assert b"mood: good # mine" in (done.changes[0].after or b"")

    def test_an_agent_with_a_configuration_stays(self) -> None:
        files = {**self.store(), "agents/lead-agent/config.yaml": b"name: lead-agent\n"}
        assert not needs_migration(MemoryFiles(files), ANN)
        assert plan(files).outcome == "current"

    def test_an_agent_that_this_engine_wrote_to_stays(self) -> None:
        own = markdown.encode(created(plan(self.store()))[fact_path("__default__", "fact_u1")])
        files = {**self.store(), LEAD: own.replace(b"agent_name: __default__", b"agent_name: lead-agent")}
        assert b"\ndigest: " in own
        assert not needs_migration(MemoryFiles(files), ANN)
        assert plan(files).outcome == "current"

    def test_hand_made_notes_alone_are_an_agent_of_its_own(self) -> None:
        files = {"memory.json": V2, "agents/lead-agent/facts/note.md": b"A note.\n"}
        assert plan(files).outcome == "current"

    @pytest.mark.parametrize(
        ("path", "data"),
        [
            ("notes.txt", b"x"),
            ("SOUL.md", b"x"),
            ("facts/2b/picture.png", b"x"),
            ("facts/hand.md", b"A hand-made note.\n"),
            ("facts/broken.md", b"---\nid: [\n---\n"),
            ("facts/other.md", old_fact_file("other", "Other.", agent="coder")),
            (".metadata/mine.json", b"{}"),
        ],
    )
    def test_anything_else_in_the_folder_stops(self, path: str, data: bytes) -> None:
        files = {**self.store(), f"agents/lead-agent/{path}": data}
        assert needs_migration(MemoryFiles(files), ANN)
        stop(UnexpectedFiles, files, "users/ann/agents/lead-agent", path)
        assert plan({**files, **one(v1_fact())}, only_agent="coder").facts == 1

    def test_litter_of_file_managers_is_read_over(self) -> None:
        litter = {"agents/lead-agent/.DS_Store": b"x", "agents/lead-agent/facts/2b/._fact_u1.md": b"x"}
        assert plan({**self.store(), **litter}).facts == 1

    def test_another_owner_stops(self) -> None:
        stop(MigrationError, {**self.store(), LEAD: old_fact_file("fact_u1", "X.", user="bob")}, "'bob'")

    def test_sidecar_moves_where_there_is_none(self) -> None:
        files = {**self.store(), LEAD_USAGE: b"{}"}
        target = "agents/__default__/.metadata/fact-usage.json"
        moved = [FileChange(target, None, b"{}"), FileChange(LEAD_USAGE, b"{}", None)]
        assert list(plan(files).changes[-2:]) == moved
        assert all(change.path != LEAD_USAGE for change in plan({**files, target: b"{}"}).changes)

    def test_other_content_in_the_default_bucket_is_a_conflict(self) -> None:
        there = old_fact_file("fact_u1", "Deploys on Fridays.", agent="__default__")
        stop(MigrationError, {**self.store(), fact_path("__default__", "fact_u1"): there}, "migration conflict", LEAD)

    def test_equal_fact_in_the_default_bucket_only_removes_the_old_one(self) -> None:
        there = old_fact_file("fact_u1", "Deploys on Thursdays.", agent="__default__")
        done = plan({**self.store(), fact_path("__default__", "fact_u1"): there})
        assert [change.path for change in done.changes] == [LEAD]

    @pytest.mark.parametrize(
        ("old", "new", "named"),
        [
            (b"confidence: 0.8", b"confidence: 0.3", "confidence"),
            (b"topics: []", b"topics: [work]", "topics"),
            (b"threadId: t-1", b"threadId: t-2", "source"),
            (b"topics: []\n", b"topics: []\nmood: good\n", "mood"),
            (b"topics: []\n", b"topics: [] # ask again in May\n", "comments"),
            (b"# Deploys on Thursdays.", b"# Thursdays", "title"),
            (b"'2026-02-01T09", b"'2026-01-01T09", "createdAt"),
        ],
    )
    def test_what_only_the_old_file_says_is_a_conflict(self, old: bytes, new: bytes, named: str) -> None:
        """It goes without a backup: what the other one lacks would be gone."""
        here = fact_path("__default__", "fact_u1")
        there = old_fact_file("fact_u1", "Deploys on Thursdays.", agent="__default__")
        changed = self.store()[LEAD].replace(old, new)
        assert changed != self.store()[LEAD]
        files = {**self.store(), LEAD: changed, here: there}
        message = stop(MigrationError, files, "migration conflict", LEAD, here, f"already and differs in {named}; both")
        assert message.endswith("; make the two equal, or remove one of them")

    def test_what_the_default_bucket_says_more_is_none(self) -> None:
        """Counts of changes are no statement, and what only the present file has stays with it."""
        there = old_fact_file("fact_u1", "Deploys on Thursdays.", agent="__default__")
        more = there.replace(b"revision: 2\n", b"revision: 5\nmood: good # mine\n").replace(b"02-02T", b"03-03T")
        assert more.count(b"03-03T") == 1
        done = plan({**self.store(), fact_path("__default__", "fact_u1"): more})
        assert [change.path for change in done.changes] == [LEAD]

    def test_an_old_document_that_says_it_otherwise_is_a_conflict_too(self) -> None:
        """Of the document a backup stays, of the file nothing."""
        document = one(v1_fact("fact_u1", "Deploys on Thursdays.", source="t-1", confidence=0.1))
        stop(MigrationError, {**self.store(), **document}, LEAD, "users/ann/memory.json already and differs in confid")

    def test_two_old_files_of_one_id_that_differ_are_a_conflict(self) -> None:
        second = "agents/lead-agent/facts/copy.md"
        files = {**self.store(), second: self.store()[LEAD].replace(b"topics: []\n", b"topics: []\nmood: bad\n")}
        stop(MigrationError, files, LEAD, second, "differs in mood")
        assert plan({**files, second: self.store()[LEAD]}).facts == 1
