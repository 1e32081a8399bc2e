"""Sentences that only tell of an upload. A file that somebody sent once is no trait of theirs, and soon it is gone.

For new proposals and summaries of a model alone: what is stored, or what a person wrote, is never put through this.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final


def _any(words: str) -> str:
    """An alternation of words; `_` is a blank in one."""
    return "|".join(word.replace("_", " ") for word in words.split())


_BEHIND: Final = 80
"""Characters looked at on either side of a verb: further away is another clause, and the bound keeps it linear."""

_SENTENCE_END: Final = re.compile(r"[.!?](?:\s+|\Z)|[。！？；;\n]\s*")
_PATH: Final = re.compile(r"/uploads/|<(?:uploaded_files|current_uploads)>", re.IGNORECASE)
_EXTENSIONS: Final = _any(
    """
    pdf docx? xlsx? pptx? csv tsv txt md json ya?ml xml html? png jpe?g gif svg webp bmp heic zip tar gz rar 7z mp3 mp4
    wav m4a mov avi ipynb py log epub rtf odt ods parquet sql pkl psd bib tex
    """
)
_FILE_NAME: Final = re.compile(rf"[\w)\]]\.(?:{_EXTENSIONS})\b", re.IGNORECASE)
_NOUN: Final = _any(
    """
    files? documents? docs? pdfs? csvs? images? pictures? photos? photographs? screenshots? spreadsheets? attachments?
    datasets? data_sets? presentations? slides? slide_decks? resumes? résumés? cvs? reports? papers? archives? zips?
    videos? recordings? audio logs? scripts? notebooks? transcripts? workbooks? contracts? invoices? receipts? manuals?
    essays? drafts? diagrams? folders? word excel powerpoint
    """
)
_A_FILE: Final = re.compile(rf"\b(?:{_NOUN})\b", re.IGNORECASE)
_NEAR_FILE: Final = re.compile(rf"\W{{0,3}}(?:[\w'’.-]{{1,30}}\W{{1,3}}){{0,5}}?(?:{_NOUN})\b", re.IGNORECASE)
_NEXT_FILE: Final = re.compile(rf"\W{{0,3}}(?:[\w'’.-]{{1,30}} ){{0,2}}?(?:{_NOUN})\b", re.IGNORECASE)
_COUNT: Final = _any(
    r"an? the this that these those some several multiple two three four five \d{1,3} his her their my our another"
)
_COUNTED_FILE: Final = re.compile(
    rf"\W{{0,3}}(?:(?:me|us|you|the assistant) )?(?:{_COUNT}) (?:[\w'’-]{{1,30}} ){{0,3}}?(?:{_NOUN})\b", re.IGNORECASE
)
_VERB: Final = re.compile(
    r"\b(?:(?P<done>uploaded|attached)|(?P<doing>upload(?:s|ing)?|attach(?:es|ing))"
    r"|(?P<gave>shared|sent|submitted|provided))\b",
    re.IGNORECASE,
)
_WHO: Final = _any("user person human customer client student someone they he she i we you who")
_WHEN: Final = _any(
    "has have had 've also just recently previously then once already initially first later earlier today"
)
_SUBJECT: Final = re.compile(
    rf"(?:^\W*|\b(?:{_WHO})\W{{1,2}}(?:(?:{_WHEN}) ){{0,3}}|[,;] ?|\band (?:then |also )?)$", re.IGNORECASE
)
_NAME: Final = re.compile(r"\b[A-Z][\w'’-]{1,30} (?:has |had |also |just |recently )?$")
_PASSIVE: Final = re.compile(
    r"\b(?:was|were|been|got) (?:(?:just|recently|already|also|previously|successfully) )?$", re.IGNORECASE
)
_ARTICLE: Final = re.compile(
    rf"\b(?:{_COUNT}|your|user's|users?') (?:(?:newly|recently|just|previously) )?$", re.IGNORECASE
)
_PLACE: Final = _any(
    """
    s3 gcs azure aws cloud servers? cluster bucket youtube vimeo github gitlab bitbucket drive dropbox onedrive icloud
    sharepoint app_store play_store repo repository website site blog ftp sftp pypi npm hugging_face huggingface kaggle
    notion confluence slack instagram tiktok facebook linkedin portal database registry cdn arxiv overleaf
    """
)
_ELSEWHERE: Final = re.compile(
    rf"\b(?:to|onto|into|on|in) (?:(?:an?|the|his|her|their|our|my|its) )?(?:[\w'’-]{{1,30}} ){{0,2}}?(?:{_PLACE})\b",
    re.IGNORECASE,
)
_TO_OTHERS: Final = re.compile(
    r"\b(?:with|to|by) (?!(?:the |an? )?(?:assistant|ai|agent|chat|conversation|model|bot|me|you)\b)", re.IGNORECASE
)
_HABIT: Final = _any("prefer want like always never usually every each daily weekly")
_WORK: Final = _any(
    r"""
    build built develop implement design maintain creat architect debug validat pars process scan stor handl manag
    convert us(?:es|ing)\b keep read works?_(?:on|with)
    """
)
_PRODUCTS: Final = _any(
    r"""
    service feature endpoint apis?\b apps?\b application platform pipeline system component module widget portal server
    backend frontend website product workflow library tool\b code\b
    """
)
_NO_EVENT: Final = re.compile(rf"\b(?:{_HABIT}|{_WORK}|{_PRODUCTS})", re.IGNORECASE)
"""What makes of uploaded files a subject of somebody's work or a habit, where nothing else speaks for an event."""

