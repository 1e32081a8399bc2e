"""Credentials in text, and the many words about them that are none. No credential stands here whole."""

from __future__ import annotations

import base64
import hashlib

import pytest

from deermem.policy.secrets import holds_secret

HEX = hashlib.sha256(b"1").hexdigest()
MIXED = base64.b64encode(hashlib.sha512(b"2").digest()).decode().replace("+", "a").replace("/", "b")
LETTERS = MIXED.replace("=", "")
JWT_HEAD = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
JWT_BODY = base64.urlsafe_b64encode(b'{"sub":"1234567890"}').decode().rstrip("=")
DASHES = "-" * 5

SECRETS = [
    "AK" + "IA" + "IOSFODNN7EXAMPLE",
    "The deploy user has AS" + f"IA{HEX[:16].upper()} as its key.",
    "用户的AWS密钥是AK" + "IAIOSFODNN7EXAMPLE，请记住",
    "sk" + f"-{LETTERS[:48]}",
    "User's OpenAI key: sk" + f"-proj-{LETTERS[:20]}_{LETTERS[20:50]}",
    "sk" + f"-ant-api03-{LETTERS[:40]}-{LETTERS[40:60]}",
    "It is sk" + "-1234567890abcdef.",
    "gh" + f"p_{LETTERS[:36]}",
    "gh" + f"o_{LETTERS[:36]}",
    "github" + f"_pat_{LETTERS[:22]}_{LETTERS[22:60]}",
    "gl" + f"pat-{LETTERS[:20]}",
    "xo" + f"xb-123456789012-1234567890123-{LETTERS[:24]}",
    "https://hooks.slack." + f"com/services/T{HEX[:8].upper()}/B{HEX[8:16].upper()}/{LETTERS[:24]}",
    "AI" + f"za{LETTERS[:35]}",
    f"{DASHES}BEGIN RSA PRIVATE " + f"KEY{DASHES}\nMIIE\n{DASHES}END RSA PRIVATE KEY{DASHES}",
    f"Their key is {DASHES}BEGIN OPENSSH PRIVATE " + f"KEY{DASHES}",
    f"{DASHES}BEGIN PGP PRIVATE " + f"KEY BLOCK{DASHES}",
    f"{JWT_HEAD}.{JWT_BODY}.{LETTERS[:43]}",
    f"token={JWT_HEAD}.{JWT_BODY}.",
    f"Authorization: Bearer {LETTERS[:30]}",
    f"uses bearer {HEX[:32]} for the API",
    f"Authorization: Basic {base64.b64encode(b'alice:hunter2').decode()}",
    "postgres://alice:" + "hunter2@db.example.com:5432/app",
    "mongodb+srv://root:" + "s3cr3t!x@cluster0.mongodb.net",
    "redis://:" + "p4ssw0rd@localhost:6379/0",
    "aws_secret_access_key = " + MIXED[:40],
    f"Secret access key for AWS is {MIXED[:40]}",
    f"API_KEY={HEX[:32]}",
    f'{{"api_key": "{HEX[:24]}"}}',
    f"The API key for the weather service is {LETTERS[:24]}.",
    f"STRIPE_SECRET_KEY: {HEX[:20]}",
    "sk_" + f"live_{LETTERS[:24]}",
    f"client secret: {LETTERS[:20]}",
    f"access token (staging): {HEX[:40]}",
    "token: 123e4567-e89b-12d3-a456-426614174000",
    "hf" + f"_{LETTERS[:34]}",
    "SG." + f"{LETTERS[:22]}.{LETTERS[22:65]}",
    "//registry.npmjs.org/:_auth" + f"Token={HEX[:36]}",
    "password is hunter2",
    "User's password is swordfish.",
    "My password: hunter2",
    "my password: " + "Swordfish",
    "password=" + "letmein",
    "DB_PASSWORD=" + "correcthorse",
    "The wifi password for the guest network is blue42sky",
    "The password of the admin account is `P@ssw0rd!`",
    'password = "correct horse battery staple"',
    "User changed the password to tiger99 last week",
    "User uses tiger2024 as the password",
    "Login alice, password hunter2",
    "The passphrase is \u201cmellon\u201d",
    "The alarm PIN is 4711.",
    "PIN code: 839201",
    "password was 12345678",
    "Server=db;User Id=sa;Password=Abc123!!;",
    "The root pw: toor1234",
    "User told the assistant the password (hunter2)",
    "The SSH passphrase is 'my dog likes 3 cats'",
    "密码 hunter2",
    "密码是hunter2",
    "我的密码：abc12345",
    "用户的WiFi密码是 qwerty，家里都用",
    "密码为123456。",
    "口令：opensesame",
    "他把密码改成了tiger99",
    f"API密钥是{HEX[:20]}",
    f"token是{HEX[:24]}",
    "pass\u200bword: hunter2",
    "ｐａｓｓｗｏｒｄ：hunter2",
    "The seed phrase is apple brave crane delta eagle flint grape house igloo jolly koala lemon",
    # Other vendors, by the forms that they document.
    *(
        f"{prefix[:2]}{prefix[2:]}{LETTERS[:40]}"
        for prefix in (
            *("lin_api_", "dckr_pat_", "hvs.", "hvb.", "glsa_", "sntrys_", "tskey-auth-", "pscale_tkn_", "ATATT3x"),
            *("nvapi-", "jina_", "lsv2_pt_", "pcsk_", "vck_", "nfp_", "CFPAT-", "phx_", "sq0csp-", "NRAK-", "LTAI"),
        )
    ),
    *(prefix + HEX[:48] for prefix in ("rubygems_", "dapi", "key-", "doo_v1_", "bkua_", "sbp_", "PMAK-")),
    f"Endpoint=sb://x.example.net/;SharedAccessKey={LETTERS[:43]}=",
    f"https://x.blob.core.windows.net/c?sv=2022-11-02&sig={LETTERS[:40]}%3D",
    "https://discord.com/api/web" + f"hooks/123456789012345678/{LETTERS[:60]}",
    "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=" + f"{HEX[:8]}-{HEX[8:12]}-{HEX[12:28]}",
    "---- BEGIN SSH2 ENCRYPTED PRIVATE " + "KEY ----",
    "curl -u admin:" + "hunter2 https://example.com",
    "sshpass -p " + "hunter2 ssh a@example.com",
    "mysql -uroot -pS3cret" + "99 db",
    "The app password is abcd efgh ijkl mnop",
    "mnemonic: apple brave crane delta eagle flint grape house igloo jolly koala lemon",
    "The recovery codes are 1a2b-3c4d and 5e6f-7a8b",
    "The alarm code is 4711.",
    "hunter2 is the wifi password",
    "密码设置成了tiger99",
    "WiFi密码叫做hunter2",
    "解锁密码1357",
    "管理员账号admin，密码admin123",
    "hunter2是我家的WiFi密码",
    "用hunter2当密码",
    "密码就是生日19900101",
]

