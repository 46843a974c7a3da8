"""01 · tokenizer: text becomes numbers. Byte-level byte-pair encoding, learned from text and undone without loss."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import regex

# Given: GPT-2's pre-tokens. An English ending such as 's or 'll; letters, digits or other signs, each with the blank before
# them if there is one; white space. `PRETOKEN_PATTERN.finditer(text)` finds them one after the other: "I've  2 dogs" is cut
# into "I", "'ve", " ", " 2", " dogs". Put together again they are the whole text.
PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")


# BEGIN SOLUTION
def _split(text: str, special_tokens: Sequence[str]) -> list[str]:
    """Ordinary text and special tokens in turn: text, special, text, ..., text. Text may be empty."""
    if not special_tokens:
        return [text]
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return regex.split("(" + "|".join(map(regex.escape, longest_first)) + ")", text)


def _single_bytes(text: str) -> list[bytes]:
    """The UTF-8 bytes of a pre-token, one by one."""
    return [bytes([byte]) for byte in text.encode("utf-8")]


def _merge(tokens: list[bytes], pair: tuple[bytes, bytes]) -> list[bytes]:
    """The tokens of a pre-token with every occurrence of `pair`, from the left, joined into one."""
    merged, index = [], 0
    while index < len(tokens):
        size = 2 if tuple(tokens[index : index + 2]) == pair else 1
        merged.append(b"".join(tokens[index : index + size]))
        index += size
    return merged


# END SOLUTION


def train_bpe(
    documents: Iterable[str], vocab_size: int, special_tokens: Sequence[str] = ()
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Learn which neighbours to join: again and again the most frequent pair of tokens becomes one new token.

    Special tokens are cut out of the documents first (left to right; where several begin at one place, the longest), the
    text between them is cut into pre-tokens by `PRETOKEN_PATTERN`, and each pre-token into its UTF-8 bytes. Pairs are
    counted inside pre-tokens only. No document is changed in any way, or cut into lines, before that. Every adjacent pair
    counts, overlapping ones too: "aaaa" holds (a, a) three times. Of equally frequent pairs the greatest wins, compared as
    `(bytes, bytes)`. Pairs that occur once are joined, too.

    Args:
        documents: the texts to learn from; any iterable, read once, from front to back. No document is kept: what may be
            kept is how often each distinct pre-token occurred.
        vocab_size: number of tokens in all: 256 bytes, then merges, then special tokens.
        special_tokens: distinct strings of at least two characters, each a token of its own and never part of a merge.

    Returns:
        `(vocab, merges)`. `merges` holds the joined pairs in the order in which they were learned. `vocab` maps every id
        to its bytes: 0 to 255 are the single bytes, then one id for each merge, then one for each special token in the
        given order. When no pair is left, training ends early and vocab is smaller than `vocab_size`.

    Speed:
        A merge takes as long as there are distinct pre-tokens, however often each of them occurs.

    Raises:
        ValueError: `vocab_size < 256 + len(special_tokens)`; the message names `vocab_size` and its value.

    Example:
        (a, b) occurs three times, (b, b) and (b, c) once each. Joining (a, b) leaves (ab, b) and (ab, c), once each, and
        (ab, c) is the greater one.

        >>> vocab, merges = train_bpe(["ab", "abb", "abc"], 259, ["<e>"])
        >>> merges
        [(b'a', b'b'), (b'ab', b'c')]
        >>> vocab[256], vocab[257], vocab[258]
        (b'ab', b'abc', b'<e>')

    Source: Sennrich, Haddow, Birch (2016); on bytes: Radford et al. (2019), GPT-2.
    """
    # BEGIN SOLUTION
    if vocab_size < 256 + len(special_tokens):
        raise ValueError(
            f"vocab_size = {vocab_size} has no room for 256 bytes and {len(special_tokens)} special tokens: "
            f"at least {256 + len(special_tokens)}"
        )
    words: Counter[str] = Counter()  # distinct pre-tokens; their number hardly grows once the language is known
    for document in documents:
        for text in _split(document, special_tokens)[::2]:
            words.update(match[0] for match in PRETOKEN_PATTERN.finditer(text))

    spelled = [_single_bytes(word) for word in words]
    frequency = list(words.values())
    counts: Counter[tuple[bytes, bytes]] = Counter()
    holders: defaultdict[tuple[bytes, bytes], set[int]] = defaultdict(set)  # pair -> words that hold it, or once did

    def count(index: int, sign: int) -> None:
        for pair in pairwise(spelled[index]):
            counts[pair] += sign * frequency[index]
            holders[pair].add(index)
            if not counts[pair]:
                del counts[pair]

    for index in range(len(spelled)):
        count(index, +1)
    merges: list[tuple[bytes, bytes]] = []
    while counts and 256 + len(merges) + len(special_tokens) < vocab_size:
        best = max(counts.items(), key=lambda item: (item[1], item[0]))[0]
        merges.append(best)
        for index in holders.pop(best):  # only words that hold the pair change, and only their pairs are counted again
            count(index, -1)
            spelled[index] = _merge(spelled[index], best)
            count(index, +1)
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += [left + right for left, right in merges]
    tokens += [special.encode("utf-8") for special in special_tokens]
    return dict(enumerate(tokens)), merges
    # END SOLUTION


