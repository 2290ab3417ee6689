// What openai-node makes of a server, as one line of JSON.
//
//   node openai.mjs BASE_URL create|stream|tools|failures '{"messages": [...], ...}'
//
// `options` are those of the SDK for this request (timeout, maxRetries); all else goes into its body.
import OpenAI from "openai";

const [baseURL, task, given] = process.argv.slice(2);
const { options, ...request } = JSON.parse(given);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const completions = client.chat.completions;

function describe(error) {
  return { class: error.constructor.name, status: error.status ?? null, code: error.code ?? null, param: error.param ?? null };
}

const tasks = {
  create: () => completions.create(request, options),

  async stream() {
    const found = { text: "", reasoning: "", finish: [], usage: [], error: null };
    try {
      for await (const chunk of await completions.create({ ...request, stream: true, stream_options: { include_usage: true } })) {
        if (chunk.usage) found.usage.push(chunk.usage);
        for (const choice of chunk.choices) {
          found.text += choice.delta.content ?? "";
          found.reasoning += choice.delta.reasoning_content ?? "";
          if (choice.finish_reason) found.finish.push(choice.finish_reason);
        }
      }
    } catch (error) {
      found.error = describe(error);
    }
    return found;
  },

  // runTools calls the client's functions by itself, over the streaming helper.
  async tools() {
    const { answer, tools, ...rest } = request;
    const asked = [];
    const runner = completions.runTools({
      ...rest,
      stream: true,
      tools: tools.map((tool) => ({
        ...tool,
        function: {
          ...tool.function,
          parse: JSON.parse,
          function(args) {
            asked.push([tool.function.name, args]);
            return answer;
          },
        },
      })),
    });
    return { asked, text: await runner.finalContent() };
  },

  async failures() {
    const found = [];
    for (const each of request.requests) {
      found.push(await completions.create(each).then(() => null, describe));
    }
    return found;
  },
};

console.log(JSON.stringify(await tasks[task]()));
