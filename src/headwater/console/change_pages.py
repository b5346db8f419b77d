"""The pages that change something: streams and consumers, created, edited, purged, deleted, paused."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from headwater.client.jetstream_api import JetStreamApi, RequestRefusedError
from headwater.console import changes
from headwater.console.application import console_of
from headwater.console.change_guard import TOKEN_FIELD, form_token, permitted_fields, require_permission
from headwater.console.changes import ChangeRequest, Fields
from headwater.console.rendering import render, segment
from headwater.errors import Error, SettingsError

PURGE_S = 600.0
DONE = {
    "created": "The stream was created.",
    "updated": "The configuration was changed.",
    "purged": "Messages were removed.",
    "deleted": "It was deleted.",
    "paused": "The consumer is paused.",
    "resumed": "The consumer delivers again.",
    "consumer": "The consumer was created or changed.",
}
Action = Callable[[Request, Fields], ChangeRequest]


async def overview(request: Request) -> Response:
    """Show what can be changed, and the form of a new stream."""
    require_permission(request)
    site, stream = (request.query_params.get(name, "") for name in ("site", "stream"))
    if site and stream:
        return RedirectResponse(f"/changes/{segment(site)}/{segment(stream)}", 303)
    sites = console_of(request).sampler.sites
    streams = {name: sorted(site.snapshot.streams) for name, site in sites.items()}
    return _render(request, "changes.html", title="Changes", streams=streams)


async def preview_stream(request: Request) -> Response:
    """Show the JSON of a new stream, which can be edited before it is sent."""
    fields = await permitted_fields(request)
    site = fields.get("site", "")
    try:
        config = changes.shown_json(changes.stream_config(fields))
    except SettingsError as error:
        return _preview(request, site, "", problem=str(error), status=422)
    return _preview(request, site, config)


async def create_stream(request: Request) -> Response:
    """Create a stream from edited JSON."""
    fields = await permitted_fields(request)
    site, text = fields.get("site", ""), fields.get("config", "")
    try:
        config = changes.json_object(text)
        await _send(await console_of(request).api(site), changes.create_stream(config))
    except Error as error:
        return _preview(request, site, text, problem=_words(error), status=422)
    return RedirectResponse(f"/changes/{segment(site)}/{segment(str(config['name']))}?done=created", 303)


async def show_stream(request: Request) -> Response:
    """Show the forms of one stream: its configuration, its consumers, purge and delete."""
    require_permission(request)
    return await _show_stream(request)


async def preview_consumer(request: Request) -> Response:
    """Show the JSON of a new consumer, which can be edited before it is sent."""
    fields = await permitted_fields(request)
    try:
        config = changes.shown_json(changes.consumer_config(fields))
    except SettingsError as error:
        return await _show_stream(request, problem=str(error), status=422)
    return _consumer_form(request, config, exists=False)


async def edit_consumer(request: Request) -> Response:
    """Show the configuration of a consumer for editing."""
    require_permission(request)
    path = request.path_params
    api = await console_of(request).api(path["site"])
    info = await api.request(
        f"CONSUMER.INFO.{changes.one_token(path['stream'])}.{changes.one_token(path['consumer'])}"
    )
    return _consumer_form(request, changes.shown_json(info["config"]), exists=True)


async def put_consumer(request: Request) -> Response:
    """Create or change a consumer from edited JSON."""
    fields = await permitted_fields(request)
    exists, text = fields.get("exists") == "yes", fields.get("config", "")
    try:
        change = changes.put_consumer(request.path_params["stream"], changes.json_object(text), exists=exists)
        await _send(await console_of(request).api(request.path_params["site"]), change)
    except Error as error:
        return _consumer_form(request, text, exists=exists, problem=_words(error), status=422)
    return _back(request, "consumer")


def _action(make: Action, done: str) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that sends one change, and shows the stream again with an error if it is refused."""

    async def act(request: Request) -> Response:
        fields = await permitted_fields(request)
        try:
            change = make(request, fields)
            await _send(await console_of(request).api(request.path_params["site"]), change)
        except Error as error:
            return await _show_stream(request, problem=_words(error), status=422, edited=fields.get("config"))
        if done == "deleted" and "consumer" not in request.path_params:
            return RedirectResponse("/changes?done=deleted", 303)
        return _back(request, "resumed" if done == "paused" and change.body is None else done)

    return act


