"""context and summaries."""

from __future__ import annotations

import hashlib


def test_context_prints_the_block(call, add):
    add("User prefers TypeScript", "--category", "preference", "--confidence", "0.9")
    text = call("context", user="alice").out
    assert "- [preference | 0.90] User prefers TypeScript" in text.splitlines()
    assert call("--json", "context", user="alice").json["context"].rstrip("\n") == text.rstrip("\n")


def test_an_empty_memory_has_no_block(call, add):
    call("delete", add("Gone"), user="alice")
    answer = call("context", user="alice")
    assert (answer.code, answer.out, answer.err) == (0, "", "nothing is remembered yet\n")
    assert call("--json", "context", user="alice").json["context"] == ""


def test_summaries_are_set_and_shown(call):
    answer = call("summaries", "set", "workContext", "Backend engineer.", user="alice")
    assert answer.out.startswith("set workContext for the new user alice, revision ")
    assert call("summaries", "set", "top_of_mind", "-", user="alice", stdin="迁移报告。\n".encode()).code == 0
    shown = call("summaries", user="alice").out
    assert shown == "workContext: Backend engineer.\ntopOfMind: 迁移报告。\n"
    document = call("--json", "summaries", user="alice").json
    assert document["user"]["workContext"]["summary"] == "Backend engineer."
    assert document["user"]["workContext"]["updatedAt"].endswith("Z")
    assert document["history"]["recentMonths"] == {"summary": "", "updatedAt": ""}
    assert document["revision"] > 0


def test_all_agents_share_the_summaries(call):
    call("summaries", "set", "workContext", "Backend engineer.", user="alice")
    assert "Backend engineer." in call("summaries", "--agent", "coder", user="alice").out


def test_no_summaries_is_no_error(call, add):
    add("A fact")
    answer = call("summaries", user="alice")
    assert (answer.code, answer.out, answer.err) == (0, "", "no summaries\n")


def test_a_summary_is_set_only_from_the_revision_that_was_read(call):
    first = call("--json", "summaries", "set", "workContext", "One.", user="alice").json
    call("summaries", "set", "workContext", "Two.", "--expected", first["revision"], user="alice")
    late = call("--json", "summaries", "set", "workContext", "Three.", "--expected", first["revision"], user="alice")
    assert late.code == 3
    assert late.json["error"]["type"] == "RevisionConflict"
    assert "Two." in call("summaries", user="alice").out


def test_an_unknown_section_is_named_and_the_right_ones_too(call, root):
    answer = call("summaries", "set", "mood", "Good.", user="alice")
    assert answer.code == 2
    assert "'mood'" in answer.complaint
    assert "topOfMind" in answer.complaint
    assert not root.exists()


def test_the_block_as_json_says_what_identifies_it(call, add):
    add("Use uv here", "--category", "correction", "--confidence", "0.8")
    add("User prefers TypeScript", "--confidence", "0.9")
    found = call("--json", "context", user="alice").json
    assert found["context"] == "Facts:\n- [correction | 0.80] Use uv here\n- [context | 0.90] User prefers TypeScript"
    assert found["digest"] == f"sha256:{hashlib.sha256(found['context'].encode()).hexdigest()}"
    ids = {fact["content"]: fact["id"] for fact in call("--json", "list", user="alice").json}
    assert found["facts"] == [ids["Use uv here"], ids["User prefers TypeScript"]]
    assert found["guaranteed"] == [ids["Use uv here"]]
    assert (found["tokens"], found["max_tokens"], found["counted_by"]) == (21, 2000, "estimate")
    assert (found["left_out"], found["shortened"], found["summaries"]) == ([], [], "none")


def test_explain_names_what_is_in_and_what_is_not(call, add):
    add("Use uv here", "--category", "correction", "--confidence", "0.8")
    add("A long story. " * 40, "--confidence", "0.7")
    add("Short", "--confidence", "0.6")
    call("summaries", "set", "workContext", "Backend engineer.", user="alice")
    ids = {fact["content"].split()[0]: fact["id"] for fact in call("--json", "list", user="alice").json}
    lines = call("context", "--explain", "--max-tokens", "100", user="alice").out.splitlines()
    assert lines[0] == "tokens:      21 of 100, an estimate"
    assert lines[1] == "guaranteed:  9 of 500 tokens, for 1 fact"
    assert lines[2] == "summaries:   whole"
    assert lines[3].startswith("digest:      sha256:")
    assert lines[4:8] == [
        "",
        "in the block, 1 fact:",
        f"  {ids['Use']} (guaranteed)",
        "    [correction | 0.80] Use uv here",
    ]
    assert lines[8:] == [
        "",
        "left out, 2 facts:",
        f"{ids['A']}  context  0.70  it, or one that comes before it, is too long for the room that was left",
        f"{ids['Short']}  context  0.60  it, or one that comes before it, is too long for the room that was left",
    ]


def test_a_cut_fact_and_tool_mode_are_explained(call, add):
    add("A long story. " * 100, "--confidence", "0.7")
    fact_id = call("--json", "list", user="alice").json[0]["id"]
    cut = call("context", "--explain", "--max-tokens", "100", "--counting", "char", user="alice").out.splitlines()
    assert f"  {fact_id} (cut)" in cut
    tool = call("context", "--explain", "--mode", "tool", user="alice").out.splitlines()
    assert tool[-1] == f"{fact_id}  context  0.70  the model has tools for facts"
    assert "in the block, 0 facts:" in tool


def test_explain_of_an_empty_memory_is_an_explanation(call, add):
    add("Bob's fact", user="bob")
    lines = call("context", "--explain", user="alice").out.splitlines()
    assert lines[0] == "tokens:      0 of 2000, an estimate"
    assert lines[-1] == "in the block, 0 facts:"


def test_a_budget_out_of_bounds_is_refused(call, add):
    add("Use uv here")
    answer = call("context", "--max-tokens", "99", user="alice")
    assert answer.code == 2
    assert "max_injection_tokens is 99; give a number from 100 to 8000" in answer.complaint
