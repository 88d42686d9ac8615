"""What fields are called, in a dozen languages: data for `names`.

A phrase's words are joined by an underscore; accents and case are dropped before comparing. A meaning with a question
mark is only believed when the values or the neighbours agree.
"""

__all__ = ("ALIASES", "FILLERS", "PHRASES", "QUALIFIERS", "ROLES", "THINGS")

PHRASES: dict[str, str] = {
    "person": """
        first_name given_name fore_name last_name sur_name family_name middle_name second_name maiden_name birth_name
        full_name real_name christian_name preferred_name preferred_first_name legal_first_name person_name
        patronymic mother_maiden mothers_maiden mother_s_maiden
        fname lname mname f_name l_name m_name middle_initial name_first name_last name_middle first_last_name
        last_name_first_name card_holder card_holder_name name_on_card holder_name account_holder account_holder_name
        beneficiary_name next_of_kin emergency_contact_name attention_to attn care_of
        contact_person contact_first_name contact_last_name person_full_name
        ship_to_name bill_to_name signer_name signatory
        vorname nachname familienname geburtsname rufname zuname vor_und_nachname vorname_nachname nachname_vorname
        ansprechpartner vname nname kontaktperson kontoinhaber karteninhaber
        prenom prenoms nom_de_famille nom_complet nom_prenom nom_et_prenom prenom_nom nom_de_naissance
        nom_de_jeune_fille nom_d_usage nom_usage nom_du_titulaire titulaire
        primer_nombre segundo_nombre apellido apellidos primer_apellido segundo_apellido apellido_paterno
        apellido_materno nombre_completo nombres nombre_apellido nombre_y_apellido nombre_apellidos nombre_y_apellidos
        nombre_de_pila titular nombre_titular razon_nombre
        cognome nome_cognome nome_e_cognome nome_completo nominativo intestatario
        sobrenome apelido primeiro_nome ultimo_nome nome_proprio nome_da_mae nome_do_pai nome_social nome_titular
        voornaam achternaam tussenvoegsel volledige_naam roepnaam meisjesnaam familienaam voorletters contactpersoon
        imie nazwisko imie_i_nazwisko imie_nazwisko imiona nazwisko_rodowe nazwisko_panienskie osoba_kontaktowa
        fornamn efternamn fullstandigt_namn tilltalsnamn kontaktperson_namn
        fornavn etternavn efternavn mellomnavn mellemnavn fullt_navn fulde_navn for_og_etternavn
        etunimi sukunimi koko_nimi kutsumanimi etunimet yhteyshenkilo
        soyad soyadi soyisim ad_soyad adi_soyadi isim_soyisim tam_ad adi_ve_soyadi
        prijmeni jmeno_a_prijmeni krestni_jmeno vezeteknev keresztnev teljes_nev prenume nume_de_familie
        氏名 姓名 お名前 苗字 名字 フルネーム フリガナ ふりがな 担当者名 顧客名 真实姓名 客户姓名 联系人 联系人姓名
        收件人
        真實姓名 聯絡人 收件人姓名 성명 성함 고객명 이름_성 받는_사람 예금주 имя фамилия отчество фио полное_имя
        контактное_лицо имя_клиента 名義人 持卡人 持卡人姓名 ονομα επωνυμο ονοματεπωνυμο
    """,
    "name?": """
        name names nom nombre nome naam namn navn nimi isim jmeno nev nume 名前 이름 display_name legal_name public_name
        named imya cn label_name screen_title nazwa 名称 显示名 formatted_name common_name profile_name
    """,
    "part?": "first last middle given family sn first_given last_family fst lst prefix_name ad vorn nachn 姓 名 성",
    "email": """
        email email_address mail mail_address email_id emailid correo correo_electronico courriel adresse_email
        adresse_mail adresse_electronique adresse_courriel direccion_correo direccion_email indirizzo_email
        indirizzo_mail posta_elettronica endereco_email endereco_de_email correio_eletronico emailadres e_mailadresse
        emailadresse mailadresse mailadres epost e_post epostadress epostadresse sahkoposti sahkopostiosoite eposta
        e_posta e_posta_adresi poczta adres_email adres_e_mail contact_email user_email work_email upn
        user_principal_name reply_to replyto メール メールアドレス 電子メール 邮箱 电子邮件 电子邮箱 邮件地址 電子郵件
        이메일 이메일_주소 전자우편 почта электронная_почта эл_почта адрес_электронной_почты эл_адрес имейл
    """,
    "phone": """
        phone phone_number telephone telephone_number tel tel_number tel_no mobile_number mobile_phone mobile_no
        cell_phone cell_number cellphone cell_phone_number phone_no phone_num contact_number contact_no contact_phone
        home_phone work_phone office_phone day_phone evening_phone daytime_phone landline fax fax_number faxnumber
        telefax whatsapp whatsapp_number sms_number caller_number caller_id_number msisdn phone_mobile phone_home
        phone_work tel_home tel_work tel_mobile emergency_phone emergency_contact_number emergency_contact_phone
        dial_number phonenumber phone_e164 primary_phone
        telefon telefonnummer telefonnr telefon_nummer handy handynummer handynr mobilnummer mobiltelefon rufnummer
        festnetz faxnummer durchwahl mobilfunk
        telephone_portable numero_telephone numero_de_telephone numero_de_tel portable_numero numero_portable
        tel_portable tel_fixe telephone_fixe telecopie numero_de_portable
        telefono numero_telefono numero_de_telefono celular movil telefono_movil numero_celular telefono_fijo
        cellulare numero_cellulare numero_di_telefono recapito_telefonico telefono_cellulare telefono_fisso
        telefone numero_de_telefone celular_numero telemovel numero_de_celular telefone_celular telefone_fixo
        telefoon telefoonnummer mobiel mobiel_nummer mobiele_nummer gsm gsm_nummer telefoonnr
        numer_telefonu telefon_komorkowy komorka numer_komorki nr_telefonu nr_tel telefon_kontaktowy
        mobil_nummer mobiltelefonnummer hemtelefon mobilnr telefonnumre tlf tlf_nr tlfnr telefonnumer
        puhelin puhelinnumero matkapuhelin gsm_numero puh
        telefon_numarasi cep_telefonu cep_tel gsm_no telefon_no
        telefonni_cislo telefonszam numar_de_telefon
        電話 電話番号 携帯 携帯電話 携帯番号 携帯電話番号 电话 电话号码 手机 手机号 手机号码 联系电话 固定电话
        電話號碼 手機
        手機號碼 전화 전화번호 휴대폰 휴대폰_번호 휴대전화 핸드폰 연락처 телефон номер_телефона мобильный
        мобильный_телефон
        моб_телефон сотовый τηλεφωνο κινητο
    """,
    "phone?": "telecom mobile cell handset mobil portable fixe dect",
    "address": """
        street street_address street_name street_line street_number street_no street_1 street_line_1 address_line
        address_line_1 address_1 address_2 addr_1 addr_2 addr_line address_street postal_address mailing_address
        home_address billing_address shipping_address delivery_address residential_address residence_address
        full_address formatted_address permanent_address current_address correspondence_address work_address
        home_location house_number house_no housenumber house_name domicile po_box post_box mail_stop_address
        ship_to_address bill_to_address street_and_number place_of_residence
        birth_place place_of_birth birthplace city_of_birth birth_city town_of_birth
        strasse hausnummer hausnr strasse_hausnummer strasse_und_hausnummer strasse_nr strassennr strassennummer
        anschrift wohnort adresszusatz
        wohnadresse lieferadresse rechnungsadresse postfach adresszeile geburtsort wohnanschrift strassenname
        rue voie numero_de_rue numero_rue adresse_postale adresse_ligne adresse_de_livraison adresse_de_facturation
        adresse_domicile complement_adresse complement_d_adresse lieu_de_naissance ville_de_naissance nom_de_rue
        calle direccion_postal numero_de_calle nombre_de_calle domicilio direccion_de_envio direccion_de_facturacion
        direccion_envio lugar_de_nacimiento numero_exterior numero_interior
        indirizzo numero_civico civico indirizzo_di_residenza luogo_di_nascita indirizzo_spedizione
        rua endereco logradouro numero_da_casa endereco_de_entrega endereco_cobranca morada local_de_nascimento
        naturalidade
        straat straatnaam huisnummer huisnr adresregel postadres woonadres bezoekadres geboorteplaats postbus
        ulica numer_domu nr_domu adres_zamieszkania adres_korespondencyjny miejsce_urodzenia numer_mieszkania nr_lokalu
        gata gatuadress gatenavn gateadresse vejnavn vej husnummer postadress postadresse besoksadress fodested
        fodelseort bostadsadress
        katu katuosoite lahiosoite postiosoite kotiosoite osoite syntymapaikka
        sokak cadde mahalle ev_adresi adres_satiri dogum_yeri acik_adres kapi_no
        cislo_popisne utca hazszam lakcim strada numar_strada
        住所 番地 町名番地 現住所 お届け先住所 地址 街道 详细地址 家庭住址 收货地址 住址 詳細地址 주소 도로명
        도로명_주소
        상세주소 배송지 адрес улица номер_дома дом_номер адрес_доставки место_рождения место_жительства διευθυνση οδος
    """,
    "address?": """
        address addresses adresse direccion adres adress adressen via road line_1 line_2 line_3 line1 line2 line3
        house thoroughfare
        premise premises complemento colonia residence residenza
        postal_location location_address addr
    """,
    "place?": """
        city town village suburb municipality locality post_town postal_code post_code postcode zip zip_code zipcode
        zip_plus_4 zip_4 postalcode postal pincode pin_code eircode apartment apartment_number apt apt_number apt_no
        suite suite_number unit_number flat flat_number building_number building_name neighbourhood neighborhood
        hamlet borough sub_locality sublocality district_city town_city city_town city_name city_or_town
        postal_area room_number zipcd town_name plz plz_ort postleitzahl ort stadt ortschaft ortsteil stadtteil gemeinde
        code_postal cp ville commune lieu_dit etage codigo_postal ciudad localidad poblacion municipio barrio piso
        cap citta comune localita codice_postale frazione cep cidade bairro freguesia andar codigo_da_cidade
        postcode_plaats plaats woonplaats stad gemeente kod_pocztowy miasto miejscowosc gmina dzielnica
        postnummer postnr poststed postort postinumero postitoimipaikka kaupunki kunta
        posta_kodu sehir ilce semt psc mesto obec iranyitoszam varos telepules cod_postal oras localitate
        郵便番号 市区町村 市町村 都市 邮编 邮政编码 城市 区县 郵遞區號 우편번호 도시 시군구 индекс почтовый_индекс город
        населенный_пункт πολη ταχυδρομικος_κωδικας
    """,
    "region?": """
        state province region county country state_name state_full country_name country_full state_province
        state_or_province state_region prefecture canton oblast governorate department_region federal_state
        country_region territory location current_location hometown home_town country_of_residence country_of_birth
        birth_country nationality citizenship country_of_citizenship
        bundesland land kanton kreis landkreis staat staatsangehoerigkeit staatsangehorigkeit nationalitat herkunftsland
        geburtsland pays departement_region nationalite pays_de_naissance provincia estado pais nacionalidad
        comunidad_autonoma pais_de_nacimiento regione paese nazione nazionalita stato_residenza cittadinanza uf
        nacionalidade distrito provincie nationaliteit wojewodztwo powiat kraj obywatelstwo narodowosc lan kommun
        fylke kommune nasjonalitet statsborgerskap medborgarskap maakunta maa kansalaisuus ulke il_adi uyruk
        都道府県 国籍 国名 省份 国家 국적 국가 시도 страна область край гражданство
    """,
    "org?": """
        company company_name employer employer_name organization organisation organization_name organisation_name
        school school_name university university_name college workplace place_of_work firm firm_name business_name
        current_company current_employer previous_employer institution alma_mater company_legal_name
        firma firmenname arbeitgeber unternehmen unternehmensname schule hochschule
        entreprise societe nom_entreprise nom_societe employeur raison_sociale etablissement
        empresa nombre_empresa empleador razon_social escuela universidad compania
        azienda nome_azienda societa datore_di_lavoro ragione_sociale scuola universita
        nome_da_empresa empregador escola universidade nome_fantasia
        bedrijf bedrijfsnaam werkgever organisatie pracodawca nazwa_firmy szkola uczelnia
        foretag foretagsnamn arbetsgivare virksomhed firmanavn arbeidsgiver arbejdsgiver bedrift
        yritys tyonantaja sirket sirket_adi isveren okul universite
        会社 会社名 勤務先 公司 公司名称 单位 工作单位 学校 회사 회사명 학교 직장 компания организация работодатель
        университет
    """,
    "date_of_birth": """
        date_of_birth birth_date birthdate birthday birth_day dob d_o_b bday b_day born_on date_born birth_dt dt_birth
        date_birth birth_year year_of_birth birth_month yob day_of_birth patient_dob
        geburtsdatum geburtstag geb_datum gebdatum geburtsjahr geb_am gebdat
        date_de_naissance naissance annee_de_naissance date_naiss ne_le
        fecha_de_nacimiento fecha_nac nacimiento f_nacimiento cumpleanos ano_de_nacimiento
        data_di_nascita nascita data_nasc data_de_nascimento nascimento dt_nascimento aniversario anno_di_nascita
        geboortedatum geboortedag geb_dat geboortejaar
        data_urodzenia urodziny rok_urodzenia data_ur
        fodelsedatum fodelsedag fodselsdato fodselsdag fodt fodelsear syntymaaika syntymapaiva syntymavuosi
        dogum_tarihi dogum_gunu dogum_yili datum_narozeni szuletesi_datum data_nasterii
        生年月日 誕生日 出生日期 生日 出生年月 생년월일 생일 дата_рождения день_рождения год_рождения
        ημερομηνια_γεννησης
    """,
    "date_of_birth?": "born birth",
    "username": """
        username user_name login login_name login_id user_login screen_name user_handle nickname nick_name nick
        account_login github_username github_login twitter_handle twitter_username instagram_handle
        instagram_username telegram_username discord_username skype_id skype_name skype_username linkedin_username
        sam_account_name samaccountname logon_name gamertag gamer_tag unix_user os_user network_login
        benutzername anmeldename nutzername loginname nom_utilisateur nom_d_utilisateur identifiant_connexion pseudo
        pseudonyme nombre_de_usuario nombre_usuario usuario_login nome_utente nome_de_usuario nome_usuario
        gebruikersnaam nazwa_uzytkownika anvandarnamn brukernavn brugernavn kayttajatunnus kayttajanimi kullanici_adi
        ユーザー名 ユーザーid ログインid 用户名 登录名 账号名 昵称 使用者名稱 사용자명 아이디 로그인_아이디
        имя_пользователя
        логин никнейм
    """,
    "username?": "handle alias pseudonym user_handle_name user_account actor_login account_user skype telegram twitter",
    "password": """
        password pass_word passwd passwrd pwd passphrase pass_phrase passcode user_password password_hash
        hashed_password password_digest encrypted_password old_password new_password temp_password
        temporary_password confirm_password password_confirmation password_plain security_answer secret_answer
        pin_code_secret pin_number otp otp_secret totp_secret mfa_secret recovery_code backup_code wifi_password
        passwort kennwort geheimzahl mot_de_passe mdp contrasena clave_de_acceso clave_secreta parola_d_ordine senha
        palavra_passe wachtwoord haslo losenord passord adgangskode salasana sifre parola heslo jelszo
        パスワード 暗証番号 密码 口令 密碼 비밀번호 암호 пароль κωδικος_προσβασης
    """,
    "password?": "pin secret pass clave parola",
    "api_key": """
        api_key apikey api_secret api_secret_key secret_key access_key_secret secret_access_key client_secret
        app_secret consumer_secret shared_secret webhook_secret signing_secret signing_key encryption_key master_key
        account_key storage_key subscription_key license_key_secret x_api_key private_token deploy_key
        aws_secret_access_key connection_string api_schluessel cle_api clave_api chiave_api chave_api
        consumer_key app_key auth_key authkey
    """,
    "api_key?": "access_key license_key service_key publishable_key key_secret",
    "auth_token": """
        access_token refresh_token auth_token authentication_token bearer_token bearer id_token session_token
        oauth_token csrf_token xsrf_token jwt jwt_token api_token bot_token user_token personal_access_token
        authorization proxy_authorization cookie set_cookie session_cookie auth_cookie x_auth_token security_token
        reset_token verification_token invite_token remember_token push_token device_token fcm_token zugangstoken
        jeton_d_acces token_de_acceso session_key
    """,
    "auth_token?": "token sid session session_id sessionid",
    "private_key": "private_key privatekey private_key_pem ssh_private_key rsa_private_key pem_key pgp_private_key",
    "ssn": """
        ssn social_security_number social_security_no social_security social_sec_number social_sec_no ss_number
        us_ssn ssn_number ssn_last_4 ssn_last4 ssn_last_four ssn4 itin soc_sec_number tax_ssn ssn_itin
    """,
    "national_id": """
        national_id national_id_number national_identification_number national_identity_number national_number
        national_insurance_number national_insurance_no nino ni_number identity_number identity_card_number
        identity_document_number id_card id_card_number idcard citizen_id citizen_number civil_id civil_registration
        personal_identity_number personal_id_number personal_identification_number personal_number
        government_id government_id_number resident_id residence_permit_number social_insurance_number sin_number
        aadhaar aadhar aadhaar_number aadhar_number nric fin_number hkid mykad voter_id voter_id_number epic_number
        alien_number green_card_number visa_number id_document_number emirates_id
        personalausweis personalausweisnummer ausweisnummer sozialversicherungsnummer svnr sv_nummer
        sozialversicherungsnr rentenversicherungsnummer ahv ahv_nummer ahv_number ahvn13
        numero_securite_sociale numero_de_securite_sociale securite_sociale nir insee numero_insee numero_identite
        carte_identite numero_carte_identite numero_cni cni niss numero_national registre_national
        dni nie dni_nie documento_identidad numero_documento numero_de_documento documento_de_identidad cedula
        cedula_ciudadania cedula_identidad curp rut numero_seguridad_social numero_de_seguridad_social nss nuss
        codice_fiscale codicefiscale cod_fiscale carta_identita numero_carta_identita tessera_sanitaria
        cpf cpf_cnpj numero_cpf numero_rg cartao_cidadao cartao_de_cidadao bilhete_identidade nis pis pasep niss_pt
        titulo_eleitor registro_geral
        bsn burgerservicenummer sofinummer identiteitskaart rijksregisternummer
        pesel numer_pesel nr_pesel dowod_osobisty numer_dowodu nr_dowodu
        personnummer samordningsnummer fodselsnummer fodselsnr personnr fnr cpr cpr_nummer cprnr cpr_nr
        henkilotunnus hetu sosiaaliturvatunnus tckn tc_kimlik tc_kimlik_no kimlik_no kimlik_numarasi tc_no
        rodne_cislo szemelyi_szam cnp jmbg oib egn emso amka isikukood asmens_kodas personas_kods
        マイナンバー 個人番号 身份证 身份证号 身份证号码 證件號碼 身分證字號 证件号码 證件号码 주민등록번호 주민번호
        外国人登録番号 снилс номер_паспорта_рф инн_фл
    """,
    "national_id?": "rg id_number nid sin pps ppsn identification identification_number document_number id_no",
    "tax_id": """
        tax_id tax_id_number tax_identification_number tax_number tax_no taxpayer_id taxpayer_number
        taxpayer_identification_number tin tin_number ein fein employer_identification_number federal_tax_id
        vat_id vat_number vat_no vat_registration_number vatin pan_number pan_card pan_card_number pan_no utr
        unique_taxpayer_reference tfn tax_file_number abn gstin gst_number ustid ust_id ust_idnr ustidnr
        umsatzsteuer_id steuernummer steuer_id steueridnr steueridentifikationsnummer steuer_nr steuernr idnr
        numero_fiscal numero_tva tva_intracommunautaire numero_de_tva spi nif nif_cif rfc cif cuit cuil ruc
        identificacion_fiscal numero_de_identificacion_fiscal partita_iva p_iva piva cnpj contribuinte
        numero_de_contribuinte btw_nummer btw_id nip numer_nip nip_number momsnummer vergi_no vergi_numarasi vkn
        納税者番号 纳税人识别号 税号 사업자등록번호 инн
    """,
    "passport": """
        passport passport_number passport_no passport_num passport_id passportnr travel_document_number
        travel_document reisepass reisepassnummer passnummer reisepassnr passeport numero_passeport
        numero_de_passeport pasaporte numero_pasaporte numero_de_pasaporte passaporto numero_passaporto
        numero_di_passaporto passaporte numero_do_passaporte paspoort paspoortnummer paszport numer_paszportu
        pasnummer passnr passinumero pasaport pasaport_no 旅券番号 パスポート番号 护照 护照号 护照号码 護照號碼 여권번호
        паспорт номер_паспорта серия_и_номер_паспорта серия_паспорта загранпаспорт
    """,
    "driver_license": """
        driver_license driver_licence drivers_license drivers_licence driver_s_license driver_license_number
        drivers_license_number driver_licence_number driving_license driving_licence driving_licence_number
        driving_license_number driver_license_no dl_number dl_no license_plate licence_plate number_plate plate_number
        vehicle_registration_number fuhrerschein fuehrerschein fuhrerscheinnummer fuehrerscheinnummer kennzeichen
        kfz_kennzeichen permis_de_conduire numero_permis plaque_immatriculation immatriculation carnet_de_conducir
        licencia_de_conducir matricula_vehiculo patente_di_guida numero_patente targa cnh carteira_de_habilitacao
        carta_de_conducao placa_veiculo rijbewijs rijbewijsnummer kenteken prawo_jazdy numer_prawa_jazdy korkort
        forerkort korekort ajokortti surucu_belgesi ehliyet ehliyet_no plaka 運転免許証番号 驾驶证号 驾照号码 车牌号
        운전면허번호
        водительское_удостоверение
    """,
    "driver_license?": "license_number license_no license_num licence_number",
    "medical_id": """
        medical_record_number medical_record_no mrn patient_id patient_number patient_no patient_identifier
        health_insurance_number health_insurance_id insurance_number insurance_id insurance_policy_number
        insurance_member_id health_card_number health_card medicare_number medicare_id medicaid_id medicaid_number
        nhs_number nhs_no health_plan_number health_plan_beneficiary_number chart_number hospital_number
        subscriber_id_insurance ihi_number phn mbi hicn krankenversicherungsnummer versichertennummer
        krankenversichertennummer patientennummer patienten_id versicherungsnummer numero_assurance
        numero_de_securite_medicale numero_patient numero_paciente numero_de_historia_clinica historia_clinica
        numero_tarjeta_sanitaria numero_tessera_sanitaria cartao_sus numero_sus cns_sus zorgverzekeringsnummer
        patientnummer polisnummer numer_pacjenta numer_ubezpieczenia patientnr potilasnumero hasta_no
        保険証番号 患者番号 病历号 医保号 社保号 환자번호 полис_омс номер_полиса
    """,
    "credit_card": """
        credit_card credit_card_number credit_card_no card_number card_no card_num cc_number cc_num cc_no ccnumber
        ccnum debit_card debit_card_number payment_card_number card_pan primary_account_number cvv cvv2 cvc cvc2
        card_cvv card_cvc card_security_code security_code card_verification_code card_verification_value
        cc_cvv cc_cvc cvv_number payment_card_no gift_card_number
        kreditkarte kreditkartennummer kartennummer kreditkartennr pruefziffer_karte numero_carte
        numero_de_carte numero_carte_bancaire carte_bancaire carte_de_credit numero_tarjeta numero_de_tarjeta
        tarjeta_de_credito numero_carta numero_carta_di_credito carta_di_credito numero_do_cartao numero_cartao
        cartao_de_credito creditcardnummer kaartnummer numer_karty nr_karty karta_kredytowa kortnummer kreditkort
        kredittkort kortnr luottokortti korttinumero kart_numarasi kart_no kredi_karti
        クレジットカード番号 カード番号 信用卡号 卡号 银行卡号 信用卡號 카드번호 신용카드번호 номер_карты
    """,
    "credit_card?": "pan",
    "iban": "iban iban_number iban_code iban_no bank_iban international_bank_account_number",
    "bank_account": """
        account_number account_no account_num acct_number acct_no acct_num bank_account bank_account_number
        bank_account_no bank_acct beneficiary_account beneficiary_account_number routing_number routing_no
        routing_transit_number aba_number aba_routing aba_routing_number bank_routing_number sort_code sortcode
        bsb_number bsb_code ifsc_account clabe cbu cvu account_iban checking_account savings_account
        debit_account credit_account payee_account micr_number
        kontonummer konto_nr kontonr bankkonto bankverbindung bankleitzahl blz numero_de_compte numero_compte
        compte_bancaire rib code_guichet cuenta_bancaria numero_de_cuenta numero_cuenta conto_corrente numero_conto
        numero_di_conto conto_bancario conta_bancaria numero_da_conta numero_conta agencia_conta conta_corrente
        rekeningnummer bankrekening bankrekeningnummer numer_konta nr_konta numer_rachunku nr_rachunku
        rachunek_bankowy bankkontonummer clearingnummer bankgiro plusgiro tilinumero pankkitili hesap_no
        hesap_numarasi banka_hesap_no cislo_uctu bankszamlaszam
        口座番号 银行账号 账号 银行账户 帳號 계좌번호 номер_счета расчетный_счет
    """,
    "bank_account?": """
        account_from account_to from_account to_account source_account destination_account sender_account
        receiver_account recipient_account debtor_account creditor_account counterparty_account
    """,
    "wallet": """
        wallet_address btc_address bitcoin_address eth_address ethereum_address crypto_address crypto_wallet
        bitcoin_wallet eth_wallet btc_wallet crypto_wallet_address payout_address deposit_wallet
    """,
    "wallet?": "wallet",
    "mac": "mac_address mac_addr macaddress macaddr mac_adresse adresse_mac direccion_mac ethernet_address wifi_mac",
    "mac?": "mac hwaddr hw_address hardware_address bssid",
    "ip": "ip_address ip_addr ipaddress ipaddr client_ip remote_ip remote_addr source_ip src_ip last_ip login_ip",
    # Evidence that the record is about a person, itself not concealed.
    "trait": """
        gender gender_code sex sex_code age age_years age_group birth_sign marital_status civil_status salutation
        honorific pronoun pronouns date_of_death
        deceased hire_date hired_at date_hired joining_date salary base_salary annual_salary hourly_rate
        job_title occupation profession position_title date_joined last_login last_login_at last_seen
        religion ethnicity race blood_type blood_group blood_pressure allergies diagnosis symptoms
        spouse_count dependents number_of_children height_cm weight_kg avatar avatar_url profile_picture
        photo_url profile_image gravatar_id first_day_of_work employment_status employment_type
        geschlecht alter familienstand anrede beruf gehalt eintrittsdatum berufsbezeichnung
        sexe civilite situation_familiale profession_client metier poste_occupe salaire
        genero sexo edad estado_civil ocupacion profesion salario puesto fecha_de_ingreso
        sesso stato_civile professione stipendio mansione genere
        idade profissao cargo salario_base estado_conjugal
        geslacht leeftijd burgerlijke_staat beroep salaris functie aanhef
        plec wiek stan_cywilny zawod stanowisko wynagrodzenie
        kon alder civilstand yrke kjonn sivilstatus sukupuoli ika siviilisaaty ammatti palkka
        cinsiyet yas medeni_hal meslek maas
        性別 性别 年齢 年龄 職業 职业 婚姻状况 성별 나이 직업 пол возраст профессия должность семейное_положение
        зарплата
    """,
    # Evidence that the record is about a thing or a firm.
    "goods": """
        price unit_price list_price sale_price cost sku upc ean gtin isbn barcode stock quantity qty inventory
        in_stock brand model manufacturer version size dimensions material warranty
        stars forks forks_count watchers default_branch branch commit
        capacity population area_km2 elevation lat lng latitude longitude lon geometry iata icao
        genre isrc album runtime duration episode season release_date published_year pages publisher rating reviews
        filename file_size mime_type extension checksum path size_bytes protocol port hostname cpu memory
        discount tax_rate interest_rate apr term_months
        category subcategory product_type product_id item_id variant sub_category venue
        calories ingredients species breed symbol ticker market_cap exchange sector fuel engine horsepower
        schema table_name column_type data_type nullable default_value unit
        preis menge artikelnummer prix quantite precio cantidad prezzo quantita preco quantidade prijs aantal cena
        ilosc pris antal hinta maara fiyat miktar 価格 数量 价格 가격 цена количество
    """,
    "firm": """
        industry website homepage_url domain domain_name annual_revenue revenue employee_count number_of_employees
        employees_count headcount founded founded_year year_founded registration_number company_number duns
        duns_number lei naics sic_code ticker_symbol stock_symbol headquarters hq parent_company legal_form
        incorporation_date company_type company_size business_type vat vat_registered swift swift_code bic bank_code
        branche handelsregister siret siren numero_siret
    """,
}

