"""Which changes can be the way out of which failures, and the functions and methods that may be named in one."""

from collections.abc import Mapping

__all__ = ("FUNCTIONS", "METHODS", "RELEVANT")

FUNCTIONS = frozenset(
    """int float str bool list dict set tuple sorted len enumerate zip max min sum isinstance next iter map filter range
    round abs repr any all open bytes frozenset json.loads json.dumps json.load json.dump ast.literal_eval
    datetime.datetime.fromisoformat datetime.date.fromisoformat datetime.datetime.strptime datetime.datetime.now
    datetime.datetime datetime.date datetime.timedelta datetime.datetime.fromtimestamp decimal.Decimal asyncio.gather
    asyncio.run asyncio.sleep time.sleep os.path.join os.path.exists os.path.basename os.makedirs os.listdir
    pathlib.Path collections.defaultdict collections.Counter copy.deepcopy math.isnan csv.DictReader csv.reader
    io.StringIO re.sub re.search re.findall itertools.islice itertools.chain html.unescape base64.b64decode
    statistics.mean statistics.median statistics.fmean urllib.parse.quote functools.cmp_to_key fractions.Fraction
    dict.fromkeys operator.itemgetter hasattr getattr""".split()
)
"""Functions that an edit may name."""

METHODS = frozenset(
    """items values keys get copy encode decode strip replace split splitlines isoformat date total_seconds timestamp
    append add extend update setdefault astimezone lower upper title join format read readlines tolist to_dict
    startswith endswith rstrip lstrip pop fromisoformat strftime discard""".split()
)
"""Methods that an edit may name."""

_TO_NUMBER = "used:int,float,decimal.Decimal,round"
_TO_TEXT = "used:str,repr,json.dumps"
_TIMES = (
    "used:datetime.datetime.fromisoformat,datetime.date.fromisoformat,datetime.datetime.strptime,datetime.datetime,"
    "datetime.datetime.fromtimestamp"
)
_ARGUMENTS = ("param_renamed", "value_kind", "param_added", "param_dropped", "tool_first", "smaller", "larger")

RELEVANT: Mapping[str, tuple[str, ...]] = {
    "field": ("subscripted", "field_renamed", "unwrapped", "field_optional", "indexed", "looped", "parsed", "checked"),
    "list_not_dict": ("indexed", "looped", "unwrapped", "field_renamed"),
    "dict_not_list": ("unwrapped", "method:items,values,keys", "used:list,sorted", "looped"),
    "text_not_data": ("parsed", "method:items,values", "unwrapped", "indexed"),
    "await": ("awaited", "gathered"),
    "loop": ("unused:asyncio.run", "awaited"),
    "mixed_none": ("guarded", "checked", "field_optional", "used:filter", "field_renamed"),
    "none": ("guarded", "checked", "field_optional", "param_added", "value_kind", "field_renamed", "tool_instead"),
    "zone": ("attribute:utc", "method:astimezone,replace", "used:datetime.datetime.now"),
    "mixed": (_TIMES, _TO_NUMBER, _TO_TEXT, "fstring", "option:sorted,min,max", "method:date,items", "used:sum"),
    "keyword": ("param_renamed", "param_dropped"),
    "missing": ("param_added", "param_renamed"),
    "positional": ("param_added", "param_renamed"),
    "argument": (*_ARGUMENTS, "tool_instead"),
    "tool": (*_ARGUMENTS, "tool_instead", "again", "caught", "waited", "ungathered"),
    "data_not_text": ("unused:json.loads,json.load", "used:json.dumps,str", "used:json.load", "method:read"),
    "serialize": (
        "option:json.dumps",
        "used:str,list,sorted,float,dict,tuple",
        "method:isoformat,items,tolist,to_dict",
    ),
    "result": ("used:str,list,sorted,dict,float", "method:isoformat,tolist,to_dict,items", "sliced", "param_added"),
    "unhashable": ("used:tuple,frozenset,str,json.dumps,repr", "field_added", "indexed"),
    "not_callable": ("subscripted", "renamed", "used:datetime.datetime,datetime.date", "indexed"),
    "not_iterable": ("used:range,len,list,zip,enumerate", "unwrapped", "method:items,values", "awaited", "guarded"),
    "not_subscriptable": ("used:list,sorted", "method:values,items", "awaited", "called", "unwrapped"),
    "join": ("used:map,str", "fstring"),
    "type": (_TO_NUMBER, _TO_TEXT, "guarded", "method:isoformat,encode,decode,strftime", "op:FloorDiv", _TIMES),
    "json": (
        "unused:json.loads",
        "used:ast.literal_eval",
        "method:splitlines,strip,split,replace",
        "guarded",
        "caught",
    ),
    "unpack": ("method:items", "used:enumerate,zip", "indexed"),
    "number": ("method:replace,strip,split", "used:float,re.sub,re.search", "guarded", "caught"),
    "time": (_TIMES, "method:replace,split,strip", "indexed", "sliced"),
    "empty": (
        "guarded",
        "checked",
        "option:max,min",
        "given:next",
        "caught",
        "param_added",
        "param_dropped",
    ),
    "iteration": ("used:list,tuple,sorted,dict", "method:copy"),
    "local": ("global", "renamed"),
    "name": ("imported", "renamed", "tool_imported"),
    "module": ("imported", "tool_instead"),
    "unknown_tool": ("tool_instead",),
    "import_name": ("imported", "renamed"),
    "attribute": ("subscripted", "method:*", "attributed", "used:len,str,list,json.loads", "called", "imported"),
    "file": ("relative", "renamed", "used:os.makedirs,os.path.join,os.listdir,os.path.exists", "tool_instead"),
    "permission": ("relative", "tool_instead"),
    "decode": ("option:open", "method:decode,encode", "opened"),
    "recursion": ("guarded", "looped"),
    "wall_time": ("gathered", "param_added", "smaller", "sliced", "uncalled", "field_added"),
    "cpu_time": ("sliced", "param_added", "smaller", "used:set,dict,collections.Counter"),
    "memory": ("param_added", "smaller", "sliced", "used:itertools.islice"),
    "output": ("unused:print", "sliced", "used:len"),
    "calls": ("param_added", "uncalled", "tool_instead", "sliced", "smaller"),
    "processes": ("unused:*",),
    "other": (*_ARGUMENTS, _TIMES, _TO_NUMBER, _TO_TEXT, "method:*", "option:*", "guarded", "used:list,dict,sorted"),
}
"""Which edits can be the way out of which failures, the likeliest first."""
