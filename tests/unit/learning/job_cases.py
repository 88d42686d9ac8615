"""Code that does the same job as a skill, written otherwise, and code that does another one.

The threshold was set with the tuned ones. What counts as a field was changed once after the held-out ones were seen,
and nothing after the blind ones.
"""

import textwrap
from typing import NamedTuple


class Job(NamedTuple):
    """A skill, code that it could replace, and code that it could not."""

    skill: str
    same: tuple[str, ...]
    other: tuple[str, ...]


def _job(skill: str, same: str, other: str) -> Job:
    return Job(
        textwrap.dedent(skill), *(tuple(map(str.strip, textwrap.dedent(each).split("---"))) for each in (same, other))
    )


TUNED = {
    "monthly_total": _job(
        '''
        def monthly_total(since: str, minimum: float = 0) -> dict:
            """Sum of expenses by month."""
            from servers.books import list_rows

            totals = {}
            for row in list_rows(since=since):
                if row["amount"] >= minimum:
                    totals[row["month"]] = totals.get(row["month"], 0) + row["amount"]
            return totals
        ''',
        """
        from servers.books import list_rows

        sums = {}
        for r in list_rows(since="2024-10-01"):
            if r["amount"] >= 5:
                sums[r["month"]] = sums.get(r["month"], 0) + r["amount"]
        result = sums
        ---
        from servers.books import list_rows as rows_of
        print("starting")
        by_month = {}
        rows = rows_of(since=start)
        print(len(rows), "rows")
        for expense in rows:
            print(expense["month"], expense["amount"])
            if expense["amount"] >= floor:
                by_month[expense["month"]] = by_month.get(expense["month"], 0) + expense["amount"]
        by_month
        ---
        import servers.books as books

        async def work():
            out = dict()
            for item in await books.list_rows(since="2023-01-01"):
                if item["amount"] >= 100.0:
                    out[item["month"]] = out.get(item["month"], 0.0) + item["amount"]
            return out

        result = await work()
        ---
        from servers import books
        limit = 10
        totals = {}
        for row in books.list_rows(since=context["since"]):
            if row["amount"] >= limit:
                month = row["month"]
                totals[month] = totals.get(month, 0) + row["amount"]
        print(totals)
        """,
        """
        from servers.books import list_invoices

        sums = {}
        for r in list_invoices(since="2024-10-01"):
            if r["amount"] >= 5:
                sums[r["month"]] = sums.get(r["month"], 0) + r["amount"]
        result = sums
        ---
        from servers.books import list_rows

        best = {}
        for r in list_rows(since="2024-10-01"):
            if r["amount"] >= 5:
                best[r["month"]] = max(best.get(r["month"], 0), r["amount"])
        result = best
        ---
        from servers.books import list_rows

        counts = {}
        for r in list_rows(since="2024-10-01"):
            if r["vendor"] != "x":
                counts[r["vendor"]] = counts.get(r["vendor"], 0) + 1
        result = counts
        ---
        from servers.books import list_rows

        sums = {}
        for r in list_rows(since="2024-10-01"):
            if r["amount"] < 5:
                sums[r["month"]] = sums.get(r["month"], 0) + r["amount"]
        result = sums
        ---
        from servers.books import list_rows

        sums = {}
        for r in list_rows(since="2024-10-01"):
            if r["amount"] >= 5:
                sums[r["month"]] = sums.get(r["month"], 0) + r["tax"]
        result = sums
        ---
        from servers.books import list_rows
        result = [r["amount"] for r in list_rows(since="2024-10-01") if r["amount"] >= 5]
        ---
        from servers.books import list_rows, pay

        sums = {}
        for r in list_rows(since="2024-10-01"):
            if r["amount"] >= 5:
                sums[r["month"]] = sums.get(r["month"], 0) + r["amount"]
        for month in sums:
            pay(amount=sums[month])
        """,
    ),
    "open_issues": _job(
        '''
        def open_issues(repo: str, label: str) -> list:
            """Titles of open issues with a label, the oldest first."""
            from servers.tracker import list_issues

            found = [issue for issue in list_issues(repository=repo, state="open") if label in issue["labels"]]
            return [issue["title"] for issue in sorted(found, key=lambda issue: issue["created_at"])]
        ''',
        """
        from servers.tracker import list_issues
        bugs = [i for i in list_issues(repository="a/b", state="open") if "bug" in i["labels"]]
        result = [i["title"] for i in sorted(bugs, key=lambda i: i["created_at"])]
        ---
        from servers.tracker import list_issues
        print("looking")
        everything = list_issues(repository=repo, state="open")
        matching = [each for each in everything if wanted in each["labels"]]
        matching = sorted(matching, key=lambda each: each["created_at"])
        for each in matching:
            print(each["title"])
        [each["title"] for each in matching]
        ---
        import servers.tracker as t

        def titles(name, tag):
            issues = [x for x in t.list_issues(repository=name, state="open") if tag in x["labels"]]
            return [x["title"] for x in sorted(issues, key=lambda x: x["created_at"])]

        print(titles("team/app", "urgent"))
        """,
        """
        from servers.tracker import list_pulls
        bugs = [i for i in list_pulls(repository="a/b", state="open") if "bug" in i["labels"]]
        result = [i["title"] for i in sorted(bugs, key=lambda i: i["created_at"])]
        ---
        from servers.tracker import list_issues
        result = len([i for i in list_issues(repository="a/b", state="open") if "bug" in i["labels"]])
        ---
        from servers.tracker import list_issues
        by_author = {}
        for i in sorted(list_issues(repository="a/b", state="closed"), key=lambda i: i["closed_at"]):
            by_author.setdefault(i["author"], []).append(i["number"])
        result = by_author
        ---
        from servers.tracker import list_issues
        bugs = [i for i in list_issues(repository="a/b", state="open") if "bug" in i["labels"]]
        result = max(bugs, key=lambda i: i["created_at"])["title"]
        """,
    ),
    "mail_report": _job(
        """
        def mail_report(to: str, day: str) -> str:
            from servers.sales import daily_figures
            from servers.mail import send

            figures = daily_figures(day=day)
            lines = [f"{each['shop']}: {each['revenue']:.2f}" for each in figures["shops"]]
            total = sum(each["revenue"] for each in figures["shops"])
            body = "\\n".join([*lines, f"total: {total:.2f}"])
            send(to=to, subject=f"Sales of {day}", body=body)
            return body
        """,
        """
        from servers.mail import send
        from servers.sales import daily_figures

        data = daily_figures(day="2024-11-01")
        total = sum(s["revenue"] for s in data["shops"])
        rows = [f"{s['shop']}: {s['revenue']}" for s in data["shops"]]
        text = "\\n".join([*rows, f"sum: {total}"])
        print(text)
        send(to="a@example.org", subject="Figures", body=text)
        ---
        import servers.mail as mail
        import servers.sales as sales

        when, who = "2024-11-02", "b@example.org"
        got = await sales.daily_figures(day=when)
        shops = got["shops"]
        lines = [f"{shop['shop']}: {shop['revenue']:.2f}" for shop in shops]
        total = sum(shop["revenue"] for shop in shops)
        message = "\\n".join([*lines, f"total: {total:.2f}"])
        await mail.send(to=who, subject=f"Sales of {when}", body=message)
        result = message
        """,
        """
        from servers.mail import send
        from servers.sales import daily_figures

        data = daily_figures(day="2024-11-01")
        best = max(data["shops"], key=lambda s: s["revenue"])
        send(to="a@example.org", subject="Best shop", body=best["shop"])
        ---
        from servers.chat import post
        from servers.sales import daily_figures

        data = daily_figures(day="2024-11-01")
        total = sum(s["revenue"] for s in data["shops"])
        rows = [f"{s['shop']}: {s['revenue']}" for s in data["shops"]]
        text = "\\n".join([*rows, f"sum: {total}"])
        post(to="a@example.org", subject="Figures", body=text)
        ---
        from servers.mail import send
        from servers.sales import daily_figures
        a, b = daily_figures(day="2024-11-01"), daily_figures(day="2024-11-02")
        change = sum(s["visits"] for s in b["shops"]) - sum(s["visits"] for s in a["shops"])
        send(to="x@example.org", subject="Change", body=str(change))
        """,
    ),
    "outliers": _job(
        """
        def outliers(values: list, times: float = 3) -> list:
            import statistics

            middle = statistics.mean(values)
            spread = statistics.stdev(values)
            if spread == 0:
                return []
            return [value for value in values if abs(value - middle) / spread > times]
        """,
        """
        import statistics
        m = statistics.mean(xs)
        s = statistics.stdev(xs)
        if s == 0:
            result = []
        else:
            result = [x for x in xs if abs(x - m) / s > 2.5]
        ---
        from statistics import mean, stdev
        numbers = [1, 2, 3, 100]
        print("numbers", numbers)
        deviation = stdev(numbers)
        average = mean(numbers)
        print(average, deviation)
        if deviation == 0:
            print("all the same")
        far = [n for n in numbers if abs(n - average) / deviation > 2]
        far
        """,
        """
        import statistics
        m = statistics.median(xs)
        s = statistics.stdev(xs)
        result = [x for x in xs if abs(x - m) / s > 2.5]
        ---
        import statistics
        m = statistics.mean(xs)
        s = statistics.stdev(xs)
        result = [x for x in xs if abs(x - m) / s < 2.5]
        ---
        import statistics
        m = statistics.mean(xs)
        s = statistics.stdev(xs)
        result = {"mean": m, "stdev": s, "z": [(x - m) / s for x in xs]}
        ---
        import statistics
        m, s = statistics.mean(xs), statistics.stdev(xs)
        low, high = m - 2 * s, m + 2 * s
        print(f"{low} to {high}")
        """,
    ),
    "latest_prices": _job(
        """
        def latest_prices(symbols: list) -> dict:
            from servers.market import quote

            prices = {}
            for symbol in symbols:
                answer = quote(symbol=symbol)
                if answer.get("price") is not None:
                    prices[symbol] = {"price": answer["price"], "currency": answer["currency"]}
            return prices
        """,
        """
        from servers.market import quote
        out = {}
        for s in ["AAA", "BBB"]:
            q = quote(symbol=s)
            if q.get("price") is not None:
                out[s] = {"price": q["price"], "currency": q["currency"]}
        out
        ---
        wanted = ["AAA"]
        table = {}
        for ticker in wanted:
            print("asking for", ticker)
            found = call_tool("mcp__market__quote", {"symbol": ticker})
            if found.get("price") is not None:
                table[ticker] = {"price": found["price"], "currency": found["currency"]}
        print(table)
        """,
        """
        from servers.market import quote
        total = 0
        for s, shares in holdings.items():
            total += quote(symbol=s)["price"] * shares
        result = total
        ---
        from servers.market import history
        out = {}
        for s in ["AAA", "BBB"]:
            q = history(symbol=s)
            if q.get("price") is not None:
                out[s] = {"price": q["price"], "currency": q["currency"]}
        out
        ---
        from servers.market import quote
        result = sorted((quote(symbol=s)["change"], s) for s in symbols)[-3:]
        """,
    ),
}

