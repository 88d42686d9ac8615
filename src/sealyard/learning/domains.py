"""The domain that a principal works in, inferred from the tools it uses: one of a closed list.

The list of words is ours. A tool's description can only move that tool from one domain of the list to another.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from sealyard.learning.part import CAP, Insight, Lesson, PartInsights, Viewer, part_insights, put_last
from sealyard.values import RunEvidence, ToolSpec

# Tuned values. A bound limits memory or the cost of hostile input. Without a source named, a value was chosen, not
# measured.

PRINCIPALS = 1_000  # principals remembered, the last heard: a bound
_DESCRIPTION_CHARACTERS = 300  # characters of a description that are read: a bound
_NAME_CHARACTERS = 256  # characters of a name that are read: a bound
_NAME_WEIGHT = 3.0  # weight of a word in a name against one in a description, which a server writes at will
_LEAST = 2.0  # score from which a tool belongs to a domain: one word of a name, or two of a description
_MOST_TOOLS = 40  # tools that are asked: a bound
_SURE = 2.0  # runs, as they count now, before a domain is assumed
_MOSTLY = 0.5  # least share of them in that domain

_LEXICON = {
    "data": "aggregate analytics bigquery chart clickhouse column csv dashboard dataframe dataset database databricks"
    " duckdb elastic elasticsearch etl histogram metric mongo mongodb mysql pandas parquet pivot plot postgres"
    " postgresql query redis redshift regression schema snowflake spreadsheet sql sqlite statistics statistic table"
    " timeseries warehouse",
    "code": "branch build ci commit compile debugger diff git github gitlab bitbucket issue jenkins linter lint merge"
    " npm package pipeline pr pull pypi refactor release repo repos repository repositories sentry snippet sonar symbol"
    " typescript unittest workflow",
    "communication": "chat channel channels conversation discord email emails gmail inbox mail mails mailbox message"
    " messages messaging notification outlook phone recipient reply slack sms telegram thread twilio voicemail whatsapp"
    " zoom meeting calendar attendee invite",
    "files": "archive directory directories disk document documents download drive dropbox file files filename"
    " filesystem folder folders fs onedrive path pdf rename sharepoint storage upload zip s3 bucket",
    "web": "brave browse browser click crawl crawler dom fetch google html http link navigate page playwright"
    " puppeteer rss scrape scraper screenshot selenium selector serp sitemap tab tavily url urls web webpage website",
    "travel": "airbnb airline airport arrival book booking bookings campground campgrounds campsite car checkin cruise"
    " departure destination flight flights forecast hike hotel hotels itinerary lodging map maps park parks passenger"
    " places reservation restaurant route routes taxi train trip trips travel weather",
    "finance": "account accounting accounts balance bank banking bitcoin bond budget card coin crypto currency"
    " dividend equity exchange expense expenses fx invoice invoices ledger loan money payment payments payroll"
    " portfolio price quickbooks quote receipt refund stock stocks stripe tax ticker trade transaction transactions"
    " transfer wallet xero",
    "commerce": "amazon cart catalog checkout coupon crm customer customers delivery discount ebay hubspot inventory"
    " lead listing merchant order orders product products purchase salesforce seller shipment shipping shop shopify"
    " sku store subscription vendor warehouse woocommerce",
    "knowledge": "answer arxiv article articles book books citation confluence dictionary documentation encyclopedia"
    " entity graph knowledge library memory news notes note notion ontology page paper papers pubmed recall research"
    " semantic summary translate translation wiki wikipedia",
    "operations": "alert alerts alarm aws azure backup cloud cloudflare cluster container containers cpu datadog deploy"
    " deployment dns docker ec2 gcp grafana incident incidents instance k8s kubernetes lambda log logs monitor"
    " monitoring namespace network node nodes pagerduty pod pods prometheus restart rollback server servers service"
    " services ssh terraform uptime vm",
}
DOMAINS = (*_LEXICON, "general")
"""All domains; the last stands for everything else."""


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+[0-9]?[a-z]*|[a-z0-9]+")
_BY_WORD: dict[str, tuple[str, ...]] = {}
for _domain, _words in _LEXICON.items():
    for _word in _words.split():
        _BY_WORD[_word] = (*_BY_WORD.get(_word, ()), _domain)


def infer(tools: Iterable[ToolSpec | str]) -> str:
    """The domain that most of the tools belong to, given as specs or by their full names; `general` if none does."""
    scores: defaultdict[str, float] = defaultdict(float)
    for _, tool in zip(range(_MOST_TOOLS), tools, strict=False):
        if isinstance(tool, str):
            domain = _domain_of(tool[:_NAME_CHARACTERS], "")
        else:
            name = f"{tool.upstream} {tool.name}"[:_NAME_CHARACTERS]
            domain = _domain_of(name, tool.description[:_DESCRIPTION_CHARACTERS])
        scores[domain] += 0.5 if domain == "general" else 1.0  # tools that fit nowhere say little
    return max(DOMAINS, key=lambda domain: scores[domain]) if scores else "general"


@lru_cache(maxsize=8_192)
def _domain_of(name: str, description: str) -> str:
    scores: defaultdict[str, float] = defaultdict(float)
    for text, weight in ((name, _NAME_WEIGHT), (description, 1.0)):
        for word in dict.fromkeys(_words_of(text)):
            domains = _BY_WORD.get(word, ())
            for domain in domains:
                scores[domain] += weight / len(domains)
    best = max(_LEXICON, key=lambda domain: scores[domain])
    return best if scores[best] >= _LEAST else "general"


def _words_of(text: str) -> Iterator[str]:
    for word in _WORDS.findall(text):
        yield word.lower()


class Work(msgspec.Struct, array_like=True):
    """The work of one principal."""

    weights: dict[str, float] = {}
    at: float = 0.0


class Domains(msgspec.Struct, kw_only=True):
    """The domain in which each principal mostly works."""

    principals: dict[str, Work] = {}
    runs: int = 0
    told: int = 0
    """Runs of principals whose domain was known before."""
    right: int = 0
    """Runs that were of that domain."""

    def learn(self, lesson: Lesson, half_life: float) -> None:
        """Count a run that called tools, for its configured domain or else for that of its tools."""
        if not isinstance(lesson.event, RunEvidence):
            return
        fact = lesson.event.fact
        domain = fact.domain or (infer(fact.tools) if fact.tools else "")
        if not domain:
            return
        viewer = lesson.viewer(half_life)
        at, principal = fact.at, fact.principal
        expected = self.tell(viewer)
        self.runs += 1
        self.told += expected is not None
        self.right += expected == domain
        work = put_last(self.principals, principal, self.principals.get(principal) or Work(at=at), PRINCIPALS)
        share = viewer.faded(work.at)
        work.weights = {name: weight * share for name, weight in work.weights.items()}
        work.weights[domain] = work.weights.get(domain, 0.0) + 1.0
        whole, work.at = sum(work.weights.values()), max(at, work.at)
        # What somebody does now is told from their last runs, however many they have made.
        scale = min(1.0, 2 * CAP / whole)
        kept = sorted(work.weights.items(), key=lambda item: (-item[1], item[0]))[: len(DOMAINS)]
        work.weights = {name: weight * scale for name, weight in sorted(kept)}

    def tell(self, viewer: Viewer) -> str | None:
        """The domain that the viewer mostly works in; None if there is too little evidence."""
        work = self.principals.get(viewer.principal)
        if work is None or not work.weights:
            return None
        best = max(sorted(work.weights), key=lambda name: work.weights[name])
        whole = sum(work.weights.values())
        is_sure = whole * viewer.faded(work.at) >= _SURE and work.weights[best] >= _MOSTLY * whole
        return best if is_sure else None

    def score(self) -> tuple[int, int]:
        """Runs of principals whose domain was known before, and those that were of that domain."""
        return self.told, self.right

    def insights(self, viewer: Viewer) -> PartInsights:
        """The number of principals in each domain. No principal is named, nor a domain that is not in our list."""
        found: dict[str, list[Work]] = {}
        for principal, work in self.principals.items():
            domain = self.tell(msgspec.structs.replace(viewer, principal=principal))
            if domain is not None:
                found.setdefault(domain if domain in DOMAINS else "another domain", []).append(work)
        items = [
            Insight(
                kind="domain",
                subject=domain,
                text=f"{len(works)} {'principal works' if len(works) == 1 else 'principals work'} mostly on {domain}.",
                evidence=sum(sum(work.weights.values()) * viewer.faded(work.at) for work in works),
                principals=len(works),
                last_at=max(work.at for work in works),
            )
            for domain, works in found.items()
        ]
        return part_insights("domains", items, learned=len(items), evidence=self.runs, score=self.score())