def _update(request: Request, fields: Fields) -> ChangeRequest:
    return changes.update_stream(request.path_params["stream"], changes.json_object(fields.get("config", "")))


def _purge(request: Request, fields: Fields) -> ChangeRequest:
    return changes.purge_stream(request.path_params["stream"], fields.get("typed", ""), fields)


def _delete(request: Request, fields: Fields) -> ChangeRequest:
    return changes.delete_stream(request.path_params["stream"], fields.get("typed", ""))


def _delete_consumer(request: Request, fields: Fields) -> ChangeRequest:
    path = request.path_params
    return changes.delete_consumer(path["stream"], path["consumer"], fields.get("typed", ""))


def _pause(request: Request, fields: Fields) -> ChangeRequest:
    path = request.path_params
    return changes.pause_consumer(path["stream"], path["consumer"], fields.get("length", ""), time.time_ns())


_STREAM = "/changes/{site}/{stream}"
_CONSUMER = f"{_STREAM}/consumers/{{consumer}}"
ROUTES = (
    Route("/changes", overview),
    Route("/changes/preview", preview_stream, methods=["POST"]),
    Route("/changes/create", create_stream, methods=["POST"]),
    Route(_STREAM, show_stream),
    Route(f"{_STREAM}/update", _action(_update, "updated"), methods=["POST"]),
    Route(f"{_STREAM}/purge", _action(_purge, "purged"), methods=["POST"]),
    Route(f"{_STREAM}/delete", _action(_delete, "deleted"), methods=["POST"]),
    Route(f"{_STREAM}/preview", preview_consumer, methods=["POST"]),
    Route(f"{_STREAM}/put", put_consumer, methods=["POST"]),
    Route(_CONSUMER, edit_consumer),
    Route(f"{_CONSUMER}/pause", _action(_pause, "paused"), methods=["POST"]),
    Route(f"{_CONSUMER}/delete", _action(_delete_consumer, "deleted"), methods=["POST"]),
)


async def _send(api: JetStreamApi, change: ChangeRequest) -> None:
    wait = PURGE_S if ".PURGE." in change.endpoint else None
    await api.request(change.endpoint, change.body, wait=wait)


def _words(error: Error) -> str:
    """Return an error as the server words it."""
    return error.description if isinstance(error, RequestRefusedError) else str(error)


async def _show_stream(
    request: Request, problem: str = "", status: int = 200, edited: str | None = None
) -> Response:
    path = request.path_params
    name = changes.one_token(path["stream"])
    api = await console_of(request).api(path["site"])
    info = await api.stream_info(name)
    consumers = await api.pages(f"CONSUMER.LIST.{name}", "consumers")
    return _render(
        request,
        "change_stream.html",
        status,
        title=f"ChangeRequest {name}",
        site=path["site"],
        stream=name,
        config=edited or changes.shown_json(info["config"]),
        state=info["state"],
        consumers=sorted((str(each.get("name", "")), bool(each.get("paused"))) for each in consumers),
        problem=problem,
    )


def _preview(request: Request, site: str, config: str, problem: str = "", status: int = 200) -> Response:
    return _render(
        request,
        "change_preview.html",
        status,
        title="New stream",
        site=site,
        config=config,
        problem=problem,
    )


def _consumer_form(
    request: Request, config: str, *, exists: bool, problem: str = "", status: int = 200
) -> Response:
    return _render(
        request,
        "change_consumer.html",
        status,
        title="Consumer",
        site=request.path_params["site"],
        stream=request.path_params["stream"],
        config=config,
        exists=exists,
        problem=problem,
    )


def _render(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    done = DONE.get(request.query_params.get("done", ""), "")
    token = {"token_field": TOKEN_FIELD, "form_token": form_token(request)}
    return render(request, template, status, **{"done": done, "problem": "", **token, **values})


def _back(request: Request, done: str) -> Response:
    path = request.path_params
    return RedirectResponse(f"/changes/{segment(path['site'])}/{segment(path['stream'])}?done={done}", 303)
