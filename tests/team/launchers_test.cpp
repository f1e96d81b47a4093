// SPDX-License-Identifier: Apache-2.0
// Real launchers start a real program.

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/processes.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace std::chrono_literals;
using tandem::testing::Outcome;
using tandem::testing::run_command;
using tandem::testing::state_of;

const std::string probe = TANDEM_PROBE;
const std::string tandem_run = std::string(TANDEM_COMMAND) + " run ";

/// `out` holds both stdout and stderr.
Outcome run(const std::string& command) { return run_command("exec 2>&1; TANDEM_DEVICE=host timeout 60 " + command); }

void expect_says(const Outcome& outcome, const std::string& text) { tandem::testing::expect_says(outcome.out, {text}); }

bool installed(const std::string& command) { return std::system((command + " > /dev/null 2>&1").c_str()) == 0; }

void expect_ranks(const Outcome& outcome, int ranks, const std::string& launcher) {
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  for (int rank = 0; rank < ranks; ++rank) {
    expect_says(outcome, "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " by " + launcher + "\n");
  }
}

TEST(Launchers, NoneIsAWorldOfOne) { expect_ranks(run(probe), 1, "none"); }

TEST(Launchers, TandemRun) {
  const Outcome outcome = run(tandem_run + "-n 3 --device host -- " + probe);
  expect_ranks(outcome, 3, "tandem run");
  for (const char* line : {"[0] rank 0 ", "[1] rank 1 ", "[2] rank 2 "}) expect_says(outcome, line);
}

TEST(Launchers, TandemRunContinuesWithoutALostRank) {
  const Outcome outcome = run(tandem_run + "-n 4 --on-failure continue -- " + probe + " --lose 2");
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  for (const char* rank : {"0", "1", "3"}) {
    expect_says(outcome, std::string("[") + rank + "] rank " + rank + " goes on without 2\n");
  }
  expect_says(outcome, "rank 2 (pid ");
  expect_says(outcome, "killed by signal 9");
}

TEST(Launchers, TandemRunHearsOfItsRanksWhereChildrenAreIgnored) {
  const Outcome outcome = run("sh -c \"trap '' CHLD; exec timeout 20 " + tandem_run + "-n 2 -- sh -c 'exit 3'\"");
  EXPECT_EQ(outcome.code, 3) << outcome.out;
}

TEST(Launchers, TandemRunReportsHowEachRankEnded) {
  const std::string fine = "-- sh -c 'exit 0'";
  const Outcome quiet = run(tandem_run + "-n 2 " + fine);
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.out, "");
  const Outcome reported = run(tandem_run + "-n 2 --report " + fine);
  EXPECT_EQ(reported.code, 0);
  for (const char* rank : {"  rank 0 (pid ", "  rank 1 (pid "}) expect_says(reported, rank);
  EXPECT_EQ(reported.out.find("failed"), std::string::npos) << reported.out;
  const Outcome failed = run(tandem_run + "-n 2 --on-failure continue -- sh -c 'exit $TANDEM_RANK'");
  EXPECT_EQ(failed.code, 1);
  expect_says(failed, "): exit code 0\n");
  expect_says(failed, "): exit code 1, the first to fail\n");
}

TEST(Launchers, TandemRunEndsAsAShellDoesWhereThereIsNoSuchProgram) {
  const tandem::testing::TemporaryFolder folder;
  const Outcome missing = run(tandem_run + "-n 2 -- " + folder.at("missing"));
  EXPECT_EQ(missing.code, 127) << missing.out;
  expect_says(missing, "tandem run: '" + folder.at("missing") + "' cannot be started: No such file or directory\n");
  const Outcome is_a_folder = run(tandem_run + "-n 2 -- " + folder.at(""));
  EXPECT_EQ(is_a_folder.code, 126) << is_a_folder.out;
  expect_says(is_a_folder, "cannot be started: Permission denied\n");
}

TEST(Launchers, TandemRunStopsTheOthersWhenOneFails) {
  const auto before = std::chrono::steady_clock::now();
  const Outcome outcome = run(tandem_run + "-n 3 -- sh -c 'test $TANDEM_RANK = 1 && exit 7; exec sleep 50'");
  EXPECT_EQ(outcome.code, 7) << outcome.out;
  EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
  expect_says(outcome, "exit code 7");
  expect_says(outcome, "killed by signal 15");
}

/// Runs two ranks of the sh script `script`. Once they have written `lines` lines to the file `up`, their "$UP", runs
/// the sh commands `then`, in which the launcher is process $!.
Outcome run_and(const std::string& script, const std::string& up, int lines, const std::string& then) {
  ::setenv("RANK_SCRIPT", script.c_str(), 1);
  ::setenv("UP", up.c_str(), 1);
  return run("sh -c ': > \"$UP\"; " + tandem_run +
             "-n 2 -- sh -c \"$RANK_SCRIPT\" & until test $(wc -l < \"$UP\") -ge " + std::to_string(lines) +
             "; do sleep 0.05; done; " + then + "'");
}

