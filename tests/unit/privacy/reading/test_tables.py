"""Structure in texts: tables, lines, tags, and data in the middle of prose."""

import pytest

from sealyard.privacy.detect import Scanner

TEXTS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "csv": ("first_name,plan\nUla,gold\nIvo,basic\n", [("person", "Ula"), ("person", "Ivo")]),
    "quoted csv": (
        'first_name,note\n"Ula ""UU"" Berg","red, blue"\nIvo,x\n',
        [("person", 'Ula ""UU"" Berg'), ("person", "Ivo")],
    ),
    "semicolons": (
        'Vorname;Nachname;"Straße";PLZ\n"Udo";"Kern";"Weg 3; Hof";04109\n',
        [("person", "Udo"), ("person", "Kern"), ("address", "Weg 3; Hof"), ("address", "04109")],
    ),
    "csv with a break in a cell": (
        'street,city\n"12 Elm Row\nBack House",Hull\n',
        [("address", "12 Elm Row\nBack House"), ("address", "Hull")],
    ),
    "csv without header": (
        "Anna Weber,anna@weber.example,3\nPaul Klein,paul@klein.example,4\nSofia Rossi,sofia@rossi.example,1\n",
        [
            ("person", "Anna Weber"),
            ("email", "anna@weber.example"),
            ("person", "Paul Klein"),
            ("email", "paul@klein.example"),
            ("person", "Sofia Rossi"),
            ("email", "sofia@rossi.example"),
        ],
    ),
    "tabs": ("name\temail\nAnn Walsh\tann@walsh.example\n", [("person", "Ann Walsh"), ("email", "ann@walsh.example")]),
    "psql": (
        " id | first_name | visits\n----+------------+--------\n"
        "  1 | Ann Lee    |      4\n  2 | Jo         |      9\n(2 rows)\n",
        [("person", "Ann Lee"), ("person", "Jo")],
    ),
    "mysql": (
        "+----+------------+------------+\n| id | first_name | birth_date |\n+----+------------+------------+\n"
        "|  1 | Mia        | 1990-01-02 |\n+----+------------+------------+\n",
        [("person", "Mia"), ("date_of_birth", "1990-01-02")],
    ),
    "markdown": (
        "# Report\n\n| Name | Email |\n|---|---|\n| Ula Holt | ula@holt.example |\n\nDone.\n",
        [("person", "Ula Holt"), ("email", "ula@holt.example")],
    ),
    "aligned lines": (
        "Customer:  Ula Holt\nBorn:      3 May 1980\nLogin:     uholt\n",
        [("person", "Ula Holt"), ("date_of_birth", "3 May 1980"), ("username", "uholt")],
    ),
    "aligned lines of several words": (
        "First name:  Ula\nLast name:   Holt\nStreet:      Elm Way\n",
        [("person", "Ula"), ("person", "Holt"), ("address", "Elm Way")],
    ),
    "columns aligned by spaces are prose": (
        "First name    Email\nUla           ula@one.example\nRon Lee       ron@two.example\n",
        [("email", "ula@one.example"), ("email", "ron@two.example")],
    ),
    "lines": (
        "Name: Ula Holt\nDate of birth: 3 May 1980\nPhone: 030 12345\nStatus: active\n",
        [("person", "Ula Holt"), ("date_of_birth", "3 May 1980"), ("phone", "030 12345")],
    ),
    "arrows": (
        "'first_name'   => 'Ula',\n'phone'        => '030 12345',\n",
        [("person", "Ula"), ("phone", "030 12345")],
    ),
    "one line": (
        "Customer: Ula Holt, Phone: 030 12345, City: Bonn\n",
        [("person", "Ula Holt"), ("phone", "030 12345"), ("address", "Bonn")],
    ),
    "one line without spaces": (
        "SSN:536-22-8145;DOB:1990-01-01",
        [("ssn", "536-22-8145"), ("date_of_birth", "1990-01-01")],
    ),
    "bold lines": ("**First name:** Ula\n- **Phone**: 030 555 1234\n", [("person", "Ula"), ("phone", "030 555 1234")]),
    "yaml": (
        "customer:\n  first_name: Ula\n  address:\n    street: Elm Way 3\n"
        "    city: Bonn\norder:\n  id: 5\n  name: Blue Chair\n",
        [("person", "Ula"), ("address", "Elm Way 3"), ("address", "Bonn")],
    ),
    "yaml list": (
        "users:\n  - name: Ula Holt\n    email: ula@holt.example\n  - name: Ron Day\n    email: ron@day.example\n",
        [("person", "Ula Holt"), ("email", "ula@holt.example"), ("person", "Ron Day"), ("email", "ron@day.example")],
    ),
    "log": (
        'level=info user=uholt first_name="Ula" msg="login ok"\nlevel=info user=rday first_name="Ron" msg="login ok"\n',
        [("username", "uholt"), ("person", "Ula"), ("username", "rday"), ("person", "Ron")],
    ),
    "query string": (
        "https://shop.example/cb?first_name=Ula&last_name=Holt&plan=gold",
        [("person", "Ula"), ("person", "Holt")],
    ),
    "vcard": (
        "BEGIN:VCARD\nVERSION:3.0\nFN:Ula Holt\nTEL;TYPE=CELL:+1 555 0100\nBDAY:1980-05-03\nEND:VCARD\n",
        [("person", "Ula Holt"), ("phone", "+1 555 0100"), ("date_of_birth", "1980-05-03")],
    ),
    "xml": (
        '<users><user id="5" username="uholt"><firstName>Ula</firstName><plan>gold</plan></user></users>',
        [("username", "uholt"), ("person", "Ula")],
    ),
    "html table": (
        "<table><tr><th>First name</th><th>Plan</th></tr><tr><td>Ula</td><td>gold</td></tr></table>",
        [("person", "Ula")],
    ),
    "python": (
        "[{'first_name': 'Ula', 'born': datetime.date(1980, 5, 3)}, {'first_name': \"O'Day\", 'born': None}]",
        [("person", "Ula"), ("date_of_birth", "datetime.date(1980, 5, 3)"), ("person", "O'Day")],
    ),
    "python object": (
        "User(id=5, first_name='Ula', address=Address(street='Elm Way 3', city='Bonn'), active=True)",
        [("person", "Ula"), ("address", "Elm Way 3"), ("address", "Bonn")],
    ),
    "javascript": ("{first_name: 'Ula', phone: 5550100100, tags: ['a']}", [("person", "Ula"), ("phone", "5550100100")]),
    "sql": (
        "INSERT INTO users (first_name, plan) VALUES ('Ula', 'gold'), ('Ron', 'basic');",
        [("person", "Ula"), ("person", "Ron")],
    ),
    "json in prose": ('Here it is:\n```json\n{"first_name": "Ula", "n": 3}\n```\nDone.', [("person", "Ula")]),
    "json in logs": (
        '12:01 INFO {"user": {"first_name": "Ula"}} ok\n12:02 INFO {"user": {"first_name": "Ron"}} ok',
        [("person", "Ula"), ("person", "Ron")],
    ),
    "json lines": ('{"first_name": "Ula"}\n{"first_name": "Ron"}\n', [("person", "Ula"), ("person", "Ron")]),
    "json that is cut off": (
        '[{"first_name": "Ula", "phone": "030 55501"}, {"first_name": "Ron", "phone": "030 5',
        [("person", "Ula"), ("phone", "030 55501"), ("person", "Ron"), ("phone", "030 5")],
    ),
    "json with escapes": (
        '{"first_name": "J\\u00fcrgen \\"J\\"", "note": "mail \\u00fc\\n ula@holt.example"}',
        [("person", 'J\\u00fcrgen \\"J\\"'), ("email", "ula@holt.example")],
    ),
    "a key twice": (
        '{"first_name": "Ula", "first_name": "Ron"}',
        [("person", "Ula"), ("person", "Ron")],
    ),
    "a private key twice": (
        '{"ula@holt.example": 1, "ula@holt.example": 2}',
        [("email", "ula@holt.example"), ("email", "ula@holt.example")],
    ),
    "private headers": (
        "user,ula@holt.example,ron@day.example\nx,1,2\n",
        [("email", "ula@holt.example"), ("email", "ron@day.example")],
    ),
    "prose": (
        "Dear Mr. Holt, my name is Ula Day, born on 3 May 1980. She lives at 5 Elm Street, Bonn.",
        [("person", "Holt"), ("person", "Ula Day"), ("date_of_birth", "3 May 1980"), ("address", "5 Elm Street, Bonn")],
    ),
    "mail header": ("From: Ula Day <ula@day.example>", [("person", "Ula Day"), ("email", "ula@day.example")]),
}


