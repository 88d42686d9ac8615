"""The surface that the agent sees: a few definitions whose cost in tokens does not depend on the tools behind them.

Plain data, so that counting it needs no MCP SDK.
"""

from collections.abc import Collection, Sequence
from typing import Any


def _tool(
    name: str,
    description: str,
    properties: dict[str, Any],
    *,
    required: Sequence[str] = (),
    annotations: dict[str, bool],
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {"name": name, "description": description, "inputSchema": schema, "annotations": annotations}


_SEARCH = _tool(
    "search_tools",
    "Find tools of the connected servers by what you want to do. The advertised tools are not all.",
    {
        "query": {"type": "string", "description": "Words, or a tool's name; empty lists the servers"},
        "detail_level": {
            "type": "string",
            "enum": ["name_only", "with_description", "full"],
            "default": "with_description",
            "description": "full adds signature, parameters and return shape",
        },
        "server": {"type": "string"},
        "limit": {"type": "integer", "default": 5},
    },
    required=["query"],
    annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
)

_EXECUTE = _tool(
    "execute_code",
    (
        "Run Python in a sandbox where tools are functions: `from servers.<server> import <tool>`. Filter and combine "
        "data there: only what you print and `result` (or the last expression) come back, big values as preview and "
        "file. Private values come as opaque `__PII_…__` tokens, equal if the values are: pass them to tools whole. "
        "background=true answers with an execution_id: pass it alone to see the state, with cancel=true to stop."
    ),
    {
        "code": {"type": "string"},
        "language": {"type": "string", "enum": ["python"]},
        "context": {"type": "object", "description": "Becomes variables"},
        "session": {"type": "string", "description": "Workspace whose files the next run finds"},
        "timeout_seconds": {"type": "number", "default": 30, "maximum": 120},
        "background": {"type": "boolean", "default": False},
        "execution_id": {"type": "string"},
        "cancel": {"type": "boolean", "default": False},
    },
    annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
)

_ANALYZE = _tool(
    "execute_analysis",
    "Answer a question about rows without reading them or writing code.",
    {
        "analysis_type": {
            "type": "string",
            "enum": ["filter", "aggregate", "transform", "validate", "statistics"],
        },
        "data": {"description": "Rows"},
        "source": {"type": "object", "description": "{workspace: path} or {tool: name, arguments: {}}"},
        "parameters": {
            "type": "object",
            "description": (
                "conditions [{field, operator, value}]; group_by, aggregations [{function, field}]; steps "
                "[{compute: {total: 'a * b'}}]; rules; operation"
            ),
        },
        "session": {"type": "string"},
    },
    required=["analysis_type"],
    annotations={"destructiveHint": True},
)

_CALL = _tool(
    "call_tool",
    (
        "Call a tool that search_tools found. Use detail_level full first to see its parameters. Private values come "
        "as opaque `__PII_…__` tokens: pass them on whole."
    ),
    {
        "name": {"type": "string", "description": "As search_tools gave it"},
        "arguments": {"type": "object"},
    },
    required=["name"],
    annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
)

_SAVE_SKILL = _tool(
    "save_skill",
    (
        "Keep code that works for `from skills import <name>`: a function of that name, or a script over its inputs "
        "that sets `result`. Run it first: examples replay recorded answers; without one that passes it stays a draft. "
        "Private values belong in inputs. The same name makes a new version."
    ),
    {
        "name": {"type": "string", "description": "snake_case"},
        "code": {"type": "string"},
        "description": {"type": "string", "description": "What it does and when to use it"},
        "inputs": {"type": "object", "description": "Name to type, or JSON Schema; a function's are read from it"},
        "output": {"description": "Type, or JSON Schema"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "examples": {"type": "array", "items": {"type": "object"}, "description": "[{inputs: {}, output}]"},
    },
    required=["name", "code", "description"],
    annotations={"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
)

_FIND_SKILLS = _tool(
    "find_skills",
    "Find saved skills by what you want to do, before writing code that may exist.",
    {
        "query": {"type": "string", "description": "Empty: all"},
        "limit": {"type": "integer", "default": 5},
    },
    annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
)

_LOAD_SKILL = _tool(
    "load_skill",
    "Read a skill's source, needs and history. To use it, just import it.",
    {
        "name": {"type": "string", "description": "monthly_total, or monthly_total@1.2"},
        "version": {"type": "string"},
    },
    required=["name"],
    annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
)


ARGUMENTS = {
    tool["name"]: tuple(tool["inputSchema"]["properties"])
    for tool in (_SEARCH, _EXECUTE, _ANALYZE, _CALL, _SAVE_SKILL, _FIND_SKILLS, _LOAD_SKILL)
}
"""The advertised arguments of each tool."""


def surface_tools(mode: str) -> list[dict[str, Any]]:
    """The definitions of a mode, always the same and in the same order."""
    if mode == "search":
        return [_SEARCH, _CALL]
    return [_SEARCH, _EXECUTE, _ANALYZE, _SAVE_SKILL, _FIND_SKILLS, _LOAD_SKILL]


def instructions(mode: str) -> str:
    """The instructions that a client gives its model: the same for all upstreams, so that their cost is fixed."""
    if mode == "search":
        how = "Find tools with search_tools, then call them with call_tool."
    else:
        how = (
            "Find tools with search_tools, then use them in execute_code. Do whole jobs in one run: call, filter, "
            "combine, and return only what is needed. find_skills shows what was solved before; save_skill keeps what "
            "works."
        )
    return f"The advertised tools are not the whole catalogue. {how}"


def system_prompt(servers: Collection[str]) -> str:
    """A system prompt for agents that are built on the code mode, with worked examples."""
    return _PROMPT.replace("{servers}", ", ".join(sorted(servers)) or "none is configured yet")


_PROMPT = """\
# Tools through code

You work with tools through a few functions of the `sealyard` server. The tools advertised to you are not the whole
catalogue: every tool of every connected server can be found and used.

- `search_tools(query, detail_level, server, limit)` finds tools by what you want to do. Ask with `detail_level="full"`
  for the one you are going to use: it shows the signature, the parameters and the shape of the answer. The answer names
  the words of your query that no tool contains.
- `execute_code(code, context, session, timeout_seconds, background)` runs Python in a sandbox without network and
  without the host's files, where each tool is a function: `from servers.<server> import <tool>`.
- `execute_analysis(analysis_type, source, parameters)` filters, aggregates, transforms, validates or describes rows
  without code: see "Rows without code" below.
- `find_skills(query)`, `load_skill(name)` and `save_skill(name, code, description, …)` find, read and keep code that
  works: see "Skills" below.

Connected servers: {servers}.

## How to write the code

- Do a whole job in one run: call, filter, join, count. Data that you do not return costs nothing.
- Use code for many rows, for three or more calls, for anything that repeats or waits. Use it for single calls too:
  there is no other way to call a tool.
- The value is `result` if you set it, else the last expression. `print` is shown as well. Return what you need to go
  on, not what you read: a value over the budget comes back as a preview with its shape, and whole in a file such as
  `results/<id>.json`, which the next run of the same session can read.
- `rows = f()` and `rows = await f()` both work; `asyncio.gather(f(), g())` runs calls at the same time.
- A tool's answer is plain data (dict, list, str, numbers). Images and binary data are files in the workspace.
- A tool that fails raises `ToolError` with the server's message. A wrong argument is refused before anything is sent;
  the message names the parameter and what is expected.
- Who the user is, and whatever else belongs to the request, comes in `context`: use the variables. Do not write such
  values into the code.
- The working directory is the workspace: files stay there for later runs of the same `session`.
- `from tool_discovery import search_tools` searches from inside the code. `/servers/<server>/<tool>.py` can be read.

## Filtering

```python
from servers.expenses import list_expenses

rows = list_expenses(since="2024-10-01")
big = [row for row in rows if row["amount"] > 1000]
print(len(rows), "rows,", len(big), "over 1000")
result = sorted(big, key=lambda row: -row["amount"])[:5]
```

## Rows without code

For one question about one set of rows, `execute_analysis` is enough. The rows come straight from a tool, from a file of
the workspace (`{"workspace": "results/….json"}`: JSON, JSON lines, CSV or Parquet) or from `data`, and do not pass
through your context:

```json
{"analysis_type": "aggregate",
 "source": {"tool": "mcp__expenses__list_expenses", "arguments": {"since": "2024-10-01"}},
 "parameters": {"conditions": [{"field": "amount", "operator": ">", "value": 100}], "group_by": ["category"],
                "aggregations": [{"function": "sum", "field": "amount", "as": "total"}],
                "sort": [{"field": "total", "descending": true}], "limit": 5}}
```

- `filter`: `conditions` with `field`, `operator` (`==` `!=` `>` `<` `>=` `<=` `in` `not_in` `contains` `starts_with`
  `matches` `is_null` `between`) and `value`; `logic` is `AND` or `OR`, and conditions nest.
- `transform`: `steps`, one after the other: `select`, `rename`, `cast`, `compute` (`{"total": "price * quantity"}`),
  `flatten`, `pivot`, `join`, `sort`, `limit`.
- `validate`: `rules` such as `{"field": "amount", "type": "number", "min": 0, "required": true}`.
- `statistics`: `operation` is `describe`, `percentiles`, `correlation`, `resample`, `rolling`, `outliers`, `t_test`, …

What is wrong with a parameter is answered with what was expected and the nearest field.

## Several steps over several servers

```python
import asyncio
from servers.trips import find_parks, weather_forecast

parks = find_parks(state="UT")
forecasts = await asyncio.gather(*[weather_forecast(park_id=park["id"], days=3) for park in parks])
result = [
    {"park": park["name"], "dry": all(day["rain_mm"] == 0 for day in forecast["days"])}
    for park, forecast in zip(parks, forecasts)
]
```

## Private values

Names, addresses, numbers and keys come as tokens such as `__PII_email_3f9a1c5e7b20__`. A tool that is given a token
gets the real value; you and your code never see it.

- Equal values have equal tokens within a session: compare, join, group and count by them.
- Pass a token on unchanged, as the whole value of an argument. Inside a longer text it is refused unless the gateway
  lets that tool have it so. What is no token of this session is refused with `UnknownToken`.
- To choose by what a value says, such as a domain or a year, let the tool filter: it sees the real values.
- A value that you or your code wrote has another token than the same value of a tool.

```python
from servers.customers import list_customers
from servers.mail import send_mail

rows = [row for row in list_customers(plan="pro", country="PL") if row["spent"] > 3000]
for row in rows:
    send_mail(to=row["email"], subject="Thank you", body="Thank you for your order.")
result = f"{len(rows)} mails"
```

## Waiting for something

```python
import time
from servers.trips import get_route_search, start_route_search

search = start_route_search(origin="Denver", destination="Moab")
while search["status"] == "running":
    time.sleep(1)
    search = get_route_search(search_id=search["search_id"])
result = search["routes"][:3]
```

A run lasts at most 120 seconds. To do something else meanwhile, pass `background=true`: the answer is an
`execution_id`. Call `execute_code(execution_id=...)` to see its output so far and, when it is over, its result; add
`cancel=true` to stop it.

## Skills

Before you write code for a job that sounds like one that comes again, look for it: `find_skills("total per month")`.
What is found is imported like a module, also by other skills, and its signature says what it takes:

```python
from skills import monthly_total

result = monthly_total(since="2024-10-01")
```

When code of yours has worked and will be wanted again, keep it. Make what changes from time to time an input, write no
private value into it, and give an example with the inputs of the run that worked: it is replayed with what the tools
answered then, and no tool that changes anything is called.

```python
def monthly_total(since: str, minimum: float = 0) -> dict:
    "Sum of expenses by month."
    from servers.expenses import list_expenses

    totals = {}
    for row in list_expenses(since=since):
        if row["amount"] >= minimum:
            totals[row["date"][:7]] = totals.get(row["date"][:7], 0) + row["amount"]
    return totals
```

A skill without a passing example is a draft: you can import it, others cannot. Saving the same name again makes a new
version; `load_skill("monthly_total@1.2")` reads an older one. When a tool has changed since a skill was written, its
calls are translated where that is safe; where it is not, the import says what has to be migrated.

## When something fails

Read the error: it names the line and usually what to do. Fix that line and run again; files of the session are still
there. If a tool does not do what you expected, print one of its answers and look at it before you go on.

A call may wait until a person has allowed it; the time for that is not the run's. `PolicyRefused` and `ApprovalRefused`
are final: tell the user who refused and why, and do not try the same in another way.
"""
