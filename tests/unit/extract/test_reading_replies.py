"""A model's answer, whatever is around it and whatever it holds."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from builders_replies import answer, gone, new, told

from deermem.extract.reply import parse_reply
from deermem.model.proposals import Labels, NewFact, Proposals

GOOD = json.dumps(answer(new("Likes tea")))
OTHER = json.dumps(answer(new("A draft")))


def contents(found: Proposals | None) -> list[str]:
    assert found is not None
    return [fact.content for fact in found.facts]


def refused(found: Proposals | None) -> list[tuple[str, str, str]]:
    assert found is not None
    return [(item.kind, item.reason, item.subject) for item in found.refused]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here it is: {{see below}} {GOOD} and {{that}} is all",
        f'{{"note": "unrelated"}} {GOOD}',
        f'{{"result": {GOOD}}}',
        f'[{{"a": 1}}, {GOOD}]',
        f"<think>What do I know? {{}}</think>\n{GOOD}",
        f"<think>{GOOD}",
        f"<think>{GOOD}</think>",
        f"<think>{OTHER}</think>{GOOD}",
        f"First: {OTHER}\n</THINK>{GOOD}",
        f"\u25c1think\u25b7{OTHER}\u25c1/think\u25b7<reflection>{OTHER}</reflection>{GOOD}",
        f"<thinking>{OTHER}</thinking>\n<thinking>again {OTHER}</thinking> {GOOD}",
        f"{GOOD}{OTHER}",
        f'{{"user": {{}}, "history": {{}}, "newFacts": [ {GOOD}',
        f'{{"user": }} {{"a": {{"b" }} {GOOD}',
        json.dumps(answer(new("Likes tea")), indent=2).replace("\n", "\r\n"),
    ],
)
def test_the_object_is_found_whatever_is_around_it(text):
    """109."""
    assert contents(parse_reply(text)) == ["Likes tea"]


def test_thinking_tags_within_a_content_belong_to_it():
    said = "Wants <think>x</think> tags kept, and </think> alone too"
    assert contents(parse_reply(json.dumps(answer(new(said))))) == [said]
    assert contents(parse_reply(f"</think>{json.dumps(answer(new(said)))}")) == [said]


def test_raw_line_breaks_within_text_are_taken():
    assert contents(parse_reply(GOOD.replace("Likes tea", "Likes\ntea"))) == ["Likes\ntea"]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "none",
        "{}",
        "[]",
        GOOD[:-1],
        GOOD[:40],
        '{"user": {}, "history": {}}',
        None,
        5,
        b"{}",
        object(),
        [],
        {},
        [5],
    ],
)
def test_what_holds_no_whole_object_is_none(reply):
    """110."""
    assert parse_reply(reply) is None


@pytest.mark.parametrize(
    "reply",
    [
        SimpleNamespace(content=GOOD),
        {"role": "assistant", "content": GOOD},
        {"content": [{"type": "text", "text": GOOD}]},
        [GOOD[:30], GOOD[30:]],
        SimpleNamespace(content=["prose ", GOOD[:25], GOOD[25:]]),
        [{"type": "thinking", "thinking": OTHER}, {"type": "text", "text": "Here:"}, {"type": "text", "text": GOOD}],
    ],
)
def test_text_and_blocks_and_messages_are_read(reply):
    """108."""
    assert contents(parse_reply(reply)) == ["Likes tea"]


def test_every_kind_of_item_is_read():
    found = parse_reply(
        json.dumps(
            answer(
                new("A", sourceError=" once wrong ", expected_valid_days=30.9),
                user={"workContext": told(" W "), "topOfMind": {"summary": "no", "shouldUpdate": False}},
                history={"recentMonths": told("R", scope=" USER ")},
                factsToReinforce=[gone("f1")],
                factsToRemove=[gone(" f2 ", replacementFactIndex=0)],
                staleFactsToRemove=[{"id": "f3", "reason": "old"}],
                staleFactsToExtend=[{"id": "f4", "extend_by_days": 30}],
                factsToConsolidate=[{"sourceIds": ["f5", "f6"], "consolidated": {"content": "M"}}],
            )
        )
    )
    assert found is not None
    assert found.facts == (
        NewFact(
            position=0,
            content="A",
            category="preference",
            confidence=0.9,
            labels=Labels("user", "durable", "descriptive"),
            source_error="once wrong",
            expected_valid_days=30,
        ),
    )
    assert [(item.section, item.text, item.labels.scope) for item in found.summaries] == [
        ("work_context", "W", "user"),
        ("recent_months", "R", "user"),
    ]
    assert [(item.id, item.replacement) for item in found.removals] == [("f2", 0)]
    assert (found.reinforcements[0].id, found.stale_removals[0].id, found.extensions[0].days) == ("f1", "f3", 30)
    assert (found.merges[0].source_ids, found.merges[0].fact.category) == (("f5", "f6"), "")
    assert (found.refused, found.count()) == ((), 8)


@pytest.mark.parametrize(
    ("given", "confidence"),
    [("0.9", 0.9), (" 1 ", 1.0), (1, 1.0), (0, 0.0), (None, None), (".75", 0.75), ("7e-1", 0.7)],
)
def test_a_confidence_is_a_number_or_its_text(given, confidence):
    """111."""
    found = parse_reply(json.dumps(answer(new(confidence=given))))
    assert found is not None
    assert found.facts[0].confidence == confidence


@pytest.mark.parametrize(
    "bad",
    [
        *(new(confidence=value) for value in (95, True, "high", "95%", "nan", [], -0.1, float("nan"), float("inf"))),
        *(new(content=value) for value in ("", "  ", None, 5, ["x"], {"a": 1})),
        {"category": "context"},
        "a text",
        None,
        [],
        new(confidence=10**300),
    ],
)
def test_a_bad_fact_costs_itself_alone(bad):
    """111, and the trap: confidence 95 discarded the batch."""
    found = parse_reply(json.dumps(answer(new("A"), bad, new("B"))))
    assert contents(found) == ["A", "B"]
    assert [(kind, reason) for kind, reason, _ in refused(found)] == [("fact", "malformed")]
    assert found is not None
    assert [fact.position for fact in found.facts] == [0, 2]
    assert len(list(found.malformed_facts())) == 1


@pytest.mark.parametrize(
    ("key", "given", "name", "read"),
    [
        ("category", None, "category", "context"),
        ("category", "  ", "category", "context"),
        ("category", 5, "category", "context"),
        ("category", "x" * 200, "category", "context"),
        ("category", "a\nb", "category", "context"),
        ("category", " Goal ", "category", "Goal"),
        ("sourceError", "  ", "source_error", None),
        ("sourceError", 5, "source_error", None),
        ("expected_valid_days", "30", "expected_valid_days", None),
        ("expected_valid_days", 10**390, "expected_valid_days", 36_500),
        ("expected_valid_days", 0.5, "expected_valid_days", None),
        ("scope", " User\n", "labels", Labels("user", "durable", "descriptive")),
        ("scope", ["user"], "labels", Labels("", "durable", "descriptive")),
    ],
)
def test_what_else_a_fact_says_is_read_leniently(key, given, name, read):
    """111, 113, 131."""
    found = parse_reply(json.dumps(answer(new(**{key: given}))))
    assert found is not None
    assert {item: getattr(found.facts[0], item) for item in (name,)} == {name: read}


def test_an_integer_of_any_length_is_read():
    text = GOOD.replace("0.9", "9" * 6000)
    assert refused(parse_reply(text)) == [("fact", "malformed", "0")]


@pytest.mark.parametrize("no", [False, "false", "False", "no", "", None, 0, [], "0"])
def test_what_is_not_a_yes_is_a_no(no):
    """The trap: the text "false" counted as true."""
    found = parse_reply(json.dumps(answer(user={"workContext": told(shouldUpdate=no)})))
    assert found == Proposals()


@pytest.mark.parametrize("yes", [True, "true", " TRUE "])
def test_a_yes_is_a_yes(yes):
    found = parse_reply(json.dumps(answer(user={"workContext": told(shouldUpdate=yes)})))
    assert found is not None
    assert [item.section for item in found.summaries] == ["work_context"]


@pytest.mark.parametrize("wrong", [None, 5, "text", True, []])
def test_sections_of_a_wrong_type_are_passed_over(wrong):
    """111."""
    names = ["user", "history", "factsToReinforce", "factsToRemove", "staleFactsToRemove", "staleFactsToExtend"]
    found = parse_reply(json.dumps(answer(new("A"), **dict.fromkeys([*names, "factsToConsolidate"], wrong))))
    assert contents(found) == ["A"]
    assert refused(found) == []


def test_new_facts_without_their_list_count_as_one_that_is_malformed():
    assert refused(parse_reply(json.dumps({**answer(), "newFacts": new()}))) == [("fact", "malformed", "newFacts")]
    assert refused(parse_reply(json.dumps({**answer(), "newFacts": None}))) == []


def test_removals_as_plain_text_are_refused():
    """115."""
    assert refused(parse_reply(json.dumps(answer(factsToRemove=["f1", gone("f2")])))) == [("removal", "missing", "f1")]


@pytest.mark.parametrize("index", [-1, True, 0.0, "x", [0], ""])
def test_a_replacement_that_cannot_be_read_is_nowhere(index):
    found = parse_reply(json.dumps(answer(new(), factsToRemove=[gone("f1", replacementFactIndex=index)])))
    assert found is not None
    assert found.removals[0].replacement == -1


def test_other_malformed_items_are_refused_by_name():
    found = parse_reply(
        json.dumps(
            answer(
                user={"workContext": "text"},
                factsToRemove=[{"id": 5}],
                factsToReinforce=[gone("")],
                staleFactsToExtend=[{"id": "f1", "extend_by_days": "many"}],
                factsToConsolidate=[{"sourceIds": "f1", "consolidated": new()}, {"sourceIds": ["f1", "f2"]}],
            )
        )
    )
    assert refused(found) == [
        ("summary", "malformed", "workContext"),
        ("reinforcement", "malformed", "0"),
        ("removal", "malformed", "0"),
        ("extension", "malformed", "f1"),
        ("merge", "malformed", "0"),
        ("merge", "malformed", "1"),
    ]


def test_lone_surrogates_and_nul_are_carried_to_whoever_judges_them():
    found = parse_reply(GOOD.replace("Likes tea", "\\ud800 \\u0000"))
    assert contents(found) == ["\ud800 \0"]
    assert refused(parse_reply(json.dumps(answer(factsToRemove=["\ud800"])))) == [("removal", "missing", "(no id)")]


@pytest.mark.parametrize(
    "piece",
    [
        "{",
        '{"a":',
        '{"',
        '{"a":[1,',
        '{"a":{"',
        "<think>",
        "<think>{</think>",
        '[{"a":1},',
        '{"user":1,"history":1,"x":',
    ],
)
def test_hostile_text_is_given_up_in_the_end(piece):
    """The limit of a test is far above what it takes; reading each brace to the end would take hours."""
    text = piece * (200_000 // len(piece))
    assert parse_reply(f'{text}"user" "history" "newFacts"') is None
