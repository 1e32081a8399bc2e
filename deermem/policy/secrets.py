"""Whether a text holds a credential: what a model writes by itself must not keep one for later."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from deermem.policy.secret_words import is_secret_word, is_strong, is_token

if TYPE_CHECKING:
    from detect_secrets.plugins.base import BasePlugin

_WINDOW: Final = 1000
_OVERLAP: Final = 300
_RUN: Final = re.compile(r"[\w+/=.:-]{24}")
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]+")


def holds_secret(text: str) -> str | None:
    """The kind of credential that a text holds, in words, never the credential itself; None where it holds none.

    Vendor keys, private-key blocks, JWTs, passwords in addresses, and what is said to be a password, key or token, in
    English and Chinese. Words about passwords are none: "wants shorter password resets". The time grows with the length
    of the text, whatever that says.
    """
    plain = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    for rule in _RULES:
        if any(rule.counts(match) for match in _compiled(rule.pattern, rule.flags).finditer(plain)):
            return rule.kind
    return _known_to_library(plain) if _RUN.search(plain) else None


@dataclass(frozen=True, slots=True)
class _Rule:
    kind: str
    pattern: str
    counts: Callable[[re.Match[str]], bool] = bool
    flags: int = 0


@cache
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    """All of them take a tenth of a second, which only an answer of a model is worth."""
    return re.compile(pattern, flags)


def _is_key(match: re.Match[str]) -> bool:
    """A key is made by chance: words with hyphens in them have no long run of letters and digits."""
    return any(is_token(part) for part in re.findall(r"[A-Za-z0-9]{10,}", match[0].partition("-")[2]))


def _is_password(match: re.Match[str]) -> bool:
    return is_secret_word(match["value"], rest=_rest(match), quoted=match["quote"].strip("*") != "")


def _is_shown(match: re.Match[str]) -> bool:
    word = match["value"].rstrip(".,;:!?)")
    return _is_strong_or_quoted(match) or (word.isdigit() and not re.match(r"[\w%]", _rest(match)))


def _is_random_value(match: re.Match[str]) -> bool:
    return is_token(match["value"])


def _is_password_of_command(match: re.Match[str]) -> bool:
    return _is_password_of_address(match) and is_strong(match["value"])


def _is_strong_or_quoted(match: re.Match[str]) -> bool:
    quoted = match["quote"].strip("*") != ""
    return is_strong(match["value"].rstrip(".,;:!?)")) or (quoted and _is_password(match))


def _is_assigned_token(match: re.Match[str]) -> bool:
    return is_token(match["value"].rstrip(".,;:"))


def _is_named_token(match: re.Match[str]) -> bool:
    return is_token(match["value"]) and not match["value"].lower().startswith(("your", "example", "os.", "process."))


def _is_mixed(match: re.Match[str]) -> bool:
    value = match["value"]
    return all(any(test(c) for c in value) for test in (str.isupper, str.islower, str.isdigit))


def _is_password_of_address(match: re.Match[str]) -> bool:
    return not re.match(r"[<{$\[(*%]|x{3,}\Z|\.{3}", match["value"])


def _rest(match: re.Match[str]) -> str:
    return match.string[match.end("value") : match.end("value") + 80]


_ALONE = r"(?<![A-Za-z0-9_-])"
_QUOTE = r"(?P<quote>[\"'`“‘「『*]{0,3})"
_VALUE = rf"{_QUOTE}(?P<value>[^\s\"'`”’」』]{{1,200}})"
_ASCII_VALUE = rf"{_QUOTE}(?P<value>[!-~]{{4,200}})"
_TOKEN = r"[\"'`“「*]{0,3}(?P<value>[A-Za-z0-9_.+/=~-]{8,300})"
_NO_STORE = (
    r"(?!\s(?:manager|store|vault|generator|hash|hasher|hashing|keeper|database|app|tool|policy|reset|field)|[\w-])"
)
_CHANGED_TO = (
    r"(?:set|chang(?:e|ed|es|ing)|updat(?:e|ed|ing)|reset|rotated)\s(?:[\w'’-]{1,20}\s){0,4}?(?:password|passphrase|passcode)"
    r"(?:\s(?:for|of|on)(?:\s[\w'’-]{1,20}){1,4}?)?\s(?:back\s)?to\s"
)
_AS_PASSWORD = (
    rf"(?<!\S){_QUOTE}(?P<value>[^\s\"'`”’]{{4,64}})[\"'`”’*]{{0,3}}\s"
    r"(?:as\s(?:(?:an?|the|his|her|their|my|its|user's)\s)?|is\s(?:the|his|her|their|my|our|user's)\s)"
    rf"(?:[\w-]{{1,20}}\s)?(?:password|passphrase|passcode){_NO_STORE}"
)
_PREFIXES = (
    r"lin_api_|dckr_[po]at_|hv[sbr]\.|NR(?:AK|JS|II)-|glsa_|glc_|gl(?:ffct|oas)-|sntry[su]_|rubygems_|CLOJARS_|fo1_|tskey-[a-z]{2,8}-"
    r"|pscale_[a-z]{2,5}_|AT[AC]TT3x|sq0[a-z]{3}-|nvapi-|csk-|jina_|lsv2_[a-z]{2}_|ls__|pcsk_|vc[a-z]_|nfp_|rnd_|sb_secret_"
    r"|(?:cf|CF)PAT-|cfpat-|ph[cx]_|ops_|LTAI|AKID|secret_|PMAK-|re_(?=[A-Za-z0-9]{8}_)|fw_(?=[A-Za-z0-9]{24})"
)
_OF_WHAT = r"(?:\s(?:for|to|of|on|at|in)(?:\s[\w'./@-]{1,30}){1,5}?|\s?\([^()\n]{1,40}\))?"
_PASSWORD = r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{0,20}[_-])?(?:password|passwd|passphrase|passcode|pwd|pw)"
_IS = r"\s(?:is|was|=|will be|has been)\s(?:(?:now|still|just|simply|called|set to)\s){0,2}"
_ASSIGN = r"[\"'`*]{0,3}\s{0,3}(?::=|=>|->|→|[:=])\s{0,3}"
_KEY_NAME = (
    r"(?<![A-Za-z0-9])(?:api[ _-]?(?:key|token|secret)"
    r"|(?:access|auth|refresh|bearer|session|bot|deploy|secret|id)[ _-]?token"
    r"|(?:secret|access|private|encryption|signing|account|service|license|master|client)[ _-]?(?:access[ _-]?)?"
    r"(?:key|secret)"
    r"|credentials?|secret|token)(?:[_-][A-Za-z0-9]{1,20}){0,2}"
)
_CHINESE_IS = (
    r"\s{0,2}(?:已经|现在|目前|就|也|都|一直){0,2}"
    r"(?:我?设的是|改成了?|改为|换成了?|设成了?|设为|设置为|设置成了?|是|为|叫做?|:|=)\s{0,2}(?:生日|拼音){0,1}"
)
_CHINESE_SHOWN = r"(?:密码|密碼|口令)\s?" + _ASCII_VALUE
_CHINESE_AS = (
    r"(?<![!-~])(?P<quote>[\"'`“「*]{0,3})(?P<value>[!-~]{4,64}?)[\"'`”」*]{0,3}\s?"
    r"(?:(?:就|才)?是|当作?|作为|做)(?:我|我们|他|她|用户|你)?(?:家)?的?"
    r"[^。，,\n弱强不坏好差二]{0,6}?(?:密码|密碼|口令)(?!管理|学|本|器|工具|库|哈希|加密|算法|策略|验证|重置)"
)
_CHINESE_PASSWORD = r"(?:密码|密碼|口令|通行码|暗号|PIN码|password|pwd)" + _CHINESE_IS
_CHINESE_KEY = r"(?:密钥|密鑰|秘钥|私钥|令牌|授权码|api ?key|token|secret)" + _CHINESE_IS


_ANY_CASE: Final = re.IGNORECASE
_RULES: Final[Sequence[_Rule]] = (
    _Rule(
        "private key", r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-\d|AGE-SECRET-KEY-1[A-Z0-9]{20}"
    ),
    _Rule("AWS access key", r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _Rule(
        "AWS secret key",
        r"(?:aws|secret|access).{0,60}?(?<![A-Za-z0-9/+])(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        _is_mixed,
        flags=_ANY_CASE,
    ),
    _Rule("API key", _ALONE + r"sk-[A-Za-z0-9_-]{16,400}", _is_key),
    _Rule("API key", _ALONE + r"(?:sk|rk|pk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,200}", lambda m: is_token(m[0])),
    _Rule("Google key", _ALONE + r"(?:AIza[A-Za-z0-9_-]{30,60}|ya29\.[A-Za-z0-9_-]{20}|GOCSPX-[A-Za-z0-9_-]{20})"),
    _Rule("GitHub token", _ALONE + r"(?:gh[pousr]_[A-Za-z0-9]{16}|github_pat_[A-Za-z0-9_]{20})"),
    _Rule("GitLab token", _ALONE + r"gl(?:pat|dt|rt|ft|soat|ptt)-(?=[A-Za-z_-]{0,30}\d)[A-Za-z0-9_-]{16}"),
    _Rule("Slack token", _ALONE + r"(?:xox[a-eoprs]|xapp)-(?=[A-Za-z-]{0,20}\d)[A-Za-z0-9-]{10}"),
    _Rule(
        "access token",
        _ALONE + r"(?:hf_|npm_|gsk_|r8_|do[opr]_v1_|shp(?:at|ca|pa|ss)_|pypi-AgE|xai-|tvly-|pplx-|ntn_|figd_)[\w-]{20}",
    ),
    _Rule("access token", _ALONE + rf"(?:{_PREFIXES})(?P<value>[A-Za-z0-9_-]{{16,400}})", _is_random_value),
    _Rule(
        "access token", _ALONE + r"(?:dapi|key-|fc-|bkua_|sbp_|v1\.0-)[0-9a-f]{24}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40}"
    ),
    _Rule("access token", _ALONE + r"(?:EAA[A-Za-z0-9]{50}|GOOG1E[A-Z0-9]{40}|1//0[A-Za-z0-9_-]{40}|mfa\.[\w-]{60})"),
    _Rule(
        "key in an address",
        r"(?:SharedAccessKey|AccountKey)=[A-Za-z0-9+/]{30}|[?&]sig=[A-Za-z0-9%+/]{30}|/api/webhooks/\d{15,20}/[\w-]{40}"
        r"|qyapi\.weixin\.qq\.com/\S{0,40}[?&]key=[\w-]{20}|/open-apis/bot/v\d/hook/[\w-]{20}",
    ),
    _Rule(
        "password in a command",
        r"\b(?:curl\b[^\n]{0,200}?\s(?:-u|--user)\s?[\"']?[^\s:\"']{1,60}:|sshpass\s-p\s?[\"']?"
        r"|mysql\w{0,10}\b[^\n]{0,200}?\s-p)(?P<value>[^\s\"']{4,100})",
        _is_password_of_command,
    ),
    _Rule(
        "JSON web token",
        _ALONE + r"eyJ[A-Za-z0-9_-]{8,4000}\.(?:eyJ[A-Za-z0-9_-]{4}|[A-Za-z0-9_-]{4,4000}\.[A-Za-z0-9_-]{4})",
    ),
    _Rule("npm token", r":_authToken\s{0,3}=\s{0,3}[A-Za-z0-9_-]{8}"),
    _Rule(
        "credential in a request",
        r"\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:basic|bearer|token)\s{1,3}[A-Za-z0-9._~+/=-]{8}",
        flags=_ANY_CASE,
    ),
    _Rule(
        "bearer token",
        _ALONE + r"bearer[\s:=]{1,3}(?P<value>[A-Za-z0-9._~+/=-]{12,300})",
        _is_assigned_token,
        flags=_ANY_CASE,
    ),
    _Rule(
        "password in an address",
        r"(?<![A-Za-z0-9+.-])[a-z][a-z0-9+.-]{1,20}://[^\s:/@<>\"']{0,100}:(?P<value>[^\s@/<>\"']{1,200})@",
        _is_password_of_address,
        flags=_ANY_CASE,
    ),
    _Rule("password", _PASSWORD + _OF_WHAT + rf"(?:{_ASSIGN}|{_IS})" + _VALUE, _is_password, flags=_ANY_CASE),
    _Rule(
        "password",
        r"(?<![A-Za-z])(?:db|user|admin|root|mail|ftp|smtp)?_?pass[=:]\s?" + _VALUE,
        _is_password,
        flags=_ANY_CASE,
    ),
    _Rule("password", _PASSWORD + r"(?:\s?[(–-]\s?|\s)" + _VALUE, _is_strong_or_quoted, flags=_ANY_CASE),
    _Rule("password", _CHANGED_TO + _VALUE, _is_strong_or_quoted, flags=_ANY_CASE),
    _Rule("password", _AS_PASSWORD, _is_strong_or_quoted, flags=_ANY_CASE),
    _Rule(
        "password",
        r"\bapp(?:-specific)? password" + _OF_WHAT + rf"(?:{_ASSIGN}|{_IS})(?:[a-z]{{4}}[ -]){{3}}[a-z]{{4}}\b",
    ),
    _Rule(
        "PIN",
        r"(?<![A-Za-z0-9])(?:PIN(?: code| number)?|[Pp]in (?:code|number)"
        r"|(?:alarm|door|gate|entry|access|lock|safe|unlock|security) code)"
        rf"{_OF_WHAT}"
        r"(?:\s(?:is|was)\s|\s?[:=]\s?)[\"'`*]{0,3}\d{4,8}"
        r"(?![\w-]|\.\d|\s(?:digit|char|time|step|minute|second|day))",
    ),
    _Rule(
        "API key or token", _KEY_NAME + _OF_WHAT + rf"(?:{_ASSIGN}|{_IS}|\s)" + _TOKEN, _is_named_token, flags=_ANY_CASE
    ),
    _Rule("password", _CHINESE_PASSWORD + _ASCII_VALUE, _is_password, flags=_ANY_CASE),
    _Rule("password", _CHINESE_SHOWN, _is_shown),
    _Rule("password", _CHINESE_AS, _is_strong_or_quoted),
    _Rule("API key or token", _CHINESE_KEY + _TOKEN, _is_named_token, flags=_ANY_CASE),
    _Rule(
        "recovery phrase",
        r"(?:(?:seed|recovery|mnemonic|backup) (?:phrase|words)|mnemonic)(?:\s(?:is|are))?\s?:?\s"
        r"(?:[a-z]{3,8}[ ,]{1,2}){11}[a-z]{3}"
        r"|(?:recovery|backup) codes?(?:\s(?:is|are))?\s?:?\s(?=[a-z-]{0,9}\d)[a-z0-9]{4,8}-[a-z0-9]{4,8}"
        r"|助记词.{0,4}(?:[a-z]{3,8}[ ,]{1,2}){11}",
        flags=_ANY_CASE,
    ),
)


@cache
def _detectors() -> tuple[BasePlugin, ...]:
    """Those of the library that look for one vendor's form. Its guesses at entropy and keywords take prose for secrets,
    and some others need more time than the text is long.
    """
    from detect_secrets.plugins import (
        aws,
        azure_storage_key,
        cloudant,
        discord,
        github_token,
        gitlab_token,
        ibm_cloud_iam,
        ibm_cos_hmac,
        mailchimp,
        pypi_token,
        sendgrid,
        slack,
        softlayer,
        square_oauth,
        stripe,
        telegram_token,
        twilio,
    )

    return (
        aws.AWSKeyDetector(),
        azure_storage_key.AzureStorageKeyDetector(),
        cloudant.CloudantDetector(),
        discord.DiscordBotTokenDetector(),
        github_token.GitHubTokenDetector(),
        gitlab_token.GitLabTokenDetector(),
        ibm_cloud_iam.IbmCloudIamDetector(),
        ibm_cos_hmac.IbmCosHmacDetector(),
        mailchimp.MailchimpDetector(),
        pypi_token.PypiTokenDetector(),
        sendgrid.SendGridDetector(),
        slack.SlackDetector(),
        softlayer.SoftlayerDetector(),
        square_oauth.SquareOAuthDetector(),
        stripe.StripeDetector(),
        telegram_token.TelegramBotTokenDetector(),
        twilio.TwilioKeyDetector(),
    )


def _known_to_library(text: str) -> str | None:
    for piece in _pieces(text):
        for detector in _detectors():
            if any(detector.analyze_string(piece)):
                return str(detector.secret_type).lower()
    return None


def _pieces(text: str) -> Iterator[str]:
    """Overlapping pieces: a pattern of the library that needs the square of a length then needs that of a piece."""
    for start in range(0, max(1, len(text) - _OVERLAP), _WINDOW - _OVERLAP):
        yield text[start : start + _WINDOW]
