"""Saved skills as importable functions: `from skills import monthly_total`.

A skill is requested from the gateway when its name is first used. Its code runs by the rules of the agent's own: the
same imports, the same rewrites, its own lines in tracebacks. A function around it checks the inputs and reports how
each use ended to the gateway; by then hostile code may have changed all of this, and has lied only about itself.

A concealed value stands for a value of any type, so its token is accepted as any input. A skill that was written for
older versions of tools gets stub files of those along with its code: their calls name the version, and the gateway
translates them. Standard library only.
"""

import asyncio
import concurrent.futures
import contextvars
import copy
import decimal
import functools
import importlib
import importlib.abc
import importlib.machinery
import inspect
import itertools
import keyword
import numbers
import re
import sys
import types
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from time import perf_counter  # the real one, whatever a replay does to the clock
from typing import Any, NamedTuple

import failures
import tools
import transform
import words
from wire import ToolError

ROOT = "skills"

_NAME_CHARACTERS = 100  # no skill has a longer name
_SHOWN_CHARACTERS = 60  # of a text that is not a name, in a message
_ERROR_CHARACTERS = 500  # of an error in the report of a use: its class and its first sentences
_REPORTS = 200  # of one run, two for each use: a skill in a loop would cost a call to the gateway each time
_TOKEN = re.compile(r"__PII_\w+__")
_PIN = re.compile(r"\d{1,9}(\.\d{1,9}){0,2}")

_call: Any = None
_builtins: dict[str, Any] = {}
_answers: dict[tuple[str, str | None], dict[str, Any]] = {}
"""The gateway's answers by name and version."""
_refusals: dict[tuple[str, str | None], str] = {}
"""The reasons for a missing answer."""
_uses = itertools.count()
_loading: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("loading", default=())
_running: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar("running", default=frozenset())


def connect(call_tool: Any, builtins: dict[str, Any]) -> None:
    """Set the function that carries a call to the gateway, and the built-ins with the rule for imports."""
    global _call, _builtins, _uses
    _call, _builtins, _uses = call_tool, builtins, itertools.count()
    _answers.clear()
    _refusals.clear()
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def load(reference: str) -> Any:
    """The function of the skill `name`, or with `name@1.2` that of its newest version 1.2.

    Raises:
        ImportError: The skill does not exist or cannot be used here; the message is the gateway's.
    """
    name, at, pin = reference.partition("@")
    if not _is_name(name) or (at and not _PIN.fullmatch(pin)):
        raise ImportError(
            f"{words.cut(reference, _SHOWN_CHARACTERS)!r} names no skill. Write its name, or name@1.2 for a version."
        )
    if not at:
        return getattr(importlib.import_module(f"{ROOT}.{name}"), name)
    answer = _ask(name, pin)
    newest = sys.modules.get(f"{ROOT}.{name}")
    if newest is not None and getattr(newest, "__version__", None) == answer["version"]:
        return getattr(newest, name)
    full_name = f"{ROOT}.{name}@{answer['version']}"
    if full_name not in sys.modules:
        module = sys.modules[full_name] = _SkillModule(full_name, name)
        try:
            _fill(module, answer)
        except BaseException:
            del sys.modules[full_name]
            raise
    return getattr(sys.modules[full_name], name)


def provide(names: dict[str, Any], inputs: Mapping[str, Any]) -> None:
    """Put the inputs into a namespace, as `context` and as variables where a name can be one and is free."""
    names["context"] = inputs
    for name, value in inputs.items():
        if name.isidentifier() and not keyword.iskeyword(name) and name != "result":
            names.setdefault(name, value)


# --- Importing --------------------------------------------------------------------------------------------------------


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `skills` and the skills below it."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        root, _, skill = name.partition(".")
        if root != ROOT or "." in skill:
            return None
        if not skill:
            return importlib.machinery.ModuleSpec(name, _PackageLoader(), is_package=True)
        if not _is_name(skill):
            raise ImportError(f"{words.cut(skill, _SHOWN_CHARACTERS)!r} names no skill.", name=name)
        return importlib.machinery.ModuleSpec(name, _SkillLoader(), origin=_file(skill))


def _find(name: str) -> Any:
    """The function of a skill, as `skills` finds it."""
    if not _is_name(name):
        raise AttributeError(f"module {ROOT!r} has no attribute {words.cut(name, _SHOWN_CHARACTERS)!r}")
    try:
        _ask(name, None)
    except ImportError as error:
        # `from skills import x` then imports the module, which says the same as an ImportError.
        raise AttributeError(str(error)) from None
    return getattr(importlib.import_module(f"{ROOT}.{name}"), name)


