/** A session with the TypeScript SDK's second client, which takes the newest era the server speaks. */

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { fill, report, transport } from "./client_session.js";

const client = new Client(
  { name: "second", version: "2.0.0" },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode: "auto" } },
);
const seen = { asked: [] };
client.setRequestHandler("elicitation/create", ({ params }) => {
  seen.asked.push(params.message);
  return fill(params);
});
await client.connect(transport({ Http: StreamableHTTPClientTransport, Stdio: StdioClientTransport }));
seen.protocol = client.getNegotiatedProtocolVersion?.();
await report(client, seen);