_CHINESE_NOUN: Final = _any(
    """
    文件 文档 图片 照片 截图 附件 表格 简历 报告 论文 资料 数据集 数据 视频 音频 录音 压缩包 幻灯片 课件 合同 发票 日志
    脚本 代码 图 PDF CSV Excel Word PPT
    """
)
_CHINESE_FILE: Final = re.compile(rf"(?:{_CHINESE_NOUN})", re.IGNORECASE)
_CHINESE_NEXT_FILE: Final = re.compile(rf"[^，,到至]{{0,20}}?(?:{_CHINESE_NOUN})", re.IGNORECASE)
_CHINESE_VERB: Final = re.compile(
    r"(?:上传|上傳)(?P<what>[^。！？；;\n]{0,40})"
    r"|(?:用户|他|她|我|对方)[^。！？；;，,\n]{0,10}(?:附上|附加|发来|发送|提供|提交|分享)[了过]?(?P<given>[^。！？；;，,\n]{0,25})"
)
_CHINESE_DONE: Final = re.compile(r"(?:已经?|刚刚?|刚才|曾经?|被|新近|最近|之前|先前)$")
_CHINESE_ELSEWHERE: Final = re.compile(r"[^，,]{0,20}(?<![得收看提直])[到至](?!了?(?:对话|聊天|会话|这里|当前))")
_CHINESE_NO_EVENT: Final = re.compile(
    _any(
        """
        服务 系统 平台 功能 接口 模块 开发 构建 实现 设计 处理 应用 网站 后台 后端 前端 组件 产品 喜欢 偏好 习惯 总是
        每次 每天 每周 经常 支持 希望 校验
        """
    )
)


def without_upload_events(text: str) -> str:
    """The text without its sentences about an upload, a file that was attached, or one that was handed over.

    "The user uploaded report.pdf." goes. What somebody works with or works on stays: "works with CSV files", "exports
    to PDF", "is building a file upload service", "uploads the backups to S3". English and Chinese, in linear time;
    text without such a sentence comes back as it is. "" where nothing else was said.
    """
    sentences = _sentences(text)
    kept = [sentence for sentence in sentences if not _tells_of_upload(sentence)]
    return text if len(kept) == len(sentences) else "".join(kept).strip()


def _sentences(text: str) -> list[str]:
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(ends) if start < end]


def _tells_of_upload(sentence: str) -> bool:
    if _PATH.search(sentence):
        return True
    is_weak = bool(_NO_EVENT.search(sentence))
    if any(_is_event(sentence, verb, is_weak) for verb in _VERB.finditer(sentence)):
        return True
    is_weak = bool(_CHINESE_NO_EVENT.search(sentence))
    return any(_is_chinese_event(sentence, verb, is_weak) for verb in _CHINESE_VERB.finditer(sentence))


def _is_event(sentence: str, verb: re.Match[str], is_weak: bool) -> bool:
    """Whether this verb tells of an upload. `is_weak`: the sentence is about work or habits; a name proves it then."""
    before = sentence[max(0, verb.start() - _BEHIND) : verb.start()].lstrip()
    after = sentence[verb.end() : verb.end() + _BEHIND]
    names_file = bool(_FILE_NAME.search(after))
    if after.startswith(" to ") or _ELSEWHERE.search(after):
        return False
    if verb["doing"]:
        return names_file
    if verb["gave"]:
        is_file = names_file or bool(_COUNTED_FILE.match(after) or _A_FILE.match(after[1:]))
        return is_file and bool(_SUBJECT.search(before)) and not is_weak and not _TO_OTHERS.search(after)
    if _PASSIVE.search(before):
        return bool(_FILE_NAME.search(before)) or (bool(_A_FILE.search(before)) and not is_weak)
    if _ARTICLE.search(before):
        return names_file or (bool(_NEXT_FILE.match(after)) and not is_weak)
    return names_file or _did(verb[0].lower(), before, after, is_weak)


def _did(verb: str, before: str, after: str, is_weak: bool) -> bool:
    """Whether somebody did it to a file. What is attached may be a meaning, so there the file stands close by."""
    is_file = _COUNTED_FILE.match(after) or (_NEAR_FILE if verb == "uploaded" else _NEXT_FILE).match(after)
    # A sentence may begin with its verb: "Handles uploaded files" looks like "Alice uploaded files".
    return bool(is_file) and bool(_SUBJECT.search(before) or (_NAME.search(before) and not is_weak))


def _is_chinese_event(sentence: str, verb: re.Match[str], is_weak: bool) -> bool:
    if verb["given"] is not None:
        return not is_weak and bool(_FILE_NAME.search(verb["given"]) or _CHINESE_NEXT_FILE.match(verb["given"]))
    what = verb["what"]
    before = sentence[max(0, verb.start() - _BEHIND) : verb.start()]
    if _CHINESE_ELSEWHERE.match(what):
        return False
    if _FILE_NAME.search(what):
        return True
    is_next = bool(_CHINESE_NEXT_FILE.match(what))
    if what.startswith("的"):
        return is_next and not is_weak
    is_file = is_next or bool(_CHINESE_FILE.search(before))
    return is_file and (what.startswith(("了", "过")) or (bool(_CHINESE_DONE.search(before)) and not is_weak))
