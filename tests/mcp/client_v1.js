/** A session with the TypeScript SDK's first client, which speaks the handshake's era. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { fill, report, transport } from "./client_session.js";

const client = new Client({ name: "first", version: "1.0.0" }, { capabilities: { elicitation: {} } });
const seen = { asked: [] };
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  seen.asked.push(params.message);
  return fill(params);
});
await client.connect(transport({ Http: StreamableHTTPClientTransport, Stdio: StdioClientTransport }));
await report(client, seen);
