"""Random load on a batch: joins, questions, follow-ups, and clients that leave in the middle; every text is checked.

What a request is told must be the begin of what it gives alone, to its end unless its client left. Prints what was
done, and the process's memory behind each tenth of the time.
"""

from __future__ import annotations

import argparse
import json
import random
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic

from strata_runtime import Engine, SamplingParams
from strata_runtime.batch import Batch, Event, Failure, Ticket

ROOT = Path(__file__).resolve().parents[1]
GREEDY = SamplingParams(temperature=0)
PATIENCE = 120.0


@dataclass(eq=False)
class Client:
    """One request; it leaves when it has so many tokens, None: never."""

    ids: list[int]
    tokens_wanted: int
    leaves: int | None
    tokens: list[int] = field(default_factory=list)
    last: Event | Failure | None = None
    ticket: Ticket | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def __call__(self, what: Event | Failure) -> None:
        """Take what the batch tells."""
        if isinstance(what, Event) and what.token_id is not None:
            self.tokens.append(what.token_id)
        if self.leaves is not None and len(self.tokens) >= self.leaves and self.ticket is not None:
            self.ticket.cancel()
        if isinstance(what, Failure) or what.finish is not None:
            self.last = what
            self.ended.set()


def resident_mib() -> int:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * 4096 / 2**20)


def load(batch: Batch, text: list[int], options: argparse.Namespace) -> tuple[list[Client], list[int]]:
    """Ask at random for a while; return all clients, and the memory behind each tenth of the time."""
    choose, began = random.Random(options.seed), monotonic()
    clients: list[Client] = []
    memory: list[int] = []
    while (now := monotonic() - began) < options.seconds:
        if now > (len(memory) + 1) * options.seconds / 10:
            memory.append(resident_mib())
        kind, at = choose.random(), choose.randrange(len(text) - options.longest)
        if kind < 0.2 and clients and clients[-1].ended.is_set():
            ids = [*clients[-1].ids, *clients[-1].tokens, *text[at : at + 20]][-options.longest :]
        else:
            longest = options.longest if kind < 0.5 else 40
            ids = text[at : at + choose.randint(1, longest)]
        leaves = choose.randint(0, 20) if choose.random() < 0.2 else None
        client = Client(ids, choose.randint(1, 40), leaves)
        tokens = client.tokens_wanted
        client.ticket = batch.submit(ids, GREEDY, max_tokens=tokens, ignore_eos=True, listener=client)
        clients.append(client)
        going = [each for each in clients[-32:] if not each.ended.is_set()]
        if len(going) > options.slots * 2:
            going[0].ended.wait(PATIENCE)
    return clients, [*memory, resident_mib()]


def wrong(engine: Engine, clients: list[Client]) -> int:
    """Count texts that are not what their request gives alone."""
    found = 0
    for client in clients:
        assert isinstance(client.last, Event), client.last
        expected = engine.generate(client.ids, GREEDY, max_tokens=client.tokens_wanted, ignore_eos=True).run().token_ids
        is_whole = client.last.finish == "cancelled" or len(client.tokens) == len(expected)
        found += not (is_whole and tuple(client.tokens) == expected[: len(client.tokens)])
    return found


def main() -> None:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=ROOT / "examples" / "models" / "strata-tiny")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--longest", type=int, default=1500, help="tokens of the longest prompt")
    parser.add_argument("--checked", type=int, default=200, help="texts that are compared, at most; the last ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    knobs = {"batch_slots": options.slots, "batch_prefix_mib": 64, "piped_concurrent": True}
    with Engine.load(options.model, report=lambda _: None, engine_context=options.longest + 64, **knobs) as engine:
        text = list(engine.encode("".join(path.read_text() for path in sorted((ROOT / "bench").glob("*.py")))))
        batch = Batch(engine)
        clients, memory = load(batch, text, options)
        batch.close(drain_s=PATIENCE)
        totals = asdict(batch.status().totals)
        assert all(client.ended.is_set() for client in clients), "a request that was never ended"
        found = {**totals, "mib": memory, "wrong": wrong(engine, clients[-options.checked :])}
    print(json.dumps(found) if options.json else "\n".join(f"{name}: {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
