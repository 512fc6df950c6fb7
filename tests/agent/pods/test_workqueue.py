"""Turns: nobody twice at once, no news lost, and none before its time."""

from __future__ import annotations

import random
import threading
import time

from router.agent.pods.workqueue import Workqueue


def taken(queue: Workqueue) -> str | None:
    """The next key, within a generous time."""
    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(queue.take()), daemon=True)
    thread.start()
    thread.join(30)
    assert found, "nothing came"
    return found[0]


def test_keys_come_in_order_and_once() -> None:
    queue = Workqueue()
    for key in ("a", "b", "a"):
        queue.wake(key)

    assert (taken(queue), taken(queue), len(queue)) == ("a", "b", 0)


def test_a_key_that_is_woken_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue = Workqueue()
    queue.wake("a")
    assert taken(queue) == "a"
    queue.wake("a")
    queue.wake("a")
    assert len(queue) == 0

    queue.done("a")

    assert (taken(queue), len(queue)) == ("a", 0)
    queue.done("a")
    assert len(queue) == 0


def test_a_later_time_does_not_put_off_an_earlier_one() -> None:
    queue = Workqueue()
    now = time.monotonic()
    queue.at("a", now + 0.05)
    queue.at("a", now + 3600)
    queue.at("b", now + 3600)
    queue.at("b", now + 0.1)

    assert (taken(queue), taken(queue)) == ("a", "b")
    assert time.monotonic() >= now + 0.1


def test_a_key_woken_before_its_time_is_not_woken_at_it() -> None:
    queue = Workqueue()
    queue.at("a", time.monotonic() + 0.05)
    queue.wake("a")
    assert taken(queue) == "a"
    queue.done("a")
    queue.at("b", time.monotonic() + 0.2)

    assert taken(queue) == "b"


def test_what_is_forgotten_does_not_come() -> None:
    queue = Workqueue()
    queue.wake("a")
    queue.at("b", time.monotonic() + 0.05)
    queue.forget("a")
    queue.forget("b")
    queue.at("c", time.monotonic() + 0.1)

    assert taken(queue) == "c"


def test_a_closed_queue_hands_out_nothing_and_says_when_all_is_done() -> None:
    queue = Workqueue()
    queue.wake("a")
    assert taken(queue) == "a"
    queue.wake("b")

    queue.close()

    assert taken(queue) is None
    assert not queue.idle(0.01)
    queue.done("a")
    assert queue.idle(30)


def test_many_threads_never_work_on_one_key_at_once_and_miss_no_news() -> None:
    queue, lock = Workqueue(), threading.Lock()
    news = {str(number): 0 for number in range(20)}
    seen, busy, clashes = dict(news), set[str](), list[str]()

    def work() -> None:
        while (key := queue.take()) is not None:
            with lock:
                if key in busy:
                    clashes.append(key)
                busy.add(key)
                latest = news[key]
            time.sleep(random.random() / 1000)
            with lock:
                busy.discard(key)
                seen[key] = max(seen[key], latest)
            queue.done(key)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for number in range(1, 2000):
        key = str(random.randrange(20))
        with lock:
            news[key] = number
        queue.wake(key)
    deadline = time.monotonic() + 60
    while seen != news:
        assert time.monotonic() < deadline, (seen, news)
        time.sleep(0.01)
    queue.close()
    for thread in threads:
        thread.join(30)

    assert clashes == []
