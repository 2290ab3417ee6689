// AG-UI's own client in Node against a running server: npm install @ag-ui/client && node examples/client.mjs
import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({
  url: process.env.OSTINATO_URL ?? "http://127.0.0.1:8000/agui",
  headers: process.env.OSTINATO_KEY ? { Authorization: `Bearer ${process.env.OSTINATO_KEY}` } : {},
});

agent.addMessage({ id: crypto.randomUUID(), role: "user", content: process.argv[2] ?? "weather in Paris" });

await agent.runAgent(
  {},
  {
    onToolCallStartEvent: ({ event }) => console.log(`tool:  ${event.toolCallName}`),
    onToolCallResultEvent: ({ event }) => console.log(`  ->   ${event.content}`),
    onTextMessageContentEvent: ({ event }) => process.stdout.write(event.delta),
    onRunErrorEvent: ({ event }) => console.error(`${event.code}: ${event.message}`),
    onRunFinishedEvent: () => console.log(),
  },
);
