// A page that is closed in the middle of a run and opened again: the run goes on without it, and the new page
// connects to it.
//
//   npm install @ag-ui/client && node examples/resume.mjs
import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";

const url = process.env.OSTINATO_URL ?? "http://127.0.0.1:8000/agui";
const key = process.env.OSTINATO_KEY ? { Authorization: `Bearer ${process.env.OSTINATO_KEY}` } : {};
const threadId = crypto.randomUUID();
const session = new URL(`/sessions/${threadId}`, url);

class Page extends HttpAgent {
  // What AG-UI's client calls for `connectAgent`: a run's events from the first one on, while it is under way and
  // for five minutes afterwards. With the header Last-Event-ID they would go on behind the event of that id.
  connect({ runId }) {
    const request = { headers: { Accept: "text/event-stream", ...this.headers }, signal: this.abortController.signal };
    return transformHttpEventStream(runHttpRequest(() => fetch(`${session}/runs/${runId}/events`, request)));
  }
}

const show = { onTextMessageContentEvent: ({ event }) => process.stdout.write(event.delta) };
const get = async (path) => (await fetch(session + path, { headers: key })).json();

// The first page asks, and is closed while the answer is coming.
const first = new Page({ url, threadId, headers: { ...key, "X-On-Disconnect": "continue" } });
first.addMessage({ id: crypto.randomUUID(), role: "user", content: process.argv[2] ?? "slow" });
let pieces = 0;
await first.runAgent({}, {
  onTextMessageContentEvent({ event }) {
    process.stdout.write(event.delta);
    pieces += 1;
    if (pieces === 10) first.abortRun();
  },
});
console.log("\n-- the page is closed, and opened again --");

// The second knows the session only. The run tells everything from its start, so the messages that it has made so
// far are left out of what is loaded.
const { run } = await get("");
const { messages } = await get("/messages");
if (run === null) {
  console.log(messages.at(-1).content); // it has ended in the meantime
} else {
  const known = messages.slice(0, 1 + messages.findLastIndex((message) => message.role === "user"));
  const second = new Page({ url, threadId, headers: key, initialMessages: known });
  await second.connectAgent({ runId: run.runId }, show);
  console.log(`\n-- ${second.messages.length} messages, nothing is missing --`);
}
