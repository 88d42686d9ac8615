"""`sealyard run`: review code, run it in the sandbox, show the outcome."""

import contextlib
import secrets
import time
from collections.abc import Callable

import click
import msgspec

from sealyard.analysis import GUESTS
from sealyard.cli.approvals import answered_here
from sealyard.cli.command import CONFIG, JSON, option, read_config, read_object, read_text, wants_json
from sealyard.cli.loop import run_to_end
from sealyard.cli.terminal import end_line, remark, show_hint, warn, write, write_json
from sealyard.config import Config, SandboxConfig
from sealyard.config.settings import Level
from sealyard.errors import InvalidRequest
from sealyard.sandbox import IsolationPolicy, PoolOptions, open_sandbox
from sealyard.sandbox.importable import find_packages
from sealyard.sandbox.policy import LEVELS
from sealyard.sandbox.review import Review, review
from sealyard.values.runs import Failure, Limits, Outcome, Tier, Usage
from sealyard.yard import ExecuteRequest, build_policy, open_yard


@click.command()
@click.argument("file", required=False)
@click.option("-c", "code", metavar="CODE", help="Run this code instead of a file.")
@click.option("--context", metavar="JSON", help="A JSON object; its values become variables of the code.")
@click.option(
    "--level",
    type=click.Choice([str(level) for level in LEVELS]),
    help="How much the code may use; by default what the config says. See `sealyard doctor --policy LEVEL`.",
)
@click.option("--timeout", type=float, metavar="SECONDS", help="Wall time, 1 to 120. The level has its own.")
@click.option("--tier", type=click.Choice(["namespace", "landlock"]), help="Use this tier instead of the best one.")
@click.option("--allow-weaker", is_flag=True, help="Run even if this machine cannot honour the level.")
@click.option("--package", "packages", multiple=True, metavar="NAME", help="Let the code import this too. Repeatable.")
@CONFIG
@click.option("--no-tools", is_flag=True, help="Run without the configured servers, and without recording it.")
@JSON
def run(
    *,
    file: str | None,
    code: str | None,
    context: str | None,
    level: Level | None,
    timeout: float | None,
    tier: Tier | None,
    allow_weaker: bool,
    packages: tuple[str, ...],
    no_tools: bool,
) -> int:
    """Run Python code in the sandbox.

    The code comes from FILE, from standard input if FILE is -, or from -c. The tools of the configured servers are
    importable in it. Its output goes to standard output as it is written, then its result as JSON. Exit code 0: it
    ran; 1: it failed or was refused; 2: it could not be run.
    """
    source = _read_code(file, code)
    variables = None if context is None else read_object(context, "--context")
    loaded = read_config()
    settings = msgspec.structs.replace(
        loaded.sandbox,
        level=level or loaded.sandbox.level,
        tier=tier or loaded.sandbox.tier,
        allow_weaker=allow_weaker or loaded.sandbox.allow_weaker,
        pool_size=1,
    )
    policy = _build_policy(settings, timeout, packages)
    verdict = review(source, policy)
    timing = {"start_seconds": 0.0, "run_seconds": 0.0}
    refusal = verdict.refusal()
    if refusal is not None:  # code that is never started: no execution, no tier
        usage = Usage(wall_seconds=0.0)
        outcome = Outcome(
            execution_id="", status="failed", failure=refusal, usage=usage, tier="", level=str(policy.level)
        )
    else:
        if not wants_json():
            _show_findings(verdict, "warn")
        # A file that was asked for is used in any case, for what it says about recording.
        with_tools = not no_tools and (loaded.upstreams or option("config") is not None)
        if with_tools:
            for warning in loaded.warnings:
                warn(warning)
        work = _execute(
            ExecuteRequest(code=source, context=variables),
            _without_unused_packages(policy, verdict, named=(*packages, *settings.packages)),
            settings,
            loaded if with_tools else None,
            timing,
            None if wants_json() else write,
        )
        outcome = run_to_end(work)
    if wants_json():
        write_json(outcome.to_json() | {"review": msgspec.to_builtins(verdict), "timing": timing})
    else:
        end_line()
        _show(outcome, verdict)
    return 0 if outcome.ok else 1


