"""Every endpoint gives the same as the model in Python."""

from dataclasses import asdict

import pytest

from purerec.models.contract.recommender import Recommender
from purerec.serving.process.settings import Limits
from serving.conftest import MARKUP, Served, frame, problem_of, table


def test_users(served: Served, model: Recommender):
    answer = served.post("/v1/recommend", {"users": ["u3", "u4"], "k": 5}).json()
    for result, user in zip(answer["results"], ("u3", "u4"), strict=True):
        expected = model.recommend([user], k=5)
        assert result["user"] == user
        assert table(result["items"], "item", "label", "rank") == frame(expected, "item", "label", "rank")
        assert [i["score"] for i in result["items"]] == pytest.approx(expected["score"].to_list(), rel=1e-5)
        assert "because" not in result["items"][0]
    assert len(answer["model"]) == 12


def test_history_with_unknown_items(served: Served, model: Recommender):
    history = ["i2", "i4", "nope", "nope", "x/y"]
    answer = served.post("/v1/recommend", {"history": history, "k": 4}).json()["results"][0]
    expected = model.recommend_for(["i2", "i4", "x/y"], k=4)
    assert answer["user"] is None
    assert answer["unknown_items"] == ["nope"]
    assert table(answer["items"], "item") == frame(expected, "item")


def test_empty_history_gives_what_is_popular(served: Served, model: Recommender):
    answer = served.post("/v1/recommend", {"history": [], "k": 3}).json()["results"][0]
    assert table(answer["items"], "item") == frame(model.recommend_for([], k=3), "item")


def test_seen_candidates_and_exclusions(served: Served, model: Recommender):
    seen = {model.items[int(i)] for i in model.seen.row(model.users.index("u3"))}
    answer = served.post("/v1/recommend", {"users": ["u3"], "k": 60}).json()["results"][0]["items"]
    assert len(answer) == len(model.items) - len(seen)
    assert not seen & {i["item"] for i in answer}
    body = {"users": ["u3"], "k": 60, "exclude_seen": False}
    assert len(served.post("/v1/recommend", body).json()["results"][0]["items"]) == len(model.items)
    few = ["i1", "i2", "i3"]
    answer = served.post("/v1/recommend", {**body, "items": few, "exclude": ["i2", "nope"]}).json()
    assert {i["item"] for i in answer["results"][0]["items"]} == {"i1", "i3"}
    answer = served.post("/v1/recommend", {"history": ["i1"], "items": few, "exclude": ["i2"]}).json()
    assert [i["item"] for i in answer["results"][0]["items"]] == ["i3"]
    document = problem_of(served.post("/v1/recommend", {**body, "items": ["nope"]}), 404)
    assert "'nope'" in document["detail"]


def test_reasons(served: Served, model: Recommender):
    history = ["i2", "i4", "i6"]
    answer = served.post("/v1/recommend", {"history": history, "k": 2, "explain": 2}).json()["results"][0]
    targets = [model.items.index(entry["item"]) for entry in answer["items"]]
    for entry, found in zip(
        answer["items"], model.reasons_for_history(model.items.indices(history), targets, 2), strict=True
    ):
        assert entry["kind"] == found.kind
        assert table(entry["because"], "item", "label") == frame(found.because, "item", "label")
        assert [b["share"] for b in entry["because"]] == pytest.approx(found.because["share"].to_list(), rel=1e-4)
    entry = served.post("/v1/recommend", {"users": ["u3"], "k": 1, "explain": 3}).json()["results"][0]["items"][0]
    assert table(entry["because"], "item") == frame(model.explain("u3", entry["item"], k=3).because, "item")


def test_one_user(served: Served, model: Recommender):
    answer = served.get("/v1/users/u3/recommendations", params={"k": 3, "explain": 1}).json()
    assert table(answer["items"], "item") == frame(model.recommend(["u3"], k=3), "item")
    assert [len(entry["because"]) for entry in answer["items"]] == [
        entry["kind"] == "liked" for entry in answer["items"]
    ]
    own = model.seen.row(model.users.index("u3"))
    assert [h["item"] for h in answer["history"]] == model.items.take(own).to_list()
    assert answer["user"] == "u3"


