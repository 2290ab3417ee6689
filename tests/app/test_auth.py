"""Who may call: keys, hosts, origins, and where the server may listen."""

import pytest
from starlette.datastructures import Headers

from app.auth import BindRefused, HostCheck, Keys, KeysError, check_bind
from app.errors import Unauthorized
from tests.app.doubles import silence

ALICE = "alice-key-0123456789"
BOB = "bob-key-9876543210-x:y"


@pytest.fixture
def keys() -> Keys:
    return Keys.parse(f"alice:{ALICE}, bob:{BOB},", "default-key-0123456789")


@pytest.mark.parametrize(
    ("header", "user"),
    [
        (f"Bearer {ALICE}", "alice"),
        (f"bearer  {BOB}", "bob"),
        ("BEARER default-key-0123456789", "default"),
    ],
)
def test_a_key_stands_for_its_user(keys: Keys, header: str, user: str) -> None:
    assert keys.user_of(header) == user


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", f"Basic {ALICE}", ALICE, f"Bearer {ALICE}x", "Bearer é"]
)
def test_anything_but_a_known_key_is_unauthorized(keys: Keys, header: str | None) -> None:
    with pytest.raises(Unauthorized) as caught:
        keys.user_of(header)
    assert caught.value.code == "unauthorized"
    assert caught.value.headers["www-authenticate"] == "Bearer"


def test_without_keys_everybody_is_local() -> None:
    assert not Keys.parse("", "")
    assert Keys.parse(" , ", "  ").user_of("Bearer whatever") == "local"


def test_keys_are_kept_as_hashes_only(keys: Keys) -> None:
    assert ALICE not in repr(keys)
    assert all(len(digest) == 32 for digest in keys.digests.values())
    assert ALICE.encode() not in b"".join(keys.digests.values())


@pytest.mark.parametrize(
    ("api_keys", "api_key", "says"),
    [
        (f"alice:{ALICE},alice:{BOB}", "", "the user 'alice' has two keys"),
        (f"default:{ALICE}", BOB, "the user 'default' has two keys"),
        ("alice:", "", "has 0 characters, but at least 16"),
        ("alice:secret", "", "has 6 characters, but at least 16"),
        ("", "secret", "the key of 'default' has 6 characters"),
        (f"alice:{ALICE},{BOB.replace(':', '')}", "", "entry 2 is not of the form name:KEY"),
        (f":{ALICE}", "", "the name of entry 1"),
        (f"al ice:{ALICE}", "", "the name of entry 1"),
        ("alice:secret secret secret", "", "no header can carry"),
        (f"alice:{ALICE},bob:{ALICE}", "", "two users have the same key"),
    ],
)
def test_keys_that_cannot_be_used_are_one_sentence_without_a_key(api_keys: str, api_key: str, says: str) -> None:
    with pytest.raises(KeysError) as caught:
        Keys.parse(api_keys, api_key)
    sentence = str(caught.value)
    assert says in sentence
    assert sentence.startswith("OSTINATO_API_KEY")
    assert not any(secret in sentence for secret in (ALICE, BOB, BOB.replace(":", ""), "secret"))


def door(*, keyless: bool = True, hosts: tuple[str, ...] = (), origins: tuple[str, ...] = ()) -> HostCheck:
    return HostCheck(silence, keyless=keyless, hosts=hosts, origins=origins)


def allows(which: HostCheck, host: str | None, origin: str | None = None) -> bool:
    given = {name: value for name, value in (("host", host), ("origin", origin)) if value is not None}
    return which.judge(Headers(given)) is None


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:8000", "127.9.9.9:1", "[::1]:8000", "[::1]"]
)
def test_without_keys_loopback_names_are_let_in(host: str) -> None:
    assert allows(door(), host)


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example", "evil.example:8000", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example",
     "[::2]", "::1", "[127.0.0.1", "user@localhost", "localhost:8000:1", "0.0.0.0"],
)  # fmt: skip
def test_without_keys_other_names_are_turned_away(host: str | None) -> None:
    assert not allows(door(), host)


def test_a_listed_host_is_let_in_on_any_port() -> None:
    assert allows(door(hosts=("box.lan",)), "box.lan:8000")
    assert allows(door(hosts=("box.lan",)), "localhost")
    assert not allows(door(hosts=("box.lan",)), "other.lan")


def test_with_keys_the_host_is_checked_only_where_hosts_are_listed() -> None:
    assert allows(door(keyless=False), "anything.example")
    assert allows(door(keyless=False, hosts=("a.example",)), "a.example:443")
    assert not allows(door(keyless=False, hosts=("a.example",)), "localhost")


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("localhost", "http://localhost"),
        ("localhost", "http://localhost:80"),
        ("127.0.0.1:8000", "https://127.0.0.1:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("localhost:8000", "http://LOCALHOST:8000"),
    ],
)
def test_a_page_of_the_server_itself_may_call(host: str, origin: str) -> None:
    assert allows(door(), host, origin)


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "http://localhost:3000", "file://localhost:8000", "http://localhost:8000@evil.example",
     "http://localhost:99999", "//localhost:8000"],
)  # fmt: skip
def test_a_page_of_another_origin_may_not_call(origin: str) -> None:
    refusal = door().judge(Headers({"host": "localhost:8000", "origin": origin}))
    assert refusal is not None
    assert (refusal.status, refusal.code) == (403, "unauthorized")
    assert "OSTINATO_ALLOWED_ORIGINS" in refusal.message


def test_a_page_of_a_listed_origin_may_call() -> None:
    assert allows(door(origins=("http://localhost:3000",)), "localhost:8000", "http://localhost:3000")
    assert not allows(door(origins=("http://localhost:3000",)), "localhost:8000", "http://localhost:3001")


def test_a_host_that_is_turned_away_is_told_which_setting_allows_it() -> None:
    refusal = door().judge(Headers({"host": "box.lan"}))
    assert refusal is not None
    assert "OSTINATO_ALLOWED_HOSTS" in refusal.message


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_loopback_needs_no_key(host: str) -> None:
    check_bind(host, Keys())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1"])
def test_a_wider_bind_needs_a_key(host: str, keys: Keys) -> None:
    with pytest.raises(BindRefused, match="set OSTINATO_API_KEYS"):
        check_bind(host, Keys())
    check_bind(host, keys)


def test_a_host_that_cannot_be_resolved_is_refused_without_a_key() -> None:
    with pytest.raises(BindRefused, match="cannot be resolved"):
        check_bind("a" * 70, Keys())
