// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/launch.hpp"

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "support/errors.hpp"

namespace tandem {
namespace {

using Variables = std::map<std::string, std::string>;

Launch detect(const Variables& variables) {
  return Launch::detect([&](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  });
}

// What each launcher sets for rank 3 of 4 on one node.
const Variables tandem_run{{"TANDEM_RANK", "3"}, {"TANDEM_WORLD_SIZE", "4"}, {"TANDEM_JOB", "run.77.abc"}};
const Variables torchrun{{"RANK", "3"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "3"},
                         {"LOCAL_WORLD_SIZE", "4"},
                         {"GROUP_RANK", "0"},
                         {"MASTER_ADDR", "localhost"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RUN_ID", "none"},
                         {"TORCHELASTIC_RESTART_COUNT", "0"}};
const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "3"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                       {"PMIX_NAMESPACE", "3405774849"},    {"OMPI_MCA_orte_precondition_transports", "5ac8a0f3-b6e1"}};
const Variables hydra{{"PMI_RANK", "3"},        {"PMI_SIZE", "4"},        {"PMI_FD", "8"},
                      {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}, {"TANDEM_JOB", "mine"}};
const Variables srun{{"SLURM_JOB_ID", "1234"},      {"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", "3"},         {"SLURM_LOCALID", "3"},
                     {"SLURM_NTASKS", "4"},         {"SLURM_STEP_NUM_TASKS", "4"},
                     {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}};

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(Launch, ReadsEachLauncher) {
  const std::map<std::string, Variables> all{
      {"tandem run", tandem_run}, {"torchrun", torchrun}, {"mpirun", mpirun}, {"mpiexec.hydra", hydra}, {"srun", srun}};
  for (const auto& [name, variables] : all) {
    SCOPED_TRACE(name);
    const Launch launch = detect(variables);
    EXPECT_EQ(launch.launcher, name);
    EXPECT_EQ(launch.rank, 3);
    EXPECT_EQ(launch.world_size, 4);
    EXPECT_EQ(launch.local_rank, 3);
    EXPECT_EQ(launch.local_size, 4);
    EXPECT_EQ(launch.nodes, 1);
    EXPECT_FALSE(launch.job.empty());
  }
}

TEST(Launch, AProcessWithoutALauncherIsAWorldOfOne) {
  const Launch launch = detect({});
  EXPECT_EQ(launch.launcher, "none");
  EXPECT_EQ(launch.world_size, 1);
  EXPECT_EQ(launch.local_size, 1);
  EXPECT_EQ(launch.job, "alone." + std::to_string(::getpid()));
  // An sbatch job's script has SLURM_PROCID, too, but is not a step.
  EXPECT_EQ(detect({{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).launcher, "none");
}

TEST(Launch, TheInnerLauncherCounts) {
  EXPECT_EQ(detect(with(srun, tandem_run)).launcher, "tandem run");
  EXPECT_EQ(detect(with(srun, torchrun)).launcher, "torchrun");
  EXPECT_EQ(detect(with(srun, mpirun)).launcher, "mpirun");
  EXPECT_EQ(detect(with(srun, hydra)).launcher, "mpiexec.hydra");
  // srun also sets these, for MPICH programs.
  EXPECT_EQ(detect(with(srun, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}})).launcher, "srun");
}

TEST(Launch, OneThatStartsOneProcessDoesNotCountBesideAnother) {
  const Variables one_by_tandem = with(tandem_run, {{"TANDEM_RANK", "0"}, {"TANDEM_WORLD_SIZE", "1"}});
  const Variables one_by_mpirun = with(mpirun, {{"OMPI_COMM_WORLD_RANK", "0"},
                                                {"OMPI_COMM_WORLD_SIZE", "1"},
                                                {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_EQ(detect(with(one_by_tandem, mpirun)).launcher, "mpirun");
  EXPECT_EQ(detect(with(one_by_mpirun, torchrun)).launcher, "torchrun");
  EXPECT_EQ(detect(with(one_by_tandem, one_by_mpirun)).launcher, "tandem run");
}

// As when a script exports mpirun's numbers under torchrun's names.
TEST(Launch, TwoThatSayTheSameAreOne) {
  EXPECT_EQ(detect(with(mpirun, torchrun)).launcher, "torchrun");
  EXPECT_EQ(detect(with(hydra, torchrun)).launcher, "torchrun");
}

// An MPI launcher that the table does not have: without an error, each process would silently be a world of one.
TEST(Launch, ManyProcessesOfAnUnknownLauncherAreAnError) {
  for (const std::string size : {"PMI_SIZE", "WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PALS_SIZE"}) {
    testing::expect_error<InvalidArgument>([&] { static_cast<void>(detect({{"RANK", "0"}, {size, "2"}})); },
                                           {size + " is '2'", "TANDEM_WORLD_SIZE"});
    EXPECT_EQ(detect({{"RANK", "0"}, {size, "1"}}).launcher, "none");
  }
}

// `mpirun -n 2` inside `tandem run -n 4` or a torchrun worker: all its children inherit one rank of the outer launcher.
TEST(Launch, TwoThatStartSeveralAreAnErrorThatNamesBoth) {
  const Variables first_by_mpirun = with(mpirun, {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  const Variables two_by_hydra =
      with(hydra, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  const std::vector<std::pair<Variables, Variables>> pairs{{tandem_run, with(torchrun, {{"RANK", "2"}})},
                                                           {tandem_run, first_by_mpirun},
                                                           {tandem_run, mpirun},
                                                           {tandem_run, two_by_hydra},
                                                           {torchrun, first_by_mpirun},
                                                           {torchrun, two_by_hydra}};
  for (const auto& [outer, inner] : pairs) {
    const std::string one = detect(outer).launcher;
    const std::string other = detect(inner).launcher;
    try {
      static_cast<void>(detect(with(with(srun, outer), inner)));
      ADD_FAILURE() << one << " and " << other << ": taken";
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      for (const std::string& part : {one + " started", other + " did", std::string("env -u")}) {
        EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in: " << text;
      }
    }
  }
}

TEST(Launch, CountsNodes) {
  EXPECT_EQ(detect(with(torchrun, {{"WORLD_SIZE", "8"}, {"RANK", "7"}})).nodes, 2);
  EXPECT_EQ(detect(with(mpirun, {{"OMPI_COMM_WORLD_SIZE", "9"}})).nodes, 3);
  const Launch launch = detect(with(srun, {{"SLURM_STEP_NUM_NODES", "4"},
                                           {"SLURM_STEP_NUM_TASKS", "7"},
                                           {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                                           {"SLURM_LOCALID", "1"}}));
  EXPECT_EQ(launch.nodes, 4);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.world_size, 7);
}

TEST(Launch, TwoJobsAtOneTimeHaveTwoNames) {
  EXPECT_NE(detect(torchrun).job, detect(with(torchrun, {{"MASTER_PORT", "29501"}})).job);
  EXPECT_NE(detect(torchrun).job, detect(with(torchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})).job);
  EXPECT_NE(detect(mpirun).job, detect(with(mpirun, {{"OMPI_MCA_orte_precondition_transports", "77-88"}})).job);
  EXPECT_NE(detect(srun).job, detect(with(srun, {{"SLURM_STEP_ID", "1"}})).job);
}

struct Malformed {
  Variables variables;
  std::string named;    // the variable that the error names
  std::string allowed;  // what it says is allowed
};

TEST(Launch, RefusesAMalformedEnvironmentWithNameValueAndWhatIsAllowed) {
  const std::vector<Malformed> cases{
      {with(tandem_run, {{"TANDEM_RANK", "4"}}), "TANDEM_RANK is '4'", "0 to 3"},
      {with(tandem_run, {{"TANDEM_RANK", "-1"}}), "TANDEM_RANK is '-1'", "0 to 3"},
      {with(tandem_run, {{"TANDEM_RANK", "two"}}), "TANDEM_RANK is 'two'", "0 to 3"},
      {with(tandem_run, {{"TANDEM_RANK", "1x"}}), "TANDEM_RANK is '1x'", "0 to 3"},
      {with(tandem_run, {{"TANDEM_RANK", " 1"}}), "TANDEM_RANK is ' 1'", "0 to 3"},
      {with(tandem_run, {{"TANDEM_RANK", "1.0"}}), "TANDEM_RANK is '1.0'", "0 to 3"},
      {with(tandem_run, {{"TANDEM_WORLD_SIZE", "0"}}), "TANDEM_WORLD_SIZE is '0'", "1 to"},
      {with(tandem_run, {{"TANDEM_WORLD_SIZE", "99999999999999"}}), "TANDEM_WORLD_SIZE is '9", "1 to"},
      {without(tandem_run, "TANDEM_RANK"), "TANDEM_RANK is not set", "this process's rank"},
      {without(tandem_run, "TANDEM_WORLD_SIZE"), "TANDEM_WORLD_SIZE is not set", "the number of ranks"},
      {without(tandem_run, "TANDEM_JOB"), "TANDEM_JOB is not set", "a name"},
      {with(tandem_run, {{"TANDEM_RANK", ""}}), "TANDEM_RANK is not set", "this process's rank"},
      {without(torchrun, "RANK"), "RANK is not set", "this process's rank"},
      {with(torchrun, {{"LOCAL_RANK", "4"}}), "LOCAL_RANK is '4'", "0 to 3"},
      {with(torchrun, {{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE is '5'", "1 to 4"},
      {without(torchrun, "LOCAL_RANK"), "LOCAL_RANK is not set", "on its node"},
      {with(mpirun, {{"OMPI_COMM_WORLD_RANK", "9"}}), "OMPI_COMM_WORLD_RANK is '9'", "0 to 3"},
      {without(mpirun, "OMPI_COMM_WORLD_LOCAL_SIZE"), "OMPI_COMM_WORLD_LOCAL_SIZE is not set", "how many ranks"},
      {with(hydra, {{"PMI_RANK", "4"}}), "PMI_RANK is '4'", "0 to 3"},
      {without(hydra, "PMI_SIZE"), "PMI_SIZE is not set", "the number of ranks"},
      {without(hydra, "TANDEM_JOB"), "TANDEM_JOB is not set", "a name"},
      {with(srun, {{"SLURM_PROCID", "4"}}), "SLURM_PROCID is '4'", "0 to 3"},
      {with(srun, {{"SLURM_STEP_NUM_NODES", "many"}}), "SLURM_STEP_NUM_NODES is 'many'", "1 to"},
      {with(srun, {{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "2(y2)"}}),
       "SLURM_STEP_TASKS_PER_NODE is '2(y2)'", "1 to 4"},
      {without(srun, "SLURM_LOCALID"), "SLURM_LOCALID is not set", "on its node"},
  };
  for (const Malformed& each : cases) {
    try {
      static_cast<void>(detect(each.variables));
      ADD_FAILURE() << each.named << ": was taken";
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(each.named), std::string::npos) << text;
      EXPECT_NE(text.find("allowed: "), std::string::npos) << text;
      EXPECT_NE(text.find(each.allowed), std::string::npos) << text;
    }
  }
}

// docs/launchers.md contains the table verbatim. To update it, paste what this prints on failure into the page.
TEST(Launch, ItsTableIsTheOneOfTheDocuments) {
  std::ifstream page(TANDEM_SOURCE_DIR "/docs/launchers.md");
  std::ostringstream text;
  text << page.rdbuf();
  EXPECT_NE(text.str().find(Launch::table()), std::string::npos) << Launch::table();
}

}  // namespace
}  // namespace tandem
