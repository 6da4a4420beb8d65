"""Texts whose ids are stored, and sentences that small vocabularies are trained on.

Only data, written for this purpose. `make_ids.py` stores what other engines make of the texts.
"""

from __future__ import annotations

from bothways.tokenization.samples import SAMPLES

# What the sample strings of passports lack: long sentences, marks in other orders, numbers with
# commas, quotes of several kinds, what Moses rewrites.
TEXTS: tuple[str, ...] = (
    *SAMPLES,
    "In 1999, 2,000 people paid 3,50 for 1,2,3 things, 12, 13 and 14,",
    "``Quoted'' as in old files, and ''so'' too; `once` and 'twice'",
    "L’été à l’île d’Oléron : «\u00a0c’est beau\u00a0», dit-elle… 20\u00a0% !",
    "Aujourd'hui, M. Dupont (n° 12, p. 3-4) n'a qu'une idée: partir. Et après?",
    "Œuvre, œil, cœur, Æquo; ça va... où ça ? là-bas !",
    "e\u0302\u0301 a\u0323\u0302 a\u0302\u0323 o\u031b\u0300 q\u0307\u0323 \u0344",
    "，。、”“∶：？《》）！（；１」「【】％～━",
    "a.b. U.S.A. etc. Mr. Smith vs. Dr. No. ... .... x.y",
    "trailing spaces   ",
    "\u3000\u3000全角空格\u3000",
    "line one\nline two\r\nline three\u2028four\u0085five\x0bsix\x1fseven",
    "▁marker ▁▁ in text▁",
    "x\u0301\u0301\u0301 Z\u0351\u036b\u0343 zalgo",
    "👩\u200d💻🇫🇷❤\ufe0f\u200d🔥 🏴\U000e0067\U000e0062\U000e007f",
    "क\u094dष क\u094d\u200dष ந\u0bbf กำ เก\u0e47บ",
    "الس\u0651\u064eلام الس\u064e\u0651لام \ufefb \ufdfa",
    "ב\u05bc\u05b0ר\u05b5אש\u05c1\u05b4ית שׁוֹ",
    "각 각 ㄱㅏ ﾡ",
    "https://exemple.fr/chemin_long?a=1&b=2 @nom #mot moi@exemple.fr <b>gras</b> &amp;",
    "①② ℃ Ω Å ㎥ ² ¼ ﬃ Ǆ ſ ẛ\u0323",
    "THE END OF THE ODYSSEY: ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ.",
    "0123456789 9,9 1.000.000,00 1e10 ١٢٣ 一二三 Ⅷ",
    "dotmulti DOTMULTI thisisprotected000 ####### ------- _____ ~~~",
)

SENTENCES: tuple[str, ...] = (
    "The library opened at nine and the reading room was full within the hour.",
    "She carried the letters home, read them twice and answered none of them.",
    "A small model that is trained well often beats a large one that is not.",
    "Nobody had counted the books, so nobody knew how many were missing.",
    "They walked along the river until the lights of the town were behind them.",
    "The third train of the morning was late, and the second had not come at all.",
    "Every answer in the box was written by hand, dated and signed.",
    "We measured the same thing ten times and wrote down what we saw.",
    "Le chat dort sur la chaise pendant que la pluie tombe sur le jardin.",
    "Aujourd'hui, il n'y a plus de pain à la maison, mais il reste du fromage.",
    "L'hôtel se trouve près de la gare, à côté d'une petite église.",
    "Nous avons lu ce livre l'été dernier et nous l'avons beaucoup aimé.",
    "Qu'est-ce que c'est ? C'est une idée, répondit-elle, et rien de plus.",
    "Les élèves ont écrit une lettre à leur maîtresse pour la remercier.",
    "Où vas-tu si vite ? Le français est une langue pleine d'exceptions.",
    "Il a payé trente euros pour deux places, c'était moins cher qu'hier.",
    "Die Straße war leer, und über den Dächern ging langsam die Sonne auf.",
    "Er fragte nach dem Weg, hörte aber nicht auf die Antwort.",
    "Los niños jugaban en la plaza mientras los mayores tomaban café.",
    "A cidade acorda cedo e adormece tarde, como todas as cidades grandes.",
    "Книга лежала на столе, и никто её не читал.",
    "كان الكتاب على الطاولة ولم يقرأه أحد.",
    "书放在桌子上，没有人读过它。",
    "本は机の上にあったが、誰も読まなかった。",
    "책은 책상 위에 있었지만 아무도 읽지 않았다.",
    "वह किताब मेज़ पर थी और किसी ने नहीं पढ़ी।",
    "In 1998, 2,400 readers borrowed 9,000 books; in 2008, 3,100 did.",
)
