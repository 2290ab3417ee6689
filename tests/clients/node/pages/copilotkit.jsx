// CopilotKit without a runtime and without its widgets: its provider, its hooks and an HttpAgent towards the server.
import { useCopilotChat } from "@copilotkit/react-core";
import { CopilotKit, HttpAgent, useAgent, useCopilotKit, useFrontendTool, useInterrupt } from "@copilotkit/react-core/v2";
import { useState } from "react";
import { createRoot } from "react-dom/client";
import { z } from "zod";
import { Calls, Frame, asked, remembered } from "./frame.jsx";

// What a page's user does to the conversation beside asking; CopilotKit leaves edits to the application.
function Chat() {
  const { agent } = useAgent();
  const { copilotkit } = useCopilotKit();
  const { reloadMessages } = useCopilotChat();
  const [draft, setDraft] = useState(null);
  const run = () => copilotkit.runAgent({ agent });
  useFrontendTool({
    name: "pick_colour",
    description: "Ask for a colour.",
    parameters: z.object({ word: z.string() }),
    handler: async () => "red",
  });
  const waiting = useInterrupt({
    renderInChat: false,
    render: ({ interrupts, resolve, cancel }) =>
      interrupts.map(({ id, message }) => (
        <div key={id} data-interrupt={id}>
          {message}
          <button data-do="approve" onClick={() => resolve({ approved: true }, id)} />
          <button data-do="deny" onClick={() => resolve({ approved: false, reason: "not to them" }, id)} />
          <button
            data-do="change"
            onClick={() => resolve({ approved: true, arguments: JSON.parse(asked.arguments) }, id)}
          />
          <button data-do="abandon" onClick={() => cancel(id)} />
        </div>
      )),
  });
  const edit = (message, id) => (text) => {
    const at = agent.messages.findIndex((each) => each.id === message.id);
    agent.setMessages([...agent.messages.slice(0, at), { ...message, id, content: text }]);
    return run();
  };
  const send = (text) => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    return run();
  };
  return (
    <Frame
      running={agent.isRunning}
      say={(text) => {
        setDraft(null);
        return (draft ?? send)(text);
      }}
      stop={() => copilotkit.stopAgent({ agent })}
      waiting={waiting}
    >
      {agent.messages.map((message) => (
        <li key={message.id} data-id={message.id} data-role={message.role}>
          <p>{typeof message.content === "string" ? message.content : JSON.stringify(message.content)}</p>
          <Calls calls={message.toolCalls?.map((call) => call.function)} />
          {message.role === "user" && (
            <>
              <button data-do="edit" onClick={() => setDraft(() => edit(message, message.id))} />
              <button data-do="edit-anew" onClick={() => setDraft(() => edit(message, crypto.randomUUID()))} />
            </>
          )}
          {message.role === "assistant" && <button data-do="regenerate" onClick={() => reloadMessages(message.id)} />}
        </li>
      ))}
    </Frame>
  );
}

const agent = new HttpAgent({
  url: asked.url,
  threadId: asked.thread,
  headers: asked.headers,
  initialMessages: await remembered(),
});
createRoot(document.body).render(
  <CopilotKit agents__unsafe_dev_only={{ default: agent }} threadId={asked.thread} showDevConsole={false} enableInspector={false}>
    <Chat />
  </CopilotKit>,
);
