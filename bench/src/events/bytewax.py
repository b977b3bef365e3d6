# Distinct users, and distinct (user, time), of each series in every minute; what both come to is printed
# behind the seconds that the flow took.
import sys
import time
from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.files import FileSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
sums = [0, 0]


def parse(line):
    head, value, stamp = line.split(" ")
    _, kind, product = head.split(",")
    key = kind[11:] + "/" + product[8:]
    return key, (value[7:-1], int(stamp))


class Sums(StatelessSinkPartition):
    def write_batch(self, items):
        for _, (_, (users, events)) in items:
            sums[0] += len(users)
            sums[1] += len(events)


class SumsSink(DynamicSink):
    def build(self, step_id, worker_index, worker_count):
        return Sums()


def fold(held, event):
    held[0].add(event[0])
    held[1].add(event)
    return held


def merge(one, other):
    return (one[0] | other[0], one[1] | other[1])


flow = Dataflow("events")
lines = op.input("lines", flow, FileSource(sys.argv[1], batch_size=1000))
keyed = op.map("parse", lines, parse)
clock = win.EventClock(
    ts_getter=lambda event: EPOCH + timedelta(microseconds=event[1] // 1000),
    # Longer than the flow takes: its watermark goes by the system's clock, and nothing may be late.
    wait_for_system_duration=timedelta(minutes=30),
)
minutes = win.TumblingWindower(length=timedelta(minutes=1), align_to=EPOCH)
# Sets do not care for order; in order, each line would wait until the watermark has passed it.
folded = win.fold_window(
    "fold", keyed, clock, minutes, lambda: (set(), set()), fold, merge, ordered=False
)
op.output("sums", folded.down, SumsSink())

began = time.monotonic()
cluster_main(flow, [], 0)
print(time.monotonic() - began, *sums)
