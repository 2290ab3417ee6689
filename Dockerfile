# The image of the server: the wheel and the locked requirements, as a user without rights.
# It listens on all addresses inside the container, so it starts only with a key:
#   docker run -p 127.0.0.1:8000:8000 -e OSTINATO_API_KEY=$(openssl rand -hex 16) ostinato

FROM python:3.12-slim AS build
WORKDIR /src
COPY requirements-serve.lock ./
RUN python -m venv /opt/ostinato \
    && /opt/ostinato/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements-serve.lock
COPY pyproject.toml README.md LICENSE ./
COPY ostinato ostinato
COPY agent_core agent_core
COPY converters converters
COPY app app
RUN python -m pip wheel --no-cache-dir --disable-pip-version-check --no-deps --wheel-dir /dist . \
    && /opt/ostinato/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps /dist/*.whl \
    && /opt/ostinato/bin/pip check

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /home/ostinato --create-home ostinato
COPY --from=build /opt/ostinato /opt/ostinato
ENV PATH=/opt/ostinato/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OSTINATO_HOST=0.0.0.0 \
    OSTINATO_PORT=8000 \
    OSTINATO_DATA_DIR=/var/lib/ostinato
# The sessions. A new volume takes the folder's owner and mode over.
RUN install -d -o ostinato -m 0700 /var/lib/ostinato
VOLUME /var/lib/ostinato
USER 10001
# Agents of your own: mount their folder here and give the file's name as the command.
WORKDIR /home/ostinato
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"OSTINATO_PORT\"]}/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["ostinato", "serve"]
