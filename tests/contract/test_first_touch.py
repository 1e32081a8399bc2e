"""Stores of version 1 that nobody opened yet: what all agents see, and what no link may bring in."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders_store import fact_text, place, tree
from builders_v1 import LEAD, as_json, old_fact_file, v1_document, v1_fact

from deermem import MigrationError, StoreUnavailable
from deermem.format.paths import fact_path

HERE = fact_path("__default__", "fact_1")
V1 = as_json(v1_document(v1_fact(), v1_fact("fact_3", "Ann plays chess.")))


# --- links


@pytest.mark.parametrize(
    "linked", ["agents", "agents/__default__", "agents/__default__/facts", HERE.rpartition("/")[0]]
)
@pytest.mark.parametrize("door", ["list", "add"])
def test_a_fact_behind_a_link_does_not_pass_for_one_that_is_migrated(engine, root, tmp_path, linked, door):
    """It would leave the document, and then be seen by nobody: readers look behind no link."""
    home, behind = root / "users/ann", tmp_path / "behind"
    place(home / "memory.json", V1)
    place(behind / HERE, fact_text("fact_1", "Ann plays the cello."))
    (home / linked).parent.mkdir(parents=True, exist_ok=True)
    (home / linked).symlink_to(behind / linked)
    before, outside = tree(home), tree(behind)
    memory = engine.memory("ann")
    with pytest.raises(StoreUnavailable, match=f"^{home / linked} is a link.*not followed.*move it away$"):
        memory.list() if door == "list" else memory.add("New.")
    assert (tree(home), tree(behind)) == (before, outside)
    (home / linked).unlink()
    assert [fact.id for fact in memory.list()] == ["fact_1", "fact_3"]


@pytest.mark.parametrize("linked", ["agents", "agents/coder"])
def test_an_agents_document_behind_a_link_is_nobodys(engine, root, tmp_path, linked):
    """It is not taken for this user's, and above all not removed there."""
    home, behind = root / "users/ann", tmp_path / "behind"
    place(home / "memory.json", as_json(v1_document()))
    place(behind / "agents/coder/memory.json", V1)
    (home / linked).parent.mkdir(parents=True, exist_ok=True)
    (home / linked).symlink_to(behind / linked)
    outside = tree(behind)
    if linked == "agents":
        with pytest.raises(StoreUnavailable, match="agents is a link"):
            engine.memory("ann", "coder").list()
    else:
        assert engine.memory("ann", "coder").list() == []
    assert tree(behind) == outside


def test_a_map_that_names_a_file_behind_a_link_stops(engine, root, tmp_path):
    home, behind = root / "users/ann", tmp_path / "behind"
    source = place(home / "memory.json", as_json({"version": "1.5", "facts": {"fact_1": {"path": HERE}}}))
    place(behind / HERE, fact_text("fact_1", "Ann plays the cello."))
    (home / "agents").symlink_to(behind / "agents")
    before = source.read_bytes()
    with pytest.raises(MigrationError, match="which does not exist"):
        engine.memory("ann").list()
    assert source.read_bytes() == before


# --- all agents


@pytest.fixture
def home(root: Path) -> Path:
    """Ann's folder, with nothing but an old document."""
    return place(root / "users/ann/memory.json", V1).parent


def test_the_default_agent_is_there_while_its_facts_wait(engine, home):
    before = tree(home)
    assert engine.agents("ann") == ["__default__"]
    assert [(bucket.agent, bucket.facts) for bucket in engine.stats("ann").buckets] == [("__default__", 2)]
    assert tree(home) == before


def test_a_search_over_all_agents_finds_facts_that_wait(engine, home):
    place(home / "agents/coder/memory.json", as_json(v1_document(v1_fact("fact_2", "Chess openings in C."))))
    hits = engine.search("ann", "chess")
    assert sorted((hit.agent, hit.fact.id) for hit in hits) == [("__default__", "fact_3"), ("coder", "fact_2")]
    assert engine.agents("ann") == ["__default__", "coder"]


def test_a_search_over_all_agents_finds_the_previous_default_bucket(engine, root):
    """Its facts move while the search looks for them."""
    place(root / "users/ann" / LEAD, old_fact_file("fact_u1", "Deploys on Thursdays."))
    assert engine.agents("ann") == ["__default__", "lead-agent"]
    assert [(hit.agent, hit.fact.id) for hit in engine.search("ann", "Thursdays")] == [("__default__", "fact_u1")]
    assert engine.agents("ann") == ["__default__"]


def test_a_document_that_stops_keeps_no_agent_from_being_named(engine, home):
    (home / "memory.json").write_bytes(V1[:-20])
    place(home / "agents/coder/config.yaml", "model: none\n")
    assert engine.agents("ann") == ["__default__", "coder"]
    assert engine.agents("nobody") == []


def test_the_no_user_root_and_a_current_user_are_named_as_before(engine, root):
    place(root / "memory.json", V1)
    assert engine.agents() == ["__default__"]
    engine.memory("bob", "writer").add("Something.")
    assert engine.agents("bob") == ["writer"]
