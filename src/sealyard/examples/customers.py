"""An MCP server with a shop's ten thousand customers: `python -m sealyard.examples.customers`."""

import random
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sealyard.examples.toolbox import Refused, Toolbox

_CUSTOMERS = 10_000  # too many for a prompt, so that code has to filter

Plan = Literal["free", "basic", "pro"]

_FIRST = "Amira Bela Ciro Dana Emre Fleur Goran Heidi Imani Joao Kaya Liv Milos Noor Otto Paola Rafa Sanna Teo Uma"
_LAST = "Adeyemi Brandt Costa Duarte Endo Fischer Garcia Horvat Iqbal Jonsson Keller Lopes Meyer Nagy Olsen Petrov"
_STREETS = "Birch Lane,Canal Street,Harbour Road,Mill Lane,Orchard Avenue,Station Road,Chapel Street,Elm Drive"
_CITIES = "Aldburg,Brookfield,Carstow,Dunmere,Eastholm,Fernley,Glenport,Highmoor"
_COUNTRIES = ("AT", "DE", "ES", "FR", "GB", "IT", "PL", "US")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a customer lives."""

    street: str
    city: str
    postal_code: str
    country: str


class Customer(msgspec.Struct, frozen=True, kw_only=True):
    """One customer."""

    customer_id: str
    first_name: str
    last_name: str
    email: str
    phone: str
    date_of_birth: Annotated[str, Meta(description="YYYY-MM-DD.")]
    address: Address
    card_number: str
    plan: Plan
    signed_up: Annotated[str, Meta(description="YYYY-MM-DD.")]
    orders: int
    spent: Annotated[float, Meta(description="In US dollars, ever.")]
    notes: str


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """The result of adding a note."""

    customer_id: str
    message: str


toolbox = Toolbox("customers", instructions="The customers of a shop: read them, and write notes about them.")


@toolbox.tool(read_only=True)
def list_customers(
    plan: Annotated[Plan | None, Meta(description="Only those with this plan. All if left out.")] = None,
    country: Annotated[str | None, Meta(description="Only this country, such as DE. All if left out.")] = None,
    limit: Annotated[int, Meta(ge=1, description="At most so many. All if left out.")] = _CUSTOMERS,
) -> list[Customer]:
    """List customers with their names, e-mail addresses, phone numbers, addresses, plans and what they spent."""
    rows = [
        row
        for row in _customers.values()
        if (plan is None or row.plan == plan) and (country is None or row.address.country == country)
    ]
    return rows[:limit]


@toolbox.tool(read_only=True)
def find_customer(
    email: Annotated[str, Meta(description="The whole address.")],
) -> Customer:
    """Find a customer by e-mail address."""
    for row in _customers.values():
        if row.email == email:
            return row
    raise Refused(f"No customer has the address {email!r}. Call list_customers for those that exist.")


@toolbox.tool()
def add_note(
    customer_id: Annotated[str, Meta(description="Which customer, such as c00042.")],
    text: Annotated[str, Meta(min_length=1, max_length=1_000, description="What to write.")],
) -> Note:
    """Write a note about a customer."""
    row = _customers.get(customer_id)
    if row is None:
        raise Refused(f"No customer has the id {customer_id!r}. Call list_customers for the ids that exist.")
    _customers[customer_id] = msgspec.structs.replace(row, notes=f"{row.notes}\n{text}".strip())
    return Note(customer_id=customer_id, message=f"The note about {row.first_name} {row.last_name} was kept.")


def _make_customers(chance: random.Random) -> Iterator[Customer]:
    first_names, last_names = _FIRST.split(), _LAST.split()
    streets, cities = _STREETS.split(","), _CITIES.split(",")
    for number in range(1, _CUSTOMERS + 1):
        first, last = chance.choice(first_names), chance.choice(last_names)
        orders = chance.randrange(40)
        yield Customer(
            customer_id=f"c{number:05}",
            first_name=first,
            last_name=last,
            email=f"{first.lower()}.{last.lower()}{number}@example.com",
            phone=f"+1 {chance.randrange(201, 989)}-555-{chance.randrange(10_000):04}",
            date_of_birth=(date(1940, 1, 1) + timedelta(days=chance.randrange(23_000))).isoformat(),
            address=Address(
                street=f"{chance.randrange(1, 300)} {chance.choice(streets)}",
                city=chance.choice(cities),
                postal_code=f"{chance.randrange(10_000, 99_999)}",
                country=chance.choice(_COUNTRIES),
            ),
            card_number=_card(chance),
            plan=chance.choice(("free", "basic", "pro")),
            signed_up=(date(2019, 1, 1) + timedelta(days=chance.randrange(2_000))).isoformat(),
            orders=orders,
            spent=round(orders * chance.uniform(8, 90), 2),
            notes="",
        )


def _card(chance: random.Random) -> str:
    """A number that passes the Luhn check and belongs to nobody."""
    digits = [4, *(chance.randrange(10) for _ in range(14))]
    doubled: list[Any] = [d if place % 2 else d * 2 - 9 * (d > 4) for place, d in enumerate(digits)]
    return "".join(map(str, [*digits, -sum(doubled) % 10]))


_chance = random.Random(10)  # noqa: S311 - sample data, the same at every start
_customers = {each.customer_id: each for each in _make_customers(_chance)}

if __name__ == "__main__":
    toolbox.run()