HELD_OUT = {
    "unpaid_invoices": _job(
        """
        def unpaid_invoices(customer: str, today: str) -> dict:
            from servers.billing import list_invoices

            late = []
            owed = 0
            for invoice in list_invoices(customer_id=customer):
                if invoice["status"] == "open" and invoice["due"] < today:
                    late.append(invoice["id"])
                    owed += invoice["total"]
            return {"late": late, "owed": owed}
        """,
        """
        from servers.billing import list_invoices
        amount, ids = 0, []
        for inv in list_invoices(customer_id="c-17"):
            if inv["status"] == "open" and inv["due"] < "2024-11-01":
                amount += inv["total"]
                ids.append(inv["id"])
        result = {"ids": ids, "amount": amount}
        ---
        from servers.billing import list_invoices
        invoices = list_invoices(customer_id=who)
        print(f"{len(invoices)} invoices")
        sum_open = 0
        overdue = []
        for one in invoices:
            print(one["id"])
            if one["status"] == "open" and one["due"] < now:
                overdue.append(one["id"])
                sum_open += one["total"]
        print(overdue, sum_open)
        ---
        from servers import billing

        async def main(c):
            overdue, money = [], 0
            for x in await billing.list_invoices(customer_id=c):
                if x["status"] == "open" and x["due"] < "2025-01-01":
                    overdue.append(x["id"])
                    money += x["total"]
            return overdue, money

        result = await main("c-9")
        """,
        """
        from servers.billing import list_credits
        amount, ids = 0, []
        for inv in list_credits(customer_id="c-17"):
            if inv["status"] == "open" and inv["due"] < "2024-11-01":
                amount += inv["total"]
                ids.append(inv["id"])
        result = {"ids": ids, "amount": amount}
        ---
        from servers.billing import list_invoices
        amount, ids = 0, []
        for inv in list_invoices(customer_id="c-17"):
            if inv["status"] == "open" and inv["due"] > "2024-11-01":
                amount += inv["total"]
                ids.append(inv["id"])
        result = {"ids": ids, "amount": amount}
        ---
        from servers.billing import list_invoices
        amount, ids = 0, []
        for inv in list_invoices(customer_id="c-17"):
            if inv["status"] == "open" and inv["issued"] < "2024-11-01":
                amount += inv["vat"]
                ids.append(inv["id"])
        result = {"ids": ids, "amount": amount}
        ---
        from servers.billing import list_invoices
        paid = {}
        for inv in list_invoices(customer_id="c-17"):
            if inv["status"] == "paid":
                paid[inv["year"]] = paid.get(inv["year"], 0) + inv["total"]
        result = paid
        ---
        from servers.billing import list_invoices
        result = max(list_invoices(customer_id="c-17"), key=lambda inv: inv["total"])
        ---
        from servers.billing import list_invoices
        last = None
        for inv in list_invoices(customer_id="c-17"):
            if last is None or inv["issued"] > last["issued"]:
                last = inv
        result = last
        """,
    ),
    "weather_summary": _job(
        """
        def weather_summary(city: str, days: int) -> dict:
            from servers.weather import forecast

            found = forecast(city=city, days=days)
            temperatures = [day["temperature"] for day in found["days"]]
            wet = [day["date"] for day in found["days"] if day["rain"] > 1]
            return {"low": min(temperatures), "high": max(temperatures), "wet": wet}
        """,
        """
        from servers.weather import forecast
        f = forecast(city="Oslo", days=5)
        rainy = [d["date"] for d in f["days"] if d["rain"] > 2]
        t = [d["temperature"] for d in f["days"]]
        print(min(t), max(t))
        print(rainy)
        ---
        import servers.weather as w
        answer = await w.forecast(city=place, days=7)
        temps = [entry["temperature"] for entry in answer["days"]]
        wet_days = [entry["date"] for entry in answer["days"] if entry["rain"] > limit]
        result = {"min": min(temps), "max": max(temps), "rain": wet_days}
        """,
        """
        from servers.weather import history
        f = history(city="Oslo", days=5)
        rainy = [d["date"] for d in f["days"] if d["rain"] > 2]
        t = [d["temperature"] for d in f["days"]]
        print(min(t), max(t), rainy)
        ---
        from servers.weather import forecast
        f = forecast(city="Oslo", days=5)
        t = [d["temperature"] for d in f["days"]]
        result = sum(t) / len(t)
        ---
        from servers.weather import forecast
        f = forecast(city="Oslo", days=5)
        windy = [d["date"] for d in f["days"] if d["wind"] > 2]
        t = [d["temperature"] for d in f["days"]]
        print(min(t), max(t))
        print(windy)
        ---
        from servers.weather import forecast
        a, b = forecast(city="Oslo", days=1), forecast(city="Rome", days=1)
        result = max(a["days"][0]["wind"], b["days"][0]["wind"]) - min(a["days"][0]["wind"], b["days"][0]["wind"])
        """,
    ),
    "duplicates": _job(
        """
        def duplicates(records: list, key: str) -> list:
            from collections import Counter

            counts = Counter(record[key].strip().lower() for record in records)
            repeated = {value for value, count in counts.items() if count > 1}
            return [record for record in records if record[key].strip().lower() in repeated]
        """,
        """
        from collections import Counter
        c = Counter(r[field].strip().lower() for r in rows)
        dup = {v for v, n in c.items() if n > 1}
        result = [r for r in rows if r[field].strip().lower() in dup]
        ---
        import collections
        print(len(people), "people")
        seen = collections.Counter(p[k].strip().lower() for p in people)
        twice = {name for name, times in seen.items() if times > 1}
        for p in people:
            print(p)
        [p for p in people if p[k].strip().lower() in twice]
        """,
        """
        from collections import Counter
        c = Counter(r[field].strip().lower() for r in rows)
        result = c.most_common(10)
        ---
        from collections import Counter
        c = Counter(word.lower() for line in text.splitlines() for word in line.split())
        result = {w: n for w, n in c.items() if n > 5}
        ---
        from collections import defaultdict
        groups = defaultdict(list)
        for r in rows:
            groups[r[field].strip().lower()].append(r)
        result = [g for g in groups.values() if g[1:]]
        """,
    ),
    "team_load": _job(
        """
        def team_load(team: str) -> list:
            from servers.people import members
            from servers.tasks import assigned

            load = []
            for person in members(team=team)["members"]:
                open_tasks = [task for task in assigned(user_id=person["id"]) if not task["done"]]
                load.append({"name": person["name"], "open": len(open_tasks)})
            load.sort(key=lambda each: each["open"], reverse=True)
            return load
        """,
        """
        from servers.people import members
        from servers.tasks import assigned
        table = []
        for m in members(team="core")["members"]:
            todo = [t for t in assigned(user_id=m["id"]) if not t["done"]]
            table.append({"who": m["name"], "tasks": len(todo)})
        table.sort(key=lambda row: row["tasks"], reverse=True)
        result = table
        ---
        import servers.people as people
        import servers.tasks as tasks
        people_of_team = people.members(team=name)["members"]
        out = []
        for one in people_of_team:
            print("person", one["name"])
            waiting = [x for x in tasks.assigned(user_id=one["id"]) if not x["done"]]
            out.append({"name": one["name"], "open": len(waiting)})
        out.sort(key=lambda x: x["open"], reverse=True)
        print(out)
        """,
        """
        from servers.people import members
        from servers.tasks import assigned, remind
        for m in members(team="core")["members"]:
            for t in assigned(user_id=m["id"]):
                if not t["done"]:
                    remind(task_id=t["id"])
        ---
        from servers.people import members
        from servers.tasks import assigned
        result = {m["name"]: max(t["due"] for t in assigned(user_id=m["id"])) for m in members(team="core")["members"]}
        ---
        from servers.people import members
        from servers.tasks import assigned
        done = 0
        for m in members(team="core")["members"]:
            done += len([t for t in assigned(user_id=m["id"]) if t["done"] and t["closed"] > "2024"])
        result = done
        """,
    ),
}

