// AG-UI's own client, told what to do: each line of input is a command, each line of output what came of it.
//
//   node panel.mjs URL
//
// A command is {"do": "run", …}; what each takes stands at the functions in `commands`.
import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";
import { randomUUID } from "node:crypto";
import { from } from "rxjs";
import { obey } from "./lines.mjs";
import { follow, framesOf, resuming } from "./streams.mjs";

const [base] = process.argv.slice(2);
const agents = new Map();
// The client warns where it drops something or cannot apply it: each warning is a fault of the stream.
let warnings = [];
console.warn = console.error = (...told) => warnings.push(told.map(String).join(" "));
// Where a server dies, the client's own clean-up fails beside the run, which nothing catches.
process.on("unhandledRejection", (error) => warnings.push(String(error)));

// `connectAgent` is AG-UI's way to a run that is under way already; where it is found is the server's affair.
class Panel extends HttpAgent {
  connect(input) {
    if (this.recorded) return from(this.recorded);
    const at = new URL(`/sessions/${input.threadId}/runs/${input.runId}/events`, this.url);
    const request = { headers: { accept: "text/event-stream", ...this.headers }, signal: this.abortController.signal };
    return transformHttpEventStream(runHttpRequest(() => this.fetch(at, request)));
  }
}

function openCalls(agent) {
  const answered = new Set(agent.messages.filter((m) => m.role === "tool").map((m) => m.toolCallId));
  return agent.messages.flatMap((m) => m.toolCalls ?? []).filter((call) => !answered.has(call.id));
}

// One run of the client's, whichever way it gets its events, and what the client made of it.
async function watched(agent, act, abortAt) {
  const run = { runId: null, events: [], customs: [], states: [], result: null, runError: null, error: null };
  let left = abortAt?.count ?? 1;
  warnings = [];
  try {
    const { result } = await act({
      onRunInitialized: ({ input }) => void (run.runId = input.runId),
      onEvent({ event }) {
        run.events.push(event.type);
        if (event.type === abortAt?.type && --left === 0) agent.abortRun();
      },
      onCustomEvent: ({ event }) => void run.customs.push([event.name, event.value]),
      onStateChanged: ({ state }) => void run.states.push(structuredClone(state)),
      onRunErrorEvent: ({ event }) => void (run.runError = event.code),
    });
    run.result = result ?? null;
  } catch (error) {
    run.error = String(error?.message ?? error);
  }
  return { ...run, messages: agent.messages, state: agent.state, interrupts: agent.pendingInterrupts, warnings };
}

const commands = {
  // A fresh agent object under this name; `cuts` makes its runs go on by themselves behind so many frames.
  async open({ name, thread, agent, headers = {}, state, messages, cuts }) {
    const url = `${base}/agui${agent ? `/${agent}` : ""}`;
    const told = [];
    const made = new Panel({ url, threadId: thread, headers, initialState: state, initialMessages: messages });
    if (cuts) made.fetch = resuming(told, cuts);
    agents.set(name, made);
    made.told = told;
    return {};
  },

  // Cut the transcript behind the message `upTo`, change the `edit`ed one, add what is said or answered, and run;
  // `resume` are answers to interrupts.
  async run({ name, upTo, edit, say, as, answer, tools = [], state, runId, resume, abortAt }) {
    const agent = agents.get(name);
    if (upTo) agent.setMessages(agent.messages.slice(0, 1 + agent.messages.findIndex((m) => m.id === upTo)));
    if (edit) agent.messages.find((m) => m.id === edit.id).content = edit.content;
    if (state !== undefined) agent.setState(state);
    for (const call of answer === undefined ? [] : openCalls(agent)) {
      agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content: answer });
    }
    if (say !== undefined) agent.addMessage({ id: as ?? randomUUID(), role: "user", content: say });
    const found = await watched(agent, (told) => agent.runAgent({ tools, runId, resume }, told), abortAt);
    return { ...found, resumed: agent.told };
  },

  // Attach to a run by the client's own `connectAgent`.
  async connect({ name, runId }) {
    const agent = agents.get(name);
    return watched(agent, (told) => agent.connectAgent({ runId }, told));
  },

  // Let the client judge frames that were read otherwise, on top of these messages and this state.
  async judge({ frames, messages = [], state = {}, thread = "judged" }) {
    const agent = new Panel({ url: base, threadId: thread, initialMessages: messages, initialState: state });
    agent.recorded = frames;
    return watched(agent, (told) => agent.connectAgent({}, told));
  },

  // A POST without AG-UI's client, cut behind so many frames.
  async post({ agent, body, headers = {}, cut }) {
    const control = new AbortController();
    const response = await fetch(`${base}/agui${agent ? `/${agent}` : ""}`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "text/event-stream", ...headers },
      body: JSON.stringify(body),
      signal: control.signal,
    });
    if (!response.ok) return { status: response.status, error: await response.json(), frames: [] };
    const frames = [];
    for await (const frame of framesOf(response, control, cut)) frames.push(frame);
    return { status: response.status, frames };
  },

  async follow({ thread, runId, after, cuts, headers }) {
    return follow(`${base}/sessions/${thread}/runs/${runId}/events`, { after, cuts, headers });
  },

  async get({ path }) {
    const response = await fetch(base + path);
    return { status: response.status, body: await response.json() };
  },
};

await obey(commands);
