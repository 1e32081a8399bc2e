"""context and summaries."""

from __future__ import annotations


def test_context_prints_the_block(call, add):
    add("User prefers TypeScript", "--category", "preference", "--confidence", "0.9")
    text = call("context", user="alice").out
    assert "- [preference | 0.90] User prefers TypeScript" in text.splitlines()
    assert call("--json", "context", user="alice").json["context"].rstrip("\n") == text.rstrip("\n")


def test_an_empty_memory_has_no_block(call, add):
    add("Bob's fact", user="bob")
    answer = call("context", user="alice")
    assert (answer.code, answer.out, answer.err) == (0, "", "nothing is remembered yet\n")
    assert call("--json", "context", user="alice").json == {"context": ""}


def test_summaries_are_set_and_shown(call):
    answer = call("summaries", "set", "workContext", "Backend engineer.", user="alice")
    assert answer.out.startswith("set workContext, revision ")
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
    add("Bob's fact", user="bob")
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
