"""The server, from the outside in.

- main: wires everything, once
- server, connection: uvicorn, with a drain and bounded connections
- auth, cors, limits: what every request passes
- errors, error_handlers: what a refused one is told
- routes/: one module for each group of URLs
- retries/: the same request again
- runs/: a run as a task of the server's: its log, its readers, what is kept of it
- sse: a reader as an SSE response
- agents, demo/: what is served
- settings, services, telemetry: what an operator sets, what routes work with, the server's log
- health, housekeeping: whether the store works, and what is deleted in time
- command/: the command line
"""
