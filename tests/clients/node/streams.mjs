// Readers of a run's events: one that is as persistent as a browser's EventSource, and one that can be cut.
import { createParser } from "eventsource-parser";

// The frames of one response, each { id, data }; `cut` ends the connection behind so many frames.
export async function* framesOf(response, control, cut = Infinity) {
  const ready = [];
  const parser = createParser({
    onEvent: ({ id, data }) => ready.push({ id: id ?? null, data: JSON.parse(data) }),
    onError: (error) => {
      throw error;
    },
  });
  const decoder = new TextDecoder();
  let left = cut;
  try {
    for await (const chunk of response.body) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      for (const frame of ready.splice(0)) {
        yield frame;
        if (--left <= 0) return control.abort();
      }
    }
  } catch (error) {
    if (left > 0) throw error; // else it is the cut
  }
}

// What a browser's EventSource does: it connects again by itself, with the last id that it was given, until an
// answer is 204 or no success. (Where no server is it would go on for ever; here that is `refused`.) `cuts` says
// behind how many frames each connection breaks; the last ones do not.
export async function follow(url, { headers = {}, after = "", cuts = [] } = {}) {
  const found = { frames: [], statuses: [], refused: false };
  let last = after;
  for (const cut of [...cuts, Infinity, Infinity, Infinity]) {
    const control = new AbortController();
    const request = { accept: "text/event-stream", ...headers, ...(last ? { "last-event-id": last } : {}) };
    const response = await fetch(url, { headers: request, signal: control.signal }).catch(() => null);
    if (response === null) return { ...found, refused: true };
    found.statuses.push(response.status);
    if (response.status !== 200) return found;
    try {
      for await (const frame of framesOf(response, control, cut)) {
        found.frames.push(frame);
        last = frame.id ?? last;
      }
    } catch {
      // The server cut the connection: EventSource tells `error` and connects again.
    }
  }
  throw new Error(`no end after ${found.statuses.length} connections`);
}

// A fetch for HttpAgent that goes on by itself where the connection broke: the agent sees one stream. `cuts` as
// in `follow`. Only whole frames are passed on, so that half a frame is never glued to its repetition.
export function resuming(told, cuts = []) {
  return async (url, init) => {
    const { threadId, runId } = JSON.parse(init.body);
    const again = new URL(`/sessions/${threadId}/runs/${runId}/events`, url);
    const left = [...cuts, Infinity];
    let control = new AbortController();
    init.signal.addEventListener("abort", () => control.abort());
    const first = await fetch(url, { ...init, signal: control.signal });
    if (!first.ok) return first;
    const encoder = new TextEncoder();
    async function* joined() {
      let response = first;
      let last = "";
      while (response.status === 200) {
        for await (const { id, data } of framesOf(response, control, left.shift())) {
          last = id ?? last;
          yield encoder.encode(`data: ${JSON.stringify(data)}\n\n`);
        }
        if (!left.length) return;
        control = new AbortController();
        response = await fetch(again, {
          headers: { accept: "text/event-stream", "last-event-id": last },
          signal: control.signal,
        });
        told.push(response.status);
      }
    }
    return new Response(ReadableStream.from(joined()), { status: 200, headers: first.headers });
  };
}
