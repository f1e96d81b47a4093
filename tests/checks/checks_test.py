# SPDX-License-Identifier: Apache-2.0
"""Each check of scripts/checks finds what it is for, and is quiet otherwise."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKS = Path(__file__).resolve().parents[2] / "scripts" / "checks"
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


class CheckTest(unittest.TestCase):
    """A tree of a few files in a temporary folder, and a check that is run on it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run_check(self, check, *arguments):
        return subprocess.run([sys.executable, str(CHECKS / f"{check}.py"), "--root", str(self.root), *arguments],
                              capture_output=True, text=True, check=False)

    def assert_passes(self, check, *arguments):
        run = self.run_check(check, *arguments)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(run.stdout, "")

    def assert_finds(self, check, finding, *arguments):
        run = self.run_check(check, *arguments)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn(finding, run.stdout)
        self.assertNotIn("Traceback", run.stderr)


class Floors(CheckTest):
    def include(self, name, header):
        self.write(name, f"{SPDX}#include {header}\n")

    def test_looking_down_is_right(self):
        self.include("include/tandem/team/a.hpp", '"tandem/device/b.hpp"')
        self.include("src/memory/a.cpp", '"team/b.hpp"')
        self.include("src/base/format.hpp", "<fmt/core.h>")
        self.include("src/device/cuda/a.cpp", "<cuda_runtime.h>")
        self.include("tests/memory/a_test.cpp", '"support/ranks.hpp"')
        self.include("tools/main.cpp", "<CLI/CLI.hpp>")
        self.include("examples/a.cpp", '"tandem/linear/b.hpp"')
        for name, header in [
                ("src/memory/host/a.cpp", '"memory/host/b.hpp"'),
                ("src/memory/host/b.cpp", '"b.hpp"'),
                ("tools/demo/a.cpp", '"tools/demo/b.hpp"'),
                ("tests/snippets/a.cpp", '"tandem/tandem.hpp"'),
                ("tools/a.cpp", '"language_model/model.hpp"'),
                ("tests/tools/a_test.cpp", '"tools/parse.hpp"'),
                ("tests/examples/a_test.cpp", '"language_model/model.hpp"'),
                ("tests/examples/b_test.cpp", '"examples/support.hpp"'),
                ("examples/language_model/model.hpp", '"language_model/text.hpp"'),
                ("examples/transformer_layer/layer.cpp", '"language_model/model.hpp"'),
        ]:
            self.include(name, header)
        self.assert_passes("floors")

    def test_wrong_includes_are_found(self):
        self.write("examples/language_model/model.hpp", SPDX)
        for name, header, finding in [
                ("include/tandem/base/a.hpp", '"tandem/device/b.hpp"', "looks up: base includes tandem/device/b.hpp"),
                ("src/device/a.cpp", '"team/b.hpp"', "looks up"),
                ("src/team/sub/a.cpp", "<tandem/memory/b.hpp>", "looks up"),
                ("tests/memory/a_test.cpp", '"tandem/linear/b.hpp"', "looks up"),
                ("include/tandem/device/a.hpp", '"device/b.hpp"', "includes the internal header"),
                ("examples/a.cpp", '"linear/b.hpp"', "includes the internal header"),
                ("include/tandem/base/a.hpp", "<fmt/core.h>", "includes <fmt/core.h>"),
                ("src/team/a.cpp", "<spdlog/logger.h>", "includes <spdlog/logger.h>"),
                ("include/tandem/device/a.hpp", "<cuda_runtime.h>", "includes <cuda_runtime.h>"),
                ("src/device/host/a.cpp", "<cublasLt.h>", "includes <cublasLt.h>"),
                ("src/collective/a.cpp", "<nccl.h>", "includes <nccl.h>"),
                ("src/team/a.cpp", "<mpi.h>", "includes <mpi.h>"),
                ("src/base/a.cpp", "<torch/torch.h>", "includes <torch/torch.h>"),
                ("src/base/a.cpp", '"support/ranks.hpp"', "of the tests"),
                ("src/oddments/a.cpp", "<vector>", "lies on no floor"),
                ("src/base/a.cpp", '"tandem/oddments/b.hpp"', "lies on no floor"),
                ("python/a/a.cpp", "<vector>", "lies on no floor"),
                ("src/base/a.cpp", '"tandem/tandem.hpp"', "lies on no floor"),
                ("src/base/a.cpp", '"tools/parse.hpp"', "looks up: base includes tools/parse.hpp"),
                ("src/base/a.cpp", '"language_model/model.hpp"', "looks up: base includes language_model/model.hpp"),
                ("include/tandem/linear/a.hpp", '"language_model/model.hpp"', "looks up"),
                ("include/tandem/tandem.hpp", '"tools/parse.hpp"', "looks up"),
                ("tests/linear/a_test.cpp", '"tools/parse.hpp"', "looks up"),
                ("examples/language_model/a.cpp", '"tools/parse.hpp"', "includes the internal header tools/parse.hpp"),
                ("tests/snippets/a.cpp", '"language_model/model.hpp"', "includes the internal header"),
                ("src/base/a.cpp", '"examples/language_model/model.hpp"', "write what follows examples/"),
                ("tools/a.cpp", '"examples/language_model/model.hpp"', "write what follows examples/"),
                ("src/base/a.cpp", '"src/linear/groups.hpp"', "write what follows src/"),
                ("tools/a.cpp", "<include/tandem/linear/a.hpp>", "write what follows include/"),
                ("tools/a.cpp", '"tests/support/oracle.hpp"', "write what follows tests/"),
                ("src/base/a.cpp", '"../linear/groups.hpp"', "write its path below"),
                ("src/base/a.cpp", '"./linear/groups.hpp"', "write its path below"),
                ("src/base/a.cpp", '"device/../base/groups.hpp"', "write its path below"),
                ("src/device/cuda/a.cpp", '"cuda/../../linear/groups.hpp"', "write its path below"),
                ("tools/a.cpp", "</usr/include/vector>", "write its path below"),
        ]:
            with self.subTest(name=name, header=header):
                self.include(name, header)
                self.assert_finds("floors", f"{name}:2: ")
                self.assert_finds("floors", finding)
                (self.root / name).unlink()

    def test_an_include_after_blanks_is_seen(self):
        self.write("src/base/a.cpp", f'{SPDX}  #  include "device/b.hpp"\n')
        self.assert_finds("floors", "src/base/a.cpp:2: looks up")

    def test_nothing_to_look_at_is_a_failure(self):
        self.assert_finds("floors", "nothing to look at")


