"""Text encoders through their real classes; transformers' at a size nobody has to download."""

from __future__ import annotations

import gc
import json
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text_corpus import bench, corpus, frame, matches, scan_all

from heldout.errors import InputError
from heldout.overlap.texts import encoders
from heldout.overlap.texts._bert import BertEncoder
from heldout.overlap.texts._reading import settle_rewordings
from heldout.overlap.texts._rewordings import OwnPictures
from heldout.overlap.texts.encoders import (
    DEFAULT,
    READER,
    carried,
    close_text_encoder,
    open_text_encoder,
)
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.scan import TextShard, scan_text_shard
from heldout.store import make_table

WORDS = ["is", "the", "lung", "healthy", "heart", "enlarged", "there", "a", "mass", "?"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bge-m3's architecture (XLM-RoBERTa, first token) with random weights."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    import torch

    folder = tmp_path_factory.mktemp("tiny")
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = {word: k for k, word in enumerate([*special, *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.XLMRobertaConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=40,
        pad_token_id=1,
    )
    transformers.XLMRobertaModel(config).save_pretrained(folder)
    return folder


def test_a_transformers_encoder_pools_as_its_configuration_says(tiny: Path) -> None:
    mean = open_text_encoder(f"transformers:{tiny}")
    (tiny / "1_Pooling").mkdir(exist_ok=True)
    (tiny / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    close_text_encoder(f"transformers:{tiny}")
    first = open_text_encoder(f"transformers:{tiny}")
    close_text_encoder(f"transformers:{tiny}")
    assert "mean" in mean.identity and "first token" in first.identity
    texts = ["is the lung healthy ?", "is there a mass ?", "lung " * 500]
    one, other = mean.embed(texts), first.embed(texts)
    assert one.shape == other.shape == (3, 16)
    assert np.allclose(np.linalg.norm(one, axis=1), 1, atol=1e-5)
    assert not np.allclose(one, other)


@pytest.fixture(scope="module")
def small_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MiniLM's architecture with random weights, in the files of its package."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    import torch

    folder = tmp_path_factory.mktemp("small") / "model"
    vocabulary = {word: k for k, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=32,
        max_position_embeddings=40,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 30}))
    return folder


def test_bert_in_numpy_gives_what_transformers_gives(small_bert: Path) -> None:
    ours = BertEncoder(small_bert, "minilm")
    theirs = open_text_encoder(f"transformers:{small_bert}")
    close_text_encoder(f"transformers:{small_bert}")
    texts = ["is the lung healthy ?", "mass", "a mass ? " * 5]
    assert ours.dimension == 24
    assert np.allclose(ours.embed(texts), theirs.embed(texts), atol=1e-5)
    long = ours.embed(["lung " * 31, "lung " * 300])
    assert np.allclose(long[0], long[1], atol=1e-6)  # both are cut


def test_a_bert_that_cannot_be_read_is_said(small_bert: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "sentence_bert_config.json"):
        (tmp_path / name).write_bytes((small_bert / name).read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0broken")
    with pytest.raises(InputError, match=f"minilm: .*{tmp_path}"):
        BertEncoder(tmp_path, "minilm")


def test_programs_are_read_by_minilm_as_well_where_it_is_installed(
    small_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wordllama")
    if carried(READER) is None:
        pytest.skip("no package carries the reader")
    items = [
        {"question": f'def f{k}(xs):\n    """{WORDS[k % 10]} number {k}"""\n    return xs + {k}'}
        for k in range(40)
    ]
    rows = [
        {
            "text": f'def g{k}(ys):\n    """{WORDS[k % 10]} of {k}"""\n    total = {k}\n    return total'
        }
        for k in range(20)
    ]
    index, _ = build_text_index(bench(*items), TextSearch.installed(None))
    source = corpus(tmp_path, *rows)
    (shard,) = source.shards()
    proposed = scan_text_shard(index, source, TextShard.of(shard, OwnPictures()))
    found, pictures = frame(proposed.tables["text_matches"]), frame(make_table("matches", []))
    similarities = []
    for folder, chosen, reader in (
        (None, None, "first token"),
        (small_bert, "minilm", "mean"),
        (small_bert, None, "first token; programs: minilm@"),
    ):
        monkeypatch.setattr(encoders, "_minilm_folder", lambda folder=folder: folder)
        monkeypatch.setattr(encoders, "check_weights", lambda *_: None)  # these are the test's own
        read = replace(index, search=TextSearch.installed(None, reader=chosen))
        pairs, records = settle_rewordings(found, pictures, read, quiet=True)
        (record,) = records.values()
        assert record["null"]["programs"] and record["reader"].partition(" | ")[2].startswith(
            reader
        )
        rows_read = pairs.select("benchmark_id", "corpus_id", "similarity").iter_rows()
        similarities.append({(item, there): cosine for item, there, cosine in rows_read})
    one, other, both = similarities
    shared = one.keys() & other.keys() & both.keys()
    assert shared and one != other
    for pair in shared:
        assert both[pair] == pytest.approx((one[pair] + other[pair]) / 2, abs=1e-4)


def test_the_encoder_that_proposed_is_freed_before_another_reads(tmp_path: Path) -> None:
    """Two at once cost the memory of both."""
    pytest.importorskip("wordllama")
    if carried(READER) is None:
        pytest.skip("no package carries the reader")
    alive = []
    opened = encoders._text_encoder

    def watched(spec: str) -> encoders.TextEncoder:
        gc.collect()
        alive.append((spec, [name for name, encoder in seen.items() if encoder() is not None]))
        encoder = opened(spec)
        seen[spec] = weakref.ref(encoder)
        return encoder

    seen: dict[str, Any] = {}
    items = [
        {"question": f"Where does the {organ} of this patient lie?", "answer": f"near the {organ}"}
        for organ in ("spleen", "liver", "heart", "left kidney", "stomach")
    ]
    rows = [{"question": f"In which place is the {organ}?"} for organ in ("spleen", "liver")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "_text_encoder", watched)
        patch.setattr(encoders, "_opened", {})
        scan_all(bench(*items), corpus(tmp_path, *rows), TextSearch.installed(None))
        assert alive == [(DEFAULT, []), (READER, [])]


def test_padding_does_not_change_a_text(tiny: Path) -> None:
    encoder = open_text_encoder(f"transformers:{tiny}")
    alone = encoder.embed(["is the lung healthy ?"])[0]
    together = encoder.embed(["is the lung healthy ?", "is there a mass ? " * 6])[0]
    assert np.allclose(alone, together, atol=1e-5)


def test_the_embedding_pass_gives_top_k_and_everybodys_best(tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    items = [
        {
            "question": "Does this chest radiograph show evidence of an enlarged heart in the patient?"
        },
        {"question": "What colour is the small boat that lies near the old wooden harbour bridge?"},
    ]
    rows = [
        {"id": f"n{k}", "question": f"Where is building number {k} on the street map?"}
        for k in range(30)
    ]
    rows.append(
        {
            "id": "hit",
            "question": "Is there evidence of an enlarged heart on this patient's chest radiograph?",
        }
    )
    search = TextSearch(methods=("embedding",), encoder="wordllama", threshold=0.8, nearest=3)
    result = scan_all(bench(*items), corpus(tmp_path, *rows), search)
    assert {(m["benchmark_id"], m["corpus_id"], m["relation"]) for m in matches(result)} == {
        ("0", "hit", "paraphrase candidate")
    }
    queries = {q["benchmark_id"]: q for q in result.tables["text_queries"].to_pylist()}
    assert queries["0"]["corpus_id"] == "hit" and queries["0"]["max_similarity"] > 0.8
    assert queries["1"]["pairs"] == 0 and 0 < queries["1"]["max_similarity"] < 0.8


def test_the_embedding_pass_is_the_same_however_documents_are_batched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wordllama")
    from heldout.overlap.texts import scan

    rows = [
        {"id": f"n{k}", "question": f"Is there a mass of {'left' * (k % 3)} lung {k}?"}
        for k in range(50)
    ]
    search = TextSearch(encoder="wordllama", threshold=0.5, nearest=4)
    benchmark = bench(
        {"question": "Is there a mass of the left lung?"}, {"question": "Is it a lung?"}
    )
    whole = scan_all(benchmark, corpus(tmp_path, *rows), search)
    monkeypatch.setattr(scan, "_DOCUMENTS", 7)
    parts = scan_all(benchmark, corpus(tmp_path, *rows), search)
    assert parts.tables == whole.tables


def test_unknown_encoders_and_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected .*wordllama, bge-small, .*transformers"):
        open_text_encoder("bert")
    with pytest.raises(InputError, match="takes no argument"):
        open_text_encoder("wordllama:x")
    with pytest.raises(InputError, match="name or folder"):
        open_text_encoder("transformers:")
    pytest.importorskip("transformers")
    with pytest.raises(InputError, match="transformers:"):
        open_text_encoder(f"transformers:{tmp_path}")
