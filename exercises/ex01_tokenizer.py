"""01 · tokenizer: text becomes numbers. Byte-level byte-pair encoding, learned from text and undone without loss."""

from collections.abc import Iterable, Iterator, Sequence

import regex

# Given: GPT-2's pre-tokens. An English ending such as 's or 'll; letters, digits or other signs, each with the blank before
# them if there is one; white space. `PRETOKEN_PATTERN.finditer(text)` finds them one after the other: "I've  2 dogs" is cut
# into "I", "'ve", " ", " 2", " dogs". Put together again they are the whole text.
PRETOKEN_PATTERN = regex.compile(r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")


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
    raise NotImplementedError("EX01: train_bpe")


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
        raise NotImplementedError("EX01: Tokenizer.__init__")

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
        raise NotImplementedError("EX01: Tokenizer.encode")

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids: the bytes of all of them are joined, then decoded as UTF-8, once.

        Args:
            ids: any iterable of ids.

        Returns:
            The text. Bytes that are no UTF-8, such as half a character, become U+FFFD, as `errors="replace"` has it.

        Raises:
            ValueError: an id that `vocab` does not have; the message names `ids` and that id.
        """
        raise NotImplementedError("EX01: Tokenizer.decode")

    def encode_iterable(self, texts: Iterable[str]) -> Iterator[int]:
        """The ids of many texts, one id at a time, as if each text were encoded alone: `encode(one) + encode(two) + ...`.

        Args:
            texts: any iterable of strings, an endless one too. At most one text is read ahead of the one whose ids are being
                given out.

        Returns:
            An iterator of single ints. Nothing is encoded before it is asked for.
        """
        raise NotImplementedError("EX01: Tokenizer.encode_iterable")