class Headers(CheckTest):
    def test_a_complete_header_is_right(self):
        self.write("include/tandem/base/a.hpp", "#pragma once\n#include <string>\ninline std::string f() { return {}; }\n")
        self.write("include/tandem/base/b.hpp", '#pragma once\n#include "tandem/base/a.hpp"\ninline auto g() { return f(); }\n')
        self.assert_passes("headers")

    def test_a_header_that_cmake_generates_is_looked_at(self):
        self.write("include/tandem/base/a.hpp.in", "#pragma once\n#define A_MAJOR @MAJOR@\ninline int f() { return A_MAJOR; }\n")
        self.write("include/tandem/base/b.hpp", '#pragma once\n#include "tandem/base/a.hpp"\ninline int g() { return f(); }\n')
        self.assert_passes("headers")
        self.write("include/tandem/base/a.hpp.in", "#pragma once\n#define A_MAJOR @MAJOR@\ninline A f() { return A_MAJOR; }\n")
        self.assert_finds("headers", "tandem/base/a.hpp: does not compile alone")

    def test_a_header_that_needs_another_is_found(self):
        self.write("include/tandem/base/a.hpp", "#pragma once\ninline std::string f() { return {}; }\n")
        self.assert_finds("headers", "tandem/base/a.hpp: does not compile alone")

    def test_a_header_without_guard_is_found(self):
        self.write("include/tandem/base/a.hpp", "struct A {};\n")
        self.assert_finds("headers", "tandem/base/a.hpp: does not compile alone")

    def test_a_warning_is_found(self):
        self.write("include/tandem/base/a.hpp", "#pragma once\ninline int f(long a) { return a; }\n")
        self.assert_finds("headers", "-Werror=conversion")


