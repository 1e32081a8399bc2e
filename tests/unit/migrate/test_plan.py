"""Migration plans of small stores, one for each outcome."""

from __future__ import annotations

import json
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
    v1_document,
    v1_fact,
)
from hypothesis import given
from hypothesis import strategies as st

from deermem.errors import BackupMismatch, Corruption, MigrationError, SummaryConflict
from deermem.format import manifest
from deermem.format.paths import fact_path
from deermem.migrate.legacy import needs_migration
from deermem.migrate.place import UserPlace
from deermem.migrate.plan import UserPlan, derived_id, describe, plan_user
from deermem.model.changes import FileChange
from deermem.model.scope import safe_user_id


class TestGlobalDocument:
    def test_facts_become_files_of_the_default_bucket(self) -> None:
        source = one(v1_fact(), work="Cellist.")
        done = plan(source)
        fact = created(done)[fact_path("__default__", "fact_1")]
        assert (fact.content, fact.user_id, fact.agent_name, fact.revision) == (
            "Ann plays the cello.",
            "ann",
            "__default__",
            1,
        )
        assert fact.created_at == fact.updated_at == datetime(2026, 2, 1, 9, tzinfo=UTC)
        assert [(backup.source, backup.path, backup.data) for backup in done.backups] == [
            ("memory.json", "memory.json.v1.bak", source["memory.json"])
        ]
        assert (done.outcome, done.facts, done.manifest_before) == ("migrate", 1, source["memory.json"])

    def test_memory_json_loses_facts_and_keeps_unknown_keys(self) -> None:
        done = plan(one(v1_fact(), work="Cellist.", revision=6, mine={"a": 1}))
        document = json.loads(done.manifest_after or b"")
        assert "facts" not in document
        assert (document["version"], document["revision"], document["mine"]) == ("2.0", 7, {"a": 1})
        assert document["user"]["workContext"] == {"summary": "Cellist.", "updatedAt": "2026-01-05T00:00:00Z"}

    @pytest.mark.parametrize("version", ["1.0", 1.0, 1, "1.5", "0.9", None, "", "2.0"])
    def test_every_old_version_migrates_and_so_does_a_v2_document_with_facts(self, version: object) -> None:
        files = one(v1_fact(), version=version)
        assert needs_migration(MemoryFiles(files), ANN)
        assert plan(files).facts == 1

    @pytest.mark.parametrize("version", ["3.0", 3, "10.1", "two", [], True])
    def test_unknown_version_stops_with_the_store_untouched(self, version: object) -> None:
        files = one(v1_fact(), version=version)
        stop(MigrationError, files, "users/ann/memory.json", "version")
        with pytest.raises(MigrationError):
            needs_migration(MemoryFiles(files), ANN)

    @pytest.mark.parametrize("files", [{}, {"memory.json": V2}, {"agents/coder/SOUL.md": b"x"}])
    def test_nothing_old_is_current(self, files: dict[str, bytes]) -> None:
        assert not needs_migration(MemoryFiles(files), ANN)
        assert plan(files) == UserPlan(
            outcome="current", manifest_before=files.get("memory.json"), manifest_after=files.get("memory.json")
        )

    def test_confidence_null_and_quoted_do_not_stop(self) -> None:
        facts = created(plan(one(v1_fact("a", confidence="0.9"), {**v1_fact("b"), "confidence": None})))
        assert [fact.confidence for fact in facts.values()] == [0.9, 0.5]

    def test_fact_without_id_gets_the_same_one_each_time(self) -> None:
        files = one(v1_fact("", "No id."), v1_fact("", "No id."))
        assert list(created(plan(files))) == [fact_path("__default__", derived_id("No id."))]
        assert plan(files).changes == plan(files).changes

    def test_same_id_same_content_is_one_fact(self) -> None:
        assert plan(one(v1_fact(), v1_fact(content="Ann plays the cello.  \n"))).facts == 1

    def test_a_byte_order_mark_is_read_over(self) -> None:
        assert plan({"memory.json": b"\xef\xbb\xbf" + as_json(v1_document(v1_fact()))}).facts == 1

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"id": "x" * 253}, ["253 characters"]),
            ({"id": "a:b"}, ["'a:b'"]),
            ({"content": "é" * 40_000}, ["80000 bytes"]),
            ({"content": "  "}, ["content is empty"]),
            ({"confidence": True}, ["confidence True"]),
            ({"confidence": float("nan")}, ["confidence nan"]),
            ({"createdAt": "yesterday"}, ["createdAt 'yesterday'"]),
            ({"mine": {"deep": [float("nan")]}}, ["fact_bad", "mine holds nan"]),
            ({"scope": {"userId": "bob"}}, ["'bob'"]),
        ],
    )
    def test_bad_fact_is_named_with_file_and_value(self, fields: dict[str, object], words: list[str]) -> None:
        files = one(v1_fact("fact_ok"), {**v1_fact("fact_bad", "Another."), **fields})
        stop(MigrationError, files, "users/ann/memory.json", *words)

    def test_lone_surrogate_is_named(self) -> None:
        text = as_json(v1_document(v1_fact(content="CUT"))).replace(b"CUT", b"cut \\ud83e")
        stop(MigrationError, {"memory.json": text}, "fact_1", "lone surrogate")
        text = as_json(v1_document(work="CUT")).replace(b"CUT", b"cut \\ud83e")
        stop(MigrationError, {"memory.json": text}, "users/ann/memory.json", "lone surrogate")

    def test_lone_surrogate_and_digits_of_a_foreign_key_stay(self) -> None:
        text = as_json(v1_document(mine="CUT", more="NUMBER")).replace(b"CUT", b"cut \\ud83e")
        text = text.replace(b'"NUMBER"', b"[1.10, 12345678901234567890.123456789]")
        after = plan({"memory.json": text}).manifest_after or b""
        assert b'"mine": "cut \\ud83e"' in after
        assert b"1.10,\n" in after
        assert b"12345678901234567890.123456789\n" in after

    @pytest.mark.parametrize(
        ("data", "word"),
        [
            (b'{"version": "1.0", "facts": [', "not valid JSON"),
            (b'{"facts": [], "facts": []}', "'facts' stands twice"),
            (b'{"facts": [{"id": "a", "content": "x", "content": "y"}]}', "'content' stands twice"),
            (b'{"facts": "\xff"}', "not UTF-8"),
            (b'["facts"]', "a JSON list"),
            (b'{"facts": ' + b"[" * 200_000, "nested too deep"),
            (b'{"facts": [' + b"9" * 5_000 + b"]}", "not valid JSON"),
        ],
    )
    def test_unreadable_document_is_corruption(self, data: bytes, word: str) -> None:
        stop(Corruption, {"memory.json": data}, "users/ann/memory.json", word)
        with pytest.raises(Corruption):
            needs_migration(MemoryFiles({"memory.json": data}), ANN)

    @pytest.mark.parametrize("path", ["memory.json", "agents/coder/memory.json"])
    def test_broken_document_without_facts_leaves_the_fact_files_readable(self, path: str) -> None:
        files = {path: b'{"version": "2.0", "revi'}
        assert not needs_migration(MemoryFiles(files), ANN)
        stop(Corruption, files, f"users/ann/{path}")

    @pytest.mark.parametrize(
        ("fields", "word"),
        [
            ({"facts": "x"}, "facts is 'x'"),
            ({"facts": ["x"]}, "facts[0]"),
            ({"user": []}, "user is []"),
            ({"user": {"topOfMind": {"summary": 5}}}, "user.topOfMind.summary is 5"),
        ],
    )
    def test_bad_document_is_named(self, fields: dict[str, object], word: str) -> None:
        stop(MigrationError, {"memory.json": as_json({**v1_document(), **fields})}, "users/ann/memory.json", word)


