"""What fifty people and their agents do over HTTP at once. `make load` runs it; it needs nothing but Locust.

Every answer is looked at: one that is wrong counts as an error, as does one that does not come.
"""

import itertools
from typing import Any

from locust import HttpUser, between, task

QUERIES = ("list expenses of a department", "budget", "list employees", "flag an expense", "approve")
CODE = """
from servers.expenses import get_budget, list_expenses
rows = list_expenses(user_id=user_id, since="2024-11-15")
print(len(rows), "expenses")
result = {"total": round(sum(row["amount"] for row in rows), 2), "budget": get_budget(department="Sales")}
"""
ROWS = [{"city": "Rome" if number % 3 else "Oslo", "spent": number} for number in range(300)]
EXPECTED = [{"city": "Oslo", "sum_spent": 14_850}, {"city": "Rome", "sum_spent": 30_000}]

_numbers = itertools.count(1)


class Person(HttpUser):
    """Searches, runs code, analyses rows and looks at what became of it."""

    wait_time = between(0.5, 1.5)

    def on_start(self) -> None:
        """Everybody has a workspace of their own."""
        self.number = next(_numbers)

    @task(6)
    def search(self) -> None:
        """Find a tool."""
        query = QUERIES[self.number % len(QUERIES)]
        found = self._ask("GET", "mcp/tools/search", params={"query": query, "detail_level": "full"})
        if found is not None and not found["tools"]:
            self._complain("search")

    @task(3)
    def execute(self) -> None:
        """Run code that calls two tools."""
        body = {
            "code": CODE,
            "context": {"user_id": f"u{self.number % 40 + 1:03}"},
            "session": f"person-{self.number}",
            "wait": True,
        }
        found = self._ask("POST", "executions", json=body)
        if found is not None and (found["status"] != "ok" or found["result"]["total"] <= 0):
            self._complain("execute", found)

    @task(2)
    def analyze(self) -> None:
        """Group rows without code."""
        parameters = {"group_by": ["city"], "aggregations": ["sum(spent)"], "sort": "city"}
        found = self._ask(
            "POST", "analyses", json={"analysis_type": "aggregate", "data": ROWS, "parameters": parameters}
        )
        if found is not None and (found["status"] != "ok" or found["result"]["rows"] != EXPECTED):
            self._complain("analyze", found)

    @task(2)
    def executions(self) -> None:
        """See what was run last, and one of it whole."""
        found = self._ask("GET", "executions", params={"limit": 20})
        if found is not None and found["executions"]:
            self._ask("GET", f"executions/{found['executions'][-1]['execution_id']}", name="executions/{id}")

    @task(1)
    def metrics(self) -> None:
        """Look at the figures."""
        found = self._ask("GET", "metrics", params={"window": "1h"})
        if found is not None and found["execution"]["count"] < 0:
            self._complain("metrics", found)

    def _ask(self, method: str, path: str, *, name: str | None = None, **options: Any) -> Any:
        label = name or path
        with self.client.request(
            method, f"/api/v1/{path}", name=label, timeout=60, catch_response=True, **options
        ) as response:
            if response.status_code not in (200, 202):
                response.failure(f"{response.status_code}: {response.text[:300]}")
                return None
            return response.json()

    def _complain(self, label: str, found: Any = None) -> None:
        """An answer came, and is wrong."""
        self.environment.events.request.fire(
            request_type="CHECK",
            name=label,
            response_time=0,
            response_length=0,
            exception=AssertionError(str(found)[:300]),
            context={},
        )
