"""Small tokenizers and model folders for tests of text handling, made on the spot."""

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

CONTROL = ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>")

TEMPLATE = (
    "{%- for m in messages -%}<|{{ m.role }}|>\n{{ m.content }}"
    "{%- if m.role == 'assistant' -%}<|endoftext|>{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>\n{%- endif -%}"
)


TEXTS = (
    "",
    " ",
    "\n\n \t\n",
    "Hello, world!",
    "   leading and trailing   ",
    "don't DON'T we'LL I'm you've he'd 'tis '",
    "1 12 123 1234 1234567890 3.14159 1e-5 ½ Ⅷ ٣٤٥",
    "def f(x):\n    return x**2  # größer\n\n\nclass A:\n\tpass\r\n\r\n",
    "naïve café cafe\u0301 Å Å ﬁ ſ",
    "中文字符，混合 English。日本語テキスト 한국어",
    "🙂🙃👩‍👩‍👧 \U0001f1e9\U0001f1ea",
    "\x00\x01\x7f\u200b\ufeff\u2028",
    "<|user|>\nhi<|endoftext|><|notoken|>",
    "a" * 300 + " " * 300 + "!" * 300,
)
"""What tokenizers cut differently: contractions, digits, spaces, scripts, marks, control tokens."""


def byte_level(merges=(), control=CONTROL) -> Tokenizer:
    """Every byte is a token, as in most current models; `merges` adds longer ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: index for index, text in enumerate([*control, *alphabet, *("".join(pair) for pair in merges)])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(control))
    return tokenizer


def byte_fallback(words=("▁", "▁a", "▁the", "b", "c", "é")) -> Tokenizer:
    """Words with a mark for the space, and bytes for all else, as in models that come from SentencePiece."""
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for byte in range(256):
        vocabulary[f"<0x{byte:02X}>"] = len(vocabulary)
    for word in words:
        vocabulary[word] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def word_piece() -> Tokenizer:
    """Words and word ends, without bytes to fall back on: what is unknown is lost."""
    words = ["[UNK]", "[CLS]", "play", "##ing", "##s", "the", ".", "'"]
    tokenizer = Tokenizer(models.WordPiece(vocab={w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(["[CLS]"])
    return tokenizer


def write_folder(folder, tokenizer=None, config=None, model_config=None, generation_config=None):
    """Write the text side of a model folder; a value of None leaves a file's default content."""
    tokenizer = tokenizer or byte_level()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    config = {"eos_token": "<|endoftext|>", "chat_template": TEMPLATE} if config is None else config
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 0} if model_config is None else model_config))
    if generation_config is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation_config))
    return folder