ORDINARY = [
    "",
    "User likes tea",
    "User wants password resets to be easier",
    "User forgot the password policy of the company",
    "User keeps forgetting passwords",
    "User stores passwords in 1Password",
    "The password manager is 1Password",
    "User's password manager is Bitwarden",
    "uses KeePass as password manager",
    "uses 1Password as a password vault",
    "The password is stored in the vault",
    "User's password is too weak",
    "The password is case-sensitive.",
    "The password is required",
    "The password is hashed with bcrypt",
    "The password is at least 12 characters long",
    "The password is 2048 bits",
    "The password was leaked, so it was changed",
    "password: required",
    "password: str",
    "password: str = Field(min_length=8)",
    'password = os.environ["DB_PASSWORD"]',
    "password=<your password>",
    "password: ********",
    "PASSWORD=${DB_PASSWORD}",
    "password = None",
    "password: z.string().min(8)",
    "password=getpass.getpass()",
    "User thinks password123 is a bad password",
    "The passcode is disabled",
    "Password hashing is SHA256",
    "Uses SHA256 as password hash",
    "Prefers passwordless login, password OAuth2 flows are legacy",
    "The password policy is 90 days",
    "Password length: 12",
    "User wants the password to be reset by e-mail",
    "User changed the password to be safe",
    "User dislikes that the password expires every 90 days",
    "Secret: the user is planning a surprise party",
    "The secret is to rest the dough overnight",
    "The secret ingredient is cardamom",
    "The token limit is 128k",
    "max_tokens=4096",
    "access token expires in 15min",
    "The access token is refreshed every 3600s",
    "token: expires 2026-11-30",
    "API key: see the vault",
    "API key rotation is due in 2027Q1",
    "User asked how to create an API key for OpenAI",
    "API_KEY=YOUR_API_KEY_HERE",
    "api_key = os.getenv('API_KEY_2')",
    "User works with sk-learn and scikit-learn",
    "sk-learn-contrib-imbalanced-learn-tools is a package",
    "User rides a sk-2000 bike",
    "Uses bearer token authentication",
    "The bearer of bad news",
    "Prefers JWT over sessions; tokens start with eyJ",
    "Knows what AKIA means",
    f"The fix is commit {HEX[:40]}",
    f"The bug came with {HEX[:8]}, see {HEX[:12]}",
    f"sha256:{HEX}",
    "The order is 123e4567-e89b-12d3-a456-426614174000",
    "The session id 0b9f3a7c-5c5e-4a57-9a57-1f7d1f6e8f10 hung",
    "Call the user at +49 151 23456789",
    "Phone: 555-0100, zip 90210",
    "IBAN questions go to accounting",
    "data:image/png;base64," + base64.b64encode(bytes(range(200))).decode(),
    "https://example.com/path?page=2&sort=asc",
    "https://example.com:8443/login",
    "ssh://git@example.com:22/repo.git",
    "git@github.com:org/repo.git",
    "postgres://user:<password>@host/db",
    "postgres://user:${PASSWORD}@host/db",
    "mail alice@example.com or bob@example.org",
    "The LED pin is 13",
    "Prefers a 6-digit PIN, the PIN is 4 digits",
    f"{DASHES}BEGIN CERTIFICATE{DASHES}",
    f"{DASHES}BEGIN PUBLIC KEY{DASHES}",
    "User's parser skips BEGIN RSA PRIVATE KEY lines",
    "密码太复杂，用户记不住",
    "密码是加密存储的",
    "密码是SHA256加密的",
    "密码使用bcrypt哈希",
    "密码为空时会报错",
    "密码为8到16位",
    "用户忘记了密码策略",
    "用户希望重置密码更简单",
    "密码管理器是1Password",
    "密码是2024年修改的",
    "用户在研究JWT令牌",
    "令牌是JWT",
    "token是按字数计费的",
    "用户的手机号是13800138000",
    "User's APDUResponse parser and APEXLEGENDS account",
    "Works on commit messages; the secret santa was 2023",
    "Uses gpt-4o-mini-2024-07-18 and text-embedding-3-small",
    "The encryption key is rotated yearly",
    "The master key opens the front door",
    "Service account: ci-runner-prod-eu1",
    "secret_santa_2024_list_of_people_a1",
    "ops_runbook_2024_q3_final_v2",
    "The door code is 4 digits long",
    "MD5 is the password hash",
    "1Password is their password manager",
    "curl -u user:$PASS https://example.com",
    "mysql -uroot -p mydb",
    "mnemonic is a memory aid that helps people to learn words",
    "backup codes are pre-2024",
    "密码1234位",
    "口令2024年改过",
    "用1Password作为密码管理器",
    "用户觉得abc123是弱密码",
    "SHA256是密码哈希算法",
]


