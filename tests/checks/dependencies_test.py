# SPDX-License-Identifier: Apache-2.0
"""scripts/install_dependencies.sh, on machines that are made up: it never installs anything here."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "install_dependencies.sh"


class Dependencies(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = Path(folder.name)

    def program(self, name, text):
        path = self.bin / name
        path.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def machine(self, *packages):
        """A machine with these packages, where apt says what it is asked."""
        known = " | ".join(packages) or "none"
        self.program("dpkg-query", f'case "${{@: -1}}" in {known}) printf installed ;; *) exit 1 ;; esac')
        self.program("apt-get", f'echo "$*" >> {self.bin}/asked')
        self.program("apt-cache", 'case "$*" in *libdnnl2*) ;; *) echo found ;; esac')
        self.program("sudo", "exit 1")
        self.program("env", 'shift; exec "$@"')

    def run_script(self, *arguments, user=None):
        environment = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}")
        # Through stdin, since another user may not be able to open it.
        return subprocess.run(["bash", "-s", "--", *arguments], input=SCRIPT.read_text(encoding="utf-8"), env=environment,
                              capture_output=True, text=True, check=False, user=user, cwd="/")

    def asked(self):
        log = self.bin / "asked"
        return log.read_text(encoding="utf-8") if log.exists() else ""

    def test_what_is_missing_is_listed_and_nothing_installed(self):
        self.machine("libfmt-dev", "libdnnl3", "libdnnl-dev")
        run = self.run_script("--for", "bench", "--list")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("libgtest-dev\n", run.stdout)
        self.assertIn("libgloo-dev\n", run.stdout)
        self.assertNotIn("libfmt-dev", run.stdout)
        self.assertNotIn("libdnnl", run.stdout)
        self.assertNotIn("matplotlib", run.stdout)
        self.assertEqual(self.asked(), "")

    def test_nothing_is_said_if_all_is_there(self):
        self.machine("*")
        run = self.run_script("--for", "ci")
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))
        self.assertEqual(self.asked(), "")

    @unittest.skipUnless(os.geteuid() == 0, "installing is for root")
    def test_root_installs_what_the_distribution_calls_it(self):
        self.machine()
        run = self.run_script("--for", "test")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("== apt-get install ", run.stdout)
        self.assertIn("libdnnl3", self.asked())
        self.assertNotIn("libdnnl2", self.asked())

    def run_without_root(self):
        self.bin.chmod(0o777)  # what this user asks apt-get is to be written down as well
        user = 65534 if os.geteuid() == 0 else None
        subprocess.run([self.bin / "apt-get", "heard"], user=user, cwd="/", check=True)
        self.assertEqual(self.asked(), "heard\n")
        (self.bin / "asked").unlink()
        return self.run_script(user=user)

    def test_others_are_told_what_to_install(self):
        self.machine("g++")
        run = self.run_without_root()
        self.assertEqual(run.returncode, 1)
        self.assertIn("\n  apt-get update\n  apt-get install ", run.stderr)
        command = run.stderr.partition("apt-get install ")[2].split()
        self.assertIn("libgtest-dev", command)
        self.assertNotIn("g++", command)
        self.assertIn("libdnnl3", command)
        self.assertNotIn("libdnnl2", command)
        self.assertEqual(self.asked(), "")

    def test_others_are_told_to_try_all_names_of_what_apt_does_not_know(self):
        self.machine()
        self.program("apt-cache", "")
        lines = self.run_without_root().stderr.splitlines()
        self.assertIn("  apt-get install libdnnl2 || apt-get install libdnnl3", lines)
        self.assertEqual([line.count("|") for line in lines if line.startswith("  ") and "libgtest-dev" in line], [0])

    def test_an_unknown_purpose_is_an_error(self):
        self.machine()
        run = self.run_script("--for", "fun")
        self.assertEqual(run.returncode, 2)
        self.assertIn("'fun'", run.stderr)


if __name__ == "__main__":
    unittest.main()
