// Chat clients in Chromium, told what to do: each line of input is a command, each line of output what came of it.
//
//   node browser.mjs CHROMIUM
//
// The first line of output is the origin of the pages, which is another than any server's. Nothing is intercepted:
// the browser asks with its preflights, and the server answers them. What a command takes stands in `commands`.
import { build } from "esbuild";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { answer, obey } from "./lines.mjs";

const [executablePath] = process.argv.slice(2);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const PAGES = ["copilotkit", "assistant_ui", "openai"];
const PATIENCE = 20_000;

// CopilotKit's widgets and their libraries, megabytes of which no page here shows anything. The largest, streamdown, is
// not even installed: package.json has a small package in its place.
const UNUSED = /^(streamdown|lucide-react|katex|@jetbrains\/websandbox|@copilotkit\/(web-inspector|a2ui-renderer|mcp-apps-renderer)|@segment\/analytics-node)(\/.*)?$/;

async function bundles() {
  const require = createRequire(createRequire(import.meta.url).resolve("@assistant-ui/react-ag-ui"));
  const { outputFiles } = await build({
    entryPoints: PAGES.map((name) => here(`pages/${name}.jsx`)),
    bundle: true,
    write: false,
    outdir: "/",
    format: "esm",
    jsx: "automatic",
    define: { "process.env.NODE_ENV": '"production"' },
    alias: { "ag-ui-of-assistant-ui": require.resolve("@ag-ui/client") },
    loader: { ".css": "empty" },
    plugins: [
      {
        name: "unused",
        setup(made) {
          made.onResolve({ filter: UNUSED }, ({ path }) => ({ path, namespace: "unused" }));
          made.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "module.exports = {};" }));
        },
      },
    ],
    logLevel: "silent",
  });
  return new Map(outputFiles.map(({ path, contents }) => [path, contents]));
}

const files = await bundles();
const server = createServer(({ url }, response) => {
  const { pathname } = new URL(url, "http://pages");
  const script = files.get(pathname);
  response.setHeader("content-type", script ? "text/javascript" : "text/html; charset=utf-8");
  response.end(script ?? `<!doctype html><body></body><script type="module" src="${pathname}.js"></script>`);
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const origin = `http://127.0.0.1:${server.address().port}`;

const profile = mkdtempSync(join(tmpdir(), "pages-"));
const context = await chromium.launchPersistentContext(profile, {
  executablePath,
  headless: true,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});
const tabs = new Map();

// A tab with what it has sent to the server's /agui and what went wrong in it.
class Tab {
  requests = [];
  faults = [];
  ended = 0;

  constructor(page) {
    this.page = page;
    const runs = (request) => request.method() === "POST" && new URL(request.url()).pathname.startsWith("/agui");
    page.on("request", (request) => void (runs(request) && this.requests.push(request.postDataJSON())));
    for (const end of ["requestfinished", "requestfailed"]) {
      page.on(end, (request) => void (runs(request) && this.ended++));
    }
    // No page asks anybody but the servers of the tests, whatever its libraries would like to tell their makers.
    page.on("request", (request) => {
      const { hostname, protocol } = new URL(request.url());
      if (protocol.startsWith("http") && hostname !== "127.0.0.1") this.faults.push(`asked ${hostname}`);
    });
    page.on("pageerror", (error) => this.faults.push(String(error)));
    page.on("console", (message) => void (message.type() === "error" && this.faults.push(message.text())));
  }

  // Wait until so many further requests have ended and the page shows that nothing runs.
  async settled(runs) {
    const until = Date.now() + PATIENCE;
    while (this.ended < runs || !(await this.page.locator("main[data-running=false]").count())) {
      if (Date.now() > until) throw new Error(`${this.ended} of ${runs} runs ended: ${await this.page.content()}`);
      await new Promise((again) => setTimeout(again, 20));
    }
  }

  // The messages as they stand once the page has drawn what it knows.
  shown() {
    return this.page.evaluate(async () => {
      for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
      return [...document.querySelectorAll("li")].map((each) => ({
        id: each.dataset.id,
        role: each.dataset.role,
        text: [...each.querySelectorAll("p")].map((part) => part.textContent).join(""),
        thinking: [...each.querySelectorAll("i")].map((part) => part.textContent).join(""),
        calls: [...each.querySelectorAll("code")].map((part) => part.textContent),
        results: [...each.querySelectorAll("output")].map((part) => part.textContent),
      }));
    });
  }
}

const commands = {
  // A tab with one of the pages, for a server's agent and a thread.
  async open({ name, page, ...asked }) {
    const tab = new Tab(await context.newPage());
    tabs.set(name, tab);
    await tab.page.goto(`${origin}/${page}?${new URLSearchParams(asked)}`);
    await tab.page.locator("main").waitFor({ state: "attached", timeout: PATIENCE });
    return {};
  },

  // Press these buttons and type these texts, and wait until so many runs have come of it. A step is
  // {say}, {press, of} (a button, of the message that has this text), {edit} (the text of an open edit), or
  // {sees} (wait until a text is there).
  async act({ name, steps, runs = 1 }) {
    const tab = tabs.get(name);
    const before = tab.requests.length;
    const expected = tab.ended + runs;
    for (const { say, press, of, edit, sees } of steps) {
      if (say !== undefined) {
        await tab.page.locator("main > textarea, textarea[data-say]").fill(say);
        await tab.page.locator("[data-do=send]").last().click();
      }
      if (edit !== undefined) await tab.page.locator("textarea[data-edit]").fill(edit);
      if (sees !== undefined) await tab.page.getByText(sees).first().waitFor({ state: "attached", timeout: PATIENCE });
      if (press !== undefined) {
        const button = tab.page.locator(`[data-do=${press}]`);
        const within = tab.page.locator("li").filter({ hasText: of, has: button });
        await (of === undefined ? button : within.last().locator(button)).click({ timeout: PATIENCE });
      }
    }
    await tab.settled(expected);
    return commands.look({ name, since: before });
  },

  async look({ name, since = 0 }) {
    const { requests, faults, page } = tabs.get(name);
    const waiting = await page.locator("[data-interrupt]").count();
    return { shown: await tabs.get(name).shown(), requests: requests.slice(since), faults, waiting };
  },

  // Load the page again, as its user does, and wait until this text is there.
  async reload({ name, sees }) {
    const { page, faults } = tabs.get(name);
    await page.reload();
    await page.getByText(sees).first().waitFor({ state: "attached", timeout: PATIENCE }).catch((error) => {
      throw new Error(`${error} ${faults.join()}`);
    });
    return commands.look({ name });
  },

  // Let a page without a chat do something, and return what it tells of it.
  async call({ name, ...asked }) {
    return tabs.get(name).page.evaluate((given) => globalThis.perform(given), asked);
  },

  async close({ name }) {
    await tabs.get(name).page.close();
    tabs.delete(name);
    return {};
  },
};

answer({ origin });
await obey(commands);
await context.close();
server.close();
rmSync(profile, { recursive: true, force: true });