class TestBackups:
    def test_an_identical_backup_is_kept_and_not_written_again(self) -> None:
        files = one(v1_fact())
        assert plan({**files, "memory.json.v1.bak": files["memory.json"]}).backups == ()

    def test_another_backup_stops(self) -> None:
        stop(BackupMismatch, {**one(v1_fact()), "memory.json.v1.bak": b"{}"}, "memory.json.v1.bak", "move")

    def test_a_configured_manifest_name_names_the_backup(self) -> None:
        place = UserPlace(folder="ann", manifest_name="index.json")
        done = plan({"index.json": as_json(v1_document(v1_fact()))}, place)
        assert [backup.path for backup in done.backups] == ["index.json.v1.bak"]


class TestStoredFacts:
    def test_equal_fact_that_is_stored_stays_as_it_is(self) -> None:
        stored = {
            fact_path("__default__", "fact_1"): old_fact_file("fact_1", "Ann plays the cello.", agent="__default__")
        }
        done = plan({**one(v1_fact()), **stored})
        assert (done.changes, done.facts) == ((), 1)

    @pytest.mark.parametrize("path", [fact_path("__default__", "fact_1"), "agents/__default__/facts/music/mine.md"])
    def test_other_content_under_the_same_id_is_a_conflict(self, path: str) -> None:
        files = {**one(v1_fact()), path: old_fact_file("fact_1", "Ann plays the viola.", agent="__default__")}
        stop(MigrationError, files, "migration conflict", "'fact_1'", path, "both were kept")

    def test_ids_that_differ_in_case_alone_are_a_conflict(self) -> None:
        stop(MigrationError, one(v1_fact("Fact_A"), v1_fact("fact_a")), "migration conflict", "'Fact_A'", "'fact_a'")

    def test_an_id_that_stands_twice_in_one_document_is_said_to(self) -> None:
        twice = one(v1_fact("d1", "Ann plays the cello."), v1_fact("d1", "Ann plays the viola."))
        said = "users/ann/memory.json holds the id 'd1' twice, with different contents; both were kept"
        stop(MigrationError, twice, "migration conflict", said)
        cases = one(v1_fact("d1"), v1_fact("D1"))
        stop(MigrationError, cases, "users/ann/memory.json holds the ids 'd1' and 'D1'", "ids have no case")

    def test_unreadable_file_in_the_place_of_a_fact_is_a_conflict(self) -> None:
        files = {**one(v1_fact()), fact_path("__default__", "fact_1"): b"---\nid: [\n---\n"}
        stop(MigrationError, files, "migration conflict", "can't be read")

    def test_a_file_of_another_id_in_the_place_of_a_fact_is_a_conflict(self) -> None:
        other = old_fact_file("fact_other", "Other.", agent="__default__")
        stop(MigrationError, {**one(v1_fact()), fact_path("__default__", "fact_1"): other}, "fact of another id")

    def test_strangers_in_the_bucket_do_not_matter(self) -> None:
        strangers = {f"agents/__default__/facts/{name}": b"\xff" for name in ("x.md", "._x.md", "README", ".#y.md")}
        assert plan({**one(v1_fact()), **strangers}).facts == 1


