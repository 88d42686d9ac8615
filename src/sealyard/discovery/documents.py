"""The weight of each word of a tool.

The weights depend on the tool alone: the length of a field is measured against a fixed typical one, not against the
catalog's average, so an analysed tool stays valid when the catalog changes. Names, descriptions and schemas are
untrusted: each is cut to a bounded length first, and repeating a word in a description soon gains nothing.
"""

from typing import Any, NamedTuple

from sealyard.discovery.words import words
from sealyard.values.tools import ToolSpec


class Document(NamedTuple):
    """One tool, analysed."""

    weights: dict[str, float]
    """By term, saturated: from 0 to `_SATURATION + 1`."""
    name_terms: tuple[str, ...]


class _Field(NamedTuple):
    weight: float
    typical_words: float
    """A field of this length is neither helped nor held back."""
    by_length: float
    """0: length does not matter; 1: twice as long, half the weight."""


# Tuned on all development sets together, then rounded; `benchmarks discovery` measures them.
_NAME = _Field(1.5, 3, 0.35)
_TITLE = _Field(1.0, 3, 0.4)
_SERVER = _Field(1.0, 4, 0.0)
_SUMMARY = _Field(1.5, 11, 0.4)
_DESCRIPTION = _Field(0.85, 11, 0.4)
_PARAMETERS = _Field(1.1, 2, 0.15)
_PARAMETER_TEXT = _Field(0.7, 7, 0.9)
_CHOICES = _Field(0.5, 7, 0.9)
_SATURATION = 1.6
"""A word's second mention in a tool adds less than the first; larger means less so."""

# Bounds on the work for a hostile definition.
_SUMMARY_CHARACTERS = 300
_DESCRIPTION_CHARACTERS = 4_000
_PARAMETER_CHARACTERS = 400
_PARAMETERS_READ = 100
_CHOICES_READ = 20
_CHOICE_CHARACTERS = 64


def analysed(spec: ToolSpec) -> Document:
    """The tool's words from its name, title, server, description and parameters."""
    names, texts, choices = _parameters(spec.input_schema)
    description = spec.description[:_DESCRIPTION_CHARACTERS].strip()
    end = _end_of_summary(description)
    name, summary, rest = words(spec.name), words(description[:end]), words(description[end:])
    parameter_text, choice_words = words(" ".join(texts)), words(" ".join(choices))
    described = len(summary) + len(rest)
    gains: dict[str, float] = {}
    for field, found, length in (
        (_NAME, name, len(name)),
        (_TITLE, words(spec.title[:_SUMMARY_CHARACTERS]), 0),
        (_SERVER, words(spec.upstream), 0),
        (_SUMMARY, summary, described),
        (_DESCRIPTION, rest, described),
        (_PARAMETERS, words(" ".join(names)), len(names)),
        (_PARAMETER_TEXT, parameter_text, len(parameter_text)),
        (_CHOICES, choice_words, len(choice_words)),
    ):
        gain = field.weight / (1 - field.by_length + field.by_length * length / field.typical_words)
        for term in found:
            gains[term] = gains.get(term, 0.0) + gain
    top = _SATURATION + 1
    weights = {term: gain * top / (_SATURATION + gain) for term, gain in gains.items()}
    return Document(weights, tuple(dict.fromkeys(name)))


def with_gain(weight: float, gain: float) -> float:
    """The weight of a term in a tool after a further mention that counts `gain`."""
    top = _SATURATION + 1
    if weight >= top:
        return weight
    total = _SATURATION * weight / (top - weight) + gain
    return total * top / (_SATURATION + total)


def _parameters(schema: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """The names of the parameters, their descriptions and their enumerated values."""
    names: list[str] = []
    texts: list[str] = []
    choices: list[str] = []
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, parameter in list(properties.items())[:_PARAMETERS_READ]:
            names.append(str(name)[:_PARAMETER_CHARACTERS])
            if isinstance(parameter, dict):
                text, values = parameter.get("description"), parameter.get("enum")
                if isinstance(text, str):
                    texts.append(text[:_PARAMETER_CHARACTERS])
                if isinstance(values, list):
                    choices += [
                        value[:_CHOICE_CHARACTERS] for value in values[:_CHOICES_READ] if isinstance(value, str)
                    ]
    return names, texts, choices


def _end_of_summary(description: str) -> int:
    """The end of the first line or sentence, unless it is too short or too long for a summary."""
    ends = [description.find(mark, 20) for mark in (". ", "! ", "? ", ".\n", "\n")]
    return min([_SUMMARY_CHARACTERS, *(end + 1 for end in ends if end >= 0)])