ROLES = frozenset(
    """
    person people customer client user employee patient contact member owner author student pupil teacher professor
    guest passenger traveler traveller applicant candidate recipient receiver addressee sender buyer seller purchaser
    manager supervisor driver rider doctor physician practitioner nurse clinician surgeon dentist
    caregiver contractor spouse husband wife fiance child kid son daughter father mother parent guardian brother
    sister sibling grandmother grandfather aunt uncle cousin beneficiary cardholder holder accountholder tenant
    landlord lessee lessor borrower debtor insured policyholder subscriber lead prospect assignee reporter creator
    reviewer approver requester requestor caller callee attendee invitee participant organizer organiser speaker
    instructor tutor coach player athlete actor artist singer director witness victim suspect defendant plaintiff
    attorney lawyer solicitor judge officer voter donor volunteer visitor resident citizen taxpayer payer payee
    shopper consumer follower friend relative kin signer signatory consignee consignor staff worker technician rep
    representative salesperson salesrep seller advisor adviser consultant nominee heir trustee ceo cfo cto founder
    chairman president secretary committer editor translator maintainer merchant_contact colleague roommate
    cashier receptionist interviewer interviewee respondent referrer mentor mentee intern freelancer individual
    profile registrant signee superintendent principal counselor therapist agent broker realtor
    poster commenter uploader submitter initiator approved_by created_by updated_by modified_by deleted_by
    requested_by assigned_to assigned_by reported_by received_by submitted_by reviewed_by signed_by issued_by sold_by
    managed_by owned_by prepared_by checked_by verified_by entered_by ordered_by booked_by handled_by written_by
    attending_physician referring_physician primary_care_physician line_manager account_manager sales_rep
    emergency_contact customer_contact point_of_contact poc accountable responsible_person responsible
    kunde kundin mitarbeiter mitarbeiterin benutzer nutzer patientin kontakt inhaber besitzer autor absender empfanger
    empfaenger schuler lehrer fahrer arzt mieter vermieter versicherter antragsteller bewerber vertreter betreuer
    sachbearbeiter besteller kaufer verkaufer bearbeiter teilnehmer
    utilisateur employe patiente proprietaire auteur expediteur destinataire eleve etudiant enseignant conducteur
    medecin locataire assure demandeur candidat acheteur vendeur responsable participant
    cliente usuario empleado paciente contacto propietario autor remitente destinatario alumno estudiante profesor
    conductor medico inquilino asegurado solicitante candidato comprador vendedor responsable trabajador
    utente dipendente paziente contatto proprietario autore mittente studente insegnante autista inquilino assicurato
    richiedente acquirente venditore funcionario contato aluno professor motorista segurado
    klant gebruiker medewerker patient contact eigenaar auteur afzender ontvanger leerling docent huurder
    klient uzytkownik pracownik pacjent kontakt wlasciciel autor nadawca odbiorca uczen nauczyciel
    kund anvandare anstalld agare forfattare avsandare mottagare elev larare bruker bruger ansatt medarbejder
    kunde pasient eier ejer afsender modtager asiakas kayttaja tyontekija potilas omistaja vastaanottaja
    musteri kullanici calisan hasta sahip gonderen alici ogrenci ogretmen zakaznik uzivatel
    顧客 担当者 利用者 患者 社員 客户 用户 员工 顾客 고객 사용자 직원 환자 клиент пользователь сотрудник пациент
    contacts customers clients
    """.split()
)
"""Words for a person: a name under one is a person's."""

