// assistant-ui on AG-UI: its runtime, and its primitives without any style.
import {
  ActionBarPrimitive,
  AssistantRuntimeProvider,
  BranchPickerPrimitive,
  ComposerPrimitive,
  ExportedMessageRepository,
  MessagePrimitive,
  ThreadPrimitive,
  useAssistantTool,
  useAuiState,
} from "@assistant-ui/react";
import { fromAgUiMessages, useAgUiInterrupts, useAgUiRuntime, useAgUiSubmitInterruptResponses } from "@assistant-ui/react-ag-ui";
import { HttpAgent } from "ag-ui-of-assistant-ui";
import { createRoot } from "react-dom/client";
import { asked, remembered } from "./frame.jsx";

const parts = {
  Text: ({ text }) => <p>{text}</p>,
  Reasoning: ({ text }) => <i>{text}</i>,
  tools: {
    Fallback: ({ toolName, argsText, result, approval, respondToApproval }) => (
      <>
        <code>{`${toolName} ${argsText}`}</code>
        {approval && approval.approved === undefined && (
          <>
            <button data-do="approve" onClick={() => respondToApproval({ approved: true })} />
            <button data-do="deny" onClick={() => respondToApproval({ approved: false, reason: "not to them" })} />
          </>
        )}
        {result !== undefined && <output>{typeof result === "string" ? result : JSON.stringify(result)}</output>}
      </>
    ),
  },
};

function Branches() {
  return (
    <BranchPickerPrimitive.Root>
      <BranchPickerPrimitive.Previous data-do="previous" />
      <BranchPickerPrimitive.Next data-do="next" />
    </BranchPickerPrimitive.Root>
  );
}

function Message({ children }) {
  const { id, role } = useAuiState(({ message }) => message);
  return (
    <MessagePrimitive.Root asChild>
      <li data-id={id} data-role={role}>
        <MessagePrimitive.Content components={parts} />
        {children}
        <Branches />
      </li>
    </MessagePrimitive.Root>
  );
}

const messages = {
  UserMessage: () => (
    <Message>
      <ActionBarPrimitive.Edit data-do="edit" />
    </Message>
  ),
  AssistantMessage: () => (
    <Message>
      <ActionBarPrimitive.Reload data-do="regenerate" />
    </Message>
  ),
  EditComposer: () => (
    <ComposerPrimitive.Root>
      <ComposerPrimitive.Input data-edit="" />
      <ComposerPrimitive.Send data-do="save" />
    </ComposerPrimitive.Root>
  ),
};

// What its approval of a call has no place for.
function Waiting() {
  const interrupts = useAgUiInterrupts();
  const submit = useAgUiSubmitInterruptResponses();
  const answer = (entry) => submit(interrupts.map(({ id }) => ({ interruptId: id, ...entry })));
  const changed = { approved: true, arguments: JSON.parse(asked.arguments) };
  if (!interrupts.length) return null;
  return (
    <div data-interrupt={interrupts.map(({ id }) => id).join()}>
      {interrupts[0].message}
      <button data-do="change" onClick={() => answer({ status: "resolved", payload: changed })} />
      <button data-do="abandon" onClick={() => answer({ status: "cancelled" })} />
    </div>
  );
}

function Chat() {
  useAssistantTool({
    toolName: "pick_colour",
    description: "Ask for a colour.",
    parameters: { type: "object", properties: { word: { type: "string" } } },
    execute: async () => "red",
  });
  const running = useAuiState(({ thread }) => thread.isRunning);
  return (
    <main data-running={running}>
      <ol>
        <ThreadPrimitive.Messages components={messages} />
      </ol>
      <section>
        <Waiting />
      </section>
      <ComposerPrimitive.Root>
        <ComposerPrimitive.Input submitOnEnter={false} data-say="" />
        <ComposerPrimitive.Send data-do="send" />
        <ComposerPrimitive.Cancel data-do="stop" />
      </ComposerPrimitive.Root>
    </main>
  );
}

const agent = new HttpAgent({ url: asked.url, threadId: asked.thread, headers: asked.headers });
const history = {
  load: async () => ExportedMessageRepository.fromArray(fromAgUiMessages(await remembered())),
  append: async () => {},
};

function Page() {
  const runtime = useAgUiRuntime({ agent, adapters: { history } });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <Chat />
    </AssistantRuntimeProvider>
  );
}

createRoot(document.body).render(<Page />);
