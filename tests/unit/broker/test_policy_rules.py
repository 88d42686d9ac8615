"""Rules and presets: which decides, what nobody can talk them out of, and which tools are hidden."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sealyard.broker.policy.rules import (
    UNLIMITED,
    Decision,
    Policy,
    PolicySettings,
    Preset,
    Rule,
    Step,
    ToolLimits,
    default_preset,
)
from sealyard.errors import InvalidConfig
from sealyard.values.tools import ToolAnnotations, ToolSpec

RANK = {"allow": 0, "ask": 1, "deny": 2}


def tool(name: str = "send", upstream: str = "mail", **said: bool) -> ToolSpec:
    """A tool with what its upstream says about it."""
    return ToolSpec(
        upstream=upstream,
        name=name,
        full_name=f"mcp__{upstream}__{name}",
        module=upstream,
        function=name,
        input_schema={"type": "object", "properties": {"to": {}, "amount": {}}},
        annotations=ToolAnnotations(**said),
        digest="0" * 64,
    )


def policy(*rules: Rule, preset: Preset = "open", trusted: tuple[str, ...] = (), **settings: Any) -> Policy:
    """A policy of these rules."""
    return Policy(PolicySettings(rules=rules, **settings), preset=preset, trusted=trusted)


def verdict(rules: Policy, spec: ToolSpec, arguments: dict[str, Any] | None = None, principal: str = "local") -> str:
    """What becomes of the call."""
    return rules.decide(spec, principal, arguments or {}).verdict


@pytest.mark.parametrize(
    ("said", "trusted", "guarded", "readonly"),
    [
        ({}, False, "ask", "deny"),
        ({}, True, "ask", "deny"),
        ({"read_only": True}, True, "allow", "allow"),
        ({"read_only": True}, False, "ask", "deny"),
        ({"read_only": True, "destructive": False}, False, "ask", "deny"),
        ({"read_only": True, "destructive": True}, True, "allow", "allow"),
        ({"read_only": False}, True, "ask", "deny"),
        ({"read_only": False, "destructive": False}, True, "allow", "deny"),
        ({"destructive": False}, True, "allow", "deny"),
        ({"destructive": False}, False, "ask", "deny"),
        ({"destructive": True}, True, "ask", "deny"),
        ({"destructive": True}, False, "ask", "deny"),
        ({"idempotent": True, "open_world": False}, True, "ask", "deny"),
    ],
)
def test_presets_believe_only_trusted_annotations(
    said: dict[str, bool], trusted: bool, guarded: str, readonly: str
) -> None:
    """What is not said counts as destructive, as the protocol has it; `open` allows everything."""
    spec, names = tool(**said), ("mail",) if trusted else ("other",)

    assert verdict(policy(trusted=names), spec) == "allow"
    assert verdict(policy(preset="guarded", trusted=names), spec) == guarded
    assert verdict(policy(preset="readonly", trusted=names), spec) == readonly


def test_the_default_preset_guards_what_others_can_reach() -> None:
    """On this machine everything works as without a gateway."""
    assert (default_preset(is_local=True), default_preset(is_local=False)) == ("open", "guarded")


@pytest.mark.parametrize(
    ("said", "trusted", "fitting"),
    [
        ({"read_only": True}, True, {"any", "read_only"}),
        ({"destructive": False}, True, {"any", "write"}),
        ({}, True, {"any", "write", "destructive"}),
        ({"read_only": True}, False, {"any", "write", "destructive"}),
        ({"destructive": False}, False, {"any", "write", "destructive"}),
    ],
)
def test_an_effect_is_taken_at_its_worst(said: dict[str, bool], trusted: bool, fitting: set[str]) -> None:
    """A rule for writes fits whatever is not known to read only; one for destruction, what is not known harmless."""
    for effect in ("any", "read_only", "write", "destructive"):
        rules = policy(Rule(decision="deny", effect=effect), trusted=("mail",) if trusted else ())
        assert (verdict(rules, tool(**said)) == "deny") == (effect in fitting)


def test_the_first_rule_that_fits_decides() -> None:
    """Order is all; the decision names the rule and says its reason."""
    rules = policy(
        Rule(decision="deny", tools=("mcp__bank__*",)),
        Rule(decision="ask", tools=("mcp__mail__send*",), reason="Mail goes to people."),
        Rule(decision="deny"),
    )

    assert rules.decide(tool(), "local", {}) == Decision(
        verdict="ask", rule="policy.rules[1]", reason="Mail goes to people."
    )
    assert rules.decide(tool("list"), "local", {}) == Decision(
        verdict="deny", rule="policy.rules[2]", reason="A rule for * denies it."
    )


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("mcp__mail__send", True),
        ("mcp__mail__*", True),
        ("mail/send", True),
        ("mail/*", True),
        ("*/send", True),
        ("mcp__mail__sen", False),
        ("mcp__mail__SEND", False),
        ("mail.send", False),
        ("send", False),
        ("mai/*", False),
        ("mail/[s]end", False),
    ],
)
def test_a_pattern_is_over_the_full_name_or_the_servers_own(pattern: str, fits: bool) -> None:
    """The whole name, in its case; nothing but `*` and `?` is special."""
    assert verdict(policy(Rule(decision="deny", tools=("x", pattern))), tool()) == ("deny" if fits else "allow")


def test_a_rule_for_a_principal_is_for_nobody_else() -> None:
    """Patterns over names, in their case."""
    rules = policy(Rule(decision="allow", principals=("ops-*", "local")), Rule(decision="deny"))

    assert [verdict(rules, tool(), principal=name) for name in ("ops-1", "local", "OPS-1", "ops", "x-ops-1", "")] == [
        "allow",
        "allow",
        "deny",
        "deny",
        "deny",
        "deny",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        {"to": ["ann@ours.org"]},
        {"to": "ANN@ours.org"},
        {"to": "ann@ours.org "},
        {"to": "ann@ours.org", "To": "eve@evil.org"},
        {"to": "ann@ours.org", "TO": "ann@ours.org"},
        {"to": "ann@ours.org\n"},
        {"to": None},
        {"to": {"address": "ann@ours.org"}},
        {"to": "eve@evil.org"},
        {},
    ],
)
def test_no_trick_satisfies_a_rule_that_allows(arguments: dict[str, Any]) -> None:
    """Only exactly what it says does: a list around it, another case, a second spelling or null do not."""
    rules = policy(Rule(decision="allow", when={"to": "ann@ours.org"}), Rule(decision="deny"))

    assert verdict(rules, tool(), arguments) == "deny"
    assert verdict(rules, tool(), {"to": "ann@ours.org"}) == "allow"


@pytest.mark.parametrize(
    "arguments",
    [
        {"to": "eve@evil.org", "amount": 500},
        {"to": ["eve@evil.org"], "amount": 500},
        {"to": "EVE@EVIL.ORG", "amount": 500},
        {"to": "eve@evil.org", "amount": "500"},
        {"to": "eve@evil.org", "amount": [1]},
        {"to": "eve@\u200bevil.org", "amount": True},
        {"To": "eve@evil.org", "AMOUNT": 500},
        {"to": None, "amount": None},
        {"to": {"a": 1}, "amount": float("nan")},
    ],
)
@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_no_trick_gets_past_a_rule_that_asks_or_denies(decision: Any, arguments: dict[str, Any]) -> None:
    """What may be read as what it says counts as fitting."""
    rules = policy(Rule(decision=decision, when={"to": "*@evil.org", "amount": {"above": 100}}))

    assert verdict(rules, tool(), arguments) == decision
    assert verdict(rules, tool(), {"to": "ann@ours.org", "amount": 500}) == "allow"
    assert verdict(rules, tool(), {"to": "eve@evil.org", "amount": 100}) == "allow"
    assert verdict(rules, tool(), {"to": "eve@evil.org"}) == "allow"


def test_a_mixed_list_is_neither_allowed_nor_let_past() -> None:
    """One good address does not carry a bad one through, and one bad one is enough to deny."""
    allows = policy(Rule(decision="allow", when={"to.*": "*@ours.org"}), preset="guarded")
    denies = policy(Rule(decision="deny", when={"to.*": "*@evil.org"}))

    assert verdict(allows, tool(), {"to": ["a@ours.org", "b@ours.org"]}) == "allow"
    assert verdict(allows, tool(), {"to": ["a@ours.org", "eve@evil.org"]}) == "ask"
    assert verdict(allows, tool(), {"to": []}) == "ask"
    assert verdict(denies, tool(), {"to": ["a@ours.org", "eve@evil.org"]}) == "deny"
    assert verdict(denies, tool(), {"to": ["a@ours.org"]}) == "allow"


def test_a_doubt_about_an_ask_does_not_spare_a_later_denial() -> None:
    """Where only some calls are asked for and all others denied, a value nobody understands is not asked for."""
    strict = policy(Rule(decision="ask", when={"to": "*@ours.org"}, reason="Ours."), Rule(decision="deny"))
    lax = policy(Rule(decision="ask", when={"to": "*@ours.org"}, reason="Ours."), Rule(decision="allow"))

    assert verdict(strict, tool(), {"to": "a@ours.org"}) == "ask"
    assert verdict(strict, tool(), {"to": ["eve@evil.org"]}) == "deny"
    assert lax.decide(tool(), "local", {"to": ["eve@evil.org"]}) == Decision(
        verdict="ask",
        rule="policy.rules[0]",
        reason="Ours. Its condition on an argument is in doubt, which counts as fitting: it is a list where a text is "
        "meant.",
        doubt=": it is a list where a text is meant.",
    )


VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "A", "b", "5"]) | st.just(["a"])
RULES = st.lists(
    st.builds(
        Rule,
        decision=st.sampled_from(["allow", "ask", "deny"]),
        when=st.just({}) | st.fixed_dictionaries({"to": st.sampled_from(["a", "b", 1, {"above": 0}, {"not": "a"}])}),
    ),
    max_size=5,
)


@given(RULES, VALUES)
def test_a_hidden_tool_is_one_that_no_argument_opens(rules: list[Rule], value: Any) -> None:
    """Whatever is sent, it is denied."""
    made = policy(*rules)

    assert not made.is_hidden(tool(), "local") or verdict(made, tool(), {"to": value}) == "deny"


@given(RULES, VALUES, st.sampled_from(["open", "guarded", "readonly"]))
def test_to_wrap_a_value_never_makes_a_decision_looser(rules: list[Rule], value: Any, preset: Preset) -> None:
    """In a list, under another spelling of the name, or beside one."""
    made = policy(*rules, preset=preset)
    plain = RANK[verdict(made, tool(), {"to": value})]

    assert RANK[verdict(made, tool(), {"to": [value]})] >= plain
    assert RANK[verdict(made, tool(), {"to": value, "TO": [value]})] >= plain


@pytest.mark.parametrize(
    ("rules", "preset", "expected"),
    [
        ((), "open", False),
        ((), "guarded", False),
        ((), "readonly", True),
        ((Rule(decision="deny"),), "open", True),
        ((Rule(decision="deny", when={"to": "x"}),), "open", False),
        ((Rule(decision="deny", when={"to": "x"}),), "readonly", True),
        ((Rule(decision="deny", when={"to": "x"}), Rule(decision="deny")), "open", True),
        ((Rule(decision="allow", when={"to": "x"}), Rule(decision="deny")), "open", False),
        ((Rule(decision="ask", when={"to": "x"}),), "readonly", False),
        ((Rule(decision="ask"), Rule(decision="deny")), "open", False),
        ((Rule(decision="deny", tools=("bank/*",)),), "open", False),
        ((Rule(decision="deny", principals=("http",)),), "open", False),
    ],
)
def test_a_tool_is_hidden_if_no_argument_could_get_it_called(
    rules: tuple[Rule, ...], preset: Preset, expected: bool
) -> None:
    """Denied by a rule without conditions, or by the preset, with nothing before it that may allow or ask."""
    assert policy(*rules, preset=preset).is_hidden(tool(), "local") == expected


def test_hidden_tools_are_those_of_the_principal() -> None:
    """Another principal, another set; and another catalog, another set, however alike."""
    rules = policy(
        Rule(decision="deny", tools=("bank/*",), principals=("http",)), Rule(decision="deny", tools=("*/drop",))
    )
    tools = {spec.full_name: spec for spec in (tool("pay", "bank"), tool("drop", "bank"), tool())}

    assert rules.hidden(tools, "http") == {"mcp__bank__pay", "mcp__bank__drop"}
    assert rules.hidden(tools, "local") == {"mcp__bank__drop"}
    assert rules.hidden(tools, "other") is rules.hidden(tools, "local")
    assert rules.hidden({}, "http") == frozenset()
    assert rules.hidden(tools, "http") == {"mcp__bank__pay", "mcp__bank__drop"}


def test_many_principals_do_not_fill_the_memory() -> None:
    """Answers are kept for a bounded number of kinds of principals."""
    names = [f"p{number}" for number in range(150)]
    rules = policy(*(Rule(decision="deny", principals=(name,)) for name in names))
    tools = {spec.full_name: spec for spec in (tool(),)}

    assert all(rules.hidden(tools, name) == {"mcp__mail__send"} for name in names)
    assert len(rules._hidden) <= 100


def test_a_definition_that_changed_is_judged_anew() -> None:
    """A tool that no longer says it reads only is no longer allowed as such."""
    rules = policy(preset="readonly", trusted=("mail",))

    assert verdict(rules, tool(read_only=True)) == "allow"
    assert verdict(rules, tool(read_only=False)) == "deny"
    assert rules.is_hidden(tool(read_only=False), "local")
    assert not rules.is_hidden(tool(read_only=True), "local")


def test_explain_says_of_every_rule_why_it_fits_or_not() -> None:
    """In order, with what decides; rules after it are not reached."""
    rules = policy(
        Rule(decision="deny", tools=("bank/*", "shop/*")),
        Rule(decision="deny", effect="read_only"),
        Rule(decision="deny", principals=("http",)),
        Rule(decision="ask", when={"amount": {"above": 100}, "ccc": {"exists": True}}),
        Rule(decision="allow", reason="Mail is fine."),
        Rule(decision="deny"),
    )

    def step(number: int, says: Any, fits: Any, why: str, *, decides: bool = False) -> Step:
        return Step(rule=f"policy.rules[{number}]", verdict=says, fits=fits, decides=decides, why=why)

    depends = "it applies if amount above 100 and ccc is given (the tool declares no 'ccc')"
    expected = [
        step(0, "deny", "no", "it names other tools: bank/*, shop/*"),
        step(1, "deny", "no", "it is for effect 'read_only', and this tool counts as 'destructive'"),
        step(2, "deny", "no", "it is for other principals: http"),
        step(3, "ask", "depends", depends),
        step(4, "allow", "yes", "Mail is fine.", decides=True),
        step(5, "deny", "unreached", "a rule before it fits"),
        Step(rule="preset open", verdict="allow", fits="unreached", decides=False, why="a rule before it fits"),
    ]
    assert rules.explain(tool(), "local") == expected
    missing = "it does not hold that amount above 100"
    assert rules.explain(tool(), "local", {})[3] == step(3, "ask", "no", missing)
    doubtful = "whether amount above 100 is in doubt: it is a text where a number is meant"
    steps = rules.explain(tool(), "local", {"amount": "5", "ccc": 1})
    assert steps[3] == step(3, "ask", "doubt", doubtful, decides=True)
    assert steps[4] == step(4, "allow", "yes", "Mail is fine.")


@given(RULES, VALUES, st.sampled_from(["open", "guarded", "readonly"]))
def test_explain_and_decide_agree(rules: list[Rule], value: Any, preset: Preset) -> None:
    """Exactly one step decides, and it is the rule that decides the call."""
    made = policy(*rules, preset=preset)
    (step,) = (step for step in made.explain(tool(), "local", {"to": value}) if step.decides)
    decision = made.decide(tool(), "local", {"to": value})

    assert (step.rule, step.verdict) == (decision.rule, decision.verdict)


def test_the_first_limits_that_name_a_tool_are_its_own() -> None:
    """Later ones add nothing; a tool that none names has none."""
    first, second = ToolLimits(tools=("mail/*",), calls_per_run=1), ToolLimits(tools=("mcp__m*",), retries=2)
    rules = policy(limits=(first, second))

    assert rules.limits(tool()) is first
    assert rules.limits(tool("x", "maps")) is second
    assert rules.limits(tool("x", "bank")) is UNLIMITED


@pytest.mark.parametrize(
    ("said", "trusted", "expected"),
    [
        ({"idempotent": True}, True, True),
        ({"read_only": True}, True, True),
        ({}, True, False),
        ({"destructive": False}, True, False),
        ({"idempotent": True}, False, False),
        ({"read_only": True}, False, False),
    ],
)
def test_only_a_trusted_upstream_is_believed_to_be_idempotent(
    said: dict[str, bool], trusted: bool, expected: bool
) -> None:
    """A wrong hint would make one write many."""
    assert policy(trusted=("mail",) if trusted else ()).is_idempotent(tool(**said)) is expected


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (PolicySettings(rules=(Rule(decision="deny", tools=()),)), "policy.rules[0].tools"),
        (PolicySettings(rules=(Rule(decision="deny"), Rule(decision="deny", tools=("",)))), "policy.rules[1].tools"),
        (PolicySettings(rules=(Rule(decision="deny", principals=()),)), "policy.rules[0].principals"),
        (PolicySettings(limits=(ToolLimits(tools=()),)), "policy.limits[0].tools"),
    ],
)
def test_a_rule_that_fits_nothing_is_refused(settings: PolicySettings, place: str) -> None:
    """Who writes a rule that denies nothing must hear of it."""
    with pytest.raises(InvalidConfig) as caught:
        Policy(settings, preset="open")

    advice = "has no pattern or an empty one, which fits nothing. Give one, or '*' for all."
    assert str(caught.value) == f"{place} {advice}"


def test_a_condition_that_cannot_work_names_its_rule() -> None:
    """Counted from 0, as in the decision."""
    with pytest.raises(InvalidConfig) as caught:
        policy(Rule(decision="deny"), Rule(decision="deny", when={"to": {"like": "x"}}))

    assert str(caught.value).startswith("policy.rules[1].when.'to'.like is not a condition.")


def test_settings_are_plain_data() -> None:
    """What is read from a file can be shown as it is."""
    settings = PolicySettings(rules=(Rule(decision="ask", when={"to": ["x"]}),), limits=(ToolLimits(retries=1),))

    assert msgspec.convert(msgspec.to_builtins(settings), PolicySettings) == settings
