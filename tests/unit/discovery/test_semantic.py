"""Ranking by meaning: fusion, persistence by digest, and falling back to words."""

import asyncio
import importlib.util
import logging
import sys
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from sealyard.discovery import Index
from sealyard.discovery.semantic import Semantic, load_encoder
from sealyard.store import open_store
from sealyard.values.tools import ToolSpec

EXTRA = ("numpy", "safetensors", "tokenizers", "wordllama")


class Topics:
    """An encoder of three dimensions: how often a text is about the sea, food or money."""

    model = "topics"
    vector_bytes = 12
    topics = (("ship", "sail", "boat"), ("eat", "soup", "dinner"), ("pay", "coin", "invoice"))

    def __init__(self) -> None:
        self.encoded: list[str] = []
        self.threads: set[str] = set()

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """Counts words of each topic."""
        self.encoded += texts
        self.threads.add(threading.current_thread().name)
        return [
            array("f", [sum(text.lower().count(word) for word in words) for words in self.topics]).tobytes()
            for text in texts
        ]

    def stacked(self, vectors: Sequence[bytes]) -> Callable[[bytes], list[float]]:
        """The dot product with each."""
        rows = [array("f", vector) for vector in vectors]
        return lambda vector: [sum(a * b for a, b in zip(row, array("f", vector), strict=True)) for row in rows]


