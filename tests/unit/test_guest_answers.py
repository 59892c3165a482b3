"""What does the guest server read in a request? Forms and JSON, as clients send them."""

from __future__ import annotations

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from legato_rl.workers.desktop.guest_server.answers import Answer, Refused, Request, as_json
from legato_rl.workers.desktop.guest_server.front import answer


def sent(**how: object) -> Request:
    """What `requests` puts on the wire."""
    prepared = requests.Request("POST", "http://guest/route", **how).prepare()  # type: ignore[arg-type]
    body = prepared.body or b""
    return Request("POST", "/route", prepared.headers["Content-Type"], body.encode() if isinstance(body, str) else body)


@given(st.binary(), st.text(min_size=1))
def test_upload_arrives_byte_for_byte(data: bytes, path: str) -> None:
    """Whatever the bytes are, line ends and dashes too."""
    form = sent(files={"file_data": ("name", data)}, data={"file_path": path}).form()
    assert form == {"file_data": data, "file_path": path.encode("utf-8", "surrogatepass")}


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_form_field(path: str) -> None:
    """A URL-encoded field, and one that is not there."""
    request = sent(data={"file_path": path})
    assert request.field("file_path") == path
    assert request.field("other") is None


@pytest.mark.parametrize("body", [b"{", b"[]", b"3", b"\xff"])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    """400, by an answer and not by an exception that takes the connection down."""
    with pytest.raises(Refused) as refused:
        Request("POST", "/x", "application/json", body).json()
    assert refused.value.answer.status == 400


def test_routes() -> None:
    """A route answers, refuses or raises; an unknown path is 404, a wrong method 405."""

    def raises(request: Request) -> Answer:
        raise RuntimeError

    def refuses(request: Request) -> Answer:
        raise Refused(as_json({}, 418))

    routes = {("GET", "/a"): lambda request: as_json(1), ("GET", "/b"): raises, ("GET", "/c"): refuses}
    statuses = {
        ("GET", "/a"): 200,
        ("GET", "/b"): 500,
        ("GET", "/c"): 418,
        ("POST", "/a"): 405,
        ("GET", "/d"): 404,
    }
    for (method, path), status in statuses.items():
        assert answer(routes, Request(method, path, "", b"")).status == status
