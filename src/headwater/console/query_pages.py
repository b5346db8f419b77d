"""The page of queries: SQL over the tables of a store that this machine can read."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.console.application import console_of
from headwater.console.forms import form_fields
from headwater.console.query_bars import bars_of
from headwater.console.query_guard import MOST_LETTERS, QueryRefusedError
from headwater.console.query_heads import heads_of
from headwater.console.query_plot import plot_of
from headwater.console.query_runner import QueryAnswer
from headwater.console.rendering import render

EXAMPLE = (
    "SELECT subject, count(*) AS messages, max(time) AS newest\n"
    "FROM {stream}\nGROUP BY subject ORDER BY messages DESC"
)
WHY_NOT = (
    "Queries read the files of tables, so the console must be able to read the store: start it with "
    "--store PATH on the engine's machine, or with --store s3://BUCKET/PREFIX for tables in a bucket."
)


async def query(request: Request) -> Response:
    """Show the form; after a post, also the result or what is wrong with the query."""
    runner = console_of(request).query
    streams = _streams(request)
    sql = EXAMPLE.format(stream=_quoted(streams[0]) if streams else "ORDERS")
    answer, problem = None, ""
    if request.method == "POST":
        sql = (await form_fields(request)).get("sql", "")[: MOST_LETTERS + 1]
        if runner is None:
            problem = WHY_NOT
        else:
            answer, problem = await _run(request, sql, streams)
    elif given := request.query_params.get("stream"):
        sql = EXAMPLE.format(stream=_quoted(given))
    status = 200 if not problem or request.method != "POST" else 422
    return render(
        request,
        "query.html",
        status,
        title="Query",
        why_not="" if runner is not None else WHY_NOT,
        bounds=runner.bounds if runner is not None else None,
        streams=streams,
        sql=sql,
        answer=answer,
        bars=bars_of(answer.columns, answer.rows) if answer is not None else None,
        plot=plot_of(answer.columns, answer.rows) if answer is not None else None,
        problem=problem,
    )


async def _run(request: Request, sql: str, streams: list[str]) -> tuple[QueryAnswer | None, str]:
    runner = console_of(request).query
    assert runner is not None
    heads = heads_of(console_of(request).sampler.sites.values(), sql)
    try:
        return await runner.run(sql, streams, heads), ""
    except QueryRefusedError as error:
        return None, str(error)


def _streams(request: Request) -> list[str]:
    sites = console_of(request).sampler.sites.values()
    return sorted({name for site in sites for name in site.snapshot.streams})


def _quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


ROUTES = (Route("/query", query, methods=["GET", "POST"]),)
