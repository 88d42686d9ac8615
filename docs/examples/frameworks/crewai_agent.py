import os
import sys

from crewai import Agent
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

if url := os.environ.get("SEALYARD_URL"):
    headers = {"Authorization": f"Bearer {os.environ['SEALYARD_TOKEN']}"}
    gateway = {"transport": "streamable-http", "url": url, "headers": headers}
else:
    gateway = StdioServerParameters(command="sealyard", args=["serve", "sealyard.toml"])

with MCPServerAdapter(gateway, connect_timeout=60) as tools:
    agent = Agent(
        role="Assistant",
        goal="Answer questions about the company's data",
        backstory="You write Python and run it where the data is.",
        llm="openai/gpt-5",
        tools=tools,
        max_iter=100,
    )
    print(agent.kickoff(sys.argv[1]).raw)
