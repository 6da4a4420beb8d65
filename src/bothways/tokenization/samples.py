"""Sample strings, and the ids that well-known vocabularies must give, whatever reads them.

Only data; `passport.py` compares.
"""

from __future__ import annotations

from dataclasses import dataclass

# Casing, accents composed and not, digits, contractions, white space, symbols, many scripts,
# joined and unknown characters: what normalisers and pre-tokenizers have been seen to change.
SAMPLES: tuple[str, ...] = (
    "Hello world",
    "hello, world!",
    "HELLO WORLD",
    "The quick brown fox jumps over the lazy dog.",
    "iPhone and McDonald's",
    " leading and trailing ",
    "two  spaces   three",
    "tab\tand\nnewline\r\nend",
    "don't can't I'll we've they're",
    "18th 2nd 3,141.59 1e-5 0x1F",
    "C++ C# .NET node.js a/b",
    "user@example.com https://example.org/a?b=c&d=e#f",
    "snake_case camelCase kebab-case",
    "[brackets] {braces} (parens) <angles>",
    "“quoted” ‘single’ «guillemets» „low“",
    "em—dash en–dash hy-phen…",
    "$5.00 €10 £3 ¥100 50%",
    "a+b=c x<y y>=z a*b^2",
    "café naïve façade",
    "cafe\u0301 nai\u0308ve fac\u0327ade",
    "Ångström A\u030angstro\u0308m",
    "straße Straße STRASSE ẞ",
    "İstanbul ıssız Iğdır",
    "ﬁne ﬂight ½ ① ™ №",
    "ＦＵＬＬ　ｗｉｄｔｈ ｶﾞ",
    "Łódź Žižkov Đurđa",
    "Ελληνικά κείμενο ΣΊΣΥΦΟΣ",
    "Привет мир ёлка Ёлка",
    "Україна їжак",
    "שלום עולם שָׁלוֹם",
    "مرحبا بالعالم",
    "العَرَبِيَّة مـــد",
    "فارسی می‌خواهم",
    "हिन्दी नमस्ते दुनिया",
    "বাংলা ভাষা",
    "தமிழ் மொழி",
    "ภาษาไทยสวัสดีครับ",
    "中文字符測試简体",
    "日本語のテキスト カタカナ",
    "한국어 텍스트 \u1112\u1161\u11ab",
    "Tiếng Việt được",
    "ქართული Հայերեն አማርኛ",
    "emoji 😀 👍🏽 👩\u200d👩\u200d👧 🇫🇷",
    "zero\u200bwidth soft\u00adhyphen no\u00a0break",
    "bom\ufeff replacement\ufffd private\ue000",
    "math ∑ ∫ ≈ ≠ ∞ 𝒜 𝟙",
    "Antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "asdfghjkl zxcvbnm qwertyuiop",
    "a b c d e f g 1 2 3",
    "",
)

# A space before each: with it, byte-level vocabularies give the same ids under either rule for the
# first word.
GOLDEN_STRINGS: tuple[str, ...] = (
    " Hello world",
    " The Quick brown fox can't jump 3 times!",
    " unaffable Transformers",
    " na\u00efve caf\u00e9",
    " don't stop",
    " \u4e2d\u6587 \u041c\u043e\u0441\u043a\u0432\u0430",
)


@dataclass(frozen=True)
class Golden:
    """A well-known vocabulary.

    Attributes:
        name: the checkpoint it is known from.
        size: pieces.
        sha256: `passport.vocabulary_hash` of it.
        ids: of each of GOLDEN_STRINGS, special pieces included.
    """

    name: str
    size: int
    sha256: str
    ids: tuple[tuple[int, ...], ...]


GOLDEN: tuple[Golden, ...] = (
    Golden(
        "bert-base-uncased",
        30522,
        "862782a2264648a2a9f2fe0ffedb5b702c097f03e4e1fb97cb88380302342c2e",
        (
            (101, 7592, 2088, 102),
            (101, 1996, 4248, 2829, 4419, 2064, 1005, 1056, 5376, 1017, 2335, 999, 102),
            (101, 14477, 20961, 3468, 19081, 102),
            (101, 15743, 7668, 102),
            (101, 2123, 1005, 1056, 2644, 102),
            (101, 1746, 1861, 1191, 14150, 29747, 23925, 25529, 10260, 102),
        ),
    ),
    Golden(
        "bert-base-cased",
        28996,
        "77cd1364dd492ac6fa4625d82da651a6061f909b878c431520fc9a18f7c83a23",
        (
            (101, 8667, 1362, 102),
            (101, 1109, 18911, 3058, 17594, 1169, 112, 189, 5152, 124, 1551, 106, 102),
            (101, 8362, 9823, 8057, 2165, 25267, 102),
            (101, 9468, 28203, 2707, 20583, 102),
            (101, 1274, 112, 189, 1831, 102),
            (101, 980, 1030, 459, 16948, 28403, 28399, 28394, 10286, 102),
        ),
    ),
    Golden(
        "roberta-base",
        50265,
        "e536b9b226ea61eb4c4d268b91d305db02f2d172126610b9545e5ab7a2de2ca7",
        (
            (0, 20920, 232, 2),
            (0, 20, 13287, 6219, 23602, 64, 75, 3704, 155, 498, 328, 2),
            (0, 31857, 868, 34379, 2),
            (0, 39300, 26059, 2),
            (0, 218, 75, 912, 2),
            (0, 1437, 47643, 47240, 6382, 18697, 48, 34251, 36709, 41171, 42907, 26161, 2),
        ),
    ),
    Golden(
        "xlm-roberta-base",
        250002,
        "9940b5cada2d8114bb9fae9aa40921aab6933b3ddef9515875bbbfc416b78fef",
        (
            (0, 35378, 8999, 2),
            (0, 581, 89038, 119455, 6, 147797, 831, 25, 18, 88203, 138, 20028, 38, 2),
            (0, 220, 4902, 2886, 11062, 82772, 7, 2),
            (0, 24, 9392, 272, 26216, 2),
            (0, 2301, 25, 18, 7279, 2),
            (0, 6, 32095, 25611, 2),
        ),
    ),
)