THINGS = frozenset(
    """
    product article sku variant file folder directory attachment image photo video album song track
    playlist movie film show episode book game app application package module library repo repository branch tag
    commit build job pipeline workflow run step stage task ticket issue project board sprint milestone epic
    team group department division unit office store shop branch_office warehouse location site venue
    restaurant hotel hospital clinic room building city country state region county continent street station
    airport airline
    route stop vehicle car model brand make manufacturer supplier vendor company organization organisation org
    business firm corporation institution school university college bank merchant partner publisher label
    event meeting campaign channel segment category subcategory genre collection catalog page site
    website domain host hostname server node cluster pod container service namespace deployment volume disk network
    subnet vpc bucket queue topic database db schema table column key index function method class
    variable parameter param argument metric measure dimension unit currency language locale
    plan subscription price feature option setting config configuration role permission scope policy rule
    template theme layout font icon color colour status state type kind level event_type action activity
    course subject lesson exam degree skill program programme certificate license licence
    drug medication medicine procedure test lab diagnosis disease symptom allergen ingredient recipe dish menu
    animal pet species breed plant team_a league tournament sport club
    device sensor printer screen browser os platform tool plugin extension theme api endpoint webhook
    account ledger fund stock ticker security asset portfolio index exchange contract policy_type tier bundle
    common generic scientific trade short long system internal technical display_label code
    produkt artikel datei ordner projekt abteilung firma lieferant hersteller marke kategorie stadt
    produit fichier dossier projet service entreprise fournisseur marque categorie
    producto archivo carpeta proyecto departamento empresa proveedor marca categoria
    prodotto cartella progetto reparto azienda fornitore produto arquivo pasta fornecedor bestand leverancier
    plik dostawca leverantor toimittaja urun dosya 商品 製品 产品 文件 제품 товар файл
    """.split()
)
"""Words for anything else that has a name."""

