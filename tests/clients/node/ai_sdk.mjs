// What the AI SDK makes of a server, through its provider for OpenAI-compatible ones, as one line of JSON.
//
//   node ai_sdk.mjs BASE_URL stream|generate '{"model": "demo", "say": "hello", "tool": {...}, "answer": "blue"}'
//
// With a tool, its every call gets the answer, and the SDK goes on by itself.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai";

const [baseURL, task, given] = process.argv.slice(2);
const { model, say, tool: wanted, answer } = JSON.parse(given);
const provider = createOpenAICompatible({ name: "ostinato", baseURL, includeUsage: true });
const asked = [];
const request = { model: provider(model), prompt: say, maxRetries: 0, stopWhen: isStepCount(4) };
if (wanted) {
  const { name, description, parameters } = wanted.function;
  const execute = async (input) => {
    asked.push([name, input]);
    return answer;
  };
  request.tools = { [name]: tool({ description, inputSchema: jsonSchema(parameters), execute }) };
}

function describe(error) {
  return { name: error.name, status: error.statusCode ?? null, message: error.message ?? String(error) };
}

const tasks = {
  async stream() {
    const found = { text: "", reasoning: "", steps: [], usage: null, error: null, asked };
    for await (const part of streamText({ ...request, onError() {} }).fullStream) {
      if (part.type === "text-delta") found.text += part.text;
      if (part.type === "reasoning-delta") found.reasoning += part.text;
      if (part.type === "finish-step") found.steps.push(part.finishReason);
      if (part.type === "finish") found.usage = part.totalUsage;
      if (part.type === "error") found.error = describe(part.error);
    }
    return found;
  },

  async generate() {
    try {
      const { text, usage, finishReason } = await generateText(request);
      return { text, usage, finish: finishReason, error: null, asked };
    } catch (error) {
      return { error: describe(error) };
    }
  },
};

console.log(JSON.stringify(await tasks[task]()));
