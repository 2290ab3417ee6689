// AG-UI's client in Node, which sends only what the server does not have: npm install @ag-ui/client && node lean_client.mjs
import { HttpAgent } from "@ag-ui/client";

class LeanAgent extends HttpAgent {
  requestInit(input) {
    const last = input.messages.findLastIndex((message) => message.role === "assistant");
    return super.requestInit({ ...input, messages: input.messages.slice(Math.max(last, 0)) });
  }
}

const sent = [];
const agent = new LeanAgent({
  url: process.env.OSTINATO_URL ?? "http://127.0.0.1:8000/agui",
  headers: process.env.OSTINATO_KEY ? { Authorization: `Bearer ${process.env.OSTINATO_KEY}` } : {},
  fetch: (url, init) => {
    sent.push(JSON.parse(init.body).messages.length);
    return fetch(url, init);
  },
});

for (const question of ["weather in Paris", "weather in Rome", "weather in Oslo"]) {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: question });
  await agent.runAgent();
}
console.log(`messages here: ${agent.messages.length}, sent in the requests: ${sent.join(", ")}`);
