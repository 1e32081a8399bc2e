"""add, search, list, show, update, delete: what they print, what they leave on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

FACT_KEYS = {"id", "content", "category", "confidence", "createdAt", "updatedAt", "source", "topics", "revision"}


def test_add_says_what_it_stored(call):
    answer = call("add", "User prefers TypeScript", user="alice")
    assert answer.code == 0
    assert answer.out.startswith("added ")
    assert answer.out.endswith(": User prefers TypeScript\n")
    assert answer.err == ""


def test_add_prints_the_fact_as_json(call):
    answer = call(
        *("add", "User prefers TypeScript", "--category", "preference", "--confidence", "0.9"),
        *("--topic", "code", "--topic", "web", "--source", "thread-7", "--valid-days", "30", "--json"),
        user="alice",
    )
    fact = answer.json
    assert fact.keys() >= FACT_KEYS | {"version"}
    assert (fact["content"], fact["category"], fact["confidence"]) == ("User prefers TypeScript", "preference", 0.9)
    assert fact["topics"] == ["code", "web"]
    assert fact["expected_valid_days"] == 30
    assert fact["createdAt"].endswith("Z")
    assert "thread-7" in str(fact["source"])


def test_add_reads_standard_input(call):
    answer = call("add", "-", "--json", user="alice", stdin="部署窗口是周三晚上。\n".encode())
    assert answer.json["content"] == "部署窗口是周三晚上。"


def test_add_of_the_same_content_is_refused_and_shows_what_is_there(call, add):
    first = add("User prefers TypeScript")
    answer = call("--json", "add", "user  PREFERS typescript", user="alice")
    assert answer.code == 2
    assert answer.json["error"]["type"] == "DuplicateFact"
    assert answer.json["error"]["fact"]["id"] == first
    assert len(call("--json", "list", user="alice").json) == 1


def test_list_shows_id_category_confidence_and_title(call, add):
    fact_id = add("Deploys go out on Tuesdays.", "--category", "knowledge", "--confidence", "0.8")
    answer = call("list", user="alice")
    assert answer.out.split() == [fact_id, "knowledge", "0.80", "Deploys", "go", "out", "on", "Tuesdays."]


def test_list_narrows_and_pages(call, add):
    ids = sorted(add(f"Fact number {number}", "--category", "goal") for number in range(5))
    add("A preference", "--category", "preference")
    assert [fact["id"] for fact in call("--json", "list", "--category", "goal", user="alice").json] == ids
    paged = call("--json", "list", "--category", "goal", "--limit", "2", "--offset", "1", user="alice").json
    assert [fact["id"] for fact in paged] == ids[1:3]


def test_a_listing_is_whole(call, root):
    folder = root / "users" / "alice" / "agents" / "__default__" / "facts"
    folder.mkdir(parents=True)
    for number in range(150):
        (folder / f"fact_{number}.md").write_text(f"Fact {number}\n")
    assert len(call("--json", "list", user="alice").json) == 150


def test_an_empty_memory_lists_nothing_and_makes_nothing(call, root):
    assert call("--json", "list", user="alice").json == []
    answer = call("list", user="alice")
    assert (answer.code, answer.out, answer.err) == (0, "", f"deermem: there is no store at {root} yet\n")
    assert not root.exists()


def test_an_agent_without_facts_hints_at_those_who_have_some(call, add):
    add("Type hints in every module", "--agent", "coder")
    add("Coffee before noon", "--agent", "coder")
    assert call("list", user="alice").err == (
        "no facts; other agents have some: coder (2 facts); list --all-agents shows them\n"
    )
    assert call("search", "hints", user="alice").err == (
        "nothing found; other agents have some: coder (2 facts); search --all-agents looks there too\n"
    )
    assert call("list", "--agent", "coder", user="alice").err == ""
    assert call("list", "--all-agents", "--category", "goal", user="alice").err == "no facts of the category 'goal'\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["list", "--category", "goal"], "no facts of the category 'goal'\n"),
        (["list", "--offset", "9"], "no facts beyond the first 9\n"),
        (["list", "--limit", "0"], "no facts with --limit 0\n"),
        (["search", "tabs", "--topic", "tea"], "nothing found that passes the filters\n"),
        (["search", " "], "nothing found: the TEXT is blank\n"),
    ],
)
def test_nothing_is_put_down_to_what_was_asked(call, add, command, said):
    add("Prefers tabs")
    add("Type hints in every module", "--agent", "coder")
    answer = call(*command, user="alice")
    assert (answer.code, answer.out, answer.err) == (0, "", said)


def test_a_list_of_all_agents_names_them(call, add):
    ids = [add("Coffee without sugar"), add("Coffee before noon", "--agent", "coder", "--category", "goal")]
    lines = call("list", "--all-agents", user="alice").out.splitlines()
    assert [line.split()[:2] for line in lines] == [["__default__", ids[0]], ["coder", ids[1]]]
    found = call("--json", "list", "--all-agents", user="alice").json
    assert [(fact["agent"], fact["id"]) for fact in found] == [("__default__", ids[0]), ("coder", ids[1])]
    paged = call("--json", "list", "--all-agents", "--offset", "1", "--limit", "1", user="alice").json
    assert [fact["id"] for fact in paged] == [ids[1]]
    narrowed = call("--json", "list", "--all-agents", "--category", "goal", user="alice").json
    assert [fact["id"] for fact in narrowed] == [ids[1]]


def test_a_line_says_the_content_of_now_not_an_older_heading(call, add):
    fact_id = add("Deploys go out on Tuesdays.")
    path = Path(call("--json", "show", fact_id, user="alice").json["path"])
    head, _, _ = path.read_text(encoding="utf-8").rpartition("Deploys")
    path.write_text(f"{head}Deploys go out on Thursdays.\n", encoding="utf-8")
    assert "# Deploys go out on Tuesdays." in path.read_text(encoding="utf-8")
    assert call("list", user="alice").out.endswith("  Deploys go out on Thursdays.\n")
    said = call("update", fact_id, "--confidence", "0.9", user="alice").out
    assert said == f"updated {fact_id}: Deploys go out on Thursdays.\n"


def test_show_names_the_file(call, add):
    fact_id = add("User prefers TypeScript", "--topic", "code")
    shown = call("--json", "show", fact_id, user="alice").json
    assert Path(shown["path"]).name == f"{fact_id}.md"
    assert "User prefers TypeScript" in Path(shown["path"]).read_text(encoding="utf-8")
    text = call("show", fact_id, user="alice").out
    assert shown["path"] in text
    assert shown["version"] in text
    assert text.endswith("\nUser prefers TypeScript\n")


def test_show_says_a_text_once_and_a_title_of_its_own_too(call, add, root):
    fact_id = add("User prefers TypeScript")
    assert call("show", fact_id, user="alice").out.count("User prefers TypeScript") == 1
    path = root / "users" / "alice" / "agents" / "__default__" / "facts" / "tea.md"
    path.write_text("---\ntitle: Tea\n---\n\nWater first.\n")
    shown = call("show", "tea", user="alice").out
    assert (shown.startswith("Tea\n\nid:"), shown.endswith("\n\nWater first.\n")) == (True, True)


def test_update_changes_what_is_given_and_nothing_else(call, add):
    fact_id = add("Launch on 15 January", "--category", "goal", "--confidence", "0.6", "--topic", "launch")
    answer = call("update", fact_id, "--content", "Launch on 22 January", user="alice")
    assert answer.out == f"updated {fact_id}: Launch on 22 January\n"
    fact = call("--json", "update", fact_id, "--confidence", "0.95", user="alice").json
    assert (fact["content"], fact["category"], fact["confidence"]) == ("Launch on 22 January", "goal", 0.95)
    assert fact["topics"] == ["launch"]
    again = call(*("--json", "update", fact_id, "--category", "decision", "--topic", "plan"), user="alice").json
    assert (again["category"], again["topics"]) == ("decision", ["plan"])


def test_an_empty_topic_empties_the_topics(call, add):
    fact_id = add("Launch on 15 January", "--topic", "launch", "--topic", "plan")
    assert call("--json", "update", fact_id, "--topic", "", user="alice").json["topics"] == []
    answer = call("update", fact_id, "--topic", "", "--topic", "x", user="alice")
    assert answer.code == 2
    assert "topic is blank" in answer.complaint


def test_update_reads_standard_input(call, add):
    fact_id = add("Launch on 15 January")
    answer = call("--json", "update", fact_id, "--content", "-", user="alice", stdin=b"Launch on 22 January\n")
    assert answer.json["content"] == "Launch on 22 January"


def test_update_with_the_right_token_goes_through(call, add):
    fact_id = add("Launch on 15 January")
    token = call("--json", "show", fact_id, user="alice").json["version"]
    first = call("--json", "update", fact_id, "--confidence", "0.7", "--expected", token, user="alice")
    assert first.json["confidence"] == 0.7
    by_revision = call("update", fact_id, "--confidence", "0.8", "--expected", first.json["revision"], user="alice")
    assert by_revision.code == 0


@pytest.mark.parametrize("command", [["update", "--content", "Mine"], ["delete"]])
def test_an_outdated_token_is_a_conflict_that_shows_the_fact_of_now(call, add, command):
    fact_id = add("Launch on 15 January")
    token = call("--json", "show", fact_id, user="alice").json["version"]
    call("update", fact_id, "--content", "Theirs", user="alice")
    verb, *options = command
    answer = call("--json", verb, fact_id, *options, "--expected", token, user="alice")
    assert answer.code == 3
    assert answer.json["error"]["type"] == "FactConflict"
    assert answer.json["error"]["fact"]["content"] == "Theirs"
    assert fact_id in answer.complaint
    assert call("--json", "show", fact_id, user="alice").json["content"] == "Theirs"


def test_delete_removes_the_file(call, add):
    fact_id = add("Launch on 15 January")
    path = Path(call("--json", "show", fact_id, user="alice").json["path"])
    answer = call("delete", fact_id, user="alice")
    assert (answer.code, answer.out) == (0, f"deleted {fact_id}\n")
    assert not path.exists()


def test_delete_takes_several_ids_in_one_commit(call, add):
    ids = [add(f"Fact {number}") for number in range(3)]
    commit = call("--json", "delete", ids[0], ids[2], user="alice").json
    assert sorted(commit["deleted"]) == sorted([ids[0], ids[2]])
    assert commit.keys() == {"revision", "facts", "deleted", "evicted", "conflict_copies"}
    assert [fact["id"] for fact in call("--json", "list", user="alice").json] == [ids[1]]


def test_delete_of_several_deletes_none_where_one_is_unknown(call, add):
    kept = add("Fact")
    answer = call("delete", kept, "fact_unknown", user="alice")
    assert answer.code == 1
    assert "fact_unknown" in answer.complaint
    assert [fact["id"] for fact in call("--json", "list", user="alice").json] == [kept]


@pytest.fixture
def three_facts(add):
    return {
        "typescript": add("User prefers TypeScript", "--category", "preference", "--topic", "code"),
        "deploy": add("Deploys go out on Tuesdays.", "--category", "knowledge", "--source", "thread-9"),
        "chinese": add("回答时先给结论，再给理由。", "--category", "preference"),
    }


def test_search_prints_the_hit_with_its_snippet(call, three_facts):
    answer = call("search", "typescript", user="alice")
    heading, snippet = answer.out.splitlines()
    assert heading == f"{three_facts['typescript']}  preference  0.50  User prefers TypeScript"
    assert snippet.startswith("    ")
    assert "TypeScript" in snippet


def test_search_prints_hits_as_json(call, three_facts):
    (hit,) = call("--json", "search", "typescript", user="alice").json
    assert hit.keys() == {"fact", "score", "match", "snippet", "agent"}
    assert hit["fact"]["id"] == three_facts["typescript"]
    assert hit["match"] in ("fts5", "substring")
    assert isinstance(hit["score"], float)


def test_search_finds_chinese_and_takes_words_without_quotes(call, three_facts):
    assert call("--json", "search", "先给结论", user="alice").json[0]["fact"]["id"] == three_facts["chinese"]
    assert (
        call("--json", "search", "deploys", "on", "tuesdays", user="alice").json[0]["fact"]["id"]
        == (three_facts["deploy"])
    )


def test_chinese_is_printed_as_it_is(call, three_facts):
    assert "先给结论" in call("--json", "search", "结论", user="alice").out
    assert "先给结论" in call("search", "结论", user="alice").out


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--category", "preference"], {"typescript"}),
        (["--category", "knowledge"], {"deploy"}),
        (["--topic", "code"], {"typescript"}),
        (["--thread", "thread-9"], {"deploy"}),
        (["-k", "1", "--category", "preference"], {"typescript"}),
        (["--since", "2099-01-01"], set()),
        (["--until", "2000-01-01"], set()),
        (["--since", "2000-01-01", "--until", "2099-01-01T00:00:00Z"], {"typescript", "deploy"}),
    ],
)
def test_search_narrows(call, three_facts, options, found):
    hits = call("--json", "search", "typescript tuesdays", *options, user="alice").json
    assert {hit["fact"]["id"] for hit in hits} == {three_facts[name] for name in found}


def test_a_bare_date_as_an_end_has_the_day_in_it(call, three_facts):
    today = call("--json", "show", three_facts["deploy"], user="alice").json["updatedAt"][:10]
    assert len(call("--json", "search", "tuesdays", "--until", today, user="alice").json) == 1


def test_search_over_all_agents_names_them(call, add):
    add("Coffee without sugar")
    add("Coffee before noon", "--agent", "coder")
    hits = call("--json", "search", "coffee", "--all-agents", user="alice").json
    assert sorted(hit["agent"] for hit in hits) == ["__default__", "coder"]
    assert "coder  " in call("search", "coffee", "--all-agents", user="alice").out
    assert len(call("--json", "search", "coffee", user="alice").json) == 1


@pytest.mark.parametrize("query", ["TODO: fix", "pre-edit", '"', "foo(bar", "AND", "*", "don't", "C++", "?!"])
def test_no_query_is_an_error(call, three_facts, query):
    assert isinstance(call("--json", "search", "--", query, user="alice").json, list)


def test_search_over_all_agents_narrows_too(call, add):
    add("Coffee without sugar", "--category", "preference")
    add("Coffee before noon", "--agent", "coder", "--category", "goal")
    options = ["--all-agents", "--category", "GOAL", "--since", "2000-01-01"]
    hits = call("--json", "search", "coffee", *options, user="alice").json
    assert [hit["agent"] for hit in hits] == ["coder"]


def test_search_explains_itself(call, three_facts):
    answer = call("search", "where", "does", "the", "typescript", "go?", "--explain", user="alice")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("looked for:")
    assert lines[0].endswith("any of these words: typescript")
    assert any(line.startswith("left out:") and "where" in line for line in lines)
    assert "1 hit of 1" in lines
    assert any(line.strip().startswith("= score") and line.endswith("fts5") for line in lines)


def test_search_says_why_a_fact_is_not_found(call, three_facts):
    answer = call("search", "typescript", "--explain", "--why", three_facts["deploy"], user="alice")
    assert f"{three_facts['deploy']}: no-shared-term: " in answer.out
    narrowed = ["typescript", "--explain", "--why", three_facts["typescript"], "--category", "goal"]
    assert "filtered: it is outside the filter: category" in call("search", *narrowed, user="alice").out
    assert "unknown: " in call("search", "x1", "--explain", "--why", "nobody", user="alice").out


def test_an_explanation_as_json(call, three_facts):
    options = ["--explain", "--why", three_facts["typescript"]]
    found = call("--json", "search", "the typescript", *options, user="alice").json
    assert (found["total"], found["query"]["words"], found["query"]["dropped"]) == (1, ["typescript"], ["the"])
    (item,) = found["hits"]
    parts = [item["coverage"], item["recency"], *(term["score"] for term in item["terms"])]
    assert sum(parts) == pytest.approx(item["hit"]["score"], abs=1e-6)
    assert (found["why"]["reason"], found["why"]["place"]) == ("found", 1)


def test_nothing_found_is_no_error(call, three_facts):
    answer = call("search", "zebra", user="alice")
    assert (answer.code, answer.out, answer.err) == (0, "", "nothing found\n")


def test_users_and_agents_are_apart(call, add):
    add("Alice's fact")
    add("Bob's fact", user="bob")
    add("The coder's fact", "--agent", "coder")
    add("Nobody's fact", user=None)
    said = [call("list", *options, user=user).out for options, user in [((), "alice"), ((), "bob"), ((), None)]]
    assert [text.count("\n") for text in said] == [1, 1, 1]
    assert "Bob's fact" in said[1]
    assert "Nobody's fact" in said[2]
    assert "coder's" in call("list", "--agent", "coder", user="alice").out


def test_a_stored_text_can_not_steer_the_terminal(call, add):
    fact_id = add("Red \x1b[31malert\x07")
    for command in (["list"], ["show", fact_id], ["search", "alert"]):
        assert "\x1b" not in call(*command, user="alice").out
    assert call("--json", "show", fact_id, user="alice").json["content"] == "Red \x1b[31malert\x07"