TEST(Launchers, TandemRunPassesSignalsOn) {
  const tandem::testing::TemporaryFolder folder;
  const Outcome outcome = run_and("trap 'echo told; exit 3' USR1; echo up >> \"$UP\"; while :; do sleep 0.05; done",
                                  folder.at("up"), 2, "kill -USR1 $!; wait $!");
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  expect_says(outcome, "told");
}

/// Runs two ranks of the sh script `script`, with stdout in a pipe whose reader runs the commands `reader` and exits.
/// "$UP" is an empty file at first; in `reader`, `ends PID` prints "PID ended" if that process is gone within 20 s.
Outcome run_unread(const std::string& options, const std::string& script, const std::string& reader) {
  const tandem::testing::TemporaryFolder folder;
  ::setenv("RANK_SCRIPT", script.c_str(), 1);
  ::setenv("UP", folder.at("up").c_str(), 1);
  const std::string ends =
      "ends() { for i in $(seq 400); do kill -0 $1 2> /dev/null || { echo $1 ended >&2; break; }; sleep 0.05; done; "
      "}; ";
  return run("sh -c ': > \"$UP\"; " + ends + "{ " + tandem_run + "-n 2 " + options +
             " -- sh -c \"$RANK_SCRIPT\"; echo code $? >&2; } | { " + reader + "; }'");
}

const std::string until_up = "until test -s \"$UP\"; do sleep 0.05; done; ";
// Emulates `less` while it stays on its first page. In the second, the pipe fills and the launcher notices that.
const std::string pipe_is_full = until_up + "sleep 1; read pid < \"$UP\"; ";

TEST(Launchers, TandemRunStopsTheOthersWhenOneFailsThoughNobodyReads) {
  const std::string script =
      "test $TANDEM_RANK = 1 && { " + until_up + "sleep 1; exit 7; }; echo $$ > \"$UP\"; exec yes";
  const Outcome outcome = run_unread("", script, pipe_is_full + "ends $pid");
  expect_says(outcome, " ended\n");
  expect_says(outcome, "code 7\n");
}

TEST(Launchers, TandemRunEndsWhenToldThoughNobodyReads) {
  const Outcome outcome = run_unread("", "echo $PPID >> \"$UP\"; exec yes", pipe_is_full + "kill $pid; ends $pid");
  expect_says(outcome, " ended\n");
  expect_says(outcome, "code 143\n");
  expect_says(outcome, "the end of what the ranks wrote to stdout is dropped");
}

TEST(Launchers, TandemRunReportsThoughItsReaderIsGone) {
  const std::string script = "test $TANDEM_RANK = 1 || { " + until_up + "sleep 0.5; echo hello; }";
  const Outcome outcome = run_unread("--report", script, "echo gone > \"$UP\"");
  expect_says(outcome, "code 0\n");
  for (const char* rank : {"  rank 0 (pid ", "  rank 1 (pid "}) expect_says(outcome, rank);
}

TEST(Launchers, RanksMeetABrokenPipeWhenTheReaderOfTandemRunIsGone) {
  const Outcome outcome = run_unread("", "exec yes", "true");
  expect_says(outcome, "killed by signal 13");
  expect_says(outcome, "code 141\n");
}

TEST(Launchers, ALateReaderOfTandemRunMissesNothing) {
  const Outcome outcome = run_unread("", "exec seq 10000", "sleep 2; wc -l");
  expect_says(outcome, "code 0\n");
  expect_says(outcome, "20000\n");
}

TEST(Launchers, TandemRunSaysThatOutputIsLost) {
  const std::string full = "; } > /dev/full; echo code $? >&2'";
  const Outcome lost = run("sh -c '{ " + tandem_run + "-n 1 -- echo hello" + full);
  expect_says(lost, "tandem run: what the ranks wrote could not be written: No space left on device\n");
  expect_says(lost, "code 1\n");
  const Outcome failed = run("sh -c '{ " + tandem_run + "-n 1 -- sh -c \"echo hello; exit 7\"" + full);
  expect_says(failed, "No space left on device\n");
  expect_says(failed, "code 7\n");
}

TEST(Launchers, TandemRunWritesToNoDescriptorOfItsOwn) {
  const std::string ranks = tandem_run + "-n 2 -- sh -c 'echo hello; exit 7'";
  const Outcome outcome = run("bash -c \"" + ranks + " >&-; echo code \\$?\"");
  expect_says(outcome, "what the ranks wrote could not be written: Bad file descriptor\n");
  expect_says(outcome, "code 7\n");
  expect_says(run("bash -c \"" + ranks + " 2>&-; echo code \\$?\""), "hello\ncode 7\n");
}

