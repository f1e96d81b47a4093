// SPDX-License-Identifier: Apache-2.0
#include "tools/bench.hpp"
#include "tools/plan.hpp"
#include "tools/run.hpp"
#include "tools/tune.hpp"
#include "tools/verify.hpp"
#include "wrong_use/rows.hpp"

namespace tandem::wrong_use {
namespace {

Wrong command(int (*run)(tools::Arguments), const std::vector<std::string>& words) {
  return [=] { static_cast<void>(run(words)); };
}

}  // namespace

const std::vector<Row>& command_rows() {
  using namespace tools;
  static const std::vector<Row> table{
      {"BenchNothing", 0, command(bench, {}), {"operation", "--help"}},
      {"BenchUnknown", 0, command(bench, {"gather"}), {"unknown operation 'gather'", "all_gather, reduce_scatter"}},
      {"BenchSize", 0, command(bench, {"all_reduce", "-b", "1Q"}), {"-b is '1Q'", "512, 64K"}},
      {"BenchSizes", 0, command(bench, {"all_reduce", "-b", "2M", "-e", "1M"}), {"-b is 2M", "-e is 1M"}},
      {"BenchSizesFromZero", 0, command(bench, {"all_reduce", "-b", "0", "-e", "64"}), {"-b is 0", "-e is 64", "-i"}},
      {"BenchFactor", 0, command(bench, {"all_reduce", "-f", "1"}), {"-f is '1'", "from 2"}},
      {"BenchStep", 0, command(bench, {"all_reduce", "-i", "0"}), {"-i is '0'", "1 byte and more"}},
      {"BenchRanks", 0, command(bench, {"all_reduce", "-n", "65"}), {"-n is '65'", "from 1 to 64"}},
      {"BenchDType", 0, command(bench, {"all_reduce", "-d", "fp12"}), {"'fp12' is not known", "f16"}},
      {"BenchUnsummable", 0, command(bench, {"all_reduce", "-d", "u8"}), {"-d is u8", "f32, f16, bf16"}},
      {"BenchLinearDType", 0, command(bench, {"all_gather_linear", "-d", "f64"}), {"-d is f64", "bf16"}},
      {"BenchShape", 0, command(bench, {"all_gather_linear", "--shape", "4,5"}), {"'4,5'", "M,N,K"}},
      {"BenchShapeOfCollective", 0, command(bench, {"all_reduce", "--shape", "4,5,6"}), {"no --shape"}},
      {"BenchAlgorithm", 0, command(bench, {"all_reduce", "--algorithm", "ring"}), {"'ring'", "one_shot, two_shot"}},
      {"BenchDevice", 0, command(bench, {"all_reduce", "--device", "tpu"}), {"'tpu'", "auto, host, cuda"}},
      {"BenchLink", 0, command(bench, {"all_reduce", "--link", "1us"}), {"'1us'", "LATENCY,BANDWIDTH"}},
      {"BenchInPlace", 0, command(bench, {"all_to_all", "--in-place"}), {"no form in place"}},
      {"BenchSizesOfLinear", 0, command(bench, {"linear_all_reduce", "-b", "1K"}), {"linear_all_reduce has no -b"}},
      {"BenchEndOfLinear", 0, command(bench, {"all_gather_linear", "-e", "1K"}), {"no -e", "for collectives"}},
      {"BenchFactorOfLinear", 0, command(bench, {"all_gather_linear", "--factor", "4"}), {"no -f"}},
      {"BenchStepOfLinear", 0, command(bench, {"all_gather_linear", "-i", "1K"}), {"no -i"}},
      {"BenchPlainLinear", 0, command(bench, {"all_gather_linear", "--plain"}), {"no --plain"}},
      {"BenchSymmetricLinear", 0, command(bench, {"all_gather_linear", "--symmetric"}), {"no --symmetric"}},
      {"BenchLinearInPlace", 0, command(bench, {"all_gather_linear", "--in-place"}), {"no --in-place"}},
      {"BenchRoot", 0, command(bench, {"all_reduce", "--root", "0"}), {"all_reduce has no --root", "for broadcast"}},
      {"BenchRootOfNobody",
       0,
       command(bench, {"broadcast", "-n", "3", "--device", "host", "--root", "7"}),
       {"--root is 7", "from 0 to 2"}},
      {"BenchGraphOfTheHost",
       0,
       command(bench, {"all_reduce", "-n", "2", "--device", "host", "-G", "5"}),
       {"-G is 5", "--device cuda"}},
      {"BenchSmsOfTheHost",
       0,
       command(bench, {"all_reduce", "-n", "2", "--device", "host", "--sms", "4"}),
       {"--sms is 4", "--device cuda"}},
      {"BenchGroupsOfShards",
       0,
       command(bench, {"linear_reduce_scatter", "-n", "3", "--device", "host", "--groups", "99"}),
       {"99 groups", "team of 3", "1 to 8"}},
      {"BenchGroupsOfASequence",
       0,
       command(bench, {"all_gather_linear", "-n", "2", "--algorithm", "sequence", "--groups", "2"}),
       {"2 groups", "'sequence', which has none", "'pipeline'"}},
      {"BenchWireOfOne", 0, command(bench, {"all_reduce", "-n", "1", "--wire"}), {"--wire", "two ranks and more"}},
      {"BenchFactorAndStep", 0, command(bench, {"all_reduce", "-f", "2", "-i", "1K"}), {"-f and -i", "one of them"}},
      {"BenchTwoOutputs", 0, command(bench, {"all_reduce", "--csv", "--json", "-"}), {"--csv and --json -", "stdout"}},
      {"BenchUnknownOption", 0, command(bench, {"all_reduce", "--fast"}), {"--fast", "--help"}},
      {"VerifyUnknown", 0, command(verify, {"gather"}), {"unknown operation 'gather'", "all, all_gather"}},
      {"VerifyCases", 0, command(verify, {"--cases", "0"}), {"--cases is '0'", "from 1"}},
      {"VerifyCaseAndCases", 0, command(verify, {"--cases", "5", "--case", "1"}), {"--case", "--help"}},
      {"VerifySeed", 0, command(verify, {"--seed", "lucky"}), {"--seed is 'lucky'", "whole number"}},
      {"BenchTimelineOfGraph",
       0,
       command(bench, {"all_reduce", "--timeline", "t.json", "-G", "5"}),
       {"--timeline", "-G"}},
      {"BenchPlotOfNothing", 0, command(bench, {"all_reduce", "--plot", "t.png"}), {"t.png", "--timeline"}},
      {"BenchTimelineToStdout", 0, command(bench, {"all_reduce", "--timeline", "-"}), {"--timeline is '-'", "a file"}},
      {"BenchPlotToStdout",
       0,
       command(bench, {"all_reduce", "--timeline", "t.json", "--plot", "-"}),
       {"--plot is '-'", "a file"}},
      {"BenchBesideOfIntegers",
       0,
       command(bench, {"all_reduce", "--beside", "8,8,8", "-d", "i32"}),
       {"i32", "--beside", "f32, f16 or bf16"}},
      {"BenchWireBesideAProduct",
       0,
       command(bench, {"all_gather", "--wire", "--beside", "8,8,8"}),
       {"--wire and --beside", "one of them"}},
      {"TuneOfCollective", 0, command(tune, {"all_reduce", "--shape", "8,8,8"}), {"all_reduce", "linear_all_reduce"}},
      {"TuneWithoutShape", 0, command(tune, {"all_gather_linear"}), {"needs --shape M,N,K"}},
      {"TuneSeconds",
       0,
       command(tune, {"all_gather_linear", "--shape", "8,8,8", "--seconds", "soon"}),
       {"--seconds is 'soon'", "whole number"}},
      {"PlanWithoutShape", 0, command(plan, {"all_gather_linear"}), {"needs --shape M,N,K"}},
      {"PlanShape", 0, command(plan, {"all_gather_linear", "--shape", "a,b,c"}), {"'a,b,c'", "M,N,K"}},
      {"PlanGroups",
       0,
       command(plan, {"all_gather_linear", "-n", "2", "--shape", "8,8,8", "--groups", "9"}),
       {"9 groups", "1 to 8"}},
      {"PlanGroupsOfCollective", 0, command(plan, {"all_reduce", "--groups", "2"}), {"no --groups"}},
      {"PlanSmsOfTheHost",
       0,
       command(plan, {"all_gather_linear", "-n", "2", "--device", "host", "--shape", "8,8,8", "--sms", "4"}),
       {"--sms is 4", "--device cuda"}},
      {"PlanBind",
       0,
       command(plan, {"all_gather_linear", "-n", "2", "--shape", "8,8,8", "--bind", "core"}),
       {"--bind", "leave it out"}},
      {"PlanSizeOfLinear", 0, command(plan, {"all_gather_linear", "--size", "1K"}), {"no --size", "for collectives"}},
      {"RunNothing", 0, command(run, {"-n", "2"}), {"program is missing", "tandem run -n 4"}},
      {"RunRanks", 0, command(run, {"--", "true"}), {"-n is missing"}},
      {"RunDevice", 0, command(run, {"-n", "2", "--device", "gpu", "--", "true"}), {"--device is 'gpu'", "auto, host"}},
      {"RunTimeout", 0, command(run, {"-n", "2", "--timeout", "soon", "--", "true"}), {"--timeout is 'soon'", "ms"}},
      {"RunLink", 0, command(run, {"-n", "2", "--link", "1us", "--", "true"}), {"--link is '1us'", "1GB/s"}},
      {"RunOnFailure",
       0,
       command(run, {"-n", "2", "--on-failure", "wait", "--", "true"}),
       {"'wait'", "stop, continue"}},
  };
  return table;
}

}  // namespace tandem::wrong_use
