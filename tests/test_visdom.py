"""The client of visdom's server: what it sends, what it keeps without a server, what it refuses."""

from __future__ import annotations

import json
import logging
import unittest
from typing import Any

import pytest
import visdom_client

import flambeau as torch
from flambeau.visdom import ELSEWHERE, Visdom


def curves(vis: Any, win: str) -> list[tuple[str, list[float], list[float]]]:
    return [(trace["name"], trace["x"], trace["y"]) for trace in json.loads(vis.get_window_data(win))["content"]["data"]]


def test_messages_reach_a_server() -> None:
    messages = visdom_client.sent(Visdom, torch)
    paths = [path for path, _ in messages]
    assert paths[0] == "/env/Learning%20curve" and {message["eid"] for _, message in messages} == {"Learning curve", "other"}
    drawn = [(path, message) for path, message in messages if message.get("win") == "Loss" and path != "/win_exists"]
    assert [path for path, _ in drawn] == ["/events", "/update", "/update", "/update"]
    first, second = drawn[0][1], drawn[1][1]
    assert first["layout"]["xaxis"] == {"title": "Epoch"} and first["layout"]["showlegend"] is True
    assert (second["name"], second["append"], second["layout"], second["data"][0]["y"]) == ("val", True, {}, [1.0])
    images = [
        message["data"][0]["content"]["src"] for _, message in messages if message.get("win") in ("image", "grid") and "data" in message
    ]
    assert [image.split(";")[0] for image in images] == ["data:image/png", "data:image/jpeg", *["data:image/png"] * 3]


def test_curves_are_kept_without_a_server() -> None:
    vis = Visdom(env="Learning curve", use_incoming_socket=False, offline=True)
    for step in range(3):
        for name in ("train", "val"):
            window = vis.line(X=torch.tensor([step]), Y=torch.tensor([2 * step]), name=name, win="Loss", update="append")
    assert window == "Loss" and vis.check_connection() is False and vis.win_exists("Loss") is True
    assert curves(vis, "Loss") == [("train", [0, 1, 2], [0, 2, 4]), ("val", [0, 1, 2], [0, 2, 4])]
    vis.line(X=torch.tensor([7]), Y=torch.tensor([8]), name="val", win="Loss", update="replace")
    vis.line(None, name="train", win="Loss", update="remove")
    assert curves(vis, "Loss") == [("val", [7], [8])]
    vis.text("a", win="words")
    vis.text("b", win="words", append=True)
    assert json.loads(vis.get_window_data("words"))["content"] == "a<br>b"
    vis.text("elsewhere", env="other")
    assert sorted(vis.get_env_list()) == ["Learning curve", "other"]
    vis.delete_env("other")
    vis.close("words")
    assert list(json.loads(vis.get_window_data())) == ["Loss"] and vis.get_env_list() == ["Learning curve"]
    vis.close()
    assert vis.win_exists("Loss") is False and json.loads(vis.get_window_data()) == {}


def test_a_log_is_replayed(tmp_path: Any) -> None:
    log = tmp_path / "log"
    vis = Visdom(offline=True, log_to_filename=str(log))
    vis.line(Y=torch.tensor([[1.0, 2.0], [3.0, 4.0]]), win="a")
    vis.line(X=torch.tensor([5.0]), Y=torch.tensor([6.0]), win="a", name="1", update="append")
    again = Visdom(offline=True)
    again.replay_log(str(log))
    assert curves(again, "a") == [("1", [0.0, 1.0, 5.0], [1.0, 3.0, 6.0]), ("2", [0.0, 1.0], [2.0, 4.0])]


def test_without_an_answer() -> None:
    with visdom_client.standing_in() as (port, _):
        pass  # the port is free again
    with unittest.TestCase().assertLogs(level=logging.WARNING) as said:
        vis = Visdom(server="127.0.0.1", port=port)
    assert "does not answer" in said.output[0] and vis.check_connection() is False and vis.text("a") is False
    with pytest.raises(ConnectionError):
        Visdom(server="127.0.0.1", port=port, raise_exceptions=True)
    message, endpoint = Visdom(port=port, send=False).text("a", win="b")
    assert endpoint == "events" and message["win"] == "b"


@pytest.mark.parametrize("method", sorted(ELSEWHERE))
def test_the_rest_of_visdom_is_refused(method: str) -> None:
    with pytest.raises(NotImplementedError, match="install visdom"):
        getattr(Visdom(offline=True), method)


def test_wrong_calls() -> None:
    vis, x = Visdom(offline=True), torch.ones(2)
    for options in (
        {"Y": x, "X": x, "update": "append"},
        {"Y": x, "update": "append", "win": "a"},
        {"Y": None, "update": "remove", "win": "a"},
        {"Y": x, "X": torch.ones(3)},
        {"Y": torch.ones(2, 2, 2), "X": x},
        {"Y": torch.ones(2, 3), "opts": {"legend": ["a"]}},
        {"Y": torch.ones(2, 3), "name": "a"},
    ):
        with pytest.raises(ValueError, match=r"Visdom\.line"):
            vis.line(**options)
    with pytest.raises(NotImplementedError, match="username"):
        Visdom(offline=True, username="a", password="b")
    with pytest.raises(NotImplementedError, match="store_history"):
        vis.image(torch.ones(2, 2), opts={"store_history": True})
    with pytest.raises(ValueError, match="base_url"):
        Visdom(offline=True, base_url="a/")
    with pytest.raises(AttributeError):
        vis.nothing  # noqa: B018
