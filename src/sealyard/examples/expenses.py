"""An MCP server with a year of a company's expenses: `python -m sealyard.examples.expenses [--release 2]`.

Release 2 is the same server after a change that breaks code: `since` and `until` are `start_date` and `end_date`.
"""

import argparse
import random
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Annotated, Any, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta

from sealyard.examples.toolbox import Refused, Toolbox

_EMPLOYEES = 40  # eight a department
_EXPENSES = 5_000  # far more than fit into a model's context, so code must sum them up
_YEAR = 2024  # fixed, so that the same seed makes the same data

Department = Literal["Engineering", "Finance", "Marketing", "Operations", "Sales"]
Category = Literal["travel", "lodging", "meals", "software", "hardware", "training", "office"]
Status = Literal["pending", "approved"]
Count = Annotated[int, Meta(ge=1)]

# By category: the payees, and the range of amounts.
_SPENDING: dict[Category, tuple[tuple[str, ...], int, int]] = {
    "travel": (("Northline Rail", "Blue Heron Air", "Citrus Cabs", "Harbor Ferries"), 12, 900),
    "lodging": (("Hotel Marlowe", "The Copper Inn", "Lakeview Suites"), 90, 620),
    "meals": (("Saffron Table", "Corner Bakery No. 9", "Noodle Bar Kin", "Café Lumen"), 6, 140),
    "software": (("Graphite Cloud", "Pinboard Pro", "Ledgerly"), 9, 480),
    "hardware": (("Volt & Wire", "Desk Supply Co."), 20, 1_900),
    "training": (("Open Lecture", "Skillforge"), 60, 1_200),
    "office": (("Paper Lantern Stationers", "Green Bean Coffee"), 4, 180),
}
_BUDGETS: dict[Department, float] = {
    "Engineering": 230_000.0,
    "Finance": 210_000.0,
    "Marketing": 225_000.0,
    "Operations": 215_000.0,
    "Sales": 240_000.0,
}
_FIRST = "Ada Bruno Chiara Dmitri Elif Farid Greta Hana Ivo Jana Kofi Lena Mateo Nadia Omar Priya Quinn Rosa Sven Tala"
_LAST = "Abara Berg Castillo Dvorak Eriksen Fontaine Gupta Haddad Ito Jansen Kowalski Lindqvist Moreau Novak Okafor"


class Employee(msgspec.Struct, frozen=True, kw_only=True):
    """One employee."""

    user_id: str
    name: str
    email: str
    department: Department
    manager_id: str | None


