// Drives a server with AG-UI's own client and prints what the client made of it, as one line of JSON.
//
//   node talk.mjs URL '[{"say": "hi", "tools": [...], "abortAt": "TEXT_MESSAGE_CONTENT", "answer": {"pick": "blue"}}, ...]'
//
// Each step is one run of the same agent object: `say` adds a user message, `answer` adds a tool message
// for each open call of the named client tool, `abortAt` aborts at the first event of that type.
import { HttpAgent } from "@ag-ui/client";
import { randomUUID } from "node:crypto";

const [url, script] = process.argv.slice(2);
const agent = new HttpAgent({ url, threadId: `node-${randomUUID()}` });
const report = [];

function openCalls(name) {
  const answered = new Set(agent.messages.filter((m) => m.role === "tool").map((m) => m.toolCallId));
  return agent.messages
    .flatMap((m) => m.toolCalls ?? [])
    .filter((call) => call.function.name === name && !answered.has(call.id));
}

for (const step of JSON.parse(script)) {
  if (step.say !== undefined) agent.addMessage({ id: randomUUID(), role: "user", content: step.say });
  for (const [name, content] of Object.entries(step.answer ?? {})) {
    for (const call of openCalls(name)) {
      agent.addMessage({ id: randomUUID(), role: "tool", toolCallId: call.id, content });
    }
  }
  const run = { events: [], error: null, runError: null };
  try {
    await agent.runAgent(
      { tools: step.tools ?? [], context: step.context ?? [], forwardedProps: {} },
      {
        onEvent({ event }) {
          run.events.push(event.type);
          if (event.type === step.abortAt) agent.abortRun();
        },
        onRunErrorEvent({ event }) {
          run.runError = { code: event.code, message: event.message };
        },
      },
    );
  } catch (error) {
    run.error = String(error?.message ?? error);
  }
  run.messages = structuredClone(agent.messages);
  report.push(run);
}
console.log(JSON.stringify(report));
process.exit(0);