class TestAgentDocuments:
    def test_facts_go_to_the_agent_and_the_document_goes(self) -> None:
        document = as_json(v1_document(v1_fact("fact_c", "Coder's.")))
        done = plan({"memory.json": V2, "agents/coder/memory.json": document})
        assert [fact.agent_name for fact in created(done).values()] == ["coder"]
        assert FileChange("agents/coder/memory.json", document, None) in done.changes
        assert [backup.path for backup in done.backups] == ["agents/coder/memory.json.v1.bak"]
        assert manifest.decode(done.manifest_after or b"").summaries.revision == 4

    def test_the_same_id_may_stand_in_two_buckets(self) -> None:
        files = {**one(v1_fact()), "agents/coder/memory.json": as_json(v1_document(v1_fact(content="Other.")))}
        assert plan(files).facts == 2

    def test_summaries_fill_what_is_empty(self) -> None:
        files = {**one(), "agents/coder/memory.json": as_json(v1_document(work="Coder."))}
        section = manifest.decode(plan(files).manifest_after or b"").summaries.work_context
        assert (section.summary, section.updated_at) == ("Coder.", "2026-01-05T00:00:00Z")

    def test_equal_summaries_are_no_conflict(self) -> None:
        files = {**one(work="Coder."), "agents/coder/memory.json": as_json(v1_document(work=" Coder. "))}
        assert plan(files).outcome == "migrate"

    def test_other_summaries_stop_that_bucket_alone(self) -> None:
        files = {
            **one(v1_fact(), work="Cellist."),
            "agents/coder/memory.json": as_json(v1_document(work="Coder.")),
            "agents/writer/memory.json": as_json(v1_document(v1_fact("fact_w"))),
        }
        stop(SummaryConflict, files, "users/ann/agents/coder/memory.json", "workContext")
        stop(SummaryConflict, files, "workContext", only_agent="coder")
        assert plan(files, only_agent="__default__").facts == 1
        assert plan(files, only_agent="writer").facts == 2

    @pytest.mark.parametrize("name", ["Not An Agent", "UPPER", "under_score"])
    def test_folders_that_are_no_agents_are_left_alone(self, name: str) -> None:
        files = {"memory.json": V2, f"agents/{name}/memory.json": as_json(v1_document(v1_fact()))}
        assert plan(files).outcome == "current"

    @pytest.mark.parametrize("document", [{"theme": "dark"}, {"version": "2.0", "user": {}}])
    def test_a_hosts_own_memory_json_is_left_alone(self, document: object) -> None:
        files = {"memory.json": V2, "agents/coder/memory.json": as_json(document)}
        assert not needs_migration(MemoryFiles(files), ANN)
        assert plan(files).outcome == "current"

    def test_facts_of_a_user_without_memory_json_migrate(self) -> None:
        done = plan({"agents/coder/memory.json": as_json(v1_document(v1_fact()))})
        assert (done.manifest_before, done.facts) == (None, 1)
        assert manifest.decode(done.manifest_after or b"").summaries.revision == 1

    def test_broken_current_memory_json_stops(self) -> None:
        files = {"memory.json": b"{", "agents/coder/memory.json": as_json(v1_document(v1_fact()))}
        stop(Corruption, files, "users/ann/memory.json")


