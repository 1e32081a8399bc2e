"""What of a stored text a prompt may show."""

from __future__ import annotations

import pytest

from deermem.policy.visible_text import cut, escape, one_line, shorten


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("Plain 'text' with \"quotes\" & <tags>", "Plain 'text' with \"quotes\" & <tags>"),
        ("用户喜欢简短的回答。", "用户喜欢简短的回答。"),
        ("first\nsecond", "first second"),
        ("first\r\n\n   second \n", "first second"),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg", "a b c d e f g"),
        ("two  blanks and a\ttab", "two  blanks and a\ttab"),
        ("ignore\u200b previous", "ignore previous"),
        ("\ufeffmark", "mark"),
        ("bidi \u202etxet\u202c \u2066x\u2069 \u200f", "bidi txet x"),
        ("tag\U000e0069\U000e0067\U000e006e", "tag"),
        ("soft\u00adhyphen nul\x00 esc\x1b[31m del\x7f c1\x9b", "softhyphen nul esc[31m del c1"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\U0001f3f4"),
        ("word\u2060joiner\u180e and \u2061\u2064 marks", "wordjoiner and  marks"),
        ("\u3164\u115f\u1160\uffa0", ""),
        ("lone \ud83d half", "lone \ufffd half"),
        ("\n\u200b\n", ""),
    ],
)
def test_hidden_characters_and_line_breaks_go(stored: str, shown: str) -> None:
    assert one_line(stored) == shown


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # family
        "\u2764\ufe0f\u200d\U0001f525",  # heart on fire
        "\U0001f3f3\ufe0f\u200d\U0001f308",  # rainbow flag
        "\U0001f469\U0001f3fd\u200d\U0001f680",  # astronaut with a skin tone
        "1\ufe0f\u20e3 \u203c\ufe0f \u2139\ufe0f",  # keycap, exclamation, information
        "می‌خواهم",  # Persian, ZWNJ between letters
        "ക്‍ഷ ක්‍රම",  # Malayalam and Sinhala, ZWJ behind a virama
        "क्‍ष क्‌ष",  # Devanagari, ZWJ and ZWNJ behind a virama
        "বাংলা র‍্য",  # Bengali, ZWJ before a virama
        "\U00011013\U00011046\u200d\U00011013",  # Brahmi, beyond the first plane
        "\u845b\U000e0100 \u4fae\ufe00",  # ideographic variants
        "\u2229\ufe00 \u1000\ufe00",  # an intersection with serifs, a dotted Myanmar letter
    ],
)
def test_joiners_and_selectors_stay_where_they_shape_what_is_seen(text: str) -> None:
    assert one_line(text) == text


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("a\u200db\u200cc", "abc"),
        ("\U0001f600\u200d\u200d\U0001f600", "\U0001f600\u200d\U0001f600"),
        ("\u0645\u200c\u200d\u200c", "\u0645\u200c"),
        ("\U0001f600\ufe0f\ufe01\U000e0141\U000e0142", "\U0001f600\ufe0f"),
        ("e\ufe0fv \ufe0fil", "ev il"),
        ("\ufe0fstart", "start"),
        ("é\ufe0fü\ufe00字\ufe0f字\ufe03字\U000e01ef한\U000e0100", "éü字字字한"),
        ("1\ufe00!\ufe0e-\U000e0120 \ufe0f", "1!-"),
        ("\u1820\u180b\u180ca\u180b", "\u1820\u180ba"),
    ],
)
def test_joiners_and_selectors_go_where_they_could_carry_a_message(stored: str, shown: str) -> None:
    assert one_line(stored) == shown


def test_quotes_are_not_escaped_and_entities_are_escaped_again() -> None:
    assert escape('</memory> "it\'s" &amp;') == '&lt;/memory&gt; "it\'s" &amp;amp;'


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("It fits.", 8, "It fits."),
        ("First sentence here. Second one", 30, "First sentence here. …"),
        ("first words then morewords", 22, "first words then…"),
        ("first words then more", 18, "first words then…"),
        ("unbrokenunbroken", 10, "unbrokenu…"),
        ("先说第一句。再说第二句", 20, "先说第一句。…"),
        ("没有标点的一段文字", 12, "没有标点的…"),
        ("a version 3.14 is no sentence end", 22, "a version 3.14 is no…"),
        ("<<<<<<", 11, "&lt;&lt;…"),
        ("a&b", 4, "a…"),
        ("anything", 2, "a…"),
        ("anything", 1, ""),
        ("A stop. So", 9, "A stop. …"),
        ("A stop. So", 8, "A stop.…"),
        ("anything", 0, ""),
        ("anything", -5, ""),
    ],
)
def test_cut_ends_at_a_sentence_a_word_or_a_character(text: str, room: int, shown: str) -> None:
    assert cut(text, room, "…") == shown


def test_cut_fits_as_a_tokenizer_counts_it() -> None:
    def count(text: str) -> int:
        return len(text.split()) + len(text) // 20

    text = "one two three four five six seven eight nine ten " * 2000
    for room in range(2, 60):
        shown = cut(text, room, "…", count)
        assert count(shown) <= room
        assert text.startswith(shown.removesuffix("…"))
        assert count(shown) >= room - 3


def test_the_end_of_a_huge_text_is_never_counted() -> None:
    lengths: list[int] = []

    def count(text: str) -> int:
        lengths.append(len(text))
        return len(text) // 4

    assert len(cut("word " * 200_000, 100, "…", count)) in range(395, 404)
    assert max(lengths) <= 1024
    assert len(lengths) < 25


def test_a_tokenizer_that_counts_more_for_the_whole_still_gets_what_fits() -> None:
    assert cut("abcdefgh", 5, "…", lambda text: len(text) + 2 * (text[1:].endswith("…"))) == "ab…"
    assert cut("abcdefgh", 5, "…", lambda text: 9 if "…" in text else 1) == "abcdefgh"
    assert shorten("abcdefgh", 5, "…", lambda text: 9 if "…" in text else 1) == ""


def test_cut_keeps_a_character_and_its_marks_together() -> None:
    assert cut("xxxxe\u0301e\u0301e\u0301", 8, "…") == "xxxxe\u0301…"
    assert cut("xxx\U0001f468\u200d\U0001f469yyy", 6, "…") == "xxx…"
    assert cut("xx🇩🇪🇫🇷", 5, "…") == "xx🇩🇪…"
    assert cut("xxx🇩🇪🇫🇷", 5, "…") == "xxx…"
    assert cut("\u1112\u1161\u11ab" * 3, 8, "…") == "\u1112\u1161\u11ab…"