QUALIFIERS = frozenset(
    """
    primary secondary tertiary main other alternate alternative alt home work office business private personal
    mobile cell landline day daytime evening night emergency billing shipping delivery mailing postal permanent
    current previous former old new original temp temporary default preferred legal official full formatted
    raw text txt string str value values number num no nr nbr input field display local national international e164 en
    de fr es it pt nl pl ja zh ko ru latin kana kanji romaji native roman masked encrypted plain hashed hash base64
    one two three four five i ii iii iv a b c x y line
    customer client user employee patient contact person member owner cliente clientes usuario paciente empleado
    client utilisateur employe kunde benutzer klant klienta pracownika pacjenta
    registered verified_value confirmed_value given_by_user optional required_value
    movil fijo celular casa oficina trabajo portable fixe domicile bureau privat geschaeftlich geschaftlich dienstlich
    abitazione ufficio casa trabalho comercial residencial prive zakelijk
    completo completa complet complete vollstandig vollstaendig
    mother father spouse child holder titular residencia domicilio facturacion livraison facturation
    clienta 本人 自宅 会社用
    """.split()
)
"""Words that may follow without changing what a field is."""

FILLERS = frozenset(
    """of the de du des da do dos del della di la le les el los las der die das den et and y og och und en d l s your
    my""".split()
)
"""Words that say nothing in between."""

ALIASES = {
    "acct": "account",
    "addr": "address",
    "bday": "birthday",
    "bdate": "birthdate",
    "benef": "beneficiary",
    "cd": "code",
    "corp": "company",
    "cust": "customer",
    "dept": "department",
    "emp": "employee",
    "fone": "phone",
    "fst": "first",
    "lic": "license",
    "licence": "license",
    "lst": "last",
    "mgr": "manager",
    "mob": "mobile",
    "natl": "national",
    "nbr": "number",
    "nm": "name",
    "num": "number",
    "org": "organization",
    "ph": "phone",
    "pswd": "password",
    "recip": "recipient",
    "soc": "social",
    "tlf": "telefon",
    "usr": "user",
}
"""Short forms of words."""
