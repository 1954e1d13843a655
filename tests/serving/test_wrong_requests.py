"""Oversized, malformed or hostile requests quickly get a problem document, and affect nobody else."""

import contextlib
import json
import re
import socket
import threading
import time

import httpx
import pytest

from serving.conftest import Served, problem_of, read_all


def posted(served: Served, content: bytes) -> httpx.Response:
    return served.client.post("/v1/recommend", content=content, headers={"content-type": "application/json"})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"users": ["u3"], "history": ["i1"]},
        {"users": []},
        {"users": "u3"},
        {"users": ["u3"], "k": 0},
        {"users": ["u3"], "k": 501},
        {"users": ["u3"], "k": 1.5},
        {"users": ["u3"], "k": True},
        {"users": ["u3"], "k": "10"},
        {"users": ["u3"], "k": 10**400},
        {"users": ["u3"], "exclude_seen": "yes"},
        {"users": [True]},
        {"users": [None]},
        {"users": [1.5]},
        {"users": [2**63]},
        {"users": ["x" * 513]},
        {"users": ["u3"] * 257},
        {"users": ["u3"] * 100, "k": 500},
        {"users": ["u3", "u4"], "k": 300, "explain": 1},
        {"history": ["i1"] * 1001},
        {"history": ["i1"], "items": []},
        {"history": ["i1"], "exclude": ["i1"] * 10_001},
        {"users": ["u3"], "kk": 3},
        {"users": ["u3"], "where": "year>=1990"},
        {"users": ["u3"], "where": ["year>=" + "9" * 300]},
        {"users": ["u3"], "where": ["year"] * 17},
        {"users": ["u3"], "where": ["nope=1"]},
        {"users": ["u3"], "where": ["year>=soon"]},
        {"users": ["u3"], "where": ["="]},
        {"users": ["u3"], "where": [3]},
        {"users": ["u3"], "at_most": {"genre": 0}},
        {"users": ["u3"], "at_most": {"nope": 1}},
        {"users": ["u3"], "at_most": {f"c{n}": 1 for n in range(17)}},
        {"users": ["u3"], "diversity": 1.1},
        {"users": ["u3"], "diversity": True},
        {"users": ["u3"], "popularity_discount": -0.1},
        {"users": ["u3"], "cold_items": 51},
        {"users": ["u3"], "attributes": ["nope"]},
        {"users": ["u3"] * 50, "k": 50, "diversity": 0.5},
        {"users": ["u3"] * 50, "k": 50, "attributes": ["year"]},
        [],
        "text",
        None,
    ],
)
def test_wrong_bodies(served: Served, body: object):
    document = problem_of(served.post("/v1/recommend", body), 422)
    assert len(json.dumps(document)) < 4000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"users": ["u3"], "k": NaN}',
        b'{"users": ["u3"], "k": Infinity}',
        b'{"users": ["\\ud800"]}',
        b'{"users": ["\xff"]}',
        b"[" * 100_000,
        b'{"a":' * 10_000,
        b'{"users": ["u3"], "k": ' + b"9" * 100_000 + b"}",
        b"\x00\x01\x02",
        b"--form\r\n",
    ],
)
def test_what_is_no_json(served: Served, content: bytes):
    problem_of(posted(served, content), 422)


def test_same_ids_twice_and_numbers(served: Served):
    answer = served.post("/v1/recommend", {"users": ["u3", "u3"], "k": 1}).json()["results"]
    assert answer[0] == answer[1]
    problem_of(served.post("/v1/recommend", {"users": [3]}), 404)
    assert served.post("/v1/recommend", {"history": ["i1", "i1"], "k": 1}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/users/u3/recommendations?k=0",
        "/v1/users/u3/recommendations?k=501",
        "/v1/users/u3/recommendations?k=abc",
        "/v1/users/u3/recommendations?k=" + "9" * 5000,
        "/v1/users/u3/recommendations?explain=21",
        "/v1/users/u3/recommendations?exclude_seen=perhaps",
        "/v1/users/" + "x" * 513 + "/recommendations",
        "/v1/items?query=" + "x" * 201,
        "/v1/items?limit=101",
        "/v1/explain?user=u3",
        "/v1/items/i1/similar?k=-1",
    ],
)
def test_wrong_queries(served: Served, path: str):
    problem_of(served.get(path), 422)