class _PackageLoader(importlib.abc.Loader):
    def create_module(self, spec: Any) -> types.ModuleType:
        return tools.Lazy(spec.name, _find, tuple)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(load=load, SkillInputError=SkillInputError, __all__=[])


class _SkillModule(tools.CallableModule):
    def __getattr__(self, name: str) -> Any:
        if name != vars(self)["__function__"]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        chain = _loading.get()  # its function is missing only as long as it is being loaded
        circle = " -> ".join((*chain[chain.index(name) if name in chain else 0 :], name))
        raise ImportError(f"Skills import each other in a circle: {circle}. Save one of them without that import.")


class _SkillLoader(importlib.abc.Loader):
    def create_module(self, spec: Any) -> types.ModuleType:
        return _SkillModule(spec.name, spec.name.rpartition(".")[2])

    def exec_module(self, module: types.ModuleType) -> None:
        assert isinstance(module, _SkillModule)
        _fill(module, _ask(module.__function__, None))


_finder = _Finder()


def _ask(name: str, version: str | None) -> dict[str, Any]:
    """The gateway's answer for this name; asked once, also for a name it does not have."""
    key = (name, version)
    if key not in _answers and key not in _refusals:
        try:
            _answers[key] = _call("load_skill", {"name": name, "version": version})
        except ToolError as error:
            _refusals[key] = str(error)
    if key in _refusals:
        # Not a ModuleNotFoundError: `from skills import x` would replace its message.
        raise ImportError(_refusals[key], name=f"{ROOT}.{name}")
    return _answers[key]


def _is_name(name: str) -> bool:
    return len(name) <= _NAME_CHARACTERS and name.isidentifier() and not name.startswith("_")


def _file(skill: str) -> str:
    return f"{failures.SKILL_FOLDER}{skill}.py"


# --- Running ----------------------------------------------------------------------------------------------------------


def _fill(module: _SkillModule, answer: dict[str, Any]) -> None:
    """Execute a skill's code in its module and put the checked and reported function in the place of its own."""
    name, version, code = module.__function__, answer["version"], answer["code"]
    file = _file(module.__name__.partition(".")[2])
    failures.remember(file, code)
    names = vars(module)
    names.update(_surroundings(answer), __file__=file, __version__=version)
    compiled = transform.compiled(code, file)
    properties = answer["inputs"].get("properties", {})
    if answer["form"] == "script":
        function = _script(compiled, names | {"__name__": "__main__"}, properties)
        function.__name__ = function.__qualname__ = name
        function.__signature__ = _script_signature(properties)
    else:
        before = _loading.set((*_loading.get(), name))
        try:
            _execute(compiled, names)
        finally:
            _loading.reset(before)
        function = names.get(name)
        if not callable(function):
            raise ImportError(f"The code of skill {name!r} defines no function {name!r}.", name=module.__name__)
    inputs = _Inputs(name, inspect.signature(function), properties)
    names[name] = _offered(function, inputs, f"{name}@{version}", has_loop="asyncio.run(" in code)


def _surroundings(answer: dict[str, Any]) -> dict[str, Any]:
    """The namespace for a skill's code: the agent's own, or older tools in their place."""
    names = {"__builtins__": _builtins, "call_tool": _call, "ToolError": ToolError, **transform.names()}
    if answer["shims"]:
        older = _OlderTools(answer, _builtins["__import__"], _call)
        names.update(__builtins__=_builtins | {"__import__": older.import_}, call_tool=older.call_tool)
    return names


def _execute(compiled: types.CodeType, names: dict[str, Any]) -> None:
    if compiled.co_flags & inspect.CO_COROUTINE:
        _finish(eval(compiled, names))
    else:
        exec(compiled, names)