class TestOwner:
    raw = "ann@x.example"

    def owner(self, place: UserPlace, files: dict[str, bytes]) -> str | None:
        facts = created(plan(files, place))
        return facts[fact_path("__default__", "fact_1")].user_id

    def test_known_user_is_stamped(self) -> None:
        assert self.owner(UserPlace(folder=safe_user_id(self.raw), user_id=self.raw), one(v1_fact())) == self.raw

    def test_unknown_user_is_the_folder(self) -> None:
        folder = safe_user_id(self.raw)
        assert self.owner(UserPlace(folder=folder), one(v1_fact())) == folder
        assert self.owner(UserPlace(folder="ann"), one(v1_fact())) == "ann"

    def test_raw_id_is_found_in_the_old_facts_or_in_any_bucket(self) -> None:
        place = UserPlace(folder=safe_user_id(self.raw))
        named = v1_fact("fact_2", "Two.", scope={"userId": self.raw})
        assert self.owner(place, one(v1_fact(), named)) == self.raw
        stored = {"agents/coder/facts/ab/f.md": old_fact_file("f", "F.", user=self.raw, agent="coder")}
        assert self.owner(place, {**one(v1_fact()), **stored}) == self.raw

    def test_an_id_that_does_not_map_to_the_folder_is_not_believed(self) -> None:
        folder = safe_user_id(self.raw)
        stored = {"agents/coder/facts/ab/f.md": old_fact_file("f", "F.", user="bob@x.example", agent="coder")}
        assert self.owner(UserPlace(folder=folder), {**one(v1_fact()), **stored}) == folder

    def test_the_no_user_root_has_no_owner(self) -> None:
        assert self.owner(UserPlace(folder=None), one(v1_fact())) is None


class TestDescription:
    def test_current(self) -> None:
        assert describe(plan({"memory.json": V2})) == ["already current"]

    def test_every_step_is_a_line(self) -> None:
        files = {**one(v1_fact()), "agents/coder/memory.json": as_json(v1_document(v1_fact("a"), v1_fact("b")))}
        assert describe(plan(files)) == [
            "would migrate 3 facts",
            "would back up memory.json as memory.json.v1.bak",
            "would back up agents/coder/memory.json as agents/coder/memory.json.v1.bak",
            "would write 1 fact file of __default__",
            "would write 2 fact files of coder",
            "would remove agents/coder/memory.json",
            "would write the user's summaries and revision in format 2.0",
        ]

    def test_moved_sidecar_is_named(self) -> None:
        files = {"memory.json": V2, LEAD: old_fact_file("fact_u1", "X."), LEAD_USAGE: b"{}"}
        lines = describe(plan(files))
        assert "would write agents/__default__/.metadata/fact-usage.json" in lines
        assert f"would remove {LEAD_USAGE}" in lines


contents = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf")), min_size=1, max_size=20).filter(str.strip)


@given(st.dictionaries(st.from_regex(r"[a-z0-9_-]{1,12}", fullmatch=True), contents, max_size=6))
def test_any_v1_facts_become_files_that_hold_them_and_a_second_run_does_nothing(facts: dict[str, str]) -> None:
    files = MemoryFiles(one(*(v1_fact(fact_id, content) for fact_id, content in facts.items())))
    try:
        done = plan_user(files, ANN, now=NOW)
    except MigrationError as error:
        assert "content is empty" in str(error)  # noqa: PT017
        return
    assert {fact.id: fact.content for fact in created(done).values()} == {
        fact_id: content.strip() for fact_id, content in facts.items()
    }
    files.files.update({change.path: change.after for change in done.changes if change.after is not None})
    files.files["memory.json"] = done.manifest_after or b""
    assert plan_user(files, ANN, now=NOW).outcome == "current"
