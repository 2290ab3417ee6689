// OpenAI's SDK and AG-UI's client in a page, with headers of their own: what they tell of an answer.
import { HttpAgent } from "@ag-ui/client";
import OpenAI from "openai";
import { asked } from "./frame.jsx";

globalThis.perform = async ({ client, headers }) => {
  try {
    if (client === "openai") {
      const sdk = new OpenAI({
        baseURL: `${asked.server}/v1`,
        apiKey: asked.key,
        organization: "org",
        project: "project",
        defaultHeaders: headers,
        dangerouslyAllowBrowser: true,
        maxRetries: 0,
      });
      const messages = [{ role: "user", content: "hi" }];
      const { data, response } = await sdk.chat.completions.create({ model: asked.agent, messages }).withResponse();
      return { text: data.choices[0].message.content, requestId: response.headers.get("x-request-id") };
    }
    const agent = new HttpAgent({ url: asked.url, headers: { ...headers, authorization: `Bearer ${asked.key}` } });
    agent.addMessage({ id: "u", role: "user", content: "hi" });
    await agent.runAgent();
    return { text: agent.messages.at(-1).content };
  } catch (error) {
    return { error: String(error?.message ?? error), status: error?.status ?? null };
  }
};
document.body.append(document.createElement("main"));
