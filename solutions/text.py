"""Real text that every machine has, without a download: to train tokenizers and models on. Given, not graded."""

from importlib import import_module

# A sentence each, in scripts whose characters take one to four bytes in UTF-8, and with marks and joiners that make one
# visible character out of several code points.
SENTENCES = (
    "Every token asks all the others a question, and takes home a mixture of their answers.",
    "Größere Köpfe denken nicht besser, nur öfter: acht von ihnen teilen sich vier Schlüssel.",
    "Où regarde-t-on d'abord ? Là où la clé ressemble à la question, bien sûr.",
    "El niño preguntó: ¿cuántos pasados caben en una caché de tres señales?",
    "Чем дальше слово, тем слабее слышен его голос, но он слышен.",
    "Ο δρόμος ανάμεσα σε δύο λέξεις έχει πάντα μήκος ένα.",
    "كل كلمة تنظر إلى ما قبلها ولا ترى ما بعدها.",
    "כל מילה רואה רק את מה שכבר נאמר.",
    "हर शब्द अपने पहले के शब्दों से पूछता है।",
    "每个词都向前面的词提问，然后带走它们的答案。",
    "どの言葉も、前の言葉だけを見て次を当てる。",
    "모든 낱말은 앞선 낱말에게만 묻는다.",
    "ทุกคำมองเห็นเฉพาะคำที่มาก่อนหน้า",
    "Café, once composed and once not: café; a zero\u200bwidth space hides here.",
    "🙂 one face, 👩‍💻 three code points, 🇨🇭 two, 👍🏽 two, and 🧠🔥 side by side.",
    "def attend(q, k, v):\n\treturn (q @ k.T).softmax(-1) @ v  # 3 + 4 == 7, isn't it?\r\n",
)


def documents() -> list[str]:
    """The help pages of the Python that runs this: about 80 documents, 450 000 characters of English and code.

    Their words differ a little from one version of Python to the next.
    """
    topics = import_module("pydoc_data.topics").topics  # "assert" -> its page
    return [topics[name] for name in sorted(topics)]


def english_text() -> str:
    """All documents as one text."""
    return "\n".join(documents())
