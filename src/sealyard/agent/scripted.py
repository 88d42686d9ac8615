"""A model that is a script: it answers a few questions about the example servers, so that a chat needs no provider.

Only its words are made up. It calls tools through the surface as any model does, reads their answers, and builds its
last words from them.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import msgspec

from sealyard.metrics import tokens
from sealyard.values.chat import (
    ModelMessage,
    ModelReply,
    ModelRequest,
    ModelUsage,
    ToolMessage,
    ToolText,
    ToolUse,
    UserMessage,
)

_WORD = re.compile(r"\S+\s*|\s+")

_SPENDING = """\
from collections import Counter
from servers.expenses import list_expenses

rows = list_expenses(since="2024-01-01")
print(len(rows), "expenses read")
totals = Counter()
for row in rows:
    totals[row["category"]] += row["amount"]
bills = Counter((row["employee"], row["merchant"], row["amount"]) for row in rows)
odd = [[merchant, amount, f"{count} times"] for (_, merchant, amount), count in bills.items() if count > 2]
result = {"rows": len(rows), "most": [[name, round(sum_)] for name, sum_ in totals.most_common(3)], "odd": odd}
"""

_TRIP = """\
import asyncio
from servers.trips import find_parks, get_route_search, list_campgrounds, start_route_search, weather_forecast

parks = find_parks(state="UT", activity="hiking")
weather = await asyncio.gather(*[weather_forecast(park_id=park["id"], days=3) for park in parks])
rain = {each["park_id"]: sum(day["rain_mm"] for day in each["days"]) for each in weather}
park = min(parks, key=lambda park: rain[park["id"]])
print(len(parks), "parks; the driest is", park["name"])
site = min(list_campgrounds(park_id=park["id"]), key=lambda site: site["price_per_night"])
search = start_route_search(origin="Salt Lake City", destination=park["id"])
while search["status"] != "done":
    print(f"route: {search['progress']:.0%}")
    await asyncio.sleep(search["retry_after_seconds"])
    search = get_route_search(search_id=search["search_id"])
route = min(search["routes"], key=lambda route: route["hours"])
print(f"route: {route['distance_km']} km")
result = {
    "park": park["name"],
    "rain_mm": round(rain[park["id"]], 1),
    "campground": site["name"],
    "hours": route["hours"],
    "dollars": park["entrance_fee"] + 2 * site["price_per_night"],
}
"""

_CUSTOMER = """\
from servers.customers import list_customers

rows = list_customers(plan="pro", country="PL")
best = max(rows, key=lambda row: row["spent"])
result = {name: best[name] for name in ("email", "first_name", "spent")}
"""

_BOOKING = """\
from servers.trips import book_campsite

booking = book_campsite(campground_id="p01-a", arrival="2025-06-06", nights=2)
result = {name: booking[name] for name in ("booking_id", "arrival", "nights", "total")}
"""


class _Turn(NamedTuple):
    """One question, and the steps that lead to its answer."""

    question: str
    words: str
    """The words of a message, one of which is enough to mean this question."""
    first: str
    code: str
    last: Callable[[Any], str]
    """Makes the last words of the run's result."""
    search: str = ""
    asks: bool = False
    """True if a person has to approve a call."""


