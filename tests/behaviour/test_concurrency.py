"""Threads and asyncio inside a run work as they do in any Python."""

from typing import Any

import pytest

PROGRAMS = {
    "task_group": (
        """
        import asyncio

        async def double(n):
            await asyncio.sleep(0)
            return n * 2

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(double(n)) for n in range(5)]
        [task.result() for task in tasks]
        """,
        [0, 2, 4, 6, 8],
    ),
    "wait_for_gives_up": (
        """
        import asyncio

        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        except TimeoutError:
            result = "gave up"
        """,
        "gave up",
    ),
    "to_thread": (
        """
        import asyncio, threading

        main = threading.get_ident()
        other = await asyncio.to_thread(threading.get_ident)
        main != other
        """,
        True,
    ),
    "queue_between_tasks": (
        """
        import asyncio

        async def produce(queue):
            for n in range(4):
                await queue.put(n)
            await queue.put(None)

        queue, seen = asyncio.Queue(1), []
        task = asyncio.create_task(produce(queue))
        while (item := await queue.get()) is not None:
            seen.append(item)
        await task
        seen
        """,
        [0, 1, 2, 3],
    ),
    "subtask_left_running_is_cancelled": (
        """
        import asyncio

        log = []

        async def linger():
            try:
                await asyncio.Event().wait()
            finally:
                log.append("cleaned up")

        asyncio.create_task(linger())
        await asyncio.sleep(0)
        result = log
        """,
        ["cleaned up"],
    ),
    "lock_and_semaphore": (
        """
        import asyncio

        lock, gate, order = asyncio.Lock(), asyncio.Semaphore(2), []

        async def visit(n):
            async with gate, lock:
                order.append(n)

        await asyncio.gather(*(visit(n) for n in range(6)))
        order
        """,
        [0, 1, 2, 3, 4, 5],
    ),
    "run_in_executor": (
        """
        import asyncio

        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, pow, 2, 10)
        """,
        1024,
    ),
    "several_loops_one_after_the_other": (
        """
        import asyncio

        async def value(n):
            await asyncio.sleep(0)
            return n

        [asyncio.run(value(n)) for n in range(3)]
        """,
        [0, 1, 2],
    ),
    "loop_in_a_thread": (
        """
        import asyncio, threading

        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()

        async def value():
            return "from the thread"

        asyncio.run_coroutine_threadsafe(value(), loop).result(5)
        """,
        "from the thread",
    ),
    "executor_without_shutdown": (
        """
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(4)
        futures = [pool.submit(pow, n, 2) for n in range(4)]
        [future.result() for future in futures]
        """,
        [0, 1, 4, 9],
    ),
    "threads_are_joined_before_the_result_is_taken": (
        """
        import threading

        result, go = [], threading.Event()

        def add(n):
            go.wait()
            result.append(n)
            if n:
                threading.Thread(target=add, args=(n - 1,)).start()

        threading.Thread(target=add, args=(2,)).start()
        go.set()
        """,
        [2, 1, 0],
    ),
    "daemon_threads_are_not_waited_for": (
        """
        import threading

        threading.Thread(target=threading.Event().wait, daemon=True).start()
        "done"
        """,
        "done",
    ),
    "timer_and_local": (
        """
        import threading

        local, seen = threading.local(), []
        local.value = "main"
        timer = threading.Timer(0, lambda: seen.append(hasattr(local, "value")))
        timer.start()
        timer.join()
        seen + [local.value]
        """,
        [False, "main"],
    ),
    "barrier_of_all_threads": (
        """
        import threading

        barrier, passed = threading.Barrier(16), []

        def wait():
            barrier.wait(5)
            passed.append(1)

        threads = [threading.Thread(target=wait) for _ in range(16)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        len(passed)
        """,
        16,
    ),
    "async_context_manager_and_timeout": (
        """
        import asyncio, contextlib

        @contextlib.asynccontextmanager
        async def opened(log):
            log.append("open")
            try:
                yield log
            finally:
                log.append("close")

        log = []
        async with asyncio.timeout(5), opened(log) as seen:
            seen.append("use")
        log
        """,
        ["open", "use", "close"],
    ),
    "contextvars_per_task": (
        """
        import asyncio, contextvars

        current = contextvars.ContextVar("current", default=0)

        async def with_value(n):
            current.set(n)
            await asyncio.sleep(0)
            return current.get()

        [await asyncio.gather(*(with_value(n) for n in range(3))), current.get()]
        """,
        [[0, 1, 2], 0],
    ),
    "attribute_for_everything": (
        """
        class Proxy:
            def __getattr__(self, name):
                return lambda *args: "wrong"

            def __call__(self, value):
                return value

        await Proxy()("right")
        """,
        "right",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_concurrent_program_gives_its_result(driver: Any, name: str) -> None:
    """Each program ends by itself with the value it would have outside."""
    code, result = PROGRAMS[name]

    outcome = driver.run(code)

    assert (outcome.failure, outcome.result, outcome.output) == (None, result, "")
