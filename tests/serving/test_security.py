"""Tokens, headers, CORS."""

import hashlib
import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from purerec.errors import ConfigError
from purerec.serving.http.middleware import POLICY, Gate
from purerec.serving.process.launch import is_loopback, read_token
from purerec.serving.process.settings import Settings
from serving.conftest import TOKEN, Served, problem_of


def like(token: str, alike: Callable[[bytes], bytes]) -> str:
    """Another token of the same length whose digest is similar in some way."""
    wanted = alike(hashlib.sha256(token.encode()).digest())
    for n in itertools.count():
        other = f"{n:0{len(token)}d}"
        if alike(hashlib.sha256(other.encode()).digest()) == wanted:
            return other
    raise AssertionError


@pytest.mark.parametrize(
    "header",
    [
        None,
        f"Bearer {TOKEN[0]}",
        f"Bearer {TOKEN[:16]}",
        f"Bearer {TOKEN[1:]}",
        f"Bearer {TOKEN[5:-5]}",
        f"Bearer x{TOKEN}",
        f"Bearer x{TOKEN}x",
        f"Bearer {TOKEN},{TOKEN}",
        f"Bearer {TOKEN} {TOKEN}",
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN.swapcase()}",
        f"Bearer {TOKEN[::-1]}",
        f"Bearer {''.join(sorted(TOKEN))}",
        f"Bearer {'x' * len(TOKEN)}",
        f"Bearer {TOKEN.replace('-', '_')}",
        f"Bearer {like(TOKEN, lambda digest: digest[:2])}",
        f"Bearer {like(TOKEN, lambda digest: digest[-2:])}",
        f"Bearer {hashlib.sha256(TOKEN.encode()).hexdigest()}",
        f"NotBearer {TOKEN}",
        f"Bear {TOKEN}",
        f"Bearer:{TOKEN}",
        "*",
        "Bearer",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer Bearer {TOKEN}",
        "Bearer é",
    ],
)
def test_without_the_right_token(guarded: Served, header: str | None):
    headers = {} if header is None else {"authorization": header.encode("latin-1")}
    with httpx.Client(base_url=guarded.url, headers=headers, trust_env=False) as client:
        for path in ("/v1/model", "/v1/users/u3/recommendations", "/metrics", "/v1/nothing", "/v1"):
            answer = client.get(path)
            problem_of(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
        problem_of(client.post("/v1/reload"), 401)
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert client.get(path).status_code == 200
        assert client.get("/").status_code in (200, 404)


def test_tokens_are_compared_whole_and_in_constant_time(monkeypatch: pytest.MonkeyPatch):
    """Only the result of `hmac` on the two digests decides."""
    compared = []

    def compare(given: bytes, wanted: bytes) -> bool:
        compared.append((given, wanted))
        return True

    monkeypatch.setattr("purerec.serving.http.middleware.hmac.compare_digest", compare)
    gate = Gate(None, Settings(token=TOKEN), None, None, {}, str)  # type: ignore[arg-type]
    gate._check_token({"path": "/v1/model", "headers": [(b"authorization", b"Bearer other")]})
    assert compared == [(hashlib.sha256(b"other").digest(), hashlib.sha256(TOKEN.encode()).digest())]


def test_a_token_is_not_empty(guarded: Served):
    for header in (b"Bearer ", b"Bearer   ", b"Bearer \t", b""):
        raw = b"GET /v1/model HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: " + header + b"\r\n\r\n"
        assert guarded.raw(raw).startswith(b"HTTP/1.1 401")
    with pytest.raises(ConfigError, match="token"):
        Settings(token="")


def test_with_the_token(guarded: Served):
    assert guarded.get("/v1/model").status_code == 200
    assert guarded.get("/metrics").status_code == 200
    lower = {"authorization": f"bearer {TOKEN}"}
    assert httpx.get(guarded.url + "/v1/model", headers=lower, trust_env=False).status_code == 200
    assert TOKEN not in guarded.lines()
    command = Path(f"/proc/{guarded.process.pid}/cmdline")
    if command.exists():
        assert TOKEN.encode() not in command.read_bytes()


def test_the_path_cannot_be_spelled_around_the_token(guarded: Served):
    for path in ("//v1/model", "/v1//model", "/./v1/model", "/%76%31/model", "/V1/model", "/static/../v1/model"):
        raw = f"GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode()
        assert guarded.raw(raw).startswith((b"HTTP/1.1 401", b"HTTP/1.1 404")), path


def test_reload_needs_a_configured_token(served: Served):
    assert "SIGHUP" in problem_of(served.client.post("/v1/reload"), 403)["detail"]


@pytest.mark.parametrize("path", ["/", "/v1/model", "/v1/nope", "/healthz", "/metrics", "/static/nope"])
def test_headers(served: Served, path: str):
    headers = served.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == ("no-cache" if path == "/" and "etag" in headers else "no-store")
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


def test_other_names_of_the_machine_are_refused(served: Served, guarded: Served):
    """A name that somebody else has pointed to 127.0.0.1 (DNS rebinding)."""
    for name in ("localhost", "LOCALHOST:80", "127.0.0.1", f"127.0.0.1:{served.port}", "[::1]:80"):
        assert served.get("/v1/model", headers={"host": name}).status_code == 200
    for name in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "127.0.0.1@evil", "a:b"):
        problem_of(served.get("/v1/model", headers={"host": name}), 421)
        assert guarded.get("/v1/model", headers={"host": name}).status_code == 200  # a token is protection enough


def test_cors_is_off_by_default(served: Served):
    headers = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    problem_of(served.client.options("/v1/recommend", headers=headers), 405)
    assert "access-control-allow-origin" not in served.get("/v1/model", headers=headers).headers


def test_cors_for_one_origin(guarded: Served):
    headers = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    with httpx.Client(base_url=guarded.url, trust_env=False) as client:  # a preflight has no token
        answer = client.options("/v1/recommend", headers=headers)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == "https://shop.example"
        assert "authorization" in answer.headers["access-control-allow-headers"]
        assert (
            client.options("/v1/recommend", headers={**headers, "origin": "https://evil.example"}).status_code == 401
        )
    answer = guarded.get("/v1/model", headers={"origin": "https://shop.example"})
    assert answer.headers["access-control-allow-origin"] == "https://shop.example"
    assert answer.headers["vary"] == "origin"
    for origin in ("https://evil.example", "https://shop.example.evil.example", "null"):
        assert "access-control-allow-origin" not in guarded.get("/v1/model", headers={"origin": origin}).headers


def test_token_from_file_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PUREREC_TOKEN", raising=False)
    assert read_token(None) is None
    file = tmp_path / "token"
    file.write_text("from-file\n")
    file.chmod(stat.S_IRUSR)
    assert read_token(file) == "from-file"
    monkeypatch.setenv("PUREREC_TOKEN", "from-environment")
    assert read_token(None) == "from-environment"
    assert read_token(file) == "from-file"
    for wrong in ("", " ", "two words", "é"):
        os.environ["PUREREC_TOKEN"] = wrong
        with pytest.raises(ConfigError, match="PUREREC_TOKEN has no token"):
            read_token(None)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(tmp_path / "none")


def test_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.com")))
