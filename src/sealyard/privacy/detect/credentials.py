"""The forms in which vendors issue their keys, by the marks that tell them apart. Data, and one pattern built from it.

A key without a mark of its own (forty characters of anything) is not here: it is found by the name it is assigned to.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from sealyard.privacy.span import Span

__all__ = (
    "KEY",
    "KEY_FORMATS",
    "MARKED_FORMATS",
    "find_assigned",
    "find_keys",
    "is_random",
    "kinds_of_characters",
)

_W = "[A-Za-z0-9_-]"
_A = "[A-Za-z0-9]"
_H = "[0-9a-f]"
_MOST_HEADER = 2000
"""Characters of a token's first part. Without a bound, many starts of one in one word would each read to its end."""
_UUID = f"{_H}{{8}}-{_H}{{4}}-{_H}{{4}}-{_H}{{4}}-{_H}{{12}}"

KEY_FORMATS: tuple[tuple[str, str], ...] = (
    # Clouds
    ("aws_access_key", r"A(?:KIA|SIA|BIA|CCA|3T[A-Z0-9])[A-Z0-9]{16}(?![A-Z0-9])"),
    ("aws_bedrock", r"ABSK[A-Za-z0-9+/]{100,140}={0,2}"),
    ("aws_mws", rf"amzn\.mws\.{_UUID}"),
    ("aws_login_client", rf"amzn1\.oa2-cs\.v1\.{_H}{{64}}"),
    ("alibaba", rf"LTAI{_A}{{12,20}}(?!{_A})"),
    ("tencent", rf"AKID{_A}{{32}}(?!{_A})"),
    ("google_api", rf"AIza{_W}{{35}}(?!{_W})"),
    ("google_oauth_secret", rf"GOCSPX-{_W}{{28}}"),
    ("google_access", rf"ya29\.{_W}{{20,}}"),
    ("digitalocean", rf"do[opr]_v1_{_H}{{64}}"),
    ("heroku", rf"HRKU-(?:AA{_W}{{58}}|{_UUID})"),
    ("ibm_cloud", r"ApiKey-[0-9a-f-]{36}"),
    ("yandex", rf"AQVN{_W}{{35,38}}(?!{_W})"),
    ("scaleway", rf"SCW[A-Z0-9]{{17}}(?!{_A})"),
    ("ovh", rf"ovh_{_A}{{32,}}"),
    ("netlify", rf"nf[a-z]_{_A}{{36,}}"),
    ("vercel", rf"vc[a-z]_{_A}{{24,}}"),
    ("vercel", rf"vercel_blob_rw_{_A}{{16}}_{_A}{{30,}}"),
    ("fly", r"fo1_[A-Za-z0-9_-]{43}"),
    ("fly", r"fm[12]r?_[A-Za-z0-9+/=_-]{80,}"),
    ("render", rf"rnd_{_A}{{28,}}"),
    ("cloudflare_origin", rf"v1\.0-{_H}{{24}}-{_H}{{146}}"),
    ("cloudflare", rf"cf(?:at|ut|k)_{_A}{{36,}}"),
    ("planetscale", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{32,}"),
    ("supabase", rf"sbp_(?:v0_)?{_H}{{40}}"),
    ("supabase", rf"sb_secret_{_W}{{20,}}"),
    ("neon", rf"napi_{_A}{{40,}}"),
    ("mongodb_atlas", rf"mdb_sa_sk_{_W}{{30,}}"),
    ("databricks", rf"d(?:api|ose|kea){_H}{{32}}(?:-[0-9])?(?!{_A})"),
    ("tailscale", r"tskey-[a-z]+-[A-Za-z0-9-]{10,}"),
    # Code, packages, builds
    ("github", rf"gh[pousr]_{_A}{{36,255}}"),
    ("github_fine", rf"github_pat_{_A}{{22}}_{_A}{{59}}"),
    ("gitlab", rf"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-{_W}{{20,}}"),
    ("gitlab_runner", rf"GR1348941{_W}{{20}}"),
    ("bitbucket", rf"ATBB{_A}{{32}}"),
    ("atlassian", r"AT(?:ATT3|CTT3|OTT3)[A-Za-z0-9_=-]{50,}"),
    ("npm", rf"npm_{_A}{{36}}(?!{_A})"),
    ("pypi", rf"pypi-Ag{_W}{{50,}}"),
    ("rubygems", rf"rubygems_{_H}{{48}}"),
    ("crates", rf"cio{_A}{{32}}(?!{_A})"),
    ("nuget", rf"oy2[a-z0-9]{{43}}(?!{_A})"),
    ("clojars", rf"CLOJARS_{_H}{{60}}"),
    ("docker_hub", rf"dckr_[po]at_{_W}{{27,}}"),
    ("artifactory", rf"AKCp{_A}{{50,80}}(?!{_A})"),
    ("artifactory", rf"cmVmdGtu{_A}{{50,80}}(?!{_A})"),
    ("sonarqube", rf"sq[apu]_{_H}{{40}}"),
    ("circleci", rf"CCI(?:PAT|PRJ)_{_A}{{20,24}}_{_H}{{40}}"),
    ("buildkite", rf"bk[a-z]{{2}}_{_H}{{40}}"),
    ("sourcegraph", rf"sg[pds]_(?:(?:local|{_H}{{16}})_)?{_H}{{40}}"),
    ("pulumi", rf"pul-{_H}{{40}}"),
    ("vault", rf"hv[sbr]\.{_W}{{24,}}"),
    ("doppler", rf"dp\.(?:ct|pt|st|sa|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?{_A}{{40,44}}(?!{_A})"),
    ("infracost", rf"ico-{_A}{{32}}"),
    ("prefect", rf"pn[ub]_{_A}{{36}}"),
    ("octopus", rf"API-[A-Z0-9]{{26,32}}(?!{_A})"),
    ("launchdarkly", rf"api-{_UUID}"),
    ("launchdarkly", rf"sdk-{_UUID}"),
    ("launchdarkly", rf"mob-{_UUID}"),
    ("onepassword", rf"ops_eyJ{_W}{{100,}}=*"),
    ("onepassword", r"A3-[A-Z0-9]{6}-[A-Z0-9]{6,11}(?:-[A-Z0-9]{5}){3,4}"),
    ("dependency_track", rf"odt_{_A}{{8}}_{_A}{{32}}"),
    ("dependency_track", rf"odt_{_A}{{32,}}"),
    ("stackhawk", rf"hawk\.{_W}{{20}}\.{_W}{{20}}"),
    ("figma", rf"fig(?:[dour]|oh|ou|or)_{_W}{{38,}}"),
    ("postman", rf"PMAK-{_H}{{24}}-{_H}{{34}}"),
    ("readme", r"rdme_[a-z0-9]{70}"),
    # Models
    ("anthropic", rf"sk-ant-[a-z0-9]+-{_W}{{20,}}"),
    ("openai", rf"sk-(?:proj|svcacct|admin|service|None)-{_W}{{20,}}"),
    ("openrouter", rf"sk-or-v1-{_H}{{64}}"),
    ("langfuse", rf"sk-lf-{_UUID}"),
    ("langfuse", rf"pk-lf-{_UUID}"),
    ("sk_dash", rf"sk-{_W}{{0,12}}{_A}{{32,}}"),
    ("hugging_face", rf"hf_{_A}{{30,}}"),
    ("hugging_face", rf"api_org_{_A}{{30,}}"),
    ("groq", rf"gsk_{_A}{{40,}}"),
    ("xai", rf"xai-{_A}{{40,}}"),
    ("perplexity", rf"pplx-{_A}{{40,}}"),
    ("replicate", rf"r8_{_A}{{37}}"),
    ("nvidia", rf"nvapi-{_W}{{40,}}"),
    ("langsmith", rf"ls(?:v2_[a-z]{{2}}_{_H}{{32}}_{_H}{{10}}|__{_H}{{32}})"),
    ("tavily", rf"tvly-{_W}{{20,}}"),
    ("firecrawl", rf"fc-{_H}{{32}}"),
    ("pinecone", rf"pcsk_{_W}{{40,}}"),
    ("jina", rf"jina_{_A}{{40,}}{_W}*"),
    ("voyage", rf"pa-{_W}{{43}}(?!{_W})"),
    ("cerebras", rf"csk-{_A}{{40,}}"),
    ("fireworks", rf"fw_{_A}{{22,}}"),
    ("sandbox_e2b", rf"e2b_{_H}{{40}}"),
    ("weights_and_biases", rf"wandb_v1_{_W}{{40,}}"),
    # Payments and shops
    ("stripe", rf"sk_(?:live|test|prod)_{_A}{{10,}}"),
    ("stripe", rf"rk_(?:live|test|prod)_{_A}{{10,}}"),
    ("stripe_webhook", r"whsec_[A-Za-z0-9+/]{24,}={0,2}"),
    ("square", rf"sq0[a-z]{{3}}-{_W}{{22,43}}"),
    ("square", rf"EAAA{_W}{{60}}(?!{_W})"),
    ("braintree", rf"access_token\$(?:production|sandbox)\${_A}{{16}}\${_H}{{32}}"),
    ("razorpay", rf"rzp_(?:live|test)_{_A}{{14,}}"),
    ("plaid", rf"access-(?:sandbox|development|production)-{_UUID}"),
    ("flutterwave", rf"FLWSECK(?:_TEST)?-{_A}{{12,}}-X"),
    ("shopify", r"shp(?:at|ca|pa|ss|ua|tka|ptka)_[0-9a-fA-F]{32}"),
    ("easypost", rf"EZ[AT]K{_A}{{54}}"),
    ("shippo", rf"shippo_(?:live|test)_{_H}{{40}}"),
    ("duffel", r"duffel_(?:live|test)_[A-Za-z0-9_=-]{43}"),
    ("mollie", rf"live_{_A}{{30}}(?!{_A})"),
    ("mollie", rf"test_{_A}{{30}}(?!{_A})"),
    ("lob", rf"live_{_H}{{35}}(?!{_A})"),
    ("lob", rf"test_{_H}{{35}}(?!{_A})"),
    ("checkout", r"sk_(?:sbox_)?[a-z0-9]{26,}[*$#=]?"),
    ("gocardless", rf"live_{_W}{{40}}(?!{_W})"),
    ("gocardless", rf"sandbox_{_W}{{40}}(?!{_W})"),
    ("mercury", rf"secret-token:mercury_{_W}{{20,}}"),
    # Messages and people
    ("slack", r"xox[a-z]-[A-Za-z0-9-]{10,}"),
    ("slack", rf"xoxe\.xox[bp]-{_W}{{20,}}"),
    ("slack_app", rf"xapp-[0-9]-{_A}{{8,}}-[0-9]{{8,}}-{_H}{{40,}}"),
    ("sendgrid", rf"SG\.{_W}{{16,32}}\.{_W}{{32,64}}"),
    ("twilio", rf"SK{_H}{{32}}(?!{_A})"),
    ("twilio", rf"AC{_H}{{32}}(?!{_A})"),
    ("mailgun", rf"key-{_H}{{32}}"),
    ("mandrill", rf"md-{_W}{{22}}(?!{_W})"),
    ("brevo", rf"xkeysib-{_H}{{64}}-{_A}{{16}}"),
    ("brevo", rf"xsmtpsib-{_H}{{64}}-{_A}{{16}}"),
    ("resend", rf"re_{_A}{{7,9}}_{_A}{{20,28}}(?!{_A})"),
    ("klaviyo", rf"pk_{_H}{{34}}(?!{_A})"),
    ("pubnub", rf"p(?:ub|ec)-c-{_UUID}"),
    ("pubnub", rf"s(?:ub|ec)-c-{_UUID}"),
    ("pubnub", rf"sec-c-{_A}{{48}}"),
    ("telnyx", rf"KEY0{_H}{{31}}_{_A}{{22}}"),
    ("facebook", rf"EAA[A-Za-z]{_A}{{60,}}"),
    ("instagram", rf"IGQ[A-Za-z]{_W}{{60,}}"),
    ("twitter_bearer", r"AA{19,23}[A-Za-z0-9%]{60,}"),
    ("intercom", rf"dG9rO{_W}{{50,}}={{0,2}}"),
    # Work
    ("linear", rf"lin_(?:api|oauth)_{_A}{{32,}}"),
    ("notion", rf"ntn_{_A}{{40,}}"),
    ("notion", rf"secret_{_A}{{43}}(?!{_A})"),
    ("airtable", rf"pat{_A}{{14}}\.{_H}{{64}}"),
    ("hubspot", rf"pat-[a-z]{{2}}[0-9]-{_UUID}"),
    ("contentful", rf"CFPAT-{_W}{{43}}"),
    ("typeform", r"tfp_[A-Za-z0-9_.-]{40,}"),
    ("dropbox", rf"sl\.(?:u\.)?{_W}{{100,}}"),
    ("frameio", rf"fio-u-{_W}{{64}}"),
    ("adafruit", rf"aio_{_A}{{28}}(?!{_A})"),
    ("wakatime", rf"waka_(?:tok_)?{_W}{{30,}}"),
    ("riot", rf"RGAPI-{_UUID}"),
    ("thunderstore", rf"tss_{_A}{{32,}}"),
    ("particle", rf"ion_{_A}{{42}}"),
    ("zuplo", rf"zpk[a-z]_[a-z0-9]{{32}}_{_H}{{8}}"),
    ("mapbox", rf"sk\.eyJ{_W}{{40,}}\.{_W}{{15,}}"),
    ("mapbox", rf"tk\.eyJ{_W}{{40,}}\.{_W}{{15,}}"),
    # Watching
    ("new_relic", rf"NR(?:AK|II|JS|RA|SP|BR|IQ|AA)-{_W}{{19,42}}"),
    ("grafana", rf"glsa_{_A}{{32}}_[0-9a-fA-F]{{8}}"),
    ("grafana", r"glc_[A-Za-z0-9+/]{32,}={0,2}"),
    ("grafana", r"eyJrIjoi[A-Za-z0-9+/]{40,}={0,2}"),
    ("sentry", r"sntrys_eyJ[A-Za-z0-9+/=_-]{80,}"),
    ("sentry", rf"sntry[ua]_{_H}{{64}}"),
    ("dynatrace", r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("honeycomb", r"hc[abcx][a-z]{2}_[a-z0-9]{20,}"),
    ("private_key_base64", r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]{60,}"),
    ("age", r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    ("jwt", rf"ey[JI]{_W}{{8,{_MOST_HEADER}}}+\.(?:ey[JI]{_W}{{4,}}\.{_W}*|{_W}{{16,}}(?:\.{_W}*){{0,3}})"),
)
"""Vendor and form, one row per form; each starts with a letter or digit of its own. The first that fits is taken."""

MARKED_FORMATS: dict[str, tuple[str, str, str]] = {
    "azure_client_secret": (r"[A-Za-z0-9~._-]{3}[0-9]", "Q~", r"[A-Za-z0-9~._-]{31,34}"),
    "azure_devops": (rf"{_A}{{76}}", "AZDO", rf"{_A}{{4}}"),
    "google_client": (rf"[0-9]{{6,20}}-{_A}{{32}}", ".apps.google", r"usercontent\.com"),
    "terraform": (rf"{_A}{{14}}", ".atlasv1.", rf"{_W}{{60,}}"),
    "vault_legacy": ("[sbr]", ".", rf"{_A}{{24,32}}(?![A-Za-z0-9._-])"),
    "discord_bot": (rf"[MNO]{_W}{{22,27}}", ".", rf"{_W}{{6}}\.{_W}{{27,45}}(?!{_W})"),
    "telegram_bot": ("[0-9]{7,10}", ":A", rf"{_W}{{32,36}}(?!{_W})"),
    "mailchimp": (rf"{_H}{{32}}", "-us", rf"[0-9]{{1,2}}(?!{_A})"),
    "asana": ("[0-9]/[0-9]{10,20}(?:/[0-9]{10,20})?", ":", rf"{_H}{{32}}"),
    "deepl": (_UUID, ":fx", ""),
    "zoho": ("", "1000.", rf"{_H}{{32}}\.{_H}{{32}}"),
    "truenas": ("[0-9]{1,4}", "-", rf"{_A}{{64}}(?!{_A})"),
    "google_refresh": ("", "1//0", rf"{_W}{{38,}}"),
    "salesforce": ("00D[A-Za-z0-9]{12,15}", "!", "[A-Za-z0-9_.]{40,}"),
    "firebase_messaging": (rf"AAAA{_W}{{7}}", ":", rf"{_W}{{130,150}}"),
    "mailgun_new": (rf"{_H}{{32}}", "-", rf"{_H}{{8}}-{_H}{{8}}(?!{_A})"),
    "new_relic_licence": ("[0-9a-z]{36}", "NRAL", rf"(?!{_A})"),
}
"""Those that start with anything: what stands before the text that each one has, that text, and what follows it."""

_TYPES = (("ey", "auth_token"), ("ya29.", "auth_token"), ("AGE-", "private_key"), ("LS0t", "private_key"))
_LETTERS_ALONE = ("AKIA", "ASIA", "ABIA", "ACCA", "AIza")
"""How keys begin that may lack a digit and a sign. All others of letters alone are chance: a row of zeros in base64."""
_START = r"(?<![A-Za-z0-9])(?:"


def _by_first_character() -> str:
    """One pattern for all forms. The engine tries every branch of a group in turn, so there are few per group."""
    grouped: dict[str, list[str]] = {}
    for _, pattern in KEY_FORMATS:
        grouped.setdefault(pattern[0], []).append(pattern[1:])
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in grouped.items())


KEY = _by_first_character()
"""A key of any of the forms, as a pattern."""
_KEY = re.compile(_START + KEY + ")")
_KEY_INSIDE = re.compile(rf"[^A-Za-z0-9](?:{KEY})")
"""The same behind a sign: the engine goes from one to the next."""
_MARKED = tuple(
    (re.compile(re.escape(mark) + tail), re.compile(f"{_START}{head}{re.escape(mark)}{tail})"))
    for head, mark, tail in MARKED_FORMATS.values()
)
"""Each from its mark on, which the engine finds fast, and as a whole."""


def find_keys(text: str) -> Iterator[Span]:
    """The keys of the text, each where a word begins. Linear in the text: no form fails after a long look ahead."""
    place = 0
    key = _KEY.match(text)
    while True:
        while key:
            place = key.end()
            if not key[0].isalpha() or key[0].startswith(_LETTERS_ALONE):
                yield Span(key.start(), place, _type_of_key(key[0]))
            key = _KEY.match(text, place)  # the last sign of one key may stand before the next
        sign = _KEY_INSIDE.search(text, place)
        if sign is None:
            break
        key = _KEY.match(text, sign.start() + 1)
    for tail, pattern in _MARKED:
        if tail.search(text):
            for marked in pattern.finditer(text):
                yield Span(*marked.span(), "api_key")


def _type_of_key(key: str) -> str:
    return next((name for start, name in _TYPES if key.startswith(start)), "api_key")


_STEMS = tuple(
    "pass pwd secret token key credential bearer authorization cookie session contrasena kennwort senha wachtwoord"
    " salasana heslo".split()
)
"""Where it is worth to look closer, in lower case."""
_STEMS_ABROAD = tuple(
    "contraseña Contraseña пароль Пароль 密码 密碼 パスワード 비밀번호 hasło Hasło şifre Şifre lösenord Lösenord"
    " סיסמה".split()
)

_NAME_BEFORE = re.compile(
    r"[a-z0-9_.\-]{0,40}(?: (?:ipa|sseccas|terces|etavirp|htua|noisses|hserfer|tneilc|gningis|laesnu|noitpyrcne))?"
)
"""The rest of the name in front of the stem, read backwards."""
_ASSIGNED = re.compile(
    r"""
    (?P<name>[A-Za-z0-9_\-]{0,40})(?:[ ][0-9]{1,2})?["'`\]]{0,2}
    (?P<operator>
        [ \t]{0,24}(?:=>|:=|={1,3}|:[ ]?[A-Za-z_.\[\]|]{1,30}[ ]?=(?!=)|:|->|>)\s{0,24}
      | \s{1,4}(?:value|default|content)\s?=\s?
      | \s(?:is|was|are|to)[ :]{1,2}
      | [ \t]{1,2}
    )
    (?:(?P<scheme>bearer|basic|token|apikey|digest|ssws)\s{1,3})?
    (?:"(?P<double>[^"\n]{1,600})"?|'(?P<single>[^'\n]{1,600})'?|`(?P<back>[^`\n]{1,600})`?
      |(?P<bare>[^\s"'`,;&<>(){}\[\]|]{1,600}))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PASSWORD = re.compile(
    r"(?:password|passwd|passwort|passphrase|passcode|kennwort|contrasena|senha|wachtwoord|salasana|heslo"
    r"|(?:^|[_.\-]|db|my|user|root|admin|smtp|ftp|sql)(?:pwd|pass|pw))[0-9]{0,2}$"
)
_TOKEN = re.compile(r"token$|session(?:[_.\-]?(?:id|key))?$")
_NO_TOKEN = re.compile(
    r"(?:next|page|continuation|cursor|sync|scroll|resume|start|max|end|stop|pad|sep|cls|mask|eos|bos|unk)[_.\-]?token$"
)
_SECRET = re.compile(r"secret[_.\-]?(?:access[_.\-]?)?(?:key|token)?$|credentials?$")
_KEY_NAME = re.compile(r"key$|authorization$")
_NO_KEY = re.compile(
    r"(?:public|primary|foreign|sort|partition|cache|object|s3|unique|hash|range|index|row|group|lookup|idempotency|routing"
    r"|translation|i18n|issue|field|column|file|path|image|asset|map|dict|storage_?object|bucket|record|item|parent|tur|mon|don"
    r"|whis|hot|short|arrow)[_.\-]?key$"
)
_PLACEHOLDER = re.compile(
    r"""
    [*x.\-_\#?]{3,} | <.*>? | [$#]\{?\{?\w.* | \{\{.* | %\w.* | \[.* | &lt;.* | [+,.&)/].* | https?:.* | your.*
    | .*passw.*[/\#:].* | [/\#].*passw.*
    | str | string | text | varchar | char | bytes | int | integer | bool | boolean | true | false | null | none | nil
    | undefined | optional | required | any | object | yes | no | empty | example | sample | placeholder | redacted
    | masked | hidden | secret | password | passwd | pass | pwd | token | key | value | n/a | incorrect | invalid
    | wrong | correct | expired | missing | changed | reset | protected | needed | self | this | new | old | for | and
    | or | the | a | an | in | on | of | to | with | must | should | cannot | will | field | policy | manager | hash
    | hashing | input | prompt | value= | set | update | updated
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|\w*passw\w*|\w*_pwd|self\b.*|this\b.*", re.IGNORECASE)
_UUID_VALUE = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_KEY_TEXT = re.compile(r"[A-Za-z0-9+/=_.~:\-!@#$%^*]+")
_DIGIT, _LETTER = re.compile("[0-9]"), re.compile("[A-Za-z]")
_KINDS = (_DIGIT, re.compile("[A-Z]"), re.compile("[a-z]"), re.compile(r"[!@#$%^&*+=?()]"))
_LONG_VALUE = 128
"""A value of this length that is no secret is not searched for further names: it would be read again and again."""
_SWITCH = re.compile(
    r"[ \t]-u[ =]?[\"']?(?P<both>[^\s\"':]{1,80}:[^\s\"']{3,120})|[ \t]-u \S{1,80} -p (?P<word>[^\s\"'$%]{3,80})"
)


class _Assignment(NamedTuple):
    """A name and the text that is assigned to it."""

    name: str
    operator: str
    scheme: str | None
    value: str
    start: int
    is_quoted: bool
    rest: str
    """The two characters behind the value."""

    def span(self, type: str) -> Span:  # noqa: A002
        return Span(self.start, self.start + len(self.value), type)


def find_assigned(plain: str, text: str) -> Iterator[Span]:
    """The secrets of the text by their names. `plain` is the text in ASCII, of the same length."""
    lower = plain.lower()
    done = 0
    places = _Places(lower, _STEMS)
    while place := places.find(done):
        start, end = place
        if found := _ASSIGNED.match(plain, end):
            before = _NAME_BEFORE.match(lower[max(0, start - 52) : start][::-1])
            name = (before[0][::-1] if before else "") + lower[start:end] + found["name"].lower()
            assignment = _assignment(name.replace(" ", "_"), found)
            if span := _secret(assignment):
                done = span.end
                yield span
            elif len(assignment.value) > _LONG_VALUE:
                done = assignment.start + len(assignment.value)
    if not text.isascii():
        places = _Places(text, _STEMS_ABROAD)
        while place := places.find(0):
            found = _ASSIGNED.match(plain, place[1])
            if found and found["operator"].strip() and (span := _password(_assignment("", found))):
                yield span
    if " -u" in plain:
        for switch in _SWITCH.finditer(plain):
            yield Span(*switch.span(switch.lastgroup or 0), "password")


class _Places:
    """Where stems stand in a text, in order. A search per stem is faster than one pattern with all of them."""

    def __init__(self, text: str, stems: tuple[str, ...]) -> None:
        self._text = text
        self._next = [(start, stem) for stem in stems if (start := text.find(stem)) >= 0]
        heapify(self._next)

    def find(self, least: int) -> tuple[int, int] | None:
        """The next place that does not begin before `least`; those that do are passed over."""
        while self._next:
            start, stem = self._next[0]
            end = start + len(stem)
            following = self._text.find(stem, max(end, least))
            if following < 0:
                heappop(self._next)
            else:
                heapreplace(self._next, (following, stem))
            if start >= least:
                return start, end
        return None


def _assignment(name: str, found: re.Match[str]) -> _Assignment:
    group = next(group for group in ("double", "single", "back", "bare") if found[group] is not None)
    value = found[group].rstrip(".:!?\\") if group == "bare" else found[group]
    start = found.start(group)
    rest = found.string[start + len(value) : start + len(value) + 2]
    return _Assignment(name, found["operator"].strip(), found["scheme"], value, start, group != "bare", rest)


def _secret(found: _Assignment) -> Span | None:
    """The value, if the name and its own look say that it is secret."""
    name, value = found.name, found.value
    if found.scheme or name == "bearer":
        return _bearer(found)
    if value.startswith("__PII_"):
        return None
    if _PASSWORD.search(name):
        return _password(found) if found.operator or name.startswith("--") else _spoken_password(found)
    is_code = not found.is_quoted and _CODE.fullmatch(value) is not None
    if _SECRET.search(name):
        is_odd = (
            found.is_quoted
            and found.operator
            and len(value) >= 8
            and " " not in value
            and kinds_of_characters(value) >= 2
        )
        is_secret = (is_odd and not _PLACEHOLDER.fullmatch(value)) or is_random(value, least=12)
        return found.span("api_key") if is_secret and not is_code and (found.operator or found.is_quoted) else None
    if name.endswith("cookie"):
        return _cookie(found)
    if _TOKEN.search(name) and not _NO_TOKEN.search(name):
        return found.span("auth_token") if is_random(value, least=16) and not is_code else None
    if _KEY_NAME.search(name) and not _NO_KEY.search(name) and (found.operator or name.endswith("api_key")):
        is_bare_name = name in {"key", "-key"}
        least = 30 if is_bare_name else 16
        is_hash = is_bare_name and (_UUID_VALUE.fullmatch(value) or (value.isalnum() and value.lower() == value))
        return found.span("api_key") if not is_hash and not is_code and is_random(value, least=least) else None
    return None


def _password(found: _Assignment) -> Span | None:
    """A password after an operator: whatever stands there, if it is neither a placeholder nor code."""
    value = found.value
    if len(value) < 3 or _PLACEHOLDER.fullmatch(value):
        return None
    if found.is_quoted:
        return found.span("password") if value.count(" ") < 4 and value.strip() else None
    is_sentence = value.isalpha() and found.rest[:1] == " " and found.rest[1:].isalpha()
    if _CODE.fullmatch(value) or is_sentence or found.rest[:1] in {"(", "["}:
        return None
    return found.span("password")


def _spoken_password(found: _Assignment) -> Span | None:
    """A password after the mere word, in prose: only what no word of a language looks like."""
    is_word = kinds_of_characters(found.value) < 2 or (found.value.istitle() and found.value.isalpha())
    if found.name.endswith(("pass", "pw")) or "=" in found.value:
        return None
    if len(found.value) < 6 or is_word or _PLACEHOLDER.fullmatch(found.value):
        return None
    return found.span("password")


def kinds_of_characters(value: str) -> int:
    """How many of digits, capitals, small letters and signs the value has."""
    return sum(1 for kind in _KINDS if kind.search(value))


def _bearer(found: _Assignment) -> Span | None:
    """What follows `Bearer` or `Basic`; in prose, where a bearer may be a person, no plain word."""
    value = found.value
    is_prose = not found.scheme and not found.operator
    if not _KEY_TEXT.fullmatch(value) or len(value) < 8 or (is_prose and value.isalpha() and len(value) < 20):
        return None
    return None if value.startswith("__PII_") else found.span("auth_token")


def _cookie(found: _Assignment) -> Span | None:
    """The value of the first cookie of a header, if chance made it."""
    name, separator, content = ("", "", found.value) if "=" in found.operator else found.value.partition("=")
    content = content.partition(";")[0]
    start = found.start + len(name) + len(separator)
    return Span(start, start + len(content), "auth_token") if is_random(content, least=16) else None


def is_random(value: str, *, least: int) -> bool:
    """Whether the text looks like a key: long enough, no spaces, letters and digits, no word and no placeholder."""
    if len(value) < least or value.startswith("__PII_") or not _KEY_TEXT.fullmatch(value):
        return False
    if not (_DIGIT.search(value) and _LETTER.search(value)) or _PLACEHOLDER.fullmatch(value):
        return False
    counts = Counter(value).values()
    entropy = -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
    # A text of n characters can have log2(n) bits each: chance hardly ever stays below two thirds of that.
    return entropy >= min(2.7, 0.66 * math.log2(len(value)))