_TURNS = (
    _Turn(
        question="What did the company spend most on in 2024, and is anything odd?",
        words="spend spent expenses money odd company",
        first="There are thousands of expenses. I look for a tool, then sum them up where they are.",
        search="list expenses",
        code=_SPENDING,
        last=lambda found: (
            f"Most went to {found['most'][0][0]} ({found['most'][0][1]:,} dollars), {found['most'][1][0]} and "
            f"{found['most'][2][0]}. One bill stands out: {found['odd'][0][0]}, {found['odd'][0][1]} dollars, claimed "
            f"{found['odd'][0][2]}. The code read {found['rows']:,} rows; I read the line above."
        ),
    ),
    _Turn(
        question="Plan a dry hiking weekend in Utah from Salt Lake City, and say what it costs.",
        words="plan trip weekend hike hiking utah weather park",
        first="Parks, weather, campgrounds and the route take many calls. I make them all in one run.",
        code=_TRIP,
        last=lambda found: (
            f"Go to {found['park']}: {found['rain_mm']} mm of rain in three days, and {found['hours']} hours by car. "
            f"Two nights at {found['campground']} and the entrance cost {found['dollars']:g} dollars."
        ),
    ),
    _Turn(
        question="Who is our best customer in Poland, and how do I reach them?",
        words="customer customers poland best reach",
        first="I ask for the customers.",
        code=_CUSTOMER,
        last=lambda found: (
            f"It is {found['first_name']}, who has spent {found['spent']:,} dollars. The address is {found['email']}. "
            "You see a name and an address; I have read and written tokens in their place, as in the result above."
        ),
    ),
    _Turn(
        question="Book two nights at a campground for 6 June.",
        words="book nights campground site reserve",
        first="A booking is a change, so you will be asked before it is made.",
        code=_BOOKING,
        last=lambda found: (
            f"Booked: {found['booking_id']}, {found['nights']} nights from {found['arrival']}, for {found['total']:g} "
            "dollars."
        ),
        asks=True,
    ),
)
_KNOWN = "\n".join(f"{number}. {turn.question}" for number, turn in enumerate(_TURNS, 1))
_UNKNOWN = f"I am a script, and I can answer these questions only:\n{_KNOWN}"
QUESTIONS = tuple(turn.question for turn in _TURNS)
"""All that it can answer, in the order of the story that they tell."""
PLAYED = tuple(turn.question for turn in _TURNS if not turn.asks)
"""Those that need no person."""


class Scripted:
    """Follows its script. What it does next follows from the conversation alone."""

    name = "script"
    can_call = True

    async def reply(self, request: ModelRequest) -> AsyncIterator[str | ModelReply]:
        """See `Model.reply`. Tokens are counted, and cost nothing."""
        message = _next(request)
        for word in _WORD.findall(message.text):
            yield word
            await asyncio.sleep(0)  # words come one by one, as a provider's do
        read = tokens.count(request.system) + tokens.count_json(msgspec.to_builtins(request.messages))
        read += sum(tokens.count_definition(tool.name, tool.description, tool.schema) for tool in request.tools)
        wrote = tokens.count(message.text) + sum(tokens.count_json(use.arguments) for use in message.uses)
        yield ModelReply(message=message, usage=ModelUsage(input_tokens=read, output_tokens=wrote, usd=0.0))


def _next(request: ModelRequest) -> ModelMessage:
    """The next message of the turn that the person's last message means."""
    asked = max(number for number, each in enumerate(request.messages) if isinstance(each, UserMessage))
    message = request.messages[asked]
    assert isinstance(message, UserMessage)
    turn = _meant(message.text)
    if turn is None:
        return ModelMessage(text=_UNKNOWN)
    answers = [each.answers[-1] for each in request.messages[asked:] if isinstance(each, ToolMessage)]
    steps = [{"code": turn.code}]
    if turn.search:
        steps.insert(0, {"query": turn.search})
    if len(answers) == len(steps):
        return ModelMessage(text=_last(turn, answers[-1]))
    arguments = steps[len(answers)]
    name = "execute_code" if "code" in arguments else "search_tools"
    use = ToolUse(id=f"call_{asked}_{len(answers)}", name=name, arguments=arguments)
    return ModelMessage(text="" if answers else turn.first, uses=(use,))


def _meant(text: str) -> _Turn | None:
    """The turn that shares most words with a message."""
    said = set(re.findall(r"\w+", text.lower()))
    best = max(_TURNS, key=lambda turn: len(said & set(turn.words.split())))
    return best if said & set(best.words.split()) else None


def _last(turn: _Turn, answer: ToolText) -> str:
    """The last words, from the result of the run: the last line of its answer that is a JSON object."""
    for line in reversed(answer.text.splitlines()):
        try:
            found = msgspec.json.decode(line.removeprefix("result: "))
        except msgspec.DecodeError:
            continue
        if isinstance(found, dict):
            return turn.last(found)
    return "That did not work; the answer above says why."