BLIND = {
    "backup_age": _job(
        """
        def backup_age(bucket: str, now: float) -> dict:
            from servers.storage import list_objects

            newest = {}
            for item in list_objects(bucket=bucket, prefix="backups/"):
                host = item["key"].split("/")[1]
                newest[host] = max(newest.get(host, 0), item["modified"])
            return {host: round((now - at) / 3600, 1) for host, at in newest.items()}
        """,
        """
        from servers.storage import list_objects
        import time
        latest = {}
        for o in list_objects(bucket="prod", prefix="backups/"):
            h = o["key"].split("/")[1]
            latest[h] = max(latest.get(h, 0), o["modified"])
        print("hosts", len(latest))
        result = {h: round((current - t) / 3600, 2) for h, t in latest.items()}
        ---
        import servers.storage as s3
        seen = {}
        objects = s3.list_objects(bucket=name, prefix="nightly/")
        for one in objects:
            machine = one["key"].split("/")[1]
            seen[machine] = max(seen.get(machine, 0), one["modified"])
        ages = {machine: round((when - stamp) / 3600, 1) for machine, stamp in seen.items()}
        print(ages)
        """,
        """
        from servers.storage import list_objects
        oldest = {}
        for o in list_objects(bucket="prod", prefix="backups/"):
            h = o["key"].split("/")[1]
            oldest[h] = min(oldest.get(h, 0), o["modified"])
        result = {h: round((current - t) / 3600, 2) for h, t in oldest.items()}
        ---
        from servers.storage import list_objects
        size = {}
        for o in list_objects(bucket="prod", prefix="backups/"):
            h = o["key"].split("/")[1]
            size[h] = size.get(h, 0) + o["size"]
        result = {h: round(total / 1e9, 1) for h, total in size.items()}
        ---
        from servers.storage import list_objects, delete_object
        for o in list_objects(bucket="prod", prefix="backups/"):
            if (current - o["modified"]) / 3600 > 100:
                delete_object(bucket="prod", key=o["key"])
        """,
    ),
    "meeting_hours": _job(
        """
        def meeting_hours(user: str, since: str, until: str) -> float:
            from datetime import datetime
            from servers.calendar import events

            minutes = 0
            for event in events(user=user, start=since, end=until):
                if event["declined"] or event["all_day"]:
                    continue
                begins, ends = datetime.fromisoformat(event["start"]), datetime.fromisoformat(event["end"])
                minutes += (ends - begins).total_seconds() / 60
            return minutes / 60
        """,
        """
        from datetime import datetime
        from servers.calendar import events
        total = 0
        for e in events(user="u1", start="2024-11-01", end="2024-11-30"):
            if e["declined"] or e["all_day"]:
                continue
            a, b = datetime.fromisoformat(e["start"]), datetime.fromisoformat(e["end"])
            total += (b - a).total_seconds() / 60
        result = total / 60
        ---
        import datetime
        import servers.calendar as cal
        spent = 0
        for ev in await cal.events(user=who, start=first, end=last):
            if ev["declined"] or ev["all_day"]:
                print("skipped", ev["start"])
                continue
            begin = datetime.datetime.fromisoformat(ev["start"])
            finish = datetime.datetime.fromisoformat(ev["end"])
            spent += (finish - begin).total_seconds() / 60
        print(f"{spent / 60} hours")
        spent / 60
        """,
        """
        from datetime import datetime
        from servers.calendar import events
        longest = 0
        for e in events(user="u1", start="2024-11-01", end="2024-11-30"):
            if e["declined"] or e["all_day"]:
                continue
            a, b = datetime.fromisoformat(e["start"]), datetime.fromisoformat(e["end"])
            longest = max(longest, (b - a).total_seconds() / 60)
        result = longest / 60
        ---
        from servers.calendar import events
        result = [e["title"] for e in events(user="u1", start="2024-11-01", end="2024-11-30") if not e["declined"]]
        ---
        from datetime import datetime
        from servers.calendar import events
        late = 0
        for e in events(user="u1", start="2024-11-01", end="2024-11-30"):
            if datetime.fromisoformat(e["start"]).hour > 17:
                late += 1
        result = late
        """,
    ),
    "word_counts": _job(
        """
        def word_counts(folder: str) -> dict:
            from servers.files import list_directory, read_file

            counts = {}
            for entry in list_directory(path=folder)["entries"]:
                if entry["name"].endswith(".md"):
                    text = read_file(path=f"{folder}/{entry['name']}")["content"]
                    counts[entry["name"]] = len(text.split())
            return dict(sorted(counts.items(), key=lambda each: -each[1]))
        """,
        """
        from servers.files import list_directory, read_file
        sizes = {}
        for f in list_directory(path="notes")["entries"]:
            if f["name"].endswith(".txt"):
                body = read_file(path="notes/" + f["name"])["content"]
                sizes[f["name"]] = len(body.split())
        result = dict(sorted(sizes.items(), key=lambda kv: -kv[1]))
        ---
        from servers import files
        found = {}
        print("reading")
        for one in files.list_directory(path=where)["entries"]:
            if one["name"].endswith(".md"):
                content = files.read_file(path=f"{where}/{one['name']}")["content"]
                print(one["name"], len(content))
                found[one["name"]] = len(content.split())
        found = dict(sorted(found.items(), key=lambda item: -item[1]))
        found
        """,
        """
        from servers.files import list_directory, write_file
        for f in list_directory(path="notes")["entries"]:
            if f["name"].endswith(".txt"):
                write_file(path="notes/" + f["name"], content="")
        ---
        from servers.files import list_directory, read_file
        hits = []
        for f in list_directory(path="notes")["entries"]:
            if f["name"].endswith(".txt") and "todo" in read_file(path="notes/" + f["name"])["content"]:
                hits.append(f["name"])
        result = hits
        ---
        from servers.files import list_directory, read_file
        entries = list_directory(path=".")["entries"]
        result = max((len(read_file(path=f["name"])["content"]), f["name"]) for f in entries)
        """,
    ),
}
