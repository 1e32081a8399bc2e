"""Whether a word that stands where a password or key would stand is one, or only says something about it."""

from __future__ import annotations

import re
from typing import Final

_PLACEHOLDER: Final = re.compile(
    r"[<{$\[(%]|[*•.…_xX-]+\Z|your[_-]|my[_-]|example|placeholder|changeme\b|[\w.]{1,40}\(|os\.|process\.|env\.|getenv",
    re.IGNORECASE,
)
_TECHNICAL: Final = re.compile(
    r"(?:pbkdf|sha|md|base|utf|aes|rsa|des|hs|rs|es|argon|bcrypt|scrypt|blake|oauth|x|iso|rfc|ed|curve|http|ipv|tls|ssl|ssh|v|k8s|s3|ec|gpt|log|web)"
    r"[-_]?\d{1,5}(?:id|[a-z])?(?:[-_.:/]\w{0,20})*\Z|\d{1,4}-[a-z]+(?:-[a-z]+)*\Z|\d{1,2}[a-z]{1,12}\Z|\d[\d./:-]*(?:am|pm|[a-z]{1,2}|st|nd|rd|th)?\Z"
    r"|v?\d+(?:\.\d+)+|\d{4}-\d\d|(?:keepass|last|one|1|enpass|bit)-?(?:pass|password|warden)\w{0,10}\Z|[\w-]{1,30}\.(?:py|js|ts|md|txt|ya?ml|json|env|com|org|net|io)\Z",
    re.IGNORECASE,
)
_PROSE_END: Final = re.compile(
    r"(?:ed|ing|able|ible|ly|less|ful|ive|ous|ory|tten|olen|oken|dden|aken|ised|ized|al|ant|ent|ary|ic)\Z",
    re.IGNORECASE,
)
_CLAUSE_END: Final = re.compile(
    r"[\"'`*”’」』)\]]{0,3}(?:\s*\Z|\s{0,2}[.,;!?)\n。，；！？、]"
    r"|\s(?:and|but|since|because|which|or|now|by the way)\b)"
)
_UNIT: Final = re.compile(r" ?(?:[A-Za-z]{2}|[%年月日天位个字次号周小分])")
_MORE_WORDS: Final = re.compile(r"(?: [\w'-]{1,20}){2,12}[\"'`”’」]")
_SYMBOL: Final = re.compile(r"\w[!@#$%^&*+=~?]+\w|\A[!@#$%^&*+=~]{1,3}\w")
_SAID_OF_ONE: Final = """
a an the this that these those his her their my your our its it he she they we you i one none null nil true
false yes no not never always only also still just even more most less least very too so as if when where what
which why how who than then to in on at by for from with of off up down out over under about into onto via per
and or but is was be been are were has have had do does did will would can could may might must should required
optional hidden redacted unknown empty blank secret private public encrypted hashed salted n/a na tbd string str
text varchar char int integer bool boolean bytes object any token field input value password passwords
passphrase hash number short long weak strong wrong correct lost old new safe secure insecure simple complex
common default fine ok okay good bad great unique random reset set gone known visible invisible plain plaintext
cleartext here there below above same different enough easy hard difficult important essential mandatory
confidential sensitive valid invalid stale fresh expired due missing stuck longer shorter stronger weaker better
worse stuff something nothing everything anything someone shared case mixed-case outdated obsolete risky tricky
painful slow fast kept sent stored set-up broken bcrypt scrypt argon jwt oauth oidc saml totp otp mfa sso
keychain vault keepass keepassxc bitwarden lastpass dashlane enpass proton authentication authorization rotation
policy manager managers policies strength security access login work home later soon today tomorrow yesterday
first next last
"""
_PROSE: Final = frozenset(_SAID_OF_ONE.split())


def is_secret_word(value: str, *, rest: str, quoted: bool = False) -> bool:
    """Whether the word after "password is" or "password:" is the password. `rest` is what follows it, `quoted` whether
    a quotation mark opens before it.
    """
    word = value.rstrip(".,;:!?)]}\"'`*")
    if _PLACEHOLDER.match(word) or "://" in word:
        return False
    if quoted and _MORE_WORDS.match(rest):
        return True
    if len(word) < 3 or word.lower() in _PROSE:
        return False
    if is_strong(word):
        return True
    if word.isdigit():
        return len(word) >= 4 and not _UNIT.match(rest)
    if _TECHNICAL.match(word):
        return False
    if quoted:
        return True
    ends = value != word or bool(_CLAUSE_END.match(rest))
    return ends and re.fullmatch(r"[\w-]{4,}", word) is not None and not _PROSE_END.search(word)


def is_strong(word: str) -> bool:
    """Whether a word could hardly be anything but a password: letters with digits, or with signs within."""
    if len(word) < 5 or _TECHNICAL.match(word) or _PLACEHOLDER.match(word):
        return False
    has_letter = any(map(str.isalpha, word))
    has_digit = any("0" <= character <= "9" for character in word)
    return has_letter and (has_digit or bool(_SYMBOL.search(word)))


def is_token(text: str) -> bool:
    """Whether a text holds a run of letters and digits that nobody would choose: a key, not a word with a year."""
    return not _TECHNICAL.match(text) and any(map(_is_random, re.findall(r"[A-Za-z0-9]{8,}", text)))


def _is_random(run: str) -> bool:
    digits = sum(map(str.isdigit, run))
    if not 2 <= digits < len(run):
        return False
    borders = len(re.findall(r"(?<=\d)(?=\D)|(?<=\D)(?=\d)", run))
    return borders >= 2 or len(run) >= 16 or digits >= 6