@pytest.mark.parametrize("form", TEXTS)
def test_private_fields_are_found_in_every_form_of_text(form: str) -> None:
    """The offsets are those of the text as it is written."""
    text, private = TEXTS[form]
    assert [(span.type, text[span.start : span.end]) for span in Scanner().find(text)] == private


@pytest.mark.parametrize("form", TEXTS)
def test_concealing_a_text_twice_changes_nothing_more(form: str) -> None:
    """Tokens in the place of values leave the form as it was."""
    scanner = Scanner()

    def replace(kind: str, value: object) -> str:
        return f"__PII_{kind}_{len(str(value)):012x}__"

    concealed = scanner.conceal(TEXTS[form][0], replace)
    assert scanner.conceal(concealed, replace) == concealed
    assert scanner.find(concealed) == []


def test_a_number_in_json_text_becomes_a_quoted_token() -> None:
    """The text stays JSON, at every level of JSON in strings."""
    scanner = Scanner()
    assert scanner.conceal('{"phone": 5550100100}', lambda kind, value: f"<{value!r}>") == '{"phone": "<5550100100>"}'
    nested = '{"body": "{\\"body\\": \\"{\\\\\\"phone\\\\\\": 5550100100}\\"}"}'
    assert (
        scanner.conceal(nested, lambda kind, value: "T")
        == '{"body": "{\\"body\\": \\"{\\\\\\"phone\\\\\\": \\\\\\"T\\\\\\"}\\"}"}'
    )
    assert (
        scanner.conceal('plan,data\n1,"{""phone"": 5550100100}"\n', lambda kind, value: "T")
        == 'plan,data\n1,"{""phone"": ""T""}"\n'
    )


