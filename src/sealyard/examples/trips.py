"""An MCP server for camping trips: parks, campgrounds, weather, routes. `python -m sealyard.examples.trips`."""

import itertools
import math
import random
import time
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from sealyard.examples.toolbox import Refused, Toolbox

_ROUTE_SECONDS = 0.6  # of a search for routes: long enough that code has to poll
_FIRST_DAY = date(2025, 5, 1)

State = Literal["AZ", "CA", "CO", "ID", "MT", "NM", "NV", "OR", "UT", "WA", "WY"]
Activity = Literal["hiking", "fishing", "boating", "climbing", "stargazing", "swimming", "birdwatching"]
SearchStatus = Literal["running", "done"]
ParkId = Annotated[str, Meta(description="Which park, such as p07.")]
Place = tuple[float, float]
"""Latitude and longitude."""

# The rough position of each state, so that distances between parks make sense.
_STATES: dict[State, Place] = {
    "AZ": (34.3, -111.7),
    "CA": (37.2, -119.5),
    "CO": (39.0, -105.5),
    "ID": (44.4, -114.6),
    "MT": (47.0, -109.6),
    "NM": (34.4, -106.1),
    "NV": (39.3, -116.6),
    "OR": (43.9, -120.6),
    "UT": (39.3, -111.7),
    "WA": (47.4, -120.4),
    "WY": (43.0, -107.6),
}
_TOWNS: dict[str, Place] = {
    "Boise": (43.62, -116.2),
    "Denver": (39.74, -104.99),
    "Flagstaff": (35.2, -111.65),
    "Las Vegas": (36.17, -115.14),
    "Moab": (38.57, -109.55),
    "Portland": (45.52, -122.68),
    "Reno": (39.53, -119.81),
    "Salt Lake City": (40.76, -111.89),
    "Santa Fe": (35.69, -105.94),
    "Seattle": (47.61, -122.33),
}
_ADJECTIVES = (
    "Amber Broken Cedar Distant Elder Falcon Granite Hollow Iron Juniper Lonely Mirror Painted Quiet Red Silver"
)
_FEATURES = "Basin Canyon Creek Crest Dunes Falls Forest Lake Mesa Ridge Valley"


class Park(msgspec.Struct, frozen=True, kw_only=True):
    """One park."""

    id: str
    name: str
    state: State
    activities: list[Activity]
    entrance_fee: Annotated[float, Meta(description="In US dollars, for a vehicle.")]
    elevation_m: int
    latitude: float
    longitude: float


class Campground(msgspec.Struct, frozen=True, kw_only=True):
    """One campground of a park."""

    id: str
    park_id: str
    name: str
    sites: int
    price_per_night: Annotated[float, Meta(description="In US dollars, for one site.")]
    hookups: Annotated[bool, Meta(description="Whether the sites have water and electricity.")]


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """The weather of one day."""

    date: Annotated[str, Meta(description="YYYY-MM-DD.")]
    high_c: float
    low_c: float
    rain_mm: float
    wind_kmh: int


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The weather to come."""

    park_id: str
    days: list[Day]


class Booking(msgspec.Struct, frozen=True, kw_only=True):
    """A site that is booked."""

    booking_id: str
    campground_id: str
    arrival: Annotated[str, Meta(description="YYYY-MM-DD.")]
    nights: int
    party_size: int
    total: Annotated[float, Meta(description="In US dollars.")]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One way from place to place."""

    via: Annotated[list[str], Meta(description="Parks on the way.")]
    distance_km: int
    hours: float


class RouteSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a search for routes."""

    search_id: str
    status: SearchStatus
    progress: Annotated[float, Meta(ge=0, le=1)]
    retry_after_seconds: Annotated[float, Meta(description="When to ask again; 0 when it is done.")]
    routes: Annotated[list[Route], Meta(description="The best first; empty until it is done.")]


toolbox = Toolbox("trips", instructions="Parks, campgrounds, weather and routes for camping trips in summer 2025.")


@toolbox.tool(read_only=True)
def find_parks(
    state: Annotated[State | None, Meta(description="Two letters, such as UT. All states if left out.")] = None,
    activity: Annotated[Activity | None, Meta(description="Only parks that offer this.")] = None,
) -> list[Park]:
    """Find parks by state and by what can be done there."""
    return [
        park
        for park in _parks.values()
        if (state is None or park.state == state) and (activity is None or activity in park.activities)
    ]


@toolbox.tool(read_only=True)
def get_park(park_id: ParkId) -> Park:
    """Get one park by its id."""
    if park_id not in _parks:
        raise Refused(f"No park has the id {park_id!r}. Call find_parks for the ids that exist.")
    return _parks[park_id]


@toolbox.tool(read_only=True)
def list_campgrounds(park_id: ParkId) -> list[Campground]:
    """List the campgrounds of a park with their prices."""
    get_park(park_id)
    return [each for each in _campgrounds.values() if each.park_id == park_id]


@toolbox.tool(read_only=True)
def weather_forecast(
    park_id: ParkId,
    days: Annotated[int, Meta(ge=1, le=14, description="How many days, from 1 May 2025 on.")] = 7,
) -> Forecast:
    """Get the weather forecast of a park, day by day."""
    park = get_park(park_id)
    chance = random.Random(f"weather of {park_id}")  # noqa: S311 - sample data, the same for every caller
    rows = []
    for number in range(days):
        high = 27 - park.elevation_m / 160 + chance.uniform(-4, 4)
        rows.append(
            Day(
                date=(_FIRST_DAY + timedelta(number)).isoformat(),
                high_c=round(high, 1),
                low_c=round(high - chance.uniform(7, 14), 1),
                rain_mm=round(max(0.0, chance.gauss(-2, 6)), 1),
                wind_kmh=chance.randrange(2, 45),
            )
        )
    return Forecast(park_id=park_id, days=rows)


@toolbox.tool()
def book_campsite(
    campground_id: Annotated[str, Meta(description="Which campground, such as p07-a.")],
    arrival: Annotated[date, Meta(description="First night, YYYY-MM-DD, in summer 2025.")],
    nights: Annotated[int, Meta(ge=1, le=14, description="How many nights.")],
    party_size: Annotated[int, Meta(ge=1, le=8, description="How many people.")] = 2,
) -> Booking:
    """Book a site. Every call books another one, as long as there are free sites on those nights."""
    campground = _campgrounds.get(campground_id)
    if campground is None:
        raise Refused(f"No campground has the id {campground_id!r}. Call list_campgrounds for those of a park.")
    if not _FIRST_DAY <= arrival <= date(2025, 9, 30):
        raise Refused(f"{arrival} is out of season. Arrive between {_FIRST_DAY} and 2025-09-30.")
    for night in range(nights):
        if _taken(campground_id, arrival + timedelta(night)) >= campground.sites:
            raise Refused(f"{campground.name!r} is full on {arrival + timedelta(night)}. Choose other nights.")
    booking = Booking(
        booking_id=f"b{next(_numbers):04}",
        campground_id=campground_id,
        arrival=arrival.isoformat(),
        nights=nights,
        party_size=party_size,
        total=round(nights * campground.price_per_night, 2),
    )
    _bookings[booking.booking_id] = booking
    return booking


@toolbox.tool(destructive=True)
def cancel_booking(booking_id: Annotated[str, Meta(description="Which booking, such as b0001.")]) -> Booking:
    """Cancel a booking for good and return what it was."""
    if booking_id not in _bookings:
        raise Refused(f"No booking has the id {booking_id!r}. It may be cancelled already.")
    return _bookings.pop(booking_id)


@toolbox.tool()
def start_route_search(
    origin: Annotated[str, Meta(description="A town such as Denver, or a park's id or name.")],
    destination: Annotated[str, Meta(description="A town such as Moab, or a park's id or name.")],
) -> RouteSearch:
    """Start a search for routes between two places. It takes a moment: ask get_route_search until it is done."""
    start, end = _place(origin), _place(destination)
    if start == end:
        raise Refused(f"The way from {origin!r} to itself needs no search. Name two different places.")
    search_id = f"r{next(_numbers):04}"
    _searches[search_id] = (time.monotonic(), start, end)
    while len(_searches) > _SEARCHES_KEPT:
        del _searches[next(iter(_searches))]
    return get_route_search(search_id)


@toolbox.tool(read_only=True)
def get_route_search(
    search_id: Annotated[str, Meta(description="What start_route_search returned.")],
) -> RouteSearch:
    """Get how far a search for routes is, and the routes once it is done."""
    if search_id not in _searches:
        raise Refused(f"No search has the id {search_id!r}. Begin one with start_route_search.")
    began, start, end = _searches[search_id]
    progress = min(1.0, (time.monotonic() - began) / _ROUTE_SECONDS)
    done = progress == 1
    return RouteSearch(
        search_id=search_id,
        status="done" if done else "running",
        progress=round(progress, 2),
        retry_after_seconds=0.0 if done else 0.2,
        routes=_find_routes(start, end) if done else [],
    )


def _taken(campground_id: str, night: date) -> int:
    return sum(
        booking.campground_id == campground_id
        and 0 <= (night - date.fromisoformat(booking.arrival)).days < booking.nights
        for booking in _bookings.values()
    )


def _place(name: str) -> Place:
    wanted = name.casefold()
    for town, place in _TOWNS.items():
        if town.casefold() == wanted:
            return place
    for park in _parks.values():
        if wanted in (park.id, park.name.casefold()):
            return park.latitude, park.longitude
    raise Refused(f"No town or park is called {name!r}. The towns are {', '.join(_TOWNS)}; find_parks has the parks.")


def _find_routes(start: Place, end: Place) -> list[Route]:
    """The straight way, and the two shortest over one park."""
    parks = [(park.name, (park.latitude, park.longitude)) for park in _parks.values()]
    others = [each for each in parks if each[1] not in (start, end)]
    others.sort(key=lambda park: _distance_km(start, park[1]) + _distance_km(park[1], end))
    return [_route([], start, end), *(_route([name], start, place, end) for name, place in others[:2])]


def _route(via: list[str], *stops: Place) -> Route:
    distance = 1.25 * sum(_distance_km(one, other) for one, other in itertools.pairwise(stops))
    return Route(via=via, distance_km=round(distance), hours=round(distance / 82, 1))


def _distance_km(one: Place, other: Place) -> float:
    """As the crow flies."""
    latitudes = math.radians(one[0]), math.radians(other[0])
    half = (latitudes[1] - latitudes[0]) / 2, math.radians(other[1] - one[1]) / 2
    chord = math.sin(half[0]) ** 2 + math.cos(latitudes[0]) * math.cos(latitudes[1]) * math.sin(half[1]) ** 2
    return 2 * 6371 * math.asin(math.sqrt(chord))


def _make_parks(chance: random.Random) -> Iterator[Park]:
    names = [f"{one} {other}" for one in _ADJECTIVES.split() for other in _FEATURES.split()]
    for number, name in enumerate(chance.sample(names, 66), 1):
        state = get_args(State)[number % len(_STATES)]
        latitude, longitude = _STATES[state]
        yield Park(
            id=f"p{number:02}",
            name=name,
            state=state,
            activities=sorted(chance.sample(get_args(Activity), chance.randint(2, 5))),
            entrance_fee=chance.choice((0.0, 10.0, 15.0, 20.0, 35.0)),
            elevation_m=chance.randrange(120, 3_100),
            latitude=round(latitude + chance.uniform(-1.6, 1.6), 3),
            longitude=round(longitude + chance.uniform(-1.6, 1.6), 3),
        )


def _make_campgrounds(chance: random.Random) -> Iterator[Campground]:
    for park in _parks.values():
        for letter in "abcd"[: chance.randint(1, 4)]:
            yield Campground(
                id=f"{park.id}-{letter}",
                park_id=park.id,
                name=f"{park.name} {letter.upper()}",
                sites=chance.randrange(6, 80),
                price_per_night=float(chance.randrange(12, 58)),
                hookups=chance.random() < 0.4,
            )


_SEARCHES_KEPT = 100  # bounds the memory of a server that runs for long
_chance = random.Random(66)  # noqa: S311 - sample data, the same at every start
_parks = {park.id: park for park in _make_parks(_chance)}
_campgrounds = {each.id: each for each in _make_campgrounds(_chance)}
_bookings: dict[str, Booking] = {}
_searches: dict[str, tuple[float, Place, Place]] = {}
_numbers = itertools.count(1)

if __name__ == "__main__":
    toolbox.run()