class Endings(CheckTest):
    def test_errors_and_ends_of_teams_are_right(self):
        self.write("src/team/a.cpp", 'void T::abort(const char* why) { team.abort(why); static_assert(true); abort(why); }\n'
                   '// exit(1)\n/* std::abort();\n trap; */\nconst char* text = "call exit(1), or std::terminate()";\n'
                   'const char quote = \'"\';\nint at_exit(int); int x = at_exit(1\'000) + p->exit(2);\n')
        self.write("tools/run.cpp", "int main() { exit(1); }\n")
        self.assert_passes("endings")

    def test_ends_of_the_process_are_found(self):
        calls = ["exit(1)", "std::exit(1)", "::_exit(0)", "std::abort()", "abort ( )", "std::terminate()", "raise(6)",
                 "assert(x)", "__trap()", "__builtin_trap()", "std::quick_exit(3)", "_Exit(1)", 'asm volatile("trap;")']
        for name in ["src/team/a.cpp", "include/tandem/team/a.hpp", "src/device/cuda/a.cuh"]:
            with self.subTest(name=name):
                text = "".join(f"  {call};\n" for call in calls)
                self.write(name, f'/* two\n lines */ const char* a = "text"; void f() {{\n{text}}}\n')
                run = self.run_check("endings")
                self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
                self.assertEqual([line.split(": ")[0] for line in run.stdout.splitlines()],
                                 [f"{name}:{number}" for number in range(3, 3 + len(calls))], run.stdout)
                (self.root / name).unlink()

    def test_nothing_to_look_at_is_a_failure(self):
        self.assert_finds("endings", "nothing to look at")