/// Runs two ranks of the shell script `rank`, and the script `signals`, in which $! is tandem run, once they have
/// called `up`.
Outcome run_and_signal(const std::string& rank, const std::string& signals) {
  const tandem::testing::TemporaryFolder folder;
  const std::string up = folder.at("up");
  std::ofstream(folder.at("rank")) << "up() { echo > " << up << ".$TANDEM_RANK; }\n" << rank << "\n";
  std::ofstream(folder.at("signals")) << tandem_run << "-n 2 -- sh " << folder.at("rank") << " &\n"
                                      << "for r in 0 1; do until test -e " << up << ".$r; do sleep 0.05; done; done\n"
                                      << signals << "\nwait $!; echo code $?\n";
  return run("bash " + folder.at("signals"));
}

TEST(Launchers, TandemRunKillsRanksThatDoNotEndAtTheSecondRequest) {
  const Outcome outcome = run_and_signal("up; kill -STOP $$", "kill -TERM $!; sleep 0.5; kill -INT $!");
  expect_says(outcome, "tandem run: ranks that have not ended: 2; killing them\n");
  expect_says(outcome, "killed by signal 9");
  expect_says(outcome, "code 137\n");
}

// A terminal that hangs up sends SIGHUP twice: through the shell, and by the kernel.
TEST(Launchers, TandemRunTakesSignalsAtOnceForOneRequest) {
  const Outcome outcome = run_and_signal("trap 'sleep 1; exit 5' HUP; up; while :; do sleep 0.1; done",
                                         "kill -HUP $!; kill -HUP $!; sleep 0.05; kill -HUP $!");
  EXPECT_EQ(outcome.out.find("killing them"), std::string::npos) << outcome.out;
  expect_says(outcome, "code 5\n");
}

TEST(Launchers, TandemRunLeavesRanksTimeToEnd) {
  const Outcome outcome =
      run_and_signal("[ $TANDEM_RANK = 0 ] || trap 'sleep 6; echo saved; exit 0' TERM; up; while :; do sleep 0.1; done",
                     "kill -TERM $!");
  expect_says(outcome, "saved\n");
  expect_says(outcome, "code 143\n");
}

TEST(Launchers, TandemRunHasMoreRanksThanItMayHaveOpenFiles) {
  const Outcome outcome = run("sh -c \"ulimit -Sn 40; exec " + tandem_run + "-n 20 -- sh -c 'ulimit -Sn'\"");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  for (const char* line : {"[0] 40\n", "[19] 40\n"}) expect_says(outcome, line);
}

/// Whether the process exists and is not a zombie.
bool lives(pid_t pid) {
  const char state = state_of(pid);
  return state != '\0' && state != 'Z';
}

/// Each NUMBER of "pid NUMBER" in the output.
std::vector<pid_t> pids_in(const std::string& output) {
  std::vector<pid_t> pids;
  for (std::size_t at = 0; (at = output.find("pid ", at)) != std::string::npos; at += 4) {
    pids.push_back(std::atoi(output.c_str() + at + 4));
  }
  return pids;
}

void expect_all_end(const std::string& output, std::size_t processes) {
  const std::vector<pid_t> pids = pids_in(output);
  EXPECT_EQ(pids.size(), processes) << output;
  for (const pid_t pid : pids) {
    for (int i = 0; i < 2000 && lives(pid); ++i) std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(lives(pid)) << "process " << pid << " still lives";
    if (lives(pid)) ::kill(pid, SIGKILL);
  }
}

// Does not hold open the output, which the test reads to its end.
const std::string quiet_sleep = "sleep 50 > /dev/null 2>&1";

/// Kills the launcher of two ranks of the sh script `script` once "$UP" names `processes` processes; all must end then.
void expect_all_end_with_the_launcher(const std::string& script, int processes) {
  const tandem::testing::TemporaryFolder folder;
  const Outcome outcome = run_and(script, folder.at("up"), processes, "kill -9 $!");
  SCOPED_TRACE(outcome.out);
  expect_all_end(tandem::testing::contents_of(folder.at("up")), static_cast<std::size_t>(processes));
}

TEST(Launchers, NothingOutlivesTandemRun) {
  expect_all_end_with_the_launcher("echo pid $$ >> \"$UP\"; exec " + quiet_sleep, 2);
}

// A program that a rank's script starts, in the background or not, is orphaned once the rank is dead.
TEST(Launchers, NothingThatARankStartedOutlivesTandemRun) {
  expect_all_end_with_the_launcher(
      quiet_sleep + " & echo pid $! >> \"$UP\"; sh -c 'echo pid $$ >> \"$UP\"; exec " + quiet_sleep + "'; true", 4);
}

