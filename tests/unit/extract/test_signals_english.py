"""Behaviour 144, English: what realistic sentences signal, and what only looks like it."""

from __future__ import annotations

import pytest

from deermem.extract.messages import Turn
from deermem.extract.signals import load_patterns

TELLING = {
    "correction": [
        "That's wrong, the port is 8080.",
        "No, that's not what I meant.",
        "that isn’t right",
        "You misunderstood me. I need the total per month.",
        "I meant Python 3.12, not 3.11",
        "Please try again",
        "You forgot the error handling",
        "Use tabs instead.",
        "Stop adding comments to the code",
        "Wrong. It was 2019.",
        "I told you not to touch the tests",
        "Correction: the meeting is on Friday",
        "Don't do that again",
        "No! The deadline is the 5th.",
        "it's still not right",
        "that's incorrect, we use kg",
        "You got my name wrong",
        "As I said, no semicolons",
        "Can you redo this with a dark background?",
        "No, use spaces",
        "stop apologizing",
        "You keep mixing up the two endpoints",
        "Could you use a loop instead?",
    ],
    "correction identity": [
        "Actually, my manager is Dana.",
    ],
    "reinforcement": [
        "Yes, exactly!",
        "Perfect, thanks",
        "That's exactly what I wanted.",
        "Keep doing that",
        "You're absolutely right",
        "Much better.",
        "It works perfectly now",
        "This is really helpful!",
        "great, it works!",
        "exactly what I needed, thank you",
        "that's correct",
        "yes that's right",
        "Nailed it!",
        "Perfect!",
        "more like this please",
    ],
    "preference reinforcement": [
        "I love the way you structured this",
    ],
    "preference": [
        "I prefer dark mode",
        "I'd prefer short answers",
        "I'd rather walk",
        "From now on answer in German",
        "Always use type hints.",
        "My favorite editor is Vim",
        "Please don't use emojis",
        "I can't stand long meetings",
        "Keep your answers short",
        "Be more concise please",
        "I usually drink tea in the morning",
        "I like my coffee black",
        "I don't like long answers",
        "Never use semicolons in JS.",
        "I want you to always run the linter first",
        "please reply in english only",
        "I hate cilantro",
        "we prefer Kotlin over Java",
        "In future replies, skip the intro",
    ],
    "identity": [
        "My name is Anna",
        "I'm a data engineer from Lyon",
        "I work at a small bank",
        "I live in Oslo with two cats",
        "Call me Sam",
        "I'm vegetarian",
        "my daughter is five",
        "I have two kids",
        "I'm 34 years old",
        "I am a nurse",
        "I've been working as a nurse for ten years",
        "I'm from Ghana",
        "My wife is Japanese",
        "I have 12 years of experience in embedded C",
        "I'm allergic to peanuts",
        "I speak Portuguese",
    ],
    "goal": [
        "My goal is to run a marathon",
        "I'm planning to move to Berlin",
        "I want to learn Rust this year",
        "We aim to launch in March",
        "I need to submit the thesis by June",
        "I'm training for a triathlon",
        "I hope to retire at 50",
        "We have to ship the app before Christmas",
        "I'd like to become fluent in Korean",
        "I'm saving up for a house",
    ],
    "decision": [
        "We decided to use Postgres",
        "Let's go with option B",
        "I've decided against the move",
        "We'll stick with React",
        "Okay, go with the second one.",
        "We're switching to uv",
        "We will use Terraform for this",
        "The team agreed on weekly releases",
        "Let's drop Windows support",
        "I'm going with the blue one",
        "Final decision: we keep Redis",
    ],
    "identity preference": [
        "I'm a morning person",
    ],
}

SILENT = [
    "Thanks, that makes sense",
    "Thanks, that makes sense.",
    "ok",
    "How do I sort a list in Python?",
    "Is that right?",
    "What is wrong with this query?",
    "Should I try again later?",
    "Is 36 a perfect square?",
    "Show me exactly three files",
    "I'd like to book a table",
    "What do you prefer?",
    "Which one should I prefer?",
    "I'm a bit confused",
    "Am I a user here?",
    "I'm the one asking",
    "My code is broken",
    "What is the goal of this function?",
    "Write a function that adds two numbers",
    "I hope you understand your task",
    "Have we decided yet?",
    "I haven't decided",
    "Help me choose a laptop",
    "If that's right, go on",
    "How do I undo and redo in Vim?",
    "Translate this text, please",
    "No problem",
    "Call me later",
    "Can you explain how this works?",
    "What's my name?",
    "Who am I?",
    "summarise this article about preferences",
    "I want to write a function that sorts",
    "Fix the failing test in utils.py",
    "Is it wrong to use goto?",
    "Let's see",
    "Let me know when you are done",
    "thank you, good night",
    "yes please",
    "I'm trying to run the tests",
    "it never works",
    "my job failed in CI",
]


def signalled(text: str) -> set[str]:
    return set(load_patterns().detect([Turn("user", text, "key")]))


@pytest.mark.parametrize("signals", TELLING)
def test_a_sentence_signals(signals: str) -> None:
    wrong = {text: found for text in TELLING[signals] if (found := signalled(text)) != set(signals.split())}
    assert wrong == {}


def test_other_sentences_signal_nothing():
    assert {text: found for text in SILENT if (found := signalled(text))} == {}
