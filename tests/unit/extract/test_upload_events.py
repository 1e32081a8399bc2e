"""Behaviour 148: what tells of an upload is kept out of memory; what a person works with stays."""

from __future__ import annotations

import pytest

from deermem.extract.uploads import without_upload_events

EVENTS = [
    "The user uploaded report.pdf.",
    "User uploaded a PDF for review.",
    "The user has uploaded three screenshots of the error.",
    "They recently uploaded an Excel spreadsheet with sales figures.",
    "The user just uploaded a file",
    "Uploaded a resume to get feedback.",
    "Alice uploaded her thesis draft.",
    "Alice has uploaded contract_v2.docx to the conversation.",
    "The user attached a screenshot of the login page.",
    "A CSV file was uploaded on Monday.",
    "Two documents have been uploaded by the user.",
    "data.csv was uploaded in this session.",
    "The user asked about the uploaded document.",
    "The user wants a summary of uploaded quarterly.xlsx.",
    "The user shared a PDF with the assistant.",
    "The user provided report.docx for translation.",
    "The user sent an image of a cat.",
    "User shared screenshots of the bug.",
    "The user, who uploaded a resume, is a nurse.",
    "The user is uploading budget.xlsx now.",
    "Files are at /mnt/user-data/uploads/report.pdf.",
    "The user asked for help and uploaded a log file.",
    "- User uploaded notes.txt",
    "The user uploaded a document about the API of the billing service.",
    "用户上传了report.pdf。",
    "用户上传了一份简历，希望得到修改意见。",
    "用户刚刚上传了三张截图。",
    "用户已上传数据集 sales.csv",
    "用户询问了上传的文件的内容。",
    "文件已上传。",
    "附件被上传。",
    "用户上传过两份合同。",
    "用户发来一张图片。",
    "用户提供了一个PDF文件。",
    "我上传了论文到对话中。",
    "用户上傳了文件。",
]

KEPT = [
    "Works with CSV files.",
    "Needs a PDF export.",
    "Is building a file upload service.",
    "The user is building a file upload service in Go.",
    "Implements resumable uploads for large videos.",
    "Uploads the backups to S3 every night.",
    "The user uploaded his package to PyPI last year.",
    "The user uploaded three videos to YouTube.",
    "Prefers uploaded files to be deleted after processing.",
    "The service scans the uploaded files for viruses.",
    "Designs an endpoint that validates each uploaded document.",
    "The user is attached to his home town.",
    "The user attached importance to clean reports.",
    "Prefers that documents are shared with the team by link.",
    "The user sent his daughter to a bilingual school.",
    "The user shared his experience with spreadsheets.",
    "Files were moved last week.",
    "Prefers short answers.",
    "The user submitted a paper to NeurIPS.",
    "Customers uploaded 3 million photos to the platform last year.",
    "Has a habit of uploading CSV exports for analysis.",
    "The user's upload bandwidth is 10 Mbit/s.",
    "He provided care for his parents.",
    "The user shared a photo album with her family.",
    "Keeps invoices as PDF files.",
    "用户经常处理CSV文件。",
    "用户正在开发文件上传服务。",
    "需要支持导出PDF。",
    "用户希望系统支持上传文件。",
    "用户实现了文件上传功能。",
    "系统会校验用户上传的文件。",
    "用户把备份上传到了阿里云。",
    "用户喜欢简短的回答。",
    "用户提供了宝贵的意见。",
    "",
]


def test_a_sentence_about_an_upload_goes():
    assert [text for text in EVENTS if without_upload_events(text) != ""] == []


def test_what_a_person_works_with_stays():
    assert [text for text in KEPT if without_upload_events(text) != text] == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Lives in Berlin. The user uploaded report.pdf. Prefers tea.", "Lives in Berlin. Prefers tea."),
        ("The user uploaded a.pdf, b.pdf and c.pdf. Works at Acme.", "Works at Acme."),
        ("Works at Acme; the user uploaded a file", "Works at Acme;"),
        ("- Likes Go\n- Uploaded notes.txt\n- Likes Rust", "- Likes Go\n- Likes Rust"),
        ("用户住在上海。用户上传了一份简历。喜欢喝茶。", "用户住在上海。喜欢喝茶。"),
        ("Works with report.pdf files. Uploads nothing.", "Works with report.pdf files. Uploads nothing."),
        ("  Two  blanks.  The upload speed is 5.5 MB/s. ", "  Two  blanks.  The upload speed is 5.5 MB/s. "),
    ],
)
def test_the_other_sentences_stay_as_they_are(text: str, left: str) -> None:
    assert without_upload_events(text) == left


PIECES = [
    *("uploaded ", "user uploaded ", "user has just ", "the uploaded ", "was uploaded a.", "file was uploaded to the "),
    *("sent a ", "uploaded a b c d e ", "upload to my a b ", "x.p", ". ", "....", "\n", " ", "a"),
    *("上传", "用户上传了", "被上传的", "用户分享"),
]


def test_a_huge_text_takes_linear_time():
    """Quadratic work on these would run into the time limit of the test by far."""
    texts = [f"{piece * (30_000 // len(piece))}\nPrefers tea" for piece in PIECES]
    assert [text for text in texts if not without_upload_events(text).endswith("Prefers tea")] == []
