"""The web console: a process of its own that shows the streams of several sites in a browser.

It talks to JetStream APIs as a client does, and reads the monitoring pages of engines. It imports nothing of
an engine. `docs/internals/console.md` says how to add a page.
"""