class Tokenizer:
    """Turns text into ids and ids into text, with a vocabulary and merges as `train_bpe` returns them.

    Args:
        vocab: id -> bytes. The ids are taken from here, in whatever order and with whatever gaps: the 256 single bytes need
            not be 0 to 255.
        merges: pairs of tokens, the first learned first. Both parts of a pair are single bytes or results of earlier pairs.
        special_tokens: strings that become one id each, wherever they stand in a text. What is special is decided here: a
            special token of the training that is not passed on is ordinary text.

    Raises:
        ValueError: a special token is missing from `vocab`; the message names `special_tokens` and that token.

    Example:
        >>> tokenizer = Tokenizer(*train_bpe(["ab", "abb", "abc"], 259, ["<e>"]), ["<e>"])
        >>> tokenizer.encode("abc<e>b")
        [257, 258, 98]
        >>> tokenizer.decode([257, 258, 98])
        'abc<e>b'
    """

    def __init__(self, vocab: dict[int, bytes], merges: list[tuple[bytes, bytes]], special_tokens: Sequence[str] = ()) -> None:
        # BEGIN SOLUTION
        self._tokens = dict(vocab)
        self._ids = {token: number for number, token in vocab.items()}
        self._ranks = {pair: rank for rank, pair in enumerate(merges)}
        self._special_tokens = tuple(special_tokens)
        for special in special_tokens:
            if special.encode("utf-8") not in self._ids:
                raise ValueError(f"special_tokens: {special!r} is not in vocab")
        # END SOLUTION

    def encode(self, text: str) -> list[int]:
        """The ids of a text.

        Special tokens are cut out as in training and become one id each; the text between them is cut into pre-tokens. In
        each pre-token's bytes, the pair that was learned first is joined first, its occurrences from the left ("aaa" with
        the merge (a, a) is [aa, a]), until no learned pair is left. Bytes that stand in vocab without a merge, such as
        those of a special token that was not passed on, are not joined. Ids say nothing of which pair came first. The text
        itself is not changed in any way: no blank, capital or accent is lost.

        Args:
            text: any string of Unicode text, the empty one too.

        Returns:
            A new list of ids, the caller's to change; the empty text has none.

        Speed:
            A pre-token takes as long as its own pairs, however many merges were learned.
        """
        # BEGIN SOLUTION
        ids: list[int] = []
        for index, part in enumerate(_split(text, self._special_tokens)):
            if index % 2:
                ids.append(self._ids[part.encode("utf-8")])
            else:
                ids += (self._ids[token] for match in PRETOKEN_PATTERN.finditer(part) for token in self._tokens_of(match[0]))
        return ids
        # END SOLUTION

    # BEGIN SOLUTION
    def _tokens_of(self, word: str) -> list[bytes]:
        """The tokens of one pre-token."""
        tokens = _single_bytes(word)
        while True:
            learned = [pair for pair in pairwise(tokens) if pair in self._ranks]
            if not learned:
                return tokens
            tokens = _merge(tokens, min(learned, key=self._ranks.__getitem__))

    # END SOLUTION

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids: the bytes of all of them are joined, then decoded as UTF-8, once.

        Args:
            ids: any iterable of ids.

        Returns:
            The text. Bytes that are no UTF-8, such as half a character, become U+FFFD, as `errors="replace"` has it.

        Raises:
            ValueError: an id that `vocab` does not have; the message names `ids` and that id.
        """
        # BEGIN SOLUTION
        ids = list(ids)
        for number in ids:
            if number not in self._tokens:
                raise ValueError(f"ids: {number} is not in vocab")
        return b"".join(self._tokens[number] for number in ids).decode("utf-8", errors="replace")
        # END SOLUTION

    def encode_iterable(self, texts: Iterable[str]) -> Iterator[int]:
        """The ids of many texts, one id at a time, as if each text were encoded alone: `encode(one) + encode(two) + ...`.

        Args:
            texts: any iterable of strings, an endless one too. At most one text is read ahead of the one whose ids are being
                given out.

        Returns:
            An iterator of single ints. Nothing is encoded before it is asked for.
        """
        # BEGIN SOLUTION
        for text in texts:
            yield from self.encode(text)
        # END SOLUTION