class Kept:
    """Vectors in a dictionary, for what a store on disk cannot be made to hold."""

    def __init__(self, vectors: Mapping[str, bytes]) -> None:
        self.vectors = dict(vectors)

    async def get_vectors(self, model: str, digests: Iterable[str]) -> dict[str, bytes]:
        """Those that are kept."""
        return {digest: self.vectors[digest] for digest in digests if digest in self.vectors}

    async def put_vectors(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep these."""
        self.vectors.update(vectors)


def tool(server: str, name: str, description: str = "") -> ToolSpec:
    """A tool whose digest is readable."""
    return ToolSpec(
        upstream=server,
        name=name,
        full_name=f"mcp__{server}__{name}",
        module=server,
        function=name,
        description=description,
        input_schema={},
        digest=f"{name}: {description}",
    )


TOOLS = [
    tool("a", "book_boat", "Book a boat."),
    tool("a", "cook_soup", "Cook a soup."),
    tool("b", "send_invoice", "Send an invoice."),
    tool("b", "weigh", "Weigh a thing that floats or not."),
]


async def embedded(*specs: ToolSpec) -> tuple[Semantic, Index]:
    """A ranker that has embedded these tools, and their index."""
    ranker = Semantic(Topics())
    await ranker.embed(specs)
    return ranker, Index(specs)


async def test_meaning_finds_what_no_word_does() -> None:
    """Nothing is called a dinner; the words that are nowhere are named all the same."""
    ranker, index = await embedded(*TOOLS)

    ranking = await ranker.search(index, "dinner", limit=1)

    assert ranking.names == ["mcp__a__cook_soup"]
    assert ranking.unmatched == ["dinner"]
    assert index.search("dinner").names == []


async def test_words_and_meaning_are_added() -> None:
    """A tool that fits by both is ahead of those that fit by one, and those ahead of the rest."""
    tools = [
        tool("a", "one", "A yellow boat."),
        tool("a", "two", "A yellow thing."),
        tool("a", "three", "A ship."),
        tool("a", "four", "Something."),
    ]
    ranker, index = await embedded(*tools)

    ranking = await ranker.search(index, "yellow sail", limit=4)

    assert ranking.names[0] == "mcp__a__one"
    assert set(ranking.names[1:3]) == {"mcp__a__three", "mcp__a__two"}
    assert "mcp__a__four" not in ranking.names[:3]


async def test_exact_name_stays_first() -> None:
    """However near another tool is."""
    ranker, index = await embedded(tool("a", "sail", "Weighs."), tool("a", "x", "ship ship boat sail sail"))

    assert (await ranker.search(index, "sail")).names[0] == "mcp__a__sail"


async def test_server_limits_the_search_by_meaning_too() -> None:
    """The nearest tool is on another server."""
    ranker, index = await embedded(*TOOLS)

    ranking = await ranker.search(index, "dinner", server="b")

    assert set(ranking.names) <= {"mcp__b__send_invoice", "mcp__b__weigh"}
    assert (await ranker.search(index, "dinner", server="nobody")).names == []


async def test_before_anything_is_embedded_words_rank_alone() -> None:
    """A gateway that has just started answers as one without the extra."""
    encoder = Topics()
    ranker, index = Semantic(encoder), Index(TOOLS)

    for query in ("soup", "dinner", "", "send invoice"):
        assert await ranker.search(index, query, limit=3) == index.search(query, limit=3)
    assert encoder.encoded == []


async def test_query_without_words_lists_tools() -> None:
    """There is nothing to be near to."""
    ranker, index = await embedded(*TOOLS)

    assert await ranker.search(index, "what can you do") == index.search("what can you do")


async def test_tool_without_a_vector_counts_by_its_words() -> None:
    """A tool that has just appeared is not pushed behind those that are near."""
    ranker, _ = await embedded(*TOOLS)
    index = Index([*TOOLS, tool("c", "peel_soup", "Peel a soup with a peeler.")])

    assert (await ranker.search(index, "peel soup with peeler")).names[0] == "mcp__c__peel_soup"


async def test_encoder_works_off_the_event_loop() -> None:
    """Embedding takes seconds, a query milliseconds; neither may hold up a gateway."""
    encoder = Topics()
    ranker = Semantic(encoder)

    await ranker.embed(TOOLS)
    await ranker.search(Index(TOOLS), "dinner")

    assert threading.current_thread().name not in encoder.threads
    assert len(encoder.encoded) == len(TOOLS) + 1


async def test_search_goes_on_while_tools_are_embedded() -> None:
    """The vectors come into use together, when all are there."""
    reached, go_on = threading.Event(), threading.Event()

    class Slow(Topics):
        def encode(self, texts: Sequence[str]) -> list[bytes]:
            reached.set()
            assert go_on.wait(5)
            return super().encode(texts)

    ranker, index = Semantic(Slow()), Index(TOOLS)
    embedding = asyncio.create_task(ranker.embed(TOOLS))
    assert await asyncio.to_thread(reached.wait, 5)
    during = await ranker.search(index, "dinner")
    go_on.set()
    await embedding

    assert during.names == []
    assert (await ranker.search(index, "dinner", limit=1)).names == ["mcp__a__cook_soup"]


async def test_only_new_definitions_are_embedded_after_a_restart(tmp_path: Path) -> None:
    """The store keeps a vector for each digest; a changed definition has another."""
    first, second = Topics(), Topics()
    changed = tool("a", "cook_soup", "Cook a soup for dinner.")
    async with open_store(tmp_path / "store.db") as store:
        await Semantic(first, store).embed(TOOLS)
    async with open_store(tmp_path / "store.db") as store:
        ranker = Semantic(second, store)
        await ranker.embed([*TOOLS[:1], changed, *TOOLS[2:]])
        await ranker.embed(TOOLS)

    assert len(first.encoded) == 4
    assert second.encoded == ["cook soup: Cook a soup for dinner."]


async def test_same_definition_on_two_servers_is_embedded_once() -> None:
    """What is embedded is what the digest pins."""
    encoder = Topics()

    await Semantic(encoder).embed([tool("a", "run", "Runs."), tool("b", "run", "Runs.")])

    assert encoder.encoded == ["run: Runs."]


async def test_kept_vector_of_a_wrong_length_is_made_anew() -> None:
    """A store that was cut short, or written by something else, does not end the search."""
    encoder, store = Topics(), Kept({TOOLS[1].digest: b"short"})
    ranker = Semantic(encoder, store)

    await ranker.embed(TOOLS)

    assert (await ranker.search(Index(TOOLS), "dinner", limit=1)).names == ["mcp__a__cook_soup"]
    assert {len(vector) for vector in store.vectors.values()} == {12}


async def test_embedding_reports_its_progress() -> None:
    """A command can draw a bar; nothing is reported when nothing is new."""
    seen: list[tuple[int, int]] = []
    ranker = Semantic(Topics())
    tools = [tool("a", f"t{number}") for number in range(100)]

    await ranker.embed(tools, on_progress=lambda done, of: seen.append((done, of)))
    await ranker.embed(tools, on_progress=lambda done, of: seen.append((done, of)))

    assert seen == [(64, 100), (100, 100)]


@pytest.fixture
def unloaded() -> Iterator[None]:
    """The encoder's module is imported anew in the test, and again after it."""
    sys.modules.pop("sealyard.discovery.vectors", None)
    yield
    sys.modules.pop("sealyard.discovery.vectors", None)


@pytest.mark.usefixtures("unloaded")
def test_missing_extra_is_one_warning_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway goes on without it."""
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)

    with caplog.at_level(logging.WARNING):
        assert load_encoder() is None

    (record,) = caplog.records
    assert record.getMessage() == (
        "Tools are ranked by words alone: import of safetensors.numpy halted; None in sys.modules. "
        "Install `sealyard[semantic]` to rank by meaning too."
    )


@pytest.mark.usefixtures("unloaded")
def test_weights_that_are_not_the_pinned_ones_are_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """A package of the right name with another file in it is not run."""
    folder = tmp_path / "wordllama" / "weights"
    folder.mkdir(parents=True)
    (tmp_path / "wordllama" / "__init__.py").write_text("raise SystemExit('this code must not run')")
    (folder / "l2_supercat_256.safetensors").write_bytes(b"other vectors")
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("safetensors", "safetensors.numpy", "tokenizers"):  # empty: the files are looked at first
        monkeypatch.setitem(sys.modules, module, ModuleType(module))

    with caplog.at_level(logging.WARNING):
        assert load_encoder() is None

    (record,) = caplog.records
    assert record.getMessage() == (
        f"Tools are ranked by words alone: {folder}/l2_supercat_256.safetensors is not the file that is pinned here. "
        "Install `sealyard[semantic]` to rank by meaning too."
    )


with_the_extra = pytest.mark.skipif(
    any(importlib.util.find_spec(package) is None for package in EXTRA),
    reason="the extra is not installed; install it with: pip install 'sealyard[semantic]'",
)


@with_the_extra
async def test_real_encoder_knows_what_is_alike() -> None:
    """With the extra: vectors of the promised size, equal for equal texts, and near for the same meaning."""
    encoder = load_encoder()
    assert encoder is not None
    texts = ["send an email", "post a message", "weather in Rome", "send an email"]
    vectors = encoder.encode(texts)
    nearness = encoder.stacked(vectors)(vectors[0])
    tools = [tool("a", "forecast", "Will it rain?"), tool("a", "post_message", "Write to somebody.")]
    ranker = Semantic(encoder)
    await ranker.embed(tools)

    assert {len(vector) for vector in vectors} == {encoder.vector_bytes}
    assert vectors[0] == vectors[3]
    assert nearness[0] > nearness[1] > nearness[2]
    assert (await ranker.search(Index(tools), "umbrella", limit=1)).names == ["mcp__a__forecast"]


@with_the_extra
def test_vectors_may_come_from_a_folder(tmp_path: Path) -> None:
    """Any model of static vectors serves, as Model2Vec writes them: a table of vectors and a tokenizer."""
    tokenizers, safetensors = importlib.import_module("tokenizers"), importlib.import_module("safetensors.numpy")
    numpy = importlib.import_module("numpy")
    words = {"[UNK]": 0, "red": 1, "crimson": 2, "loud": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    table = numpy.array([[0, 0], [1, 0], [0.9, 0.1], [0, 1]], numpy.float32)
    safetensors.save_file({"embeddings": table}, tmp_path / "model.safetensors")
    encoder = load_encoder(tmp_path)
    assert encoder is not None
    vectors = encoder.encode(["crimson", "loud", "nothing known"])

    assert [round(each, 2) for each in encoder.stacked(vectors)(encoder.encode(["red"])[0])] == [0.99, 0.0, 0.0]


@with_the_extra
@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "[Errno 2] No such file or directory: '{folder}/model.safetensors'"),
        (
            {"model.safetensors": b"no", "tokenizer.json": b"{}"},
            "{folder} holds no table of vectors with its tokenizer",
        ),
    ],
)
def test_folder_that_holds_no_vectors_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, files: dict[str, bytes], reason: str
) -> None:
    """The gateway goes on without them, and the warning names the key to correct."""
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    with caplog.at_level(logging.WARNING):
        assert load_encoder(tmp_path) is None

    (record,) = caplog.records
    assert record.getMessage() == (
        f"Tools are ranked by words alone: {reason.format(folder=tmp_path)}. Correct `discovery.vectors`."
    )
