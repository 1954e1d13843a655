"""What cannot be triggered from outside: slow and failing answers, too many at once, no model yet."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from purerec.serving.http.app import Service, make_app
from purerec.serving.model import answers
from purerec.serving.model.loaded_model import Loaded
from purerec.serving.process import metrics
from purerec.serving.process.logs import Log
from purerec.serving.process.pool import Pool
from purerec.serving.process.settings import Limits, Settings


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run in a separate thread: browser tests, if any ran here before, leave a loop running in this one."""
    with ThreadPoolExecutor(1) as aside:
        aside.submit(asyncio.run, coroutine).result()


class Recorder(Log):
    """A log kept in memory."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def write(self, event: str, **facts: Any) -> None:
        self.records.append({"event": event, **facts})

    def request(self, *facts: Any) -> None:
        self.records.append({"event": "request", "facts": facts})


class Asked:
    """An application without a server around it."""

    def __init__(self, **settings: Any) -> None:
        counters = metrics.shared_file(1)
        self.log = Recorder()
        self.service = Service(Settings(**settings), metrics.Metrics(counters, 1, 0), self.log, self._reload)
        os.close(counters)
        self.gate = make_app(self.service)

    async def _reload(self) -> dict[str, Any]:
        raise AssertionError

    async def get(
        self, path: str, *, send: Callable[[Any], None] | None = None
    ) -> tuple[int, dict[bytes, bytes], Any]:
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {
            "headers": [],
            "http_version": "1.1",
            "scheme": "http",
            "root_path": "",
            "client": None,
            "server": None,
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def keep(message: Any) -> None:
            sent.append(message)

        await self.gate(scope, receive, keep)
        body = b"".join(message.get("body", b"") for message in sent[1:])
        return sent[0]["status"], dict(sent[0]["headers"]), json.loads(body)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Asked]:
    """An application whose list of items comes from a function."""

    def make(work: Callable[[], Any], **settings: Any) -> Asked:
        monkeypatch.setattr(answers, "find_items", lambda *_: work())
        asked = Asked(**settings)
        asked.service.holder.current = Loaded(None, {}, "v1", None, None)  # type: ignore[arg-type]
        return asked

    return make


def test_without_a_model():
    async def go() -> None:
        asked = Asked()
        for path in ("/readyz", "/v1/items", "/v1/model"):
            status, headers, document = await asked.get(path)
            assert (status, document["type"]) == (503, "urn:purerec:problem:not-ready")
            assert headers[b"retry-after"] == b"1"
        assert (await asked.get("/healthz"))[0] == 200

    run(go())


def test_slow_answers_are_given_up(answering):
    async def go() -> None:
        asked = answering(lambda: time.sleep(0.5) or {}, timeout_s=0.1)

        async def look() -> None:
            while True:
                await asyncio.sleep(0.02)
                asked.gate.look()

        looking = asyncio.create_task(look())
        start = time.perf_counter()
        status, headers, document = await asked.get("/v1/items")
        assert time.perf_counter() - start < 0.4
        assert (status, document["type"]) == (503, "urn:purerec:problem:timeout")
        assert b"retry-after" in headers
        looking.cancel()
        assert "purerec_requests_in_flight 0\n" in asked.service.metrics.text(None, 0.0)

    run(go())


def test_too_many_at_once(answering):
    async def go() -> None:
        asked = answering(lambda: time.sleep(0.05) or {}, pending=4)
        found = await asyncio.gather(*(asked.get("/v1/items") for _ in range(10)), asked.get("/healthz"))
        assert [status for status, _, _ in found] == [200] * 4 + [503] * 6 + [200]
        assert found[5][2]["type"] == "urn:purerec:problem:overloaded"
        assert found[5][1][b"retry-after"] == b"1"
        assert (await asked.get("/v1/items"))[0] == 200

    run(go())


def test_failures_tell_the_log_and_not_the_caller(answering):
    def fail() -> None:
        raise RuntimeError("a secret of the server")

    async def go() -> None:
        asked = answering(fail)
        status, headers, document = await asked.get("/v1/items")
        assert status == 500
        assert headers[b"content-type"] == b"application/problem+json"
        assert headers[b"x-content-type-options"] == b"nosniff"
        assert "secret" not in json.dumps(document)
        errors = [record for record in asked.log.records if record["event"] == "error"]
        assert errors[0]["detail"] == "a secret of the server"
        assert any("test_middleware.py" in place for place in errors[0]["trace"])

    run(go())


def test_only_what_is_known_to_be_brief_is_done_in_the_loop():
    async def go() -> None:
        pool, here = Pool(2), threading.get_ident()
        where = [await pool.run("brief", threading.get_ident) for _ in range(3)]
        assert where[0] != here
        assert where[1:] == [here, here]
        assert await pool.run(None, threading.get_ident) != here

        def slow() -> int:
            sum(range(200_000))
            return threading.get_ident()

        assert here not in [await pool.run("slow", slow) for _ in range(3)]
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await pool.run("brief", lambda: 1 // 0)

    run(go())


def test_settings_survive_the_way_to_a_worker():
    settings = Settings(token="t", cors=("https://a.example",), limits=Limits(k=3))
    assert Settings.from_json(settings.to_json()) == settings
    assert "token" not in repr(settings)


def test_metrics_add_up_over_processes():
    counters = metrics.shared_file(2)
    first, second, supervisor = (metrics.Metrics(counters, 2, row) for row in range(3))
    os.close(counters)
    first.observe("/v1/items", 200, 0.003)
    second.observe("/v1/items", 200, 20.0)
    second.observe("/v1/items", 418, 0.001)
    supervisor.add(metrics.RELOADED)
    text = first.text(None, 0)
    assert 'purerec_requests_total{route="/v1/items",status="200"} 2' in text
    assert 'purerec_requests_total{route="/v1/items",status="other"} 1' in text
    assert 'purerec_request_seconds_bucket{route="/v1/items",le="0.001"} 1' in text
    assert 'purerec_request_seconds_bucket{route="/v1/items",le="10.0"} 2' in text
    assert 'purerec_request_seconds_bucket{route="/v1/items",le="+Inf"} 3' in text
    assert 'purerec_reloads_total{result="done"} 1' in text
    assert text.count("# TYPE") == len({line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")})
