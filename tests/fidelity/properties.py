#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks scheduling properties on reports of `lagom-bench scenario` and `lagom-sim scenario`.

  properties.py --raw DIR [--quantum NS] [--slice NS] [--robust] [--markdown]

DIR holds NAME.K.json files, K being the number of the run. QUANTUM is the longest time between two moments at which the
scheduler can take the CPU away (a kernel's tick; for fibers the interval of preemption points), SLICE the default slice.
Bounds are written with q, r and the burst B = q * ceil(r / q), so that they hold on any machine. A property passes when the
median of its runs lies within the bounds. Bounds marked with a ring are not derived from the algorithm: they are what
Linux 6.18 showed, with a margin (docs/fidelity.md). The times of a run at another scale (lagom-sim scenario
--scale) are reported in those of the file, so QUANTUM and SLICE are too.

To a scheduler of fibers the time in which other programs have its CPU is a stint of the running fiber, in which it cannot be
stopped: q is longer by that much. Bounds on extremes therefore allow for the longest such interruption of the run, which
the report names (longest_interruption_ns; none for threads, which are not charged for it).

Exit status: 0 all within their bounds, 1 one outside, 2 no report at all.
"""
import argparse
import json
import math
import pathlib
import re
import statistics

WEIGHTS = [88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121,
           2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23,
           18, 15]
MS = 1e6
PROMPT_US = 200  # wake-ups later than this count as late ("over_200us")


class Params:
    def __init__(self, quantum, slice_):
        self.q = quantum
        self.r = slice_

    def burst(self, slice_=None):
        """Shortest whole number of quanta that covers a slice; just the slice where quanta are negligible."""
        slice_ = self.r if slice_ is None else slice_
        return self.q * math.ceil(slice_ / self.q) if self.q else slice_


def members(run, name):
    """The thread of this name, or all that a "count" made of it."""
    return [t for t in run["threads"] if re.fullmatch(re.escape(name) + r"\d*", t["name"])]


def one(run, name):
    return members(run, name)[0]


def share(name):
    return lambda run: statistics.mean(t["share_of_scenario"] for t in members(run, name))


def worst_share_error(*groups):
    """Greatest relative error against the weight shares, over groups of threads that are always runnable."""
    def fair_shares(run):
        weights = {t["name"]: 3 if t["policy"] == "idle" else WEIGHTS[t["nice"] + 20] for t in run["threads"]}
        total = sum(weights.values())
        return {name: weight / total for name, weight in weights.items() if not groups or name in groups}

    def value(run):
        got = {t["name"]: t["share_of_scenario"] for t in run["threads"]}
        return max(abs(got[name] / fair - 1) for name, fair in fair_shares(run).items())

    # What an interruption was charged is made good by and by: an end in the middle of that is no error.
    value.allowance = lambda run: run.get("longest_interruption_ns", 0) / run["measured_ns"] / min(fair_shares(run).values())
    return value


def quantile(name, key, q, unit=MS):
    return lambda run: statistics.mean(t[key][q] for t in members(run, name) if t[key]["n"]) / unit


def greatest(name, key, unit=MS):
    return lambda run: max(t[key]["max"] for t in members(run, name) if t[key]["n"]) / unit


def late(name):
    return lambda run: sum(t["wake"]["over_200us"] * t["wake"]["n"] for t in members(run, name)) / sum(t["wake"]["n"] for t in members(run, name))


def phase(name, i):
    return lambda run: one(run, name)["phase_share"][i]


def phase_burst(name, i):
    return lambda run: run["phase_bursts"][name][i]["p50"] / MS


def lag_spread(run):
    return max(run["lag_spread"].values()) / MS


def on_cpu(name, cpu):
    return lambda run: one(run, name)["bursts_on_cpu"][cpu] / sum(one(run, name)["bursts_on_cpu"])


def scheduler_wait(name):
    """Mean time between becoming runnable and running, in µs: no timers in it."""
    return lambda run: sum(t["run_delay_ns"] for t in members(run, name)) / max(1, sum(t["runs"] for t in members(run, name))) / 1e3


def returned(key, scale=1):
    return lambda run: statistics.mean(x[key] for x in run["returns"][1:]) / scale


def rate(name, key):
    return lambda run: sum(t[key] for t in members(run, name)) / (run["measured_ns"] / 1e9)


def loops_ratio(a, b):
    return lambda run: statistics.mean(t["loops"] for t in members(run, a)) / statistics.mean(t["loops"] for t in members(run, b))


def is_robust(what):
    """Holds on a busy machine too: shares, not times."""
    return what.startswith(("greatest error of a share", "error of the", "share of", "got of", "yields"))


def properties(p):
    """(scenario, what, measured value of a run, least, most, bound in words, quanta in the bound)"""
    q, r, B = p.q / MS, p.r / MS, p.burst() / MS
    out = []
    # A sleeper that runs 50 µs beside one busy thread loses half of that in lag each time. When it has none left it waits for
    # the end of a request, B/2 in the mean, and gets half of the wait.
    late_beside_one = 4 * 0.05 / B + 0.01

    def add(scenario, what, value, low, high, words, quanta=0):
        """quanta: how often q is in the upper bound, for extremes."""
        out.append((scenario, what, value, low, high, words, quanta))

    for n in (2, 4, 8):
        name = f"01-equal-busy-{n}"
        add(name, "greatest error of a share", worst_share_error(), 0, 0.03, "≤ 3 % of 1/N")
        add(name, "burst p50, ms", quantile("busy", "burst", "p50"), 0.9 * B, 1.1 * B, "B ± 10 %")
        add(name, "gap p50, ms", quantile("busy", "gap", "p50"), 0.9 * (n - 1) * B, 1.1 * (n - 1) * B, "(N−1)·B ± 10 %")
        add(name, "gap max, ms", greatest("busy", "gap"), 0, n * 2 * (r + q), "≤ N·2·(r+q): the gap that uses up the band of lag", 2 * n)
        add(name, "lag spread, ms", lag_spread, 0, 2 * (r + q), "≤ 2·(r+q)", 2)

    add("02-nice-0-1", "greatest error of a share", worst_share_error(), 0, 0.02, "≤ 2 %")
    add("02-nice-0-5-m5", "greatest error of a share", worst_share_error(), 0, 0.03, "≤ 3 %")
    add("02-nice-0-5-m5", "lag spread, ms", lag_spread, 0, 2 * (r + q), "≤ 2·(r+q)", 2)
    add("02-nice-0-19", "error of the nice 19 share", worst_share_error("nice19"), 0, 0.10, "≤ 10 %")
    add("02-nice-0-19", "burst max of nice 19, ms", greatest("nice19", "burst"), 0, 1.1 * (r + q), "≤ r+q", 1)
    add("02-nice-0-19", "gap p50 of nice 19, ms", quantile("nice19", "gap", "p50"), 0.9 * B * 1024 / 15, 1.1 * B * 1024 / 15, "B·1024/15 ± 10 %")

    for a, b, shortest in (("100us", "100us", 0.1), ("100us", "default", 0.1), ("100us", "20ms", 0.1), ("3ms", "3ms", 3), ("default", "20ms", r),
                           ("20ms", "20ms", 20), ("100ms", "100ms", 100)):
        name = f"03-slice-{a}-vs-{b}"
        tolerance = 0.02 + 2 * shortest / 3000
        add(name, "greatest error of a share", worst_share_error(), 0, tolerance, "≤ 2 % + 2·r_min/T: slices do not change shares")
        for who in "ab":
            add(name, f"burst p90 of {who}, ms", quantile(who, "burst", "p90"), 0.9 * shortest, shortest + 1.1 * q,
                "r_min … r_min+q: the shortest slice on the queue ends every burst")

    add("04-sleeper-10ms-one-busy", "late wake-ups", late("sleeper"), 0, late_beside_one, "≤ 4·run/B + 1 %: a late one earns lag for the next B/(4·run) °")
    add("04-sleeper-10ms-one-busy", "wake max, ms", greatest("sleeper", "wake"), 0, 1.1 * (r + q), "≤ r+q", 1)
    add("04-sleeper-10ms-slice-default", "wake p50, µs", quantile("sleeper", "wake", "p50", 1e3), 0, PROMPT_US, "prompt °")
    add("04-sleeper-10ms-slice-default", "wake p99, ms", quantile("sleeper", "wake", "p99"), 0, r + q, "≤ r+q")
    add("04-sleeper-10ms-slice-100us", "late wake-ups", late("sleeper"), 0, 0.13, "≤ 13 %, fewer than with the default slice °")
    add("04-sleeper-10ms-slice-100us-busy-100ms", "late wake-ups", late("sleeper"), 0, 0.03, "≤ 3 %, fewer than with the default slice °")
    add("04-sleeper-1ms-slice-100us", "wake p95, µs", quantile("sleeper", "wake", "p95", 1e3), 0, PROMPT_US, "prompt °")
    add("18-8-sleepers-100us-and-busy-20ms", "wake p99, ms", quantile("sleeper", "wake", "p99"), 0, 1, "≤ the wave of 8 · 50 µs + switches °")

    add("05-idle-vs-normal", "error of the idle share", worst_share_error("idle"), 0, 0.16, "≤ one burst in T")
    add("05-idle-vs-normal", "gap p50 of idle, ms", quantile("idle", "gap", "p50"), 0.95 * B * 1024 / 3, 1.05 * B * 1024 / 3, "B·1024/3 ± 5 %")
    add("05-idle-vs-normal", "burst max of idle, ms", greatest("idle", "burst"), 0, 1.1 * (r + q), "≤ r+q", 1)
    add("05-normal-sleeper-vs-idle-busy", "late wake-ups", late("sleeper"), 0, 0.02, "≤ 2 %: idle is preempted at once °")
    add("05-normal-sleeper-vs-idle-busy", "wake p95, µs", quantile("sleeper", "wake", "p95", 1e3), 0, PROMPT_US, "prompt °")
    add("05-idle-sleeper-3-busy", "late wake-ups of idle", late("idle"), 0.8, 1, "≥ 80 %: idle never preempts °")
    add("05-idle-sleeper-3-busy", "idle wake p50, in its fair waits run·W/w", lambda run: one(run, "idle")["wake"]["p50"] / (50e3 * 3075 / 3),
        0.5, 2, "0.5 … 2 °")
    add("05-nice19-busy-normal-sleeper", "late wake-ups", late("sleeper"), 0, 0.02, "≤ 2 %: an ineligible thread is not protected °")

    for scenario in ("05-normal-sleeper-vs-idle-busy", "05-nice19-busy-normal-sleeper", "06-idle-x2-normal-sleeper"):
        add(scenario, "mean wait of the sleeper in the queue, µs", scheduler_wait("sleeper"), 0, 10 * B, "≤ 1 % of B: no protected slice is waited for °")

    add("06-idle-x2", "greatest error of a share", worst_share_error(), 0, 0.02, "≤ 2 %")
    add("06-idle-x2", "burst p50, ms", quantile("idle", "burst", "p50"), 0.9 * B, 1.1 * B, "B ± 10 %: as for normal threads")
    add("06-idle-x2-normal-sleeper", "late wake-ups", late("sleeper"), 0, 0.03, "≤ 3 % °")
    add("06-idle-busy-idle-sleeper", "wake p50, ms", quantile("sleeper", "wake", "p50"), 0.3 * B, 0.75 * B, "B/2: idle does not preempt idle")

    for hog, slice_ in (("normal", ""), ("batch", ""), ("normal", "-100us")):
        name = f"07-{hog}-busy-batch-sleeper{slice_}"
        add(name, "wake p50, ms", quantile("sleeper", "wake", "p50"), 0.3 * B, 0.75 * B, "B/2: batch never preempts")
        add(name, "wake p99, ms", quantile("sleeper", "wake", "p99"), 0, 1.1 * (r + q), "≤ r+q", 1)
    add("07-batch-busy-normal-sleeper", "late wake-ups", late("sleeper"), 0, late_beside_one, "≤ 4·run/B + 1 %: batch is preempted as normal is °")
    add("07-batch-vs-normal-busy", "greatest error of a share", worst_share_error(), 0, 0.02, "≤ 2 %")

    for i, w in enumerate((1024, 335, 3121, 1024)):
        add("08-nice-change", f"share of a in phase {i + 1}", phase("a", i), w / (w + 1024) - 0.015, w / (w + 1024) + 0.015, f"{w}/({w}+1024) ± 0.015")
    add("08-policy-change", "share of a while idle", phase("a", 1), 0, 0.01, "≤ 0.01")
    add("08-policy-change", "share of a after", phase("a", 2), 0.48, 0.52, "0.5 ± 0.02")
    for i, s in enumerate((r, 20, 0.1, r)):
        add("08-slice-change", f"burst p50 of a in phase {i + 1}, ms", phase_burst("a", i), 0.9 * s, s + 1.1 * q, "r … r+q of the new slice")

    for n in (1, 4):
        name = f"09-long-sleeper-{n}-busy"
        fair = 1 / (n + 1)
        add(name, "first burst after the sleep, ms", returned("first_burst", MS), 0, 1.1 * (r + q), "≤ r+q: no burst of credit")
        add(name, "share in the first 100 ms", returned("share_100ms"), fair - (r + q) / 100, fair + (r + q) / 100, "1/N ± (r+q)/100 ms")
        add(name, "wake max, ms", greatest("sleeper", "wake"), 0, (n + 1) * B + q, "≤ N·B+q °", n + 1)

    add("10-fork-4-busy", "child start p50, µs", quantile("parent", "child_start", "p50", 1e3), 0, PROMPT_US, "prompt °")
    add("10-fork-4-busy", "child start p99, ms", quantile("parent", "child_start", "p99"), 0, 5 * B, "≤ N·B °")
    add("10-fork-storm-4-busy", "child start p99, ms", quantile("parent", "child_start", "p99"), 0, 5 * B, "≤ N·B °")

    add("11-place-idle-busy-normal-timer-wakee", "wake p95, µs", quantile("wakee", "wake", "p95", 1e3), 0, PROMPT_US, "prompt, on either CPU °")
    add("11-place-normal-busy-normal-timer-wakee", "ran on the idle CPU", on_cpu("wakee", 1), 0.95, 1, "≥ 95 % °")
    add("11-place-normal-busy-normal-futex-wakee", "ran on the idle CPU", on_cpu("wakee", 1), 0.95, 1, "≥ 95 % °")
    add("11-place-idle-busy-idle-futex-wakee", "ran on the idle CPU", on_cpu("wakee", 1), 0.95, 1, "≥ 95 % °")
    add("11-balance-3-busy-2-cpus", "greatest error of a share", worst_share_error(), 0, 0.10, "≤ 10 % of 2/3 CPU °")
    add("11-balance-4-busy-2-cpus", "greatest error of a share", worst_share_error(), 0, 0.05, "≤ 5 %")

    add("14-yield-x2", "greatest error of a share", worst_share_error(), 0, 0.03, "≤ 3 %")
    add("14-yield-vs-busy", "share of the yielder", share("yield"), 0, 0.01, "≤ 1 %: a yield gives up the slice")
    add("14-yield-vs-busy", "yields per burst of the busy thread", lambda run: one(run, "yield")["runs"] / max(1, one(run, "busy")["burst"]["n"]), 0.9, 1.1, "1")
    add("14-yield-x4-nice", "yields of nice 0 to nice 5", loops_ratio("nice0", "nice5"), 0.95 * 1024 / 335, 1.05 * 1024 / 335, "1024/335 ± 5 %")

    add("15-pingpong-and-busy", "share of the busy thread", share("busy"), 1 / 3, 0.55, "1/3 … 0.55: a pair counts as one to two threads")
    add("15-pingpong-and-busy", "handover p95, µs", quantile("a", "wake", "p95", 1e3), 0, PROMPT_US, "prompt °")

    add("16-demand-10-of-25-percent", "got of its demand", lambda run: share("part")(run) / 0.10, 0.97, 1.05, "≥ 97 % °")
    add("16-demand-20-of-25-percent", "got of its demand", lambda run: share("part")(run) / 0.20, 0.88, 1.05, "≥ 88 % °")
    add("16-demand-20-of-25-percent-100us", "got of its demand", lambda run: share("part")(run) / 0.20, 0.95, 1.05, "≥ 95 %: a short slice loses less °")
    add("16-demand-50-of-25-percent", "got of its fair share", lambda run: share("part")(run) / 0.25, 0.75, 1.02, "0.75 … 1.02 °")

    add("17-dodge-1300us-50us", "share of the dodger", share("dodger"), 0.40, 0.52, "≤ 0.52: sleeping early gains nothing")
    add("17-dodge-3ms-50us", "share of the dodger", share("dodger"), 0.40, 0.52, "≤ 0.52")
    add("17-dodge-300us-50us-3-busy", "share of the dodger", share("dodger"), 0.20, 0.26, "≤ 0.26")
    return out


def load(raw, name):
    return [json.loads(path.read_text()) for path in sorted(raw.glob(f"{name}.[0-9].json"))]


def number(v):
    return f"{v:.0f}" if abs(v) >= 100 else f"{v:.3g}"


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--raw", type=pathlib.Path, required=True)
    args.add_argument("--quantum", type=int, default=4_000_000)
    args.add_argument("--slice", type=int, default=1_400_000)
    args.add_argument("--robust", action="store_true", help="only what a busy machine cannot spoil")
    args.add_argument("--markdown", action="store_true")
    args = args.parse_args()
    if args.markdown:
        print("| scenario | property | bound | here | measured [min–max] | |\n|---|---|---|---|---|---|")
    failed = judged = 0
    for scenario, what, value, low, high, words, quanta in properties(Params(args.quantum, args.slice)):
        runs = load(args.raw, scenario)
        values = [value(run) for run in runs]
        if not values or (args.robust and not is_robust(what)):
            continue
        judged += 1
        middle = statistics.median(values)
        allowance = getattr(value, "allowance", lambda run: quanta * run.get("longest_interruption_ns", 0) / MS)
        excess = statistics.median(v - allowance(run) for v, run in zip(values, runs))
        ok = low <= middle and excess <= high
        failed += not ok
        cells = [scenario, what, words, f"{number(low)} … {number(high)}", f"{number(middle)} [{number(min(values))}–{number(max(values))}]", "ok" if ok else "OUT"]
        print("| " + " | ".join(cells) + " |" if args.markdown else "  ".join(cells))
    if judged == 0:
        print(f"no reports of scenarios in {args.raw}")
        return 2
    print(f"{judged} properties, {failed} out of bounds")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
