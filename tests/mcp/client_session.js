/**
 * One session with a server, the same for both SDK clients.
 *
 * The only argument is JSON: `{"url": ...}` or `{"command": [...]}`, and `{"calls": [{"name": ..., "arguments": ...}]}`.
 * What the client saw is printed as JSON.
 */

const task = JSON.parse(process.argv[2]);

/** The answer to a form: each field's default, or something of its kind. */
export function fill({ requestedSchema }) {
  const kinds = { boolean: true, integer: 1, number: 1.5, array: [], string: "ada@example.org" };
  const value = (field) => field.default ?? field.enum?.[0] ?? field.oneOf?.[0].const ?? kinds[field.type];
  const wanted = requestedSchema.required ?? [];
  const content = Object.fromEntries(wanted.map((name) => [name, value(requestedSchema.properties[name])]));
  return { action: "accept", content };
}

/** The transport the task names. */
export function transport({ Http, Stdio }) {
  if (task.url !== undefined) {
    return new Http(new URL(task.url));
  }
  const [command, ...args] = task.command;
  return new Stdio({ command, args, cwd: task.cwd });
}

/** Lists the tools, makes the calls and reports. */
export async function report(client, seen) {
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor });
    tools.push(...page.tools.map((tool) => tool.name));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  const results = [];
  for (const call of task.calls ?? []) {
    const { content, isError } = await client.callTool(call);
    results.push({ content, isError: isError ?? false });
  }
  const server = client.getServerVersion();
  await client.close();
  process.stdout.write(JSON.stringify({ server: server.name, tools, results, ...seen }) + "\n");
}
