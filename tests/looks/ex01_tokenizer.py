"""What exercise 01's own code learns: the merges of a word, one after the other, and what a script costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grader.suite.pictures import merges, table

WORDS = ["low"] * 5 + ["lower"] * 2 + ["widest"] * 3 + ["newest"] * 6
SENTENCES = (
    "the token asks the other tokens what they have to offer",
    "der Kopf fragt die anderen Köpfe, was sie zu geben haben",
    "Чем дальше слово, тем слабее слышен его голос, но он слышен.",
    "हर शब्द अपने पहले के शब्दों से पूछता है।",
    "每个词都向前面的词提问，然后带走它们的答案。",
    "🙂 one, 👩‍💻 three and 🇨🇭 two code points",
)


def look(learner: Any) -> Iterator[str]:
    """A frequent word, a word that was never seen, and sentences in several scripts."""
    vocab, learned = learner.train_bpe(WORDS, 256 + 7)
    yield "learned from low (5 times), lower (2), widest (3) and newest (6)\n" + "\n".join(
        f"{number}  {merges([pair])}" for number, pair in enumerate(learned, start=256)
    )
    for word in ("newest", "lowest"):
        steps: list[list[bytes]] = []
        for count in range(len(learned) + 1):
            tokens = [vocab[number] for number in learner.Tokenizer(vocab, learned[:count]).encode(word)]
            if not steps or tokens != steps[-1]:
                steps.append(tokens)
        yield f"{word}, merge by merge\n" + merges(steps)
    tokenizer = learner.Tokenizer(*learner.train_bpe(SENTENCES, 256 + 60))
    rows = [[len(text), len(text.encode()), len(tokenizer.encode(text)), text[:40]] for text in SENTENCES]
    yield "what sentences cost after 60 merges\n" + table(["characters", "bytes", "tokens", "sentence"], rows)
