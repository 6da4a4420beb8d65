"""Whether a tokenizer fits a model: refused are combinations that would give wrong numbers.

The kind of tokenizer is not compared with the family of the model: published models mix them.
"""

from __future__ import annotations

from bothways.errors import TokenizerError
from bothways.tokenization.tokenizer import Tokenizer

# A table is often a little larger than its vocabulary, rounded up for the processor: ModernBERT's
# by 88 rows, mDeBERTa's by 899 of 251,000.
ROUNDED_UP = 128
SHARE_ROUNDED_UP = 0.01


def check_fits(
    tokenizer: Tokenizer, *, vocab_rows: int, pad_position_id: int | None, needs_mask: bool
) -> None:
    """Refuse a tokenizer that does not belong to a model.

    Args:
        tokenizer: of the model's folder.
        vocab_rows: rows of the token embedding.
        pad_position_id: the padding id from which the model counts positions; None when its
            positions do not depend on padding.
        needs_mask: whether the model has a masked-LM head.

    Raises:
        TokenizerError: with everything that is wrong.
    """
    problems = []
    if tokenizer.largest_id >= vocab_rows:
        piece = tokenizer.tokens([tokenizer.largest_id])[0]
        problems.append(
            f"its largest id is {tokenizer.largest_id} ({piece!r}), "
            f"but the embedding has {vocab_rows} rows"
        )
    roles = ("cls", "sep", "pad", "mask") if needs_mask else ("cls", "sep", "pad")
    missing = [role for role in roles if role not in tokenizer.special_tokens]
    if missing:
        problems.append(f"it has no {', '.join(missing)} token")
    specials = tokenizer.template.specials
    first, last = (
        "".join(tokenizer.tokens(group)) for group in (specials[0][:1], specials[-1][-1:])
    )
    named = tokenizer.special_tokens
    # FlauBERT's texts begin with a piece that is neither of the two.
    begins = {named[role] for role in ("cls", "bos") if role in named}
    if not {"cls", "sep"} & {*missing} and (first not in begins or last != named["sep"]):
        problems.append(
            f"its template puts {first or 'nothing'} before a text and {last or 'nothing'} after "
            f"it; expected {named['cls']} and {named['sep']}"
        )
    if pad_position_id is not None and tokenizer.pad_id not in (None, pad_position_id):
        problems.append(
            f"its padding id is {tokenizer.pad_id}, "
            f"but the model counts positions from padding id {pad_position_id}"
        )
    if problems:
        raise TokenizerError(
            f"{tokenizer.name}: the tokenizer does not fit the model: {'; '.join(problems)}. "
            "Take the tokenizer files from the checkpoint that the weights come from"
        )


def odd_size(tokenizer: Tokenizer, vocab_rows: int) -> str | None:
    """What to say where the vocabulary is much smaller than the token embedding; None for nothing.

    A file that was cut off still has all special pieces, at its beginning.

    Args:
        tokenizer: of the model's folder.
        vocab_rows: rows of the token embedding.
    """
    unused = vocab_rows - tokenizer.largest_id - 1
    if unused <= max(ROUNDED_UP, SHARE_ROUNDED_UP * vocab_rows):
        return None
    return (
        f"the tokenizer has {tokenizer.largest_id + 1:,} pieces and the token embedding "
        f"{vocab_rows:,} rows; unless the model was made so, the vocabulary file is cut off or of "
        "another model"
    )
