// Commands by lines: each line of input is {"do": NAME, …}, each line of output what came of it, or how it failed.
import { createInterface } from "node:readline";

export const answer = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

// `commands` are functions of what a command takes. Returns at the end of the input.
export async function obey(commands) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: what, ...given } = JSON.parse(line);
    try {
      answer(await commands[what](given));
    } catch (error) {
      answer({ failed: String(error?.stack ?? error) });
    }
  }
}