def test_parameters_that_there_are_not(served: Served):
    answer = problem_of(served.get("/v1/users/u3/recommendations?k=3&wehre=year>1990&attributes=year"), 422)
    assert answer["detail"] == "query.wehre: there is no such parameter; did you mean where?"
    assert [error["where"] for error in answer["errors"]] == ["query.wehre", "query.attributes"]
    assert "choose from query, limit" in problem_of(served.get("/v1/items?text=a"), 422)["detail"]
    assert served.get("/v1/model?_=1").status_code == 200  # which has none at all


@pytest.mark.parametrize(
    "name", ["%00", "%0d%0aset-cookie:a=b", "%ff%fe", "%F0%9F%98%80", "..%2f..%2fetc", "%25%2561"]
)
def test_odd_ids_are_unknown_ids(served: Served, name: str):
    answer = served.get(f"/v1/users/{name}/recommendations")
    problem_of(answer, 404)
    assert "set-cookie" not in answer.headers
    assert served.get(f"/v1/items?query={name}").json()["total"] == 0


@pytest.mark.parametrize("query", ["(b+)+$", "[", "\\", ".*", "(?i)story", "%_"])
def test_a_query_is_no_pattern(served: Served, query: str):
    assert served.get("/v1/items", params={"query": query}).json()["total"] == 0


def test_addresses_and_methods(served: Served):
    problem_of(served.get("/nowhere"), 404)
    problem_of(served.get("/v1/"), 404)
    answer = served.client.delete("/v1/recommend")
    problem_of(answer, 405)
    assert answer.headers["allow"] == "POST"
    problem_of(served.client.options("/v1/recommend"), 405)
    assert served.client.head("/").status_code in (200, 404)


def test_large_body_by_its_length(served: Served):
    start = time.monotonic()
    answer = posted(served, b" " * ((1 << 20) + 1))
    assert problem_of(answer, 413)["detail"].startswith("a body may have up to 1,048,576 bytes")
    assert time.monotonic() - start < 5


def test_hundred_megabytes_in_chunks(served: Served):
    def chunks():
        for _ in range(100):
            yield b" " * (1 << 20)

    # Or it is cut off while sending, which is just as good.
    with contextlib.suppress(httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
        problem_of(served.client.post("/v1/recommend", content=chunks()), 413)
    assert served.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 200,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nbroken header\r\n\r\n",
        b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_garbage(served: Served, data: bytes):
    answer = served.raw(data)
    assert answer.startswith(b"HTTP/1.1 400") or answer == b"", answer
    if answer:
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 400
    assert served.get("/healthz").status_code == 200


def test_endless_head(served: Served):
    with served.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n")
        try:
            for n in range(100_000):
                connection.sendall(b"x-%d: %s\r\n" % (n, b"y" * 100))
        except (ConnectionResetError, BrokenPipeError):
            pass
        answer = read_all(connection)
    assert n < 99_999
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")


def test_clients_that_hang(served: Served):
    """Nothing at all, half a head, half a body: each gets an error or is cut off, and others are served meanwhile."""
    silent, head, body = served.connect(), served.connect(), served.connect()
    with silent, head, body:
        head.sendall(b"GET /healthz HTTP/1.1\r\nhost: ")
        body.sendall(b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
        assert served.get("/v1/users/u3/recommendations").status_code == 200
        assert read_all(head).startswith(b"HTTP/1.1 408")
        assert read_all(body).startswith(b"HTTP/1.1 408")
        assert read_all(silent) == b""


def test_a_client_that_goes_away(served: Served):
    for _ in range(20):
        with served.connect() as connection:
            connection.sendall(b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
    assert served.get("/healthz").status_code == 200
    assert "Traceback" not in served.lines()


def test_pipelined_requests(served: Served):
    one = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    assert served.raw(one * 5 + last).count(b"HTTP/1.1 200") == 6


def test_a_client_that_does_not_take_its_answers(served: Served):
    """Many requests at once and no reading: cut off when the time is up, with most answers unsent."""
    request = b"GET /v1/users/u3/recommendations?k=60&exclude_seen=false HTTP/1.1\r\nhost: localhost\r\n\r\n"
    n = 5000
    with served.connect() as connection:
        sending = threading.Thread(target=_send, args=(connection, request * n))
        sending.start()
        sending.join(10)
        done = -1
        while (now := _answered(served)) != done:  # nothing more for five seconds; two are allowed
            done = now
            time.sleep(5)
        answers = read_all(connection).count(b"HTTP/1.1 200")
    sending.join()
    assert 0 < answers < n
    assert served.get("/healthz").status_code == 200


def _answered(served: Served) -> float:
    found = re.search(r'recommendations",status="200"} (\d+)', served.get("/metrics").text)
    return float(found[1]) if found else 0.0


def _send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(data)