def _read_code(file: str | None, code: str | None) -> str:
    if (file is None) == (code is None):
        raise InvalidRequest("Give the code in one way: a file, - for standard input, or -c CODE.")
    if file is not None:
        code = read_text(file, "Check the path, or give the code with -c.")
    assert code is not None
    if not code.strip():
        raise InvalidRequest("The code is empty. Give at least one statement.")
    return code


def _build_policy(settings: SandboxConfig, timeout: float | None, packages: tuple[str, ...]) -> IsolationPolicy:
    """Build the policy of the configuration, with the options of the command."""
    policy = build_policy(settings)
    for name in packages:
        found = find_packages((name,))
        if not found.versions:
            raise InvalidRequest(f"No package {name!r} is installed here. Install it beside sealyard, or leave it out.")
        policy = msgspec.structs.replace(
            policy, packages=(*policy.packages, name), modules=(*policy.modules, *sorted(found.modules))
        )
    if timeout is not None:
        try:
            policy = policy.with_limits(Limits(wall_seconds=timeout))
        except InvalidRequest:
            raise InvalidRequest(f"--timeout is {timeout:g}. Give a number of seconds from 1 to 120.") from None
    return policy


def _without_unused_packages(policy: IsolationPolicy, verdict: Review, *, named: tuple[str, ...]) -> IsolationPolicy:
    """Loading a package takes a second that a single run pays for nothing when its code does not import it."""
    used = {module.partition(".")[0] for module in verdict.estimate.imports}
    kept = tuple(name for name in policy.packages if name in used or name in named)
    return msgspec.structs.replace(policy, packages=kept)


async def _execute(
    request: ExecuteRequest,
    policy: IsolationPolicy,
    settings: SandboxConfig,
    config: Config | None,
    timing: dict[str, float],
    on_output: Callable[[str], None] | None,
) -> Outcome:
    """Run the code with the tools of a configuration, or alone; `timing` gets the seconds of both parts.

    Opening the sandbox is timed apart, since a gateway pays for it once.
    """
    opened = time.perf_counter()
    async with contextlib.AsyncExitStack() as stack:
        if config is None:
            pool = PoolOptions(size=1)
            opening = open_sandbox(
                policy, tier=settings.tier, allow_weaker=settings.allow_weaker, pool=pool, own=GUESTS
            )
            sandbox = await stack.enter_async_context(opening)
            started = time.perf_counter()
            outcome = await sandbox.run(request.code, context=request.context, on_output=on_output)
        else:
            # A person at a terminal gets the whole value: there is no next run that could read the rest from a file.
            surface = msgspec.structs.replace(config.surface, result_tokens=policy.result_bytes)
            config = msgspec.structs.replace(config, surface=surface, sandbox=settings)
            yard = await stack.enter_async_context(open_yard(config, policy=policy))
            await yard.sandbox()
            await yard.snapshot()
            started = time.perf_counter()
            execution_id = secrets.token_hex(8)
            with answered_here(yard.approvals, execution_id):
                outcome = (await yard.execute(request, execution_id=execution_id, on_output=on_output)).outcome
        timing |= {"start_seconds": started - opened, "run_seconds": time.perf_counter() - started}
    return outcome


def _show(outcome: Outcome, verdict: Review) -> None:
    if outcome.result is not None:
        write_json(outcome.result, indent=2)
    for note in outcome.notes:
        remark(f"note: {note}", "dim")
    if outcome.failure is not None:
        _show_failure(outcome.failure)
    _show_findings(verdict, "refuse", skip=1)  # the first one is the failure itself
    where = f"{outcome.tier} tier, " if outcome.tier else ""
    status = outcome.status if outcome.tier else "refused"
    remark(f"{status} in {outcome.usage.wall_seconds:.3f} s ({where}{outcome.level} level)", "dim")


def _show_failure(failure: Failure) -> None:
    remark(f"{failure.type}: {failure.message}", "bold red")
    if failure.line is not None:
        remark(f"  line {failure.line}: {(failure.source_line or '').strip()}")
    if failure.traceback:
        remark(failure.traceback.rstrip(), "dim")
    show_hint(failure.hint)


def _show_findings(verdict: Review, severity: str, *, skip: int = 0) -> None:
    for finding in [finding for finding in verdict.findings if finding.severity == severity][skip:]:
        line = "" if finding.line is None else f"line {finding.line}: "
        word = "warning" if severity == "warn" else "refused"
        remark(f"{word}: {line}{finding.message}", "yellow")
        show_hint(finding.hint)
