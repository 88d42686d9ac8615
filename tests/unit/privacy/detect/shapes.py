"""Records as real systems answer them, with what is private in each, and business data in which nothing is."""

from typing import Any

Private = dict[str, list[Any]]
"""Values by type."""

PERSONAL: dict[str, tuple[Any, Private]] = {
    "crm contact": (
        {
            "id": 7,
            "firstName": "Mara",
            "lastName": "Quist",
            "email": "mara@quist.example",
            "stage": "lead",
            "score": 81,
        },
        {"person": ["Mara", "Quist"], "email": ["mara@quist.example"]},
    ),
    "salesforce contact": (
        {
            "attributes": {"type": "Contact", "url": "/services/data/v59.0/sobjects/Contact/003"},
            "Id": "0035g00000XyZ",
            "Name": "Tamsin Oakes",
            "MailingStreet": "14 Tide Row",
            "MailingCity": "Hull",
            "MailingPostalCode": "HU1 1AA",
            "MobilePhone": "07700 900123",
            "Account": {"Name": "Northern Rope Ltd"},
        },
        {"person": ["Tamsin Oakes"], "address": ["14 Tide Row", "Hull", "HU1 1AA"], "phone": ["07700 900123"]},
    ),
    "hubspot properties": (
        {
            "id": "51",
            "properties": {
                "firstname": "Ivo",
                "lastname": "Brandt",
                "phone": "+49 30 901820",
                "lifecyclestage": "customer",
            },
            "createdAt": "2024-03-01T10:00:00Z",
        },
        {"person": ["Ivo", "Brandt"], "phone": ["+49 30 901820"]},
    ),
    "stripe customer": (
        {
            "id": "cus_9s6XKzkNRiz8i3",
            "object": "customer",
            "name": "Ada Vance",
            "email": "ada@vance.example",
            "address": {
                "line1": "9 Mill Lane",
                "line2": None,
                "city": "Leeds",
                "postal_code": "LS1 4AP",
                "country": "GB",
            },
            "balance": 0,
            "currency": "gbp",
            "phone": None,
        },
        {"person": ["Ada Vance"], "email": ["ada@vance.example"], "address": ["9 Mill Lane", "Leeds", "LS1 4AP"]},
    ),
    "stripe charge": (
        {
            "id": "ch_1",
            "amount": 1999,
            "billing_details": {"name": "Bo Lindqvist", "email": None, "address": {"postal_code": "11122"}},
            "payment_method_details": {"card": {"brand": "visa", "last4": "4242", "exp_month": 4}},
        },
        {"person": ["Bo Lindqvist"], "address": ["11122"]},
    ),
    "github user": (
        {
            "login": "hopperfan",
            "id": 1,
            "name": "Grace Okoye",
            "email": None,
            "bio": None,
            "public_repos": 8,
            "type": "User",
        },
        {"username": ["hopperfan"], "person": ["Grace Okoye"]},
    ),
    "github issue": (
        {
            "number": 12,
            "title": "Crash on start",
            "state": "open",
            "user": {"login": "rivkal", "id": 9, "type": "User"},
            "assignee": {"login": "tomasz-w"},
            "labels": [{"name": "bug", "color": "f00"}],
        },
        {"username": ["rivkal", "tomasz-w"]},
    ),
    "jira issue": (
        {
            "key": "OPS-3",
            "fields": {
                "summary": "Rotate certificates",
                "status": {"name": "In Progress"},
                "assignee": {"displayName": "Hanne Vold", "emailAddress": "hanne@vold.example", "accountId": "5b1"},
                "priority": {"name": "High"},
                "project": {"key": "OPS", "name": "Operations"},
            },
        },
        {"person": ["Hanne Vold"], "email": ["hanne@vold.example"]},
    ),
    "slack member": (
        {
            "id": "U012AB3CD",
            "team_id": "T012AB3C4",
            "name": "spengler",
            "real_name": "Egon Spengler",
            "tz": "America/Los_Angeles",
            "profile": {"display_name": "egon", "email": "egon@spengler.example", "phone": "5550109"},
        },
        {
            "person": ["Egon Spengler", "egon"],
            "username": ["spengler"],
            "email": ["egon@spengler.example"],
            "phone": ["5550109"],
        },
    ),
    "google person": (
        {
            "resourceName": "people/c1",
            "names": [{"displayName": "Ren Abe", "familyName": "Abe", "givenName": "Ren"}],
            "birthdays": [{"date": {"year": 1990, "month": 4, "day": 2}, "text": "4/2/1990"}],
            "phoneNumbers": [{"value": "(415) 555-0132", "type": "mobile"}],
        },
        {"person": ["Ren Abe", "Abe", "Ren"], "phone": ["(415) 555-0132"], "date_of_birth": ["4/2/1990"]},
    ),
    "google calendar": (
        {
            "summary": "Quarterly review",
            "organizer": {"email": "pat@orchard.example", "displayName": "Pat Orchard", "self": True},
            "attendees": [{"email": "lee@orchard.example", "displayName": "Lee Marsh", "responseStatus": "accepted"}],
        },
        {"person": ["Pat Orchard", "Lee Marsh"], "email": ["pat@orchard.example", "lee@orchard.example"]},
    ),
    "gmail headers": (
        {
            "id": "18c",
            "payload": {
                "headers": [
                    {"name": "From", "value": "Nadia Petrova <nadia@petrova.example>"},
                    {"name": "Subject", "value": "Invoice"},
                ]
            },
        },
        {"person": ["Nadia Petrova"], "email": ["nadia@petrova.example"]},
    ),
    "microsoft graph user": (
        {
            "displayName": "Adele Vance",
            "givenName": "Adele",
            "surname": "Vance",
            "jobTitle": "Retail Manager",
            "mobilePhone": "+1 425 555 0109",
            "userPrincipalName": "adele@vance.example",
            "officeLocation": "18/2111",
        },
        {
            "person": ["Adele Vance", "Adele", "Vance"],
            "phone": ["+1 425 555 0109"],
            "email": ["adele@vance.example"],
        },
    ),
    "shopify order": (
        {
            "id": 450789469,
            "customer": {"first_name": "Bob", "last_name": "Norman", "orders_count": 1},
            "shipping_address": {
                "address1": "Chestnut Street 92",
                "city": "Louisville",
                "zip": "40202",
                "province": "Kentucky",
            },
            "line_items": [
                {"title": "IPod Nano", "sku": "IPOD2008GREEN", "price": "199.00", "name": "IPod Nano - green"}
            ],
        },
        {"person": ["Bob", "Norman"], "address": ["Chestnut Street 92", "Louisville", "40202"]},
    ),
    "woocommerce billing": (
        {
            "billing": {
                "first_name": "Ella",
                "last_name": "Storm",
                "address_1": "969 Market",
                "postcode": "94103",
                "phone": "5555550143",
            }
        },
        {"person": ["Ella", "Storm"], "address": ["969 Market", "94103"], "phone": ["5555550143"]},
    ),
    "workday worker": (
        {
            "Employee_ID": "21001",
            "Legal_Name": {"First_Name": "Logan", "Last_Name": "McNeil", "Country": "US"},
            "Date_of_Birth": "1971-05-25",
            "Position_Title": "Chief HR Officer",
            "Hire_Date": "2000-01-01",
        },
        {"person": ["Logan", "McNeil"], "date_of_birth": ["1971-05-25"]},
    ),
    "payroll": (
        [
            {"employee": "Irma Stock", "salary": 51000, "iban": "DE89370400440532013000", "tax_id": "12 345 678 903"},
            {"employee": "Udo Kern", "salary": 48000, "iban": "DE02120300000000202051", "tax_id": "98 765 432 106"},
        ],
        {
            "person": ["Irma Stock", "Udo Kern"],
            "iban": ["DE89370400440532013000", "DE02120300000000202051"],
            "tax_id": ["12 345 678 903", "98 765 432 106"],
        },
    ),
    "hospital patient": (
        {
            "mrn": "MRN-004512",
            "patient_name": "Joan Ruiz",
            "dob": "03/14/1958",
            "sex": "F",
            "ward": "7B",
            "diagnosis": "I10",
        },
        {"medical_id": ["MRN-004512"], "person": ["Joan Ruiz"], "date_of_birth": ["03/14/1958"]},
    ),
    "fhir patient": (
        {
            "resourceType": "Patient",
            "name": [{"use": "official", "family": "Chalmers", "given": ["Peter", "James"]}],
            "telecom": [{"system": "phone", "value": "(03) 5555 6473", "use": "work"}],
            "gender": "male",
            "birthDate": "1974-12-25",
            "address": [{"line": ["534 Erewhon St"], "city": "PleasantVille", "postalCode": "3999"}],
        },
        {
            "person": ["Chalmers", "Peter", "James"],
            "phone": ["(03) 5555 6473"],
            "date_of_birth": ["1974-12-25"],
            "address": ["534 Erewhon St", "PleasantVille", "3999"],
        },
    ),
    "bank account": (
        {
            "account_holder": "Nora Lund",
            "account_number": 12345678,
            "sort_code": "12-34-56",
            "balance": 120.5,
            "currency": "GBP",
        },
        {"person": ["Nora Lund"], "bank_account": [12345678, "12-34-56"]},
    ),
    "card payment": (
        {"card_number": "4111 1111 1111 1111", "cvv": "123", "cardholder_name": "L BARNES", "expiry": "12/27"},
        {"credit_card": ["4111 1111 1111 1111", "123"], "person": ["L BARNES"]},
    ),
    "insurance claim": (
        {
            "claim_id": "C-1",
            "policyholder": {"name": "Zofia Lis", "date_of_birth": "1980-01-02", "pesel": "44051401359"},
            "vehicle": {"make": "Skoda", "model": "Fabia", "license_plate": "WX 12345"},
        },
        {
            "person": ["Zofia Lis"],
            "date_of_birth": ["1980-01-02"],
            "national_id": ["44051401359"],
            "driver_license": ["WX 12345"],
        },
    ),
    "german customer": (
        {
            "Kundennummer": 991,
            "Vorname": "Jürgen",
            "Nachname": "Groß",
            "Straße": "Am Markt 3",
            "PLZ": "04109",
            "Ort": "Leipzig",
        },
        {"person": ["Jürgen", "Groß"], "address": ["Am Markt 3", "04109", "Leipzig"]},
    ),
    "french customer": (
        {"prénom": "Élise", "nom": "Marchand", "téléphone": "01 99 00 12 34", "code_postal": "75011", "ville": "Paris"},
        {"person": ["Élise", "Marchand"], "phone": ["01 99 00 12 34"], "address": ["75011", "Paris"]},
    ),
    "spanish customer": (
        {
            "nombre": "Lucía",
            "apellidos": "Vega Ríos",
            "fecha_nacimiento": "1991-07-09",
            "dni": "12345678Z",
            "ciudad": "Cádiz",
        },
        {
            "person": ["Lucía", "Vega Ríos"],
            "date_of_birth": ["1991-07-09"],
            "national_id": ["12345678Z"],
            "address": ["Cádiz"],
        },
    ),
    "italian customer": (
        {
            "nome": "Carlo",
            "cognome": "Ferri",
            "codice_fiscale": "RSSMRA85T10A562S",
            "indirizzo": "Via Roma 1",
            "cap": "00184",
        },
        {"person": ["Carlo", "Ferri"], "national_id": ["RSSMRA85T10A562S"], "address": ["Via Roma 1", "00184"]},
    ),
    "portuguese customer": (
        {"nome_completo": "Rui Matos", "telemóvel": "912345678", "morada": "Rua Nova 5", "cpf": "529.982.247-25"},
        {"person": ["Rui Matos"], "phone": ["912345678"], "address": ["Rua Nova 5"], "national_id": ["529.982.247-25"]},
    ),
    "dutch customer": (
        {
            "voornaam": "Sanne",
            "achternaam": "de Wit",
            "geboortedatum": "04-11-1987",
            "huisnummer": 12,
            "woonplaats": "Breda",
        },
        {"person": ["Sanne", "de Wit"], "date_of_birth": ["04-11-1987"], "address": [12, "Breda"]},
    ),
    "polish customer": (
        {
            "imię": "Kasia",
            "nazwisko": "Zając",
            "kod_pocztowy": "00-950",
            "miasto": "Warszawa",
            "telefon": "600 700 800",
        },
        {"person": ["Kasia", "Zając"], "address": ["00-950", "Warszawa"], "phone": ["600 700 800"]},
    ),
    "swedish customer": (
        {
            "förnamn": "Liv",
            "efternamn": "Åberg",
            "personnummer": "811218-9876",
            "gatuadress": "Storgatan 1",
            "postnummer": "41101",
        },
        {"person": ["Liv", "Åberg"], "national_id": ["811218-9876"], "address": ["Storgatan 1", "41101"]},
    ),
    "norwegian and danish": (
        [
            {"fornavn": "Nils", "etternavn": "Moe", "fødselsdato": "1.2.1970"},
            {"fornavn": "Ida", "etternavn": "Bech", "fødselsdato": "3.4.1981"},
        ],
        {"person": ["Nils", "Moe", "Ida", "Bech"], "date_of_birth": ["1.2.1970", "3.4.1981"]},
    ),
    "finnish customer": (
        {
            "etunimi": "Aino",
            "sukunimi": "Virta",
            "henkilötunnus": "131052-308T",
            "katuosoite": "Kauppakatu 4",
            "puhelin": "040 1234567",
        },
        {
            "person": ["Aino", "Virta"],
            "national_id": ["131052-308T"],
            "address": ["Kauppakatu 4"],
            "phone": ["040 1234567"],
        },
    ),
    "turkish customer": (
        {
            "ad": "Elif",
            "soyad": "Kaya",
            "doğum_tarihi": "12.05.1992",
            "tc_kimlik_no": "10000000146",
            "cep_telefonu": "0532 000 00 00",
        },
        {
            "person": ["Elif", "Kaya"],
            "date_of_birth": ["12.05.1992"],
            "national_id": ["10000000146"],
            "phone": ["0532 000 00 00"],
        },
    ),
    "japanese customer": (
        {"氏名": "山田太郎", "電話番号": "03-1234-5678", "住所": "東京都千代田区1-1", "生年月日": "1980年1月1日"},
        {
            "person": ["山田太郎"],
            "phone": ["03-1234-5678"],
            "address": ["東京都千代田区1-1"],
            "date_of_birth": ["1980年1月1日"],
        },
    ),
    "chinese customer": (
        {"姓名": "王小明", "手机号": "13800138000", "身份证号": "11010519491231002X", "地址": "北京市朝阳区"},
        {
            "person": ["王小明"],
            "phone": ["13800138000"],
            "national_id": ["11010519491231002X"],
            "address": ["北京市朝阳区"],
        },
    ),
    "russian customer": (
        {"Имя": "Анна", "Фамилия": "Смирнова", "Дата рождения": "05.06.1985", "Телефон": "8 900 000-00-00"},
        {"person": ["Анна", "Смирнова"], "date_of_birth": ["05.06.1985"], "phone": ["8 900 000-00-00"]},
    ),
    "korean customer": (
        {"성명": "김민수", "전화번호": "010-0000-0000", "주소": "서울시 강남구", "생년월일": "1990-01-01"},
        {
            "person": ["김민수"],
            "phone": ["010-0000-0000"],
            "address": ["서울시 강남구"],
            "date_of_birth": ["1990-01-01"],
        },
    ),
    "columns of lists": (
        {"name": ["Ada Byron", "Tim Lee"], "email": ["ada@byron.example", "tim@lee.example"], "visits": [3, 9]},
        {"person": ["Ada Byron", "Tim Lee"], "email": ["ada@byron.example", "tim@lee.example"]},
    ),
    "columns and rows": (
        {"columns": ["id", "first_name", "ssn"], "rows": [[1, "Mona", "536-22-8145"], [2, "Reza", "none"]], "count": 2},
        {"person": ["Mona", "Reza"], "ssn": ["536-22-8145"]},
    ),
    "described columns and rows": (
        {
            "columns": [{"name": "username", "type": "text"}, {"name": "plan"}],
            "data": [["kestrel9", "pro"], ["owlet", "free"]],
        },
        {"username": ["kestrel9", "owlet"]},
    ),
    "sheet values": (
        {
            "range": "A1:C3",
            "values": [["Full name", "Phone", "Size"], ["Ines Falk", "555-0155", "M"], ["Omar Said", "555-0156", "L"]],
        },
        {"person": ["Ines Falk", "Omar Said"], "phone": ["555-0155", "555-0156"]},
    ),
    "bare rows": (
        [
            ["Anna Weber", "anna@weber.example", 3],
            ["Paul Klein", "paul@klein.example", 4],
            ["Sofia Rossi", "sofia@rossi.example", 1],
        ],
        {
            "person": ["Anna Weber", "Paul Klein", "Sofia Rossi"],
            "email": ["anna@weber.example", "paul@klein.example", "sofia@rossi.example"],
        },
    ),
    "keyed by id": (
        {"users": {"u_1001": {"name": "Rosa Kahn", "age": 34}, "u_1002": {"name": "Ben Adler", "age": 51}}},
        {"person": ["Rosa Kahn", "Ben Adler"]},
    ),
    "keyed by number": (
        {"first_name": {"0": "Ola", "1": "Per", "2": "Siv"}, "score": {"0": 1, "1": 2, "2": 3}},
        {"person": ["Ola", "Per", "Siv"]},
    ),
    "keyed by address": (
        {"quota": {"kim@park.example": 5, "lou@park.example": 7}},
        {"email": ["kim@park.example", "lou@park.example"]},
    ),
    "keyed by name": (
        {"salary_by_name": {"Jane Holt": 5100, "Amir Dean": 4900}},
        {"person": ["Jane Holt", "Amir Dean"]},
    ),
    "pairs": (
        [
            {"field": "First name", "value": "Gus"},
            {"field": "City", "value": "Graz"},
            {"field": "Plan", "value": "Gold"},
        ],
        {"person": ["Gus"], "address": ["Graz"]},
    ),
    "contact points": (
        {"contacts": [{"type": "email", "value": "ula@nord.example"}, {"type": "phone", "value": "030 555 01"}]},
        {"email": ["ula@nord.example"], "phone": ["030 555 01"]},
    ),
    "phones by kind": (
        {"person": {"phone": {"home": "030 1234567", "mobile": "0171 2345678"}}},
        {"phone": ["030 1234567", "0171 2345678"]},
    ),
    "json in a string": (
        {"ok": True, "body": '{"customer": {"first_name": "Dita", "phone": 5551230199}}'},
        {"person": ["Dita"], "phone": [5551230199]},
    ),
    "csv in a string": (
        {"content": "first_name,dob,plan\nKai,1999-02-03,pro\nNoor,2001-04-05,free\n"},
        {"person": ["Kai", "Noor"], "date_of_birth": ["1999-02-03", "2001-04-05"]},
    ),
    "markdown in a string": (
        {"text": "| Name | Email |\n|---|---|\n| Jo March | jo@march.example |\n"},
        {"person": ["Jo March"], "email": ["jo@march.example"]},
    ),
    "numbers": (
        {"user": {"phone": 4915112345678, "zip": 10115, "ssn": 536228145, "logins": 4}},
        {"phone": [4915112345678], "address": [10115], "ssn": [536228145]},
    ),
    "support ticket": (
        {
            "ticket": 5,
            "requester": "Maya Lindt",
            "assigned_to": "omar.h",
            "subject": "Refund",
            "body": "Mail me at maya@lindt.example.",
        },
        {"person": ["Maya Lindt"], "username": ["omar.h"], "email": ["maya@lindt.example"]},
    ),
    "flight booking": (
        {
            "pnr": "X4T9QZ",
            "passengers": [{"surname": "Ito", "givenName": "Kenji", "passportNumber": "TK1234567", "seat": "12A"}],
            "flight": {"carrier": "NH", "number": "NH203", "from": "HND", "to": "FRA"},
        },
        {"person": ["Ito", "Kenji"], "passport": ["TK1234567"]},
    ),
    "school": (
        [{"student": {"name": "Lina Berg", "birthday": "2012-09-01"}, "grade": 5, "guardian_phone": "555-0171"}],
        {"person": ["Lina Berg"], "date_of_birth": ["2012-09-01"], "phone": ["555-0171"]},
    ),
    "device log": (
        {"device": {"mac": "00:1B:44:11:3A:B7", "ip": "203.0.113.9", "model": "X200"}, "user": "jlopez"},
        {"mac": ["00:1B:44:11:3A:B7"], "ip": ["203.0.113.9"], "username": ["jlopez"]},
    ),
    "credentials": (
        {"service": "db", "username": "svc_report", "password": "correct-horse", "host": "db.internal", "port": 5432},
        {"username": ["svc_report"], "password": ["correct-horse"]},
    ),
    "wallets": (
        {"coin": "BTC", "wallet_address": "1BoatSLRHtKNngkdXEeobR76b53LETtpyT", "amount": 0.5},
        {"wallet": ["1BoatSLRHtKNngkdXEeobR76b53LETtpyT"]},
    ),
    "mixed list": (
        [
            {"type": "org", "name": "Blue Harbour Ltd", "website": "blue.example"},
            {"type": "user", "name": "Rafael Mendes", "email": "rafael@mendes.example"},
            {"type": "org", "name": "Stone Partners", "website": "stone.example"},
        ],
        {"person": ["Rafael Mendes"], "email": ["rafael@mendes.example"]},
    ),
    "repeated shouting keys": (
        [
            {
                "CUST_FNAME": "UWE",
                "CUST_LNAME": "BOLL",
                "CUST_ADDR1": "HAUPTSTR 5",
                "CUST_ZIP": "50667",
                "CUST_TEL_NO": "0221555010",
            }
        ],
        {"person": ["UWE", "BOLL"], "address": ["HAUPTSTR 5", "50667"], "phone": ["0221555010"]},
    ),
    "deep order": (
        {"data": {"order": {"buyer": {"info": {"full_name": "Siri Dahl", "mail": "siri@dahl.example"}}, "total": 10}}},
        {"person": ["Siri Dahl"], "email": ["siri@dahl.example"]},
    ),
    "emergency contact": (
        {
            "name": "Otto Rau",
            "employee_no": 8,
            "emergency_contact": {"name": "Elke Rau", "relationship": "spouse", "phone": "0151 555"},
        },
        {"person": ["Otto Rau", "Elke Rau"], "phone": ["0151 555"]},
    ),
    "voter": (
        {"voter_id": "ABC1234567", "name": "Anil Rao", "aadhaar": "2341 2341 2346", "constituency": "North"},
        {"national_id": ["ABC1234567", "2341 2341 2346"], "person": ["Anil Rao"]},
    ),
}