@pytest.mark.parametrize("user", ["a/b c", "Jürgen?"])
def test_ids_of_any_characters(served: Served, user: str):
    from urllib.parse import quote

    assert served.get(f"/v1/users/{quote(user, safe='')}/recommendations").json()["user"] == user
    assert served.get("/v1/explain", params={"user": user, "item": "x/y"}).json()["item"] == "x/y"
    for item in ("x/y", "50%"):
        answer = served.get(f"/v1/items/{quote(item, safe='')}/similar", params={"k": 2}).json()
        assert answer["item"]["item"] == item
        assert len(answer["items"]) == 2


def test_similar(served: Served, model: Recommender):
    answer = served.get("/v1/items/i7/similar", params={"k": 4}).json()
    assert table(answer["items"], "item", "label", "rank") == frame(
        model.similar_items("i7", k=4), "item", "label", "rank"
    )
    assert answer["item"] == {"item": "i7", "label": "Story 7 of the Sea"}


def test_search(served: Served, model: Recommender):
    answer = served.get("/v1/items", params={"query": "AMELIE  par"}).json()
    assert [(i["item"], i["label"]) for i in answer["items"]] == [("x/y", "Amélie à Paris")]
    assert answer["total"] == 1
    answer = served.get("/v1/items", params={"query": "sea", "limit": 5}).json()
    assert len(answer["items"]) == 5
    assert answer["total"] == 27
    counts = [i["popularity"] for i in answer["items"]]
    assert counts == sorted(counts, reverse=True)
    assert served.get("/v1/items", params={"query": "i7"}).json()["items"][0]["item"] == "i7"
    most = served.get("/v1/items", params={"limit": 1}).json()
    assert most["items"][0]["popularity"] == model.popularity().max()
    assert most["total"] == len(model.items)


def test_users_by_prefix(served: Served):
    assert served.get("/v1/users", params={"query": "u3", "limit": 4}).json()["users"] == ["u3", "u30", "u31", "u32"]
    assert len(served.get("/v1/users").json()["users"]) == 20
    assert served.get("/v1/users", params={"query": "zzz"}).json()["users"] == []


def test_explain(served: Served, model: Recommender):
    answer = served.get("/v1/explain", params={"user": "u3", "item": "i9", "k": 3}).json()
    found = model.explain("u3", "i9", k=3)
    assert (answer["kind"], answer["text"]) == (found.kind, found.text)
    assert answer["lift"] == pytest.approx(found.lift, rel=1e-4)
    assert table(answer["because"], "item", "label") == frame(found.because, "item", "label")
    assert answer["score"] == pytest.approx(found.score, rel=1e-4)
    answer = served.post("/v1/explain", {"history": ["i2", "nope"], "item": "i9", "k": 3}).json()
    assert answer["kind"] == model.explain_for(["i2"], "i9").kind
    assert answer["unknown_items"] == ["nope"]


def test_model(served: Served, model: Recommender):
    answer = served.get("/v1/model").json()
    assert answer["name"] == "ials"
    assert answer["fitted_on"] == model.fitted_on.to_dict()
    assert answer["config"]["dim"] == 4
    assert answer["metrics"] == {"P@5": 0.5}
    assert answer["personalised"] is True
    assert set(answer["limits"]) == {"k", "batch", "history", "body_bytes"}


def test_unknown_ids(served: Served):
    assert "'nobody'" in problem_of(served.get("/v1/users/nobody/recommendations"), 404)["detail"]
    assert problem_of(served.get("/v1/items/no/such/similar"), 404)["type"].endswith("unknown-item")
    assert problem_of(served.get("/v1/explain?user=u3&item=no"), 404)["type"].endswith("unknown-item")
    assert problem_of(served.post("/v1/recommend", {"users": ["u3", "no"]}), 404)["instance"] == "/v1/recommend"


