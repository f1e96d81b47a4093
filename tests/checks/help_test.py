# SPDX-License-Identifier: Apache-2.0
"""Every script says how it is called, from any folder and whatever is not installed, and does nothing else then."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


class Help(unittest.TestCase):
    def test_it_names_the_command(self):
        scripts = [*SCRIPTS.glob("*.sh"), *SCRIPTS.glob("*.py")]
        self.assertGreater(len(scripts), 3)
        for script in scripts:
            with self.subTest(script=script.name), tempfile.TemporaryDirectory() as folder:
                # Python without what is installed beside it.
                command = [sys.executable, "-I", "-S", "-B"] if script.suffix == ".py" else ["bash"]
                run = subprocess.run([*command, str(script), "--help"], cwd=folder, stdin=subprocess.DEVNULL,
                                     capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                self.assertIn(f"{script.name} ", run.stdout)


if __name__ == "__main__":
    unittest.main()
