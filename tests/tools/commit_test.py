# SPDX-License-Identifier: Apache-2.0
"""cmake/TandemCommit.cmake writes the commit of a checkout into a source."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "cmake" / "TandemCommit.cmake"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b")
# As in a shell of somebody without settings: a hook of git, for one, names the repository that it runs in.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
CMAKE = os.environ.get("TANDEM_TEST_CMAKE", "cmake")


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class CommitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.sources = self.folder / "sources"
        self.sources.mkdir()
        (self.sources / "file").write_text("first")
        (self.folder / "in").write_text("<@TANDEM_COMMIT@>")

    def git(self, *arguments):
        return subprocess.run(["git", *IDENTITY, "-C", self.sources, *arguments], check=True, capture_output=True,
                              text=True, env=ENVIRONMENT).stdout.strip()

    def written(self, **more):
        out = self.folder / "out"
        subprocess.run([CMAKE, f"-DSOURCES={self.sources}", f"-DINPUT={self.folder / 'in'}", f"-DOUTPUT={out}", "-P",
                        SCRIPT], check=True, env=ENVIRONMENT | more)
        return out.read_text().strip()

    def test_is_empty_outside_of_a_checkout(self):
        self.assertEqual(self.written(), "<>")

    def test_names_the_commit_and_whether_files_differ(self):
        self.git("init", "--quiet")
        self.git("add", "file")
        self.git("commit", "--quiet", "-m", "first")
        commit = self.git("rev-parse", "--short=7", "HEAD")
        self.assertEqual(self.written(), f"<{commit}>")
        (self.sources / "file").write_text("second")
        self.assertEqual(self.written(), f"<{commit}-dirty>")
        self.git("commit", "--quiet", "-a", "-m", "second")
        self.assertEqual(self.written(), f"<{self.git('rev-parse', '--short=7', 'HEAD')}>")
        self.assertNotEqual(self.written(), f"<{commit}>")

    def test_a_repository_that_the_environment_names_is_another_one(self):
        other = self.folder / "other"
        other.mkdir()
        subprocess.run(["git", "init", "--quiet", other], check=True, env=ENVIRONMENT)
        self.git("init", "--quiet")
        self.git("add", "file")
        self.git("commit", "--quiet", "-m", "first")
        commit = self.git("rev-parse", "--short=7", "HEAD")
        self.assertEqual(self.written(GIT_DIR=str(other / ".git"), GIT_WORK_TREE=str(other)), f"<{commit}>")

    def test_a_file_that_would_not_change_keeps_its_time(self):
        self.written()
        before = (self.folder / "out").stat().st_mtime_ns
        self.written()
        self.assertEqual((self.folder / "out").stat().st_mtime_ns, before)


if __name__ == "__main__":
    unittest.main()
