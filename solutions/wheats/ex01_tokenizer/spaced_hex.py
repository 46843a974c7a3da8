"""Words are text of hexadecimal tokens with blanks between them, and a merge is a substitution, as in the first published code for
BPE on words.
"""

import regex

PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")


def spell(word):
    return " ".join(f"{byte:02x}" for byte in word.encode("utf-8"))


def substitute(pair, spelled):
    # A blank or a border on both sides; the one behind is not consumed, so the next occurrence may begin there.
    return regex.sub(r"(?<!\S)" + pair[0] + " " + pair[1] + r"(?!\S)", pair[0] + pair[1], spelled)


def key(count_of):
    def compare(pair):
        return count_of[pair], bytes.fromhex(pair[0]), bytes.fromhex(pair[1])

    return compare


def parts_of(text, special_tokens):
    """Ordinary text and special tokens in turn, found by a walk over the text."""
    if not special_tokens:
        return [text]
    parts, current, place = [], "", 0
    while place < len(text):
        fitting = sorted((special for special in special_tokens if text[place:].startswith(special)), key=len)
        if fitting:
            parts += [current, fitting[-1]]
            current, place = "", place + len(fitting[-1])
        else:
            current, place = current + text[place], place + 1
    return [*parts, current]


def train_bpe(documents, vocab_size, special_tokens=()):
    number_of_merges = vocab_size - len(special_tokens) - 256
    if number_of_merges < 0:
        raise ValueError(f"vocab_size: {vocab_size} is too small for 256 bytes and {len(special_tokens)} special tokens")
    words = {}
    for document in documents:
        for text in parts_of(document, special_tokens)[0::2]:
            for word in PRETOKEN_PATTERN.findall(text):
                words[word] = words.get(word, 0) + 1
    spelled = {}
    for word, count in words.items():
        spelled[spell(word)] = spelled.get(spell(word), 0) + count
    merges = []
    for _ in range(number_of_merges):
        count_of = {}
        for word, count in spelled.items():
            tokens = word.split()
            for place in range(len(tokens) - 1):
                pair = (tokens[place], tokens[place + 1])
                count_of[pair] = count_of.get(pair, 0) + count
        if not count_of:
            break
        best = max(count_of, key=key(count_of))
        merges.append(best)
        spelled = {substitute(best, word): count for word, count in spelled.items()}
    merges = [(bytes.fromhex(left), bytes.fromhex(right)) for left, right in merges]
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab.update({256 + rank: left + right for rank, (left, right) in enumerate(merges)})
    vocab.update({256 + len(merges) + place: special.encode() for place, special in enumerate(special_tokens)})
    return vocab, merges


class Tokenizer:
    def __init__(self, vocab, merges, special_tokens=()):
        tokens = list(vocab.values())
        for special in special_tokens:
            if tokens.count(special.encode()) == 0:
                raise ValueError(f"special_tokens: no {special} in the vocabulary")
        self._to_bytes = vocab
        self._to_id = {token.hex(): number for number, token in vocab.items()}
        self._merges = [(left.hex(), right.hex()) for left, right in merges]
        self._special_tokens = set(special_tokens)

    def encode(self, text):
        ids = []
        for place, part in enumerate(parts_of(text, self._special_tokens)):
            if place % 2 == 1:
                ids.append(self._to_id[part.encode().hex()])
                continue
            for word in PRETOKEN_PATTERN.findall(part):
                spelled = spell(word)
                for left, right in self._merges:
                    if f"{left} {right}" in spelled:
                        spelled = substitute((left, right), spelled)
                ids += [self._to_id[token] for token in spelled.split()]
        return ids

    def decode(self, ids):
        text = ""
        for number in ids:
            if number not in self._to_bytes.keys():
                raise ValueError(f"ids: what is {number}?")
            text += self._to_bytes[number].hex()
        return bytes.fromhex(text).decode("utf-8", "replace")

    def encode_iterable(self, texts):
        pending = []
        for text in texts:
            pending.extend(self.encode(text))
            while pending:
                yield pending.pop(0)