class Spdx(CheckTest):
    def test_the_line_is_right_on_top_or_after_the_interpreter(self):
        self.write("src/base/a.cpp", SPDX)
        self.write("scripts/a.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
        self.assert_passes("spdx")

    def test_a_missing_line_is_found(self):
        self.write("src/base/a.cpp", "int a;\n" + SPDX)
        self.write("src/CMakeLists.txt", "")
        self.assert_finds("spdx", "src/base/a.cpp:1")
        self.assert_finds("spdx", "src/CMakeLists.txt:1")

    def test_another_license_is_found(self):
        self.write("src/base/a.cpp", SPDX.replace("Apache-2.0", "MIT"))
        self.assert_finds("spdx", "src/base/a.cpp:1")


class Paths(CheckTest):
    def test_places_that_every_machine_has_are_right(self):
        self.write("README.md", "/usr/bin/true /dev/shm /tmp/a docs/work/a ../root/b ${X}/work/y https://a.example/root/b\n")
        self.assert_passes("paths")

    def test_places_of_one_machine_are_found(self):
        for place in ["work", "root", "home/someone", "Users/someone"]:
            with self.subTest(place=place):
                self.write("a.txt", f"first\nset(DIR /{place}/tandem)\n")
                self.assert_finds("paths", "a.txt:2")


class Links(CheckTest):
    def test_links_that_lead_somewhere_are_right(self):
        self.write("docs/a.md", "# A page, of `x`\n\n[b](../README.md#two) [self](#a-page-of-x) [out](https://a.example)\n")
        self.write("README.md", "# One\n## Two\n[a](docs/a.md) ![p](docs/a.md)\n```\n[no](none.md)\n```\n`[no](none.md)`\n")
        self.assert_passes("links")

    def test_a_missing_file_is_found(self):
        self.write("README.md", "# One\n[a](docs/none.md)\n")
        self.assert_finds("links", "README.md:2: links to docs/none.md")

    def test_a_missing_heading_is_found(self):
        self.write("README.md", "# One\n[a](#two)\n")
        self.assert_finds("links", "README.md:2: links to #two")

    def test_every_form_of_a_link_is_seen(self):
        for text, number in [
                ("[a\nb](none.md)", 2),
                ("[a](\nnone.md)", 2),
                ("[a](none.md\n'title')", 1),
                ("- [a\n  `b`\n  c](none.md)", 3),
                ("[![p](there.md)](none.md)", 1),
                ("[![p](none.md)](there.md)", 1),
                ("[![p\nq](there.md)\nr](none.md)", 3),
                ("[a][x]\n\n[x]: none.md", 3),
                ("[x]\n\n  [x]: <none.md> \"title\"", 3),
                ("a <a href=\"none.md\">b</a>", 1),
                ("a <A\n class='c'\n href='none.md'>b</A>", 3),
                ("<img src=\"none.md\" alt=\"p\">", 1),
        ]:
            with self.subTest(text=text):
                self.write("there.md", "# There\n")
                self.write("README.md", f"# One\n\n```\ncode\n```\n\na `code\nspan` [b](there.md)\n\n{text}\n")
                self.assert_finds("links", f"README.md:{number + 9}: links to none.md")
                self.assertEqual(self.run_check("links").stdout.count("\n"), 1)

    def test_code_has_no_links(self):
        self.write("README.md", "# One\n`[a\nb](none.md)` ``[a](none.md) ` [b](none.md)`` `a`[0]`(none.md)`\n"
                   "\\[a\\](none.md)\n\n~~~\n[x]: none.md\n<a href=\"none.md\">a</a>\n~~~\n"
                   "[^1]: note\n[A note]: and no link\n")
        self.assert_passes("links")

    def test_code_that_does_not_end_hides_no_link_after_its_paragraph(self):
        for end in ["\n\n", "\n- ", "\n> ", "\n## "]:
            with self.subTest(end=end):
                self.write("README.md", f"- one ` of two{end}[a](none.md), and `b`\n")
                self.assert_finds("links", "links to none.md")


class Snippets(CheckTest):
    SOURCE = "int main() {\n  // [one]\n  int a = 1;\n  // [/one]\n}\n"

    def page(self, block, mark="<!-- snippet: tests/snippets/a.cpp#one -->"):
        return self.write("docs/a.md", f"# A\n\n{mark}\n```cpp\n{block}\n```\nend\n")

    def test_the_tested_code_is_right(self):
        self.write("tests/snippets/a.cpp", self.SOURCE)
        self.page("int a = 1;")
        self.assert_passes("snippets")

    def test_another_code_is_found_and_written(self):
        self.write("tests/snippets/a.cpp", self.SOURCE)
        page = self.page("int a = 2;")
        self.assert_finds("snippets", "docs/a.md:4: differs from tests/snippets/a.cpp#one")
        self.assert_passes("snippets", "--write")
        self.assertIn("```cpp\nint a = 1;\n```\nend\n", page.read_text(encoding="utf-8"))

    def test_code_that_nothing_compiles_is_found(self):
        self.page("int a;", mark="text")
        self.assert_finds("snippets", "docs/a.md:4: C++ without")

    def test_a_reason_is_accepted(self):
        self.page("int a;", mark="<!-- snippet: none, because it shows a mistake -->")
        self.assert_passes("snippets")

    def test_a_missing_source_or_tag_is_found(self):
        self.page("int a;")
        self.assert_finds("snippets", "tests/snippets/a.cpp is not there")
        self.write("tests/snippets/a.cpp", "int main() {}\n")
        self.assert_finds("snippets", "needs one line '// [one]'")

    def test_a_source_that_nothing_runs_is_found(self):
        self.write("src/a.cpp", self.SOURCE)
        self.page("int a = 1;", mark="<!-- snippet: src/a.cpp#one -->")
        self.assert_finds("snippets", "nothing runs it")

    def test_a_block_without_end_is_found(self):
        self.write("README.md", "<!-- snippet: tests/snippets/a.cpp#one -->\n```cpp\nint a;\n")
        self.assert_finds("snippets", "does not end")


class Tidy(CheckTest):
    """Which sources scripts/lint.sh gives to clang-tidy, in whose place a script says what it is asked to look at."""

    CLANG_TIDY = f"""#!{sys.executable}
import json, re, sys
folder = sys.argv[sys.argv.index("-p") + 1]
with open(folder + "/compile_commands.json") as database:
    found = [entry for entry in json.load(database) if re.search(sys.argv[-1], entry["file"])]
print(f"Running clang-tidy for {{len(found)}} files out of many in compilation database ...")
for entry in found:
    print(folder, entry["command"])
"""

    def setUp(self):
        super().setUp()
        self.write("bin/run-clang-tidy-19", self.CLANG_TIDY).chmod(0o755)
        self.root /= "c++ (copy) [1]"  # no regular expression that matches itself
        self.write("scripts/lint.sh", (CHECKS.parent / "lint.sh").read_text(encoding="utf-8"))
        self.compiled("release", "src/base/a.cpp", "tests/base/a_test.cpp")

    def compiled(self, preset, *names):
        """A build folder of this preset that compiles these files."""
        entries = []
        for name in names:
            path = self.root / name
            if not path.exists():
                self.write(name)
            entries.append({"directory": str(self.root), "file": str(path), "command": f"c++ -c {path}"})
        self.write(f"build/{preset}/compile_commands.json", json.dumps(entries, indent=0))

    def lint(self):
        """(exit status, [(preset, source)] looked at)"""
        environment = dict(os.environ, PATH=f"{self.root.parent / 'bin'}:{os.environ['PATH']}", CI="")
        run = subprocess.run(["bash", "scripts/lint.sh", "tidy"], cwd=self.root, env=environment, capture_output=True,
                             text=True, check=False)
        self.assertNotIn("Traceback", run.stderr)
        asked = [line.split(" c++ -c ") for line in run.stdout.splitlines() if " c++ -c " in line]
        return run.returncode, [(folder.split("/")[1], os.path.relpath(source, self.root)) for folder, source in asked]

    def test_what_depends_on_cuda_is_looked_at_again(self):
        self.write("src/device/a.cpp", "#if defined(TANDEM_WITH_CUDA)\n#endif\n")
        self.write("examples/b/kernels.cpp", "#ifdef TANDEM_WITH_CUDA\n#endif\n")
        self.write("tests/fault/a_test.cpp", "#ifdef TANDEM_WITH_CUDA\n#endif\n")
        for name in ["examples/b/cuda/c.cpp", "examples/b/d.cpp"]:
            self.write(name)
        unity = "build/cuda/examples/b/Unity/unity_0_cxx.cxx"
        included = ["examples/b/kernels.cpp", "examples/b/cuda/c.cpp", "examples/b/d.cpp"]
        self.write(unity, "".join(f'#include "{self.root / name}"\n' for name in included))
        text = (self.root / unity).read_text(encoding="utf-8")
        self.compiled("cuda", "src/base/a.cpp", "src/device/a.cpp", "src/memory/cuda_backend.cpp",
                      "src/device/cuda/b.cu", "tests/fault/a_test.cpp", "tests/device/cuda/b_test.cpp", unity, "src/device/a.cpp")
        self.assertEqual(self.lint(), (0, [
            ("release", "src/base/a.cpp"), ("cuda", "src/device/a.cpp"), ("cuda", "src/memory/cuda_backend.cpp"),
            ("cuda", "examples/b/kernels.cpp"), ("cuda", "examples/b/cuda/c.cpp")]))
        self.assertEqual((self.root / unity).read_text(encoding="utf-8"), text)  # the build's own

    def test_nothing_to_look_at_is_a_failure(self):
        self.compiled("cuda", "src/base/a.cpp")
        self.assertEqual(self.lint(), (1, [("release", "src/base/a.cpp")]))
        self.compiled("cuda", "src/device/cuda/a.cpp")
        self.compiled("release", "tests/base/a_test.cpp")
        self.assertEqual(self.lint(), (1, [("cuda", "src/device/cuda/a.cpp")]))


if __name__ == "__main__":
    unittest.main()