def test_every_cell_of_a_private_column_is_concealed() -> None:
    """Also those that do not look like the others, but not those that say there is nothing."""
    text = "phone,plan\n030 1234567,a\nask reception,b\nn/a,c\n,d\n***,e\n"
    assert [text[span.start : span.end] for span in Scanner().find(text)] == ["030 1234567", "ask reception"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_long_tables_cells_are_found_where_they_stand(delimiter: str, end: str) -> None:
    """Rows are read many at a time: with blanks, with missing and with more cells, beside rows in quotation marks."""
    rows = [["id", "first_name", "note"]]
    rows += [[str(number), f"Ula{number}", "x"] for number in range(20)]
    rows += [["21", "  Ivo ", "y"], ["22", ""], ["23", "", "z"], ["24", "Mia"], ["25", "Leo", "a", "b", "c"]]
    rows += [[str(number), f"Ann{number}", "x"] for number in range(26, 40)]
    rows += [["40", '"Zoe, ""Z"""', "x"], *([str(number), f"Jon{number}", "x"] for number in range(41, 60))]
    text = end.join(delimiter.join(row) for row in rows) + end
    private = [row[1].strip().removeprefix('"').removesuffix('"') for row in rows[1:] if len(row) > 1 and row[1]]
    assert [text[span.start : span.end] for span in Scanner().find(text)] == private


def test_what_more_cells_than_columns_hold_is_of_the_last_column() -> None:
    """In a long table as in a short one."""
    for count in (1, 50):
        text = "id,first_name\n" + "7,Ula\n7,Ivo,Mia\n" * count
        assert [text[span.start : span.end] for span in Scanner().find(text)] == ["Ula", "Ivo", "Mia"] * count


MANY = "a\tb\n" * 300
"""More lines than are looked at one by one."""


@pytest.mark.parametrize(
    ("line", "private"),
    [
        ("\t- **First name**: Ula", "Ula"),
        ("k1: Jane Miller", "Jane Miller"),
        ("home: 12 Elm Street", "12 Elm Street"),
        ("plan=a, first_name=Ula", "Ula"),
        ("plan: a, first_name: Ula", "Ula"),
        ("plan: a; first_name: Ula", "Ula"),
        ("-\tfirst_name:\tUla", "Ula"),
        ("> 3.\t'first_name':\tUla", "Ula"),
        ("the user's first_name: Ula", "Ula"),
        ("BEGIN:VCARD\nFN:Ula Holt", "Ula Holt"),
        ("TEL;TYPE=home:ask 12345 for Ula", "ask 12345 for Ula"),
    ],
)
def test_one_private_line_among_many_is_found(line: str, private: str) -> None:
    """By its name, by its value, by the second name in it."""
    text = MANY + "\n" + line + "\n\n" + MANY
    assert private in [text[span.start : span.end] for span in Scanner().find(text)]


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ('<p class="x">a</p><phone value="2020-01-02"/>', "2020-01-02"),
        ('title=\'a<p first_name="Ula">b</p>', "Ula"),
        ('<p class="x"><b alt="Jane Miller">a</b></p><b alt="Paul Klein"/><b alt="Anna Weber"/>', "Anna Weber"),
        ('<p k1="Jane Miller">a</p>', "Jane Miller"),
        ("?=x first_name=Ula", "Ula"),
        ("/a=b first_name=Ula", "Ula"),
        ("1 a.b=c,first_name='Ula'\n", "Ula"),
    ],
)
def test_what_stands_before_a_name_does_not_hide_it(text: str, private: str) -> None:
    """Attributes and pairs are looked for from their signs, whatever else is written."""
    assert private in [text[span.start : span.end] for span in Scanner().find(text)]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("before", ["", "x\n", "\n"])
def test_no_table_begins_with_a_line_of_delimiters(before: str) -> None:
    """Nothing else of the text is lost by such a line, and reading comes to an end."""
    text = before + "\t\t\na\tula@one.example\tc\nd\tivo@two.example\tf\n"
    assert [text[span.start : span.end] for span in Scanner().find(text)] == ["ula@one.example", "ivo@two.example"]
