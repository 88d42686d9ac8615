"""Tells which part of its version a change to a skill raises for its callers."""

from sealyard.values import Skill, ToolSpec
from sealyard.versioning.compare import Severity, compare


def bump(after: Skill, before: Skill | None) -> Severity:
    """Which part of the version the step from `before` to `after` raises, by the rules that hold for tools.

    Without a version before it, all that the name once was is deleted: whoever calls that one breaks.
    """
    if before is None:
        return "major"
    names = [list(skill.input_schema.get("properties", ())) for skill in (before, after)]
    if names[1][: len(names[0])] != names[0]:  # a skill is called by position too
        return "major"
    return compare(_as_tool(before), _as_tool(after)).bump


def _as_tool(skill: Skill) -> ToolSpec:
    return ToolSpec(
        upstream="skills",
        name=skill.name,
        full_name=skill.name,
        module="skills",
        function=skill.name,
        description=skill.description,
        input_schema=skill.input_schema,
        output_schema=skill.output_schema,
        digest=skill.digest,
    )