def test_health_and_metrics(served: Served):
    assert served.get("/healthz").json() == {"status": "ok"}
    assert served.get("/readyz").json() == {"status": "ok"}
    served.get("/v1/users/u3/recommendations")
    served.get("/v1/users/nobody/recommendations")
    text = served.get("/metrics").text
    assert 'purerec_requests_total{route="/v1/users/{id}/recommendations",status="404"}' in text
    assert 'purerec_request_seconds_count{route="/v1/users/{id}/recommendations"}' in text
    assert "purerec_workers 1" in text
    assert "u3" not in text


def test_log_has_routes_and_no_ids(served: Served):
    served.get("/v1/users/u17/recommendations")
    from serving.conftest import until

    until(lambda: '"route": "/v1/users/{id}/recommendations", "status": 200' in served.lines())
    assert "u17" not in served.lines()


def test_titles_are_plain_data(served: Served):
    answer = served.get("/v1/items", params={"query": "söhne"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["items"][0]["label"] == MARKUP


def test_openapi_has_examples_for_every_operation(served: Served):
    description = served.get("/openapi.json").json()
    schemas = description["components"]["schemas"]
    for path, operations in description["paths"].items():
        for operation in operations.values():
            assert operation["summary"]
            for body in (operation.get("requestBody"), operation["responses"]["200"]):
                schema = ((body or {}).get("content") or {}).get("application/json", {}).get("schema")
                if schema:
                    name = schema["$ref"].rpartition("/")[2]
                    assert schemas[name].get("examples"), (path, name)


def test_openapi_states_every_limit(served: Served):
    """As numbers for programs, and in the text for people."""
    description = served.get("/openapi.json").json()
    assert description["info"]["x-limits"] == asdict(Limits())
    assert served.get("/v1/model").json()["limits"].items() <= asdict(Limits()).items()
    asked = description["components"]["schemas"]["RecommendRequest"]["properties"]
    assert asked["users"]["anyOf"][0]["maxItems"] == Limits().batch
    assert asked["k"]["maximum"] == Limits().k
    for limit in (Limits().cells, Limits().explained):
        assert f"{limit:,}" in asked["k"]["description"]
    for limit in (Limits().head_bytes, Limits().fields, Limits().body_bytes):
        assert f"{limit:,}" in description["info"]["description"]
    for path in ("/v1/recommend", "/v1/explain"):
        assert f"{Limits().body_bytes:,}" in description["paths"][path]["post"]["responses"]["413"]["description"]


def counted(served: Served, route: str, status: object) -> int:
    label = f'purerec_requests_total{{route="{route}",status="{status}"}} '
    found = [line for line in served.get("/metrics").text.splitlines() if line.startswith(label)]
    return int(found[0].removeprefix(label)) if found else 0


USER = b"/v1/users/u3/recommendations"


@pytest.mark.parametrize(
    ("request_", "route", "status"),
    [
        (b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999\r\n", "/v1/recommend", 413),
        (b"GET " + USER + b" HTTP/1.1\r\nhost: evil\r\n", "/v1/users/{id}/recommendations", 421),
        (b"GET /static/app.js HTTP/1.1\r\nhost: evil\r\n", "/static/{name}", 421),
        (b"DELETE " + USER + b" HTTP/1.1\r\nhost: localhost\r\n", "/v1/users/{id}/recommendations", 405),
        (b"GET /nowhere HTTP/1.1\r\nhost: localhost\r\n", "other", 404),
        (b"garbage\r\n", "unparsed", 400),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 40_000 + b"\r\n", "unparsed", 431),
    ],
)
def test_refusals_are_counted_where_they_belong(served: Served, request_: bytes, route: str, status: int):
    before = counted(served, route, status)
    assert served.raw(request_ + b"connection: close\r\n\r\n").startswith(f"HTTP/1.1 {status} ".encode())
    assert counted(served, route, status) == before + 1


def test_page(served: Served):
    answer = served.get("/")
    if answer.status_code == 404:
        pytest.skip("the page is not there")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    again = served.get("/", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for name in ("../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd", "", "index.html%00", "..\\app.py"):
        assert served.get(f"/static/{name}").status_code in (404, 307), name