def _script(compiled: types.CodeType, surroundings: dict[str, Any], properties: Mapping[str, Any]) -> Any:
    """A function of the inputs that runs the code anew for each call."""
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}

    def prepared(given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        names = dict(surroundings)
        provide(names, copy.deepcopy(defaults) | dict(zip(properties, given, strict=False)) | named)
        return names

    def run(*given: Any, **named: Any) -> Any:
        names = prepared(given, named)
        with transform.leaving:
            exec(compiled, names)
        return transform.value(names)

    async def run_later(*given: Any, **named: Any) -> Any:
        names = prepared(given, named)
        with transform.leaving:
            await eval(compiled, names)
        return transform.value(names)

    return run_later if compiled.co_flags & inspect.CO_COROUTINE else run


def _offered(function: Any, inputs: "_Inputs", skill: str, *, has_loop: bool) -> Any:
    """The function that others get: with its inputs checked and its use reported."""
    is_awaited = inspect.iscoroutinefunction(function)

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        if is_awaited:
            return _finish(call_later(*given, **named))
        bound = inputs.bind(given, named)
        with _Use(skill):
            if has_loop and _in_loop():
                return _beside(functools.partial(function, *bound.args, **bound.kwargs))
            return function(*bound.args, **bound.kwargs)

    async def call_later(*given: Any, **named: Any) -> Any:
        if not is_awaited:
            return call(*given, **named)
        bound = inputs.bind(given, named)
        with _Use(skill):
            return await function(*bound.args, **bound.kwargs)

    call.__sealyard_async__ = call_later  # type: ignore[attr-defined]
    return call


def _finish(work: Coroutine[Any, Any, Any]) -> Any:
    """The value of a coroutine for code that does not await it, in a loop or not."""
    try:
        return _beside(functools.partial(asyncio.run, work)) if _in_loop() else asyncio.run(work)
    finally:
        work.close()


def _in_loop() -> bool:
    return asyncio._get_running_loop() is not None


def _beside(work: Callable[[], Any]) -> Any:
    """Do the work in a thread, which can have a loop of its own beside the one that runs here."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, work).result()


# --- Inputs -----------------------------------------------------------------------------------------------------------


class SkillInputError(TypeError):
    """An input of a skill has a value of another type than its schema says."""

    __module__ = "skills"


class _Inputs:
    """The arguments that a skill takes, by its signature and the properties of its schema."""

    def __init__(self, skill: str, signature: inspect.Signature, properties: Mapping[str, Any]) -> None:
        self._skill = skill
        self._properties = properties
        self.signature = signature

    def bind(self, given: tuple[Any, ...], named: dict[str, Any]) -> inspect.BoundArguments:
        """The arguments by name. Raises `TypeError` for wrong names and `SkillInputError` for wrong types."""
        try:
            bound = self.signature.bind(*given, **named)
        except TypeError as error:
            raise TypeError(f"{self._skill}(): {error}. {self._shown_signature()}") from None
        for name, value in {**bound.arguments, **named}.items():
            parameter = self.signature.parameters.get(name)
            if parameter is None or value is not parameter.default:
                self._check(name, value)
        return bound

    def _check(self, name: str, value: Any) -> None:
        schema = self._properties.get(name, {})
        kinds = schema.get("type", ())
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        if "enum" in schema:
            fits, expected = value in schema["enum"], f"one of {', '.join(map(repr, schema['enum']))}"
        else:
            fits = not kinds or any(kind not in _TYPES or _TYPES[kind].fits(value) for kind in kinds)
            expected = " or ".join(_TYPES[kind].words for kind in kinds if kind in _TYPES)
        if fits or (isinstance(value, str) and _TOKEN.fullmatch(value)):
            return
        of_type = f"a value of type {words.name_of(type(value))}"
        shown = words.shown(value) if type(value) in words.SCALARS else of_type
        raise SkillInputError(
            f"{self._skill}(): input {name!r} is {shown}, where {expected} is expected. {self._shown_signature()}"
        )

    def _shown_signature(self) -> str:
        return f"Its signature: {self._skill}{self.signature}"


def _script_signature(properties: Mapping[str, Any]) -> inspect.Signature:
    """The signature of a script: the properties of its schema, in their order, with their defaults."""
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=each.get("default", inspect.Parameter.empty),
            annotation=_annotation(each.get("type")),
        )
        for name, each in properties.items()
    ]
    # In the schema an input with a default may stand before one without.
    return inspect.Signature(parameters, __validate_parameters__=False)


def _annotation(kind: Any) -> Any:
    known = _TYPES.get(kind) if isinstance(kind, str) else None
    return inspect.Parameter.empty if known is None else known.annotation


class _Type(NamedTuple):
    words: str
    annotation: type | None
    fits: Callable[[Any], bool]


def _is_boolean(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


_NO_LISTS = (str, bytes, bytearray, Mapping)
_NUMBERS = (numbers.Real, decimal.Decimal)
_TYPES = {
    "string": _Type("text", str, lambda value: isinstance(value, str)),
    "integer": _Type(
        "a whole number", int, lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool)
    ),
    "number": _Type("a number", float, lambda value: isinstance(value, _NUMBERS) and not isinstance(value, bool)),
    "boolean": _Type("True or False", bool, _is_boolean),
    "array": _Type("a list", list, lambda value: isinstance(value, Collection) and not isinstance(value, _NO_LISTS)),
    "object": _Type("a dict", dict, lambda value: isinstance(value, Mapping)),
    "null": _Type("None", None, lambda value: value is None),
}


# --- Older versions of tools ------------------------------------------------------------------------------------------


class _OlderTools:
    """The older tools of one skill, as an `__import__` and a `call_tool` for its code alone."""

    def __init__(self, answer: dict[str, Any], real_import: Any, real_call: Any) -> None:
        self._real_import = real_import
        self._stubs = {(each["module"], each["function"]): each["stub"] for each in answer["shims"]}
        self._functions: dict[tuple[str, str], Any] = {}
        self._servers = tools.Lazy(
            tools.ROOT, self._find_server, lambda: {*_real(tools.ROOT), *(server for server, _ in self._stubs)}
        )
        self._versioned = {
            name: versioned
            for name, version in answer["tools"].items()
            if any((versioned := f"{name}@{version}") in stub for stub in self._stubs.values())
        }
        self.call_tool = self._caller(real_call)

    def import_(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """Import as the skill's code does: the older tool where there is one, else the real thing."""
        root, *path = name.split(".")
        if root != tools.ROOT or level or (fromlist and not self._has(*path)):
            return self._real_import(name, globals, locals, fromlist, level)
        absent = tuple(each for each in fromlist or () if each != "*" and len(path) < 2 and not self._has(*path, each))
        if absent or not self._has(*path):
            self._real_import(name, globals, locals, absent, 0)  # it exists, or this says best what is wrong
        return self._module(*path) if fromlist else self._module()

    def _module(self, *path: str) -> types.ModuleType:
        if not path:
            return self._servers
        if len(path) == 1:
            found: types.ModuleType = self._find_server(path[0])
            return found
        module = tools.CallableModule(".".join((tools.ROOT, *path)), path[1])
        setattr(module, path[1], self._function(*path))
        return module

    def _has(self, *path: str) -> bool:
        """True if something below it is an older one."""
        return any(key[: len(path)] == path for key in self._stubs)

    def _find_server(self, server: str) -> Any:
        if not self._has(server):
            return getattr(importlib.import_module(tools.ROOT), server)
        title = f"{tools.ROOT}.{server}"

        def find(function: str) -> Any:
            if (server, function) in self._stubs:
                return self._function(server, function)
            return getattr(importlib.import_module(title), function)

        return tools.Lazy(title, find, lambda: {*_real(title), *(each for on, each in self._stubs if on == server)})

    def _function(self, server: str, function: str) -> Any:
        key = server, function
        if key not in self._functions:
            names: dict[str, Any] = {"__name__": f"{tools.ROOT}.{server}.{function}"}
            exec(compile(self._stubs[key], f"{tools.ROOT}/{server}/{function}.py", "exec", dont_inherit=True), names)
            self._functions[key] = names[function]
        return self._functions[key]

    def _caller(self, real_call: Any) -> Any:
        def versioned(name: Any) -> Any:
            return self._versioned.get(name, name) if isinstance(name, str) else name

        def call_tool(name: str, arguments: dict[str, Any] | None = None) -> Any:
            """Call a tool by its full name and return its answer; also awaitable."""
            return real_call(versioned(name), arguments)

        async def call_tool_async(name: str, arguments: dict[str, Any] | None = None) -> Any:
            return await real_call.__sealyard_async__(versioned(name), arguments)

        call_tool.__sealyard_async__ = call_tool_async  # type: ignore[attr-defined]
        return call_tool


def _real(module: str) -> list[str]:
    try:
        return dir(importlib.import_module(module))
    except ImportError:  # every tool of this server is gone
        return []


# --- Reporting --------------------------------------------------------------------------------------------------------


class _Use:
    """One outermost use of a skill, reported to the gateway when it begins and when it ends."""

    def __init__(self, skill: str) -> None:
        self._skill = skill
        self._is_reported = False
        self._began: float | None = None

    def __enter__(self) -> None:
        if self._skill in _running.get():
            return  # it calls itself: the same use
        _running.set(_running.get() | {self._skill})
        self._is_reported = next(_uses) < _REPORTS // 2
        if self._is_reported:
            self._report("skill_began")
        self._began = perf_counter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._began is None:
            return
        seconds = perf_counter() - self._began
        _running.set(_running.get() - {self._skill})
        # A coroutine that nobody awaits to its end is closed in the middle of anything, such as another report.
        if self._is_reported and kind is not GeneratorExit:
            text = None
            if error is not None:
                text = f"{failures.type_name(error)}: {words.cut(failures.text_of(error), _ERROR_CHARACTERS)}"
            self._report("skill_ended", seconds=seconds, error=text)

    def _report(self, what: str, **fields: Any) -> None:
        name, _, version = self._skill.partition("@")
        try:
            _call(what, {"name": name, "version": version, **fields})
        except ToolError:
            pass  # the gateway keeps no record, such as past a limit; whether the skill works is another matter
