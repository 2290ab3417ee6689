// What the pages have in common: what they are asked for, and what of them the driver looks at and presses.
import { useState } from "react";

const query = new URLSearchParams(location.search);

// `server`, `agent`, `thread`, `headers`, and the `arguments` that a person puts in the place of a call's.
export const asked = Object.fromEntries(query);
asked.headers = JSON.parse(asked.headers ?? "{}");
asked.url = `${asked.server}/agui/${asked.agent}`;

// The session's messages as the server has them, which a tab shows that is loaded again; at first there are none.
export async function remembered() {
  const first = sessionStorage.getItem(asked.thread) === null;
  sessionStorage.setItem(asked.thread, "known");
  if (first) return [];
  const answer = await fetch(`${asked.server}/sessions/${asked.thread}/messages?agent=${asked.agent}`, {
    headers: asked.headers,
  });
  return answer.ok ? (await answer.json()).messages : [];
}

export function Frame({ running, say, stop, waiting, children }) {
  const [text, setText] = useState("");
  return (
    <main data-running={running}>
      <ol>{children}</ol>
      <section>{waiting}</section>
      <textarea value={text} onChange={(event) => setText(event.target.value)} />
      <button
        data-do="send"
        onClick={() => {
          setText("");
          say(text);
        }}
      />
      <button data-do="stop" onClick={stop} />
    </main>
  );
}

export function Calls({ calls }) {
  return (calls ?? []).map((call, at) => <code key={at}>{`${call.name} ${call.arguments}`}</code>);
}