class Expense(msgspec.Struct, frozen=True, kw_only=True):
    """One expense as it was claimed."""

    expense_id: str
    user_id: str
    employee: str
    email: str
    department: Department
    category: Category
    merchant: str
    amount: Annotated[float, Meta(description="In US dollars.")]
    date: Annotated[str, Meta(description="YYYY-MM-DD.")]
    receipt: Annotated[str | None, Meta(description="Address of the scanned receipt; null if there is none.")]
    status: Status
    flag: Annotated[str | None, Meta(description="Why somebody flagged it.")]
    notes: list[str]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The budget of a department for a year, and the part that is spent."""

    department: Department
    year: int
    budget: float
    spent: float
    remaining: float


toolbox = Toolbox("expenses", instructions="Expenses of a company for 2024: read them, note, flag and approve them.")


@toolbox.tool(read_only=True)
def list_expenses(
    user_id: Annotated[str | None, Meta(description="Only this employee's, such as u017. All if left out.")] = None,
    since: Annotated[date | None, Meta(description="Only from this day on, YYYY-MM-DD.")] = None,
    until: Annotated[date | None, Meta(description="Only up to and with this day, YYYY-MM-DD.")] = None,
    category: Annotated[Category | None, Meta(description="Only this category.")] = None,
    limit: Annotated[Count | None, Meta(description="At most so many, the newest. All if left out.")] = None,
) -> list[Expense]:
    """List expenses, newest first. Without filters this is the whole year: thousands of rows."""
    return _select(user_id, since, until, category, limit)


def _upgrade() -> None:
    """Become release 2."""

    @toolbox.tool(read_only=True)
    def list_expenses(
        user_id: Annotated[str | None, Meta(description="Only this employee's, such as u017. All if left out.")] = None,
        start_date: Annotated[date | None, Meta(description="Only from this day on, YYYY-MM-DD.")] = None,
        end_date: Annotated[date | None, Meta(description="Only up to and with this day, YYYY-MM-DD.")] = None,
        category: Annotated[Category | None, Meta(description="Only this category.")] = None,
        limit: Annotated[Count | None, Meta(description="At most so many, the newest. All if left out.")] = None,
    ) -> list[Expense]:
        """List expenses, newest first. Without filters this is the whole year: thousands of rows."""
        return _select(user_id, start_date, end_date, category, limit)


def _select(
    user_id: str | None, first_day: date | None, last_day: date | None, category: Category | None, limit: int | None
) -> list[Expense]:
    if user_id is not None:
        _employee(user_id)
    first, last = (first_day or date.min).isoformat(), (last_day or date.max).isoformat()
    rows = [
        row
        for row in _expenses.values()
        if (user_id is None or row.user_id == user_id)
        and (category is None or row.category == category)
        and first <= row.date <= last
    ]
    return rows[:limit]


@toolbox.tool(read_only=True)
def list_employees(
    department: Annotated[Department | None, Meta(description="Only this department. All if left out.")] = None,
) -> list[Employee]:
    """List employees with their ids, names, e-mail addresses, departments and managers."""
    return [each for each in _employees.values() if department is None or each.department == department]


@toolbox.tool(read_only=True)
def get_budget(
    department: Annotated[Department, Meta(description="Which department.")],
) -> Budget:
    """Get what a department may spend this year, what it has spent and what is left."""
    budget = _BUDGETS[department]
    spent = round(sum(row.amount for row in _expenses.values() if row.department == department), 2)
    return Budget(department=department, year=_YEAR, budget=budget, spent=spent, remaining=round(budget - spent, 2))


@toolbox.tool()
def add_note(
    expense_id: Annotated[str, Meta(description="Which expense, such as x00042.")],
    text: Annotated[str, Meta(min_length=1, max_length=1_000, description="What to write.")],
) -> Expense:
    """Add a note to an expense. Every call adds another one."""
    row = _expense(expense_id)
    return _replace(row, notes=[*row.notes, text])


@toolbox.tool(idempotent=True)
def flag_expense(
    expense_id: Annotated[str, Meta(description="Which expense, such as x00042.")],
    reason: Annotated[str, Meta(min_length=1, max_length=1_000, description="Why somebody should look at it.")],
) -> Expense:
    """Flag an expense for review. A second flag replaces the first."""
    return _replace(_expense(expense_id), flag=reason)


@toolbox.tool(destructive=True, idempotent=True)
def approve_expense(
    expense_id: Annotated[str, Meta(description="Which expense, such as x00042.")],
) -> Expense:
    """Approve an expense for payment. It cannot be taken back, and a flagged expense is refused."""
    row = _expense(expense_id)
    if row.flag is not None:
        raise Refused(f"Expense {expense_id!r} is flagged: {row.flag!r}. Somebody has to settle that first.")
    return _replace(row, status="approved")


def _employee(user_id: str) -> Employee:
    if user_id not in _employees:
        raise Refused(f"No employee has the id {user_id!r}. Call list_employees for the ids that exist.")
    return _employees[user_id]


def _expense(expense_id: str) -> Expense:
    if expense_id not in _expenses:
        raise Refused(f"No expense has the id {expense_id!r}. Call list_expenses for the ids that exist.")
    return _expenses[expense_id]


def _replace(row: Expense, **changes: Any) -> Expense:
    _expenses[row.expense_id] = msgspec.structs.replace(row, **changes)
    return _expenses[row.expense_id]


def _make_employees(chance: random.Random) -> Iterator[Employee]:
    names = chance.sample([f"{first} {last}" for first in _FIRST.split() for last in _LAST.split()], _EMPLOYEES)
    departments = get_args(Department)
    for number, name in enumerate(names, 1):
        # The first of each department leads it.
        lead = (number - 1) % len(departments) + 1
        yield Employee(
            user_id=f"u{number:03}",
            name=name,
            email=f"{name.lower().replace(' ', '.')}@example.com",
            department=departments[lead - 1],
            manager_id=None if lead == number else f"u{lead:03}",
        )


class _Claim(NamedTuple):
    day: date
    employee: Employee
    category: Category
    merchant: str
    amount: float


def _make_expenses(chance: random.Random, employees: list[Employee]) -> Iterator[Expense]:
    claims = [*_odd_claims(employees)]
    while len(claims) < _EXPENSES:
        category = chance.choice(list(_SPENDING))
        merchants, least, most = _SPENDING[category]
        amount = least * (most / least) ** chance.random()  # many small ones and a few large, as in life
        day = date(_YEAR, 1, 1) + timedelta(days=chance.randrange(366))
        claims.append(_Claim(day, chance.choice(employees), category, chance.choice(merchants), round(amount, 2)))
    claims.sort(key=lambda claim: claim.day)
    for number, claim in reversed([*enumerate(claims, 1)]):
        yield Expense(
            expense_id=f"x{number:05}",
            user_id=claim.employee.user_id,
            employee=claim.employee.name,
            email=claim.employee.email,
            department=claim.employee.department,
            category=claim.category,
            merchant=claim.merchant,
            amount=claim.amount,
            date=claim.day.isoformat(),
            receipt=None if chance.random() < 0.04 else f"https://receipts.example.com/{chance.getrandbits(48):012x}",
            status="pending" if claim.day >= date(_YEAR, 12, 1) else "approved",
            flag=None,
            notes=[],
        )


def _odd_claims(employees: list[Employee]) -> Iterator[_Claim]:
    """Claims for an auditor: one hotel bill claimed three times, and one large purchase split into small ones."""
    for days in (0, 2, 9):
        yield _Claim(date(_YEAR, 10, 14) + timedelta(days), employees[22], "lodging", "The Copper Inn", 587.4)
    for number in range(8):
        yield _Claim(date(_YEAR, 11, 5), employees[30], "hardware", "Volt & Wire", 499.0 + number / 100)


_chance = random.Random(2024)  # noqa: S311 - sample data, the same at every start
_employees = {each.user_id: each for each in _make_employees(_chance)}
_expenses = {each.expense_id: each for each in _make_expenses(_chance, list(_employees.values()))}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An MCP server with a year of a company's expenses.")
    parser.add_argument("--release", type=int, choices=(1, 2), default=1, help="which release of the server to be")
    if parser.parse_args().release == 2:
        _upgrade()
    toolbox.run()