def test_the_corpus_is_wide():
    assert len(SECRETS) >= 40
    assert len(ORDINARY) >= 60


@pytest.mark.parametrize("text", SECRETS)
def test_a_credential_is_found(text):
    assert holds_secret(text), text


@pytest.mark.parametrize("text", SECRETS)
def test_a_credential_is_found_in_the_middle_of_prose(text):
    assert holds_secret(f"The user likes tea. {text}\nThe user lives in Kiel."), text


@pytest.mark.parametrize("text", SECRETS)
def test_the_kind_never_holds_the_credential(text):
    kind = holds_secret(text)
    assert kind is not None
    assert len(kind) <= 40
    assert not any(word in kind for word in text.split() if any(map(str.isdigit, word)))


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_words_are_no_credential(text):
    assert holds_secret(text) is None


@pytest.mark.parametrize(
    "text", ["\ud800", "\0password: hunter2", "password is", "密码是", "password: ", "sk-", "\ufdfa" * 99]
)
def test_no_text_raises(text):
    assert holds_secret(text) in (None, "password")


@pytest.mark.parametrize(
    "piece",
    [
        "password ",
        "secret",
        "aws secret ",
        "eyJ",
        "sk-",
        "://a:",
        "密码",
        "a1",
        "-",
        "https://",
        "{",
        "set ",
    ],
)
def test_hostile_text_is_looked_through(piece):
    """65,536 characters each; what grows with the square of the length would take minutes."""
    assert holds_secret((piece * 65_536)[:65_536]) is None
