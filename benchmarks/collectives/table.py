# SPDX-License-Identifier: Apache-2.0
"""Turns the lines of the collectives benchmarks into one table for each operation and number of ranks."""

import statistics
import sys
from collections import defaultdict

ORDER = ["tandem", "tandem-plain", "openmpi", "gloo"]


def main():
    cases = defaultdict(lambda: defaultdict(list))  # (ranks, op) -> (size, count, type, redop) -> [(library, time, ...)]
    for line in sys.stdin:
        library, op, ranks, size, count, dtype, redop, time, algbw, busbw, wrong = line.split()
        measured = (library, float(time), float(algbw), float(busbw), int(wrong))
        cases[int(ranks), op][int(size), int(count), dtype, redop].append(measured)
    for (ranks, op), sizes in sorted(cases.items()):
        print(f"\n{op}, {ranks} ranks")
        print(f"{'library':>14}{'size':>12}{'count':>12}{'type':>7}{'redop':>7}{'time':>12}{'algbw':>9}{'busbw':>9}"
              f"{'#wrong':>8}")
        print(f"{'':>14}{'(B)':>12}{'(elements)':>12}{'':>7}{'':>7}{'(us)':>12}{'(GB/s)':>9}{'(GB/s)':>9}")
        for (size, count, dtype, redop), runs in sorted(sizes.items()):
            for library in sorted({run[0] for run in runs}, key=ORDER.index):
                mine = [run for run in runs if run[0] == library]
                wrong = sum(run[4] for run in mine)
                row = f"{library:>14}{size:>12}{count:>12}{dtype:>7}{redop:>7}"
                if wrong:  # no speed of a wrong result
                    print(f"{row}{'-':>12}{'-':>9}{'-':>9}{wrong:>8}")
                    continue
                time, algbw, busbw = (statistics.median(run[i] for run in mine) for i in (1, 2, 3))
                print(f"{row}{time:>12.2f}{algbw:>9.3f}{busbw:>9.3f}{wrong:>8}")


if __name__ == "__main__":
    main()
