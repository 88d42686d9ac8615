import os
import sys

from mcp import StdioServerParameters
from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

if url := os.environ.get("SEALYARD_URL"):
    headers = {"Authorization": f"Bearer {os.environ['SEALYARD_TOKEN']}"}
    gateway = {"transport": "streamable-http", "url": url, "headers": headers}
else:
    gateway = StdioServerParameters(command="sealyard", args=["serve", "sealyard.toml"])

with MCPClient(gateway, structured_output=False) as tools:
    agent = ToolCallingAgent(tools, OpenAIModel("gpt-5"), max_steps=100)
    print(agent.run(sys.argv[1]))