BUSINESS: dict[str, Any] = {
    "product": {"id": 1, "name": "Oak Chair", "brand": "Calvin Klein", "price": 49.9, "sku": "OC-1", "color": "brown"},
    "products": [{"name": "Charlotte Sofa", "price": 900, "stock": 3}, {"name": "Oscar Lamp", "price": 40, "stock": 8}],
    "repository": {
        "id": 9,
        "name": "react",
        "full_name": "acme/react",
        "stargazers_count": 9,
        "default_branch": "main",
        "language": "Ruby",
    },
    "repositories": [
        {"name": "left-pad", "stars": 1, "url": "https://git.example/left-pad"},
        {"name": "right-pad", "stars": 4},
    ],
    "metrics": {
        "cpu": 0.4,
        "memory_bytes": 123456789,
        "host": "web-1",
        "timestamp": 1700000000,
        "requests_total": 918273645,
    },
    "line items": [
        {"line": 1, "description": "Consulting, March", "quantity": 8, "unit_price": 120, "total": 960, "tax_code": "S"}
    ],
    "log": [
        {"level": "info", "msg": "started", "logger": "app.main", "duration_ms": 12},
        {"level": "warn", "msg": "retry 2/3"},
    ],
    "log lines": (
        "2024-05-01 12:00:01 INFO server started port=8080 workers=4\n"
        "2024-05-01 12:00:02 WARN slow query ms=1200 table=orders\n"
    ),
    "cities": [
        {"name": "Paris", "country": "France", "lat": 48.85, "lng": 2.35, "population": 2102650},
        {"name": "Victoria", "country": "Canada", "lat": 48.4, "lng": -123.3, "population": 91867},
    ],
    "postal codes": [
        {"zip": "10115", "city": "Berlin", "state": "BE", "lat": 52.5},
        {"zip": "80331", "city": "Munich", "state": "BY", "lat": 48.1},
    ],
    "weather": {
        "city": "Oslo",
        "country": "NO",
        "temp_c": -3,
        "wind": {"speed": 4, "deg": 210},
        "observed": "2024-01-02T10:00Z",
    },
    "ci run": {
        "run_id": 998877,
        "workflow": {"name": "build"},
        "status": "completed",
        "conclusion": "success",
        "branch": "main",
        "duration": 341,
    },
    "airports": [
        {"iata": "CDG", "name": "Charles de Gaulle", "city": "Paris", "country": "France"},
        {"iata": "JFK", "name": "John F Kennedy", "city": "New York", "country": "US"},
    ],
    "exchange rates": {"base": "EUR", "date": "2024-02-01", "rates": {"USD": 1.08, "GBP": 0.85}},
    "stock quote": {"symbol": "ACME", "price": 12.3, "volume": 1234567, "exchange": "NYSE", "company": "Acme Corp"},
    "company": {
        "name": "Baker & Sons Ltd",
        "industry": "Food",
        "employees": 55,
        "website": "baker.example",
        "founded": 1988,
    },
    "vendor": {"vendor": {"name": "Morgan Stanley Supplies Inc", "rating": 4.2, "category": "Paper"}},
    "database schema": {
        "table": "users",
        "columns": [{"name": "first_name", "type": "text"}, {"name": "email", "type": "text", "nullable": False}],
    },
    "json schema": {
        "type": "object",
        "properties": {"email": {"type": "string", "format": "email"}, "phone": {"type": "string"}},
    },
    "form settings": {
        "email_required": True,
        "phone_type": "mobile",
        "address_count": 3,
        "name_length": 40,
        "password_policy": "strong",
    },
    "feature flags": {"flags": [{"key": "new_login", "enabled": True}, {"key": "show_phone", "enabled": False}]},
    "movies": [
        {"title": "Erin Brockovich", "year": 2000, "runtime": 131, "genre": "Drama"},
        {"title": "Forrest Gump", "year": 1994, "runtime": 142, "genre": "Drama"},
    ],
    "recipe": {"name": "Caesar Salad", "ingredients": ["romaine", "croutons"], "calories": 320, "servings": 2},
    "kubernetes pod": {
        "metadata": {"name": "web-7f9c", "namespace": "default", "labels": {"app": "web"}},
        "status": {"phase": "Running"},
    },
    "packages": [
        {"name": "requests", "version": "2.31.0", "license": "Apache-2.0"},
        {"name": "rich", "version": "13.9.0"},
    ],
    "pagination": {"page": 1, "per_page": 50, "total": 1203, "next_page_token": "CAoQAA9fZ3hY2kL0pQ8rT1", "items": []},
    "usage": {"prompt_tokens": 1200, "completion_tokens": 300, "max_tokens": 4096, "model": "small"},
    "files": [{"name": "report.pdf", "size": 12345, "path": "/docs/report.pdf", "mime_type": "application/pdf"}],
    "events": [{"name": "user_signed_up", "count": 12}, {"name": "page_view", "count": 900}],
    "teams": [{"name": "Platform Engineering", "members": 12}, {"name": "Data Science", "members": 7}],
    "sprint": {"id": 4, "name": "Sprint 12", "state": "active", "startDate": "2024-01-01", "endDate": "2024-01-14"},
    "invoice": {
        "number": "INV-2024-001",
        "date": "2024-01-31",
        "due": "2024-02-29",
        "currency": "EUR",
        "total": 1190.0,
        "status": "open",
    },
    "sensor": [{"sensor": "t1", "value": 21.4, "unit": "C"}, {"sensor": "t2", "value": 19.8, "unit": "C"}],
    "test report": {"suite": "unit", "tests": 812, "failures": 0, "name": "test_login_works", "time": 3.2},
    "csv of sales": "region,quarter,units,revenue\nNorth,Q1,120,3400\nSouth,Q1,80,2100\nWest,Q2,91,2600\n",
    "markdown of prices": "| Plan | Price | Seats |\n|------|------:|------:|\n| Basic | 10 | 1 |\n| Team | 40 | 5 |\n",
    "aligned listing": (
        "NAME      READY   STATUS    AGE\nweb-7f9c  1/1     Running   3d\ndb-0      1/1     Running   9d\n"
    ),
    "config file": "host: gateway.internal\nport: 8080\nname: gateway\nlog_level: info\nretries: 3\n",
    "plain prose": "The release went out on Monday. Latency fell by 12 percent; the error budget holds.",
    "wrapped prose": "Keep the user name, email address, and\nphone number, which are kept, in\none table, a file, x\n",
    "python code": "def f(user):\n    password = os.environ['DB']\n    first_name = get_name(user)\n    mail: str\n",
    "typescript code": "interface User {\n  firstName: string;\n  email?: string;\n  phone: Phone[];\n}\n",
    "template": "Dear {{name}},\nfirst_name: {{first_name}}\nemail=${EMAIL}\nphone=<phone>\n",
    "markdown documentation": "## Fields\n\n- **email**: required\n- **phone**: optional\n- **password**: string\n",
    "tool list": [
        {"name": "get_user", "description": "Get a user's first name by email.", "inputSchema": {"type": "object"}}
    ],
    "dimension tables": {"columns": ["region", "units"], "rows": [["North", 12], ["South", 9]]},
    "http headers": {
        "headers": {"content-type": "application/json", "date": "Mon, 01 Jan 2024 00:00:00 GMT", "server": "nginx"}
    },
    "openapi": {
        "paths": {"/users": {"get": {"parameters": [{"name": "email", "in": "query", "schema": {"type": "string"}}]}}}
    },
}
