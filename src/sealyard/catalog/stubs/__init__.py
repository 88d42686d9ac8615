"""Tools as Python source: one function per tool, with its schemas as Python types."""

from sealyard.catalog.stubs.stub import Parameter, Stub, stub_files, stub_packages, tool_stubs
from sealyard.catalog.stubs.types import annotation, literal, shape

__all__ = ("Parameter", "Stub", "annotation", "literal", "shape", "stub_files", "stub_packages", "tool_stubs")