TEST(Launchers, NothingThatARankStartedOutlivesIt) {
  expect_all_end(run(tandem_run + "-n 2 --no-prefix -- sh -c '" + quiet_sleep + " & echo pid $!'").out, 2);
}

// Each has its own temporary folder: two mpiruns of one user that start and end at the same time delete each other's.
const std::string mpirun =
    "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh -c '"
    "export TMPDIR=$(mktemp -d); trap \"rm -rf $TMPDIR\" EXIT; trap \"exit 143\" TERM; "
    "mpirun --oversubscribe --bind-to none \"$@\"' mpirun ";

bool has_open_mpi() { return installed("mpirun --version | grep -q 'Open MPI'"); }

TEST(Launchers, Mpirun) {
  if (!has_open_mpi()) GTEST_SKIP() << "mpirun is not installed, or not Open MPI's";
  expect_ranks(run(mpirun + "-n 3 " + probe), 3, "mpirun");
}

TEST(Launchers, TwoJobsOfMpirunAtOnce) {
  if (!has_open_mpi()) GTEST_SKIP() << "mpirun is not installed, or not Open MPI's";
  Outcome first;
  std::thread other([&] { first = run(mpirun + "-n 2 " + probe); });
  const Outcome second = run(mpirun + "-n 3 " + probe);
  other.join();
  expect_ranks(first, 2, "mpirun");
  expect_ranks(second, 3, "mpirun");
}

TEST(Launchers, MpirunInsideTandemRunIsRefused) {
  if (!has_open_mpi()) GTEST_SKIP() << "mpirun is not installed, or not Open MPI's";
  const Outcome outcome = run(tandem_run + "-n 2 -- " + mpirun + "-n 2 " + probe);
  EXPECT_NE(outcome.code, 0);
  expect_says(outcome, "so tandem run started this process, and OMPI_COMM_WORLD_RANK is '");
}

TEST(Launchers, MpiexecHydra) {
  if (!installed("mpiexec.hydra --version")) GTEST_SKIP() << "mpiexec.hydra is not installed";
  expect_ranks(run("mpiexec.hydra -n 3 " + probe), 3, "mpiexec.hydra");
  // Also where each rank is the child of its own shell.
  expect_ranks(run("mpiexec.hydra -n 2 sh -c '" + probe + "; true'"), 2, "mpiexec.hydra");
}

TEST(Launchers, TwoJobsOfMpiexecHydraAtOnce) {
  if (!installed("mpiexec.hydra --version")) GTEST_SKIP() << "mpiexec.hydra is not installed";
  Outcome first;
  std::thread other([&] { first = run("mpiexec.hydra -n 2 " + probe); });
  const Outcome second = run("mpiexec.hydra -n 3 " + probe);
  other.join();
  expect_ranks(first, 2, "mpiexec.hydra");
  expect_ranks(second, 3, "mpiexec.hydra");
}

// Emulates mpiexec.hydra, so that MPICH need not be installed: its process names, and the variables that it sets.
TEST(Launchers, TheProcessAboveTheRanksOfHydraNamesTheirJob) {
  const tandem::testing::TemporaryFolder folder;
  const std::string proxy = folder.at("hydra_pmi_proxy");
  ASSERT_EQ(std::system(("cp /bin/sh " + proxy).c_str()), 0);
  const auto rank = [](const std::string& number) {
    return "PMI_RANK=" + number + " PMI_SIZE=2 MPI_LOCALRANKID=" + number + " MPI_LOCALNRANKS=2 " + probe;
  };
  const std::string both = std::string("'") + rank("0") + " & " + rank("1") + "; wait'";
  expect_ranks(run(proxy + " -c " + both), 2, "mpiexec.hydra");
  const Outcome unnamed = run("sh -c " + both);
  expect_says(unnamed, "TANDEM_JOB is not set");
  expect_says(unnamed, "no process hydra_pmi_proxy above it");
  expect_ranks(run("env TANDEM_JOB=named." + std::to_string(::getpid()) + " sh -c " + both), 2, "mpiexec.hydra");
}

TEST(Launchers, Torchrun) {
  const std::string torchrun = "python3 -m torch.distributed.run --standalone --no_python ";
  // Even if torch can be imported, its torchrun may start nothing, as Debian 12's 1.13 under Python 3.11, or hang.
  if (!installed("timeout -k 5 60 " + torchrun + "--nproc_per_node 1 true")) {
    GTEST_SKIP() << "python3 has no torchrun that starts `true` within a minute";
  }
  expect_ranks(run(torchrun + "--nproc_per_node 3 " + probe), 3, "torchrun");
}

}  // namespace
