"""The children of a node of a syntax tree, without contexts, operators and plain values, which say nothing alone.

These are half of all nodes. Which fields a kind of node has is looked up once for each kind.
"""

import ast

_LEAVES = frozenset(
    "arg asname attr conversion ctx id is_async kind level module names op ops rest simple type_comment"
    " type_ignores".split()
)
"""Fields that hold no node, or one that says nothing by itself. Nobody walks into the names of an import."""
_known: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}


def fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of such a node that may hold others, in order."""
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = tuple(field for field in kind._fields if field not in _LEAVES)
    return found


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes in the fields of `node`, in order."""
    found: list[ast.AST] = []
    for field in fields_of(type(node)):
        value = getattr(node, field, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
    return found
