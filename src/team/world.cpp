// SPDX-License-Identifier: Apache-2.0
#include "tandem/team/world.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tandem/base/error.hpp"

#include "base/env_check.hpp"
#include "base/format.hpp"
#include "team/connect_ranks.hpp"
#include "team/core.hpp"
#include "team/descriptor_limit.hpp"
#include "team/lost_peer.hpp"
#include "team/mesh.hpp"
#include "team/names.hpp"
#include "team/own_checks.hpp"
#include "team/team_state.hpp"
#include "team/wire.hpp"

namespace tandem {

class World::State {
 public:
  State(std::shared_ptr<Core> core, Team team) : core_(std::move(core)), team_(std::move(team)) {}
  [[nodiscard]] const Core& core() const noexcept { return *core_; }
  [[nodiscard]] const Team& team() const noexcept { return team_; }

 private:
  std::shared_ptr<Core> core_;
  Team team_;
};

namespace {

/// How long the end of a world may wait for peers that are slow to read (see ~Mesh).
constexpr std::chrono::milliseconds longest_goodbye{5000};

/// What a rank has opened, or why it failed to. Ranks tell each other before any of them throws: otherwise the others
/// would wait for it until their deadlines.
struct Opened {
  Log log;
  std::unique_ptr<TraceFile> trace;
  DeviceId id;
  std::shared_ptr<Device> device;
  std::exception_ptr error;
  bool invalid = false;  // the error is an InvalidArgument, which the other ranks throw, too
  std::string why;       // what to tell the other ranks, following this rank's name
};

Opened open(const InitOptions& options, const Launch& launch, const Env& env) {
  Opened opened;
  std::string_view what = "cannot open its log";
  try {
    opened.log = Log(env.log, env.log_file, launch.rank);
    what = "cannot open its trace";
    if (!env.trace.empty()) opened.trace = std::make_unique<TraceFile>(env.trace, launch.rank);
    what = "has no device";
    opened.id = choose_device(options.device, launch, env);
    DeviceOptions device;
    device.link = env.link;
    device.gemm = env.gemm;
    device.gemm_threads = env.gemm_threads;
    device.ranks = launch.local_size;
    opened.device = open_device(opened.id, device);
  } catch (const std::exception& error) {
    opened.error = std::current_exception();
    opened.invalid = dynamic_cast<const InvalidArgument*>(&error) != nullptr;
    opened.why = format("{}: {}", what, error.what());
  }
  return opened;
}

/// What is equal on all ranks after they have compared what they opened.
struct Agreed {
  std::string run;  // the run's name, given by rank 0
  int resident_blocks = 1;
};

/// Team::resident_blocks: the blocks of one rank that can be resident on the GPU that the most ranks share. There, one
/// rank's blocks may wait for work that is queued after another rank's GEMM, whose blocks need whole SMs, and its
/// thread block clusters several SMs of one GPC at once: half of the GPU is left to GEMMs.
int resident_blocks_of(std::span<const Hardware> ranks) {
  int fewest = ranks.front().blocks_at_once;
  for (const Hardware& one : ranks) {
    const auto sharing = std::ranges::count(ranks, one.id, &Hardware::id);
    const int left = sharing == 1 ? one.blocks_at_once : one.blocks_at_once / 2;
    fewest = std::min(fewest, left / static_cast<int>(sharing));
  }
  return std::max(fewest, 1);
}

std::vector<int> everyone(const Launch& launch) {
  std::vector<int> ranks(static_cast<std::size_t>(launch.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Exchanges what the ranks have opened; if one of them failed, or settings differ, all throw.
Agreed compare(Bootstrap& bootstrap, const Launch& launch, const Env& env, const Opened& mine) {
  constexpr std::uint64_t world_id = 0;
  constexpr std::uint64_t before_the_first_call = 0;
  const auto deadline = Bootstrap::Clock::now() + env.timeout;
  std::string run = launch.rank == 0 ? TraceFile::name_of_run() : "";
  std::vector<Hardware> hardware(static_cast<std::size_t>(launch.world_size));
  Hardware& own = hardware[static_cast<std::size_t>(launch.rank)];
  if (mine.device != nullptr) own = mine.device->hardware();
  const std::string own_link = env.link ? to_string(*env.link) : "none";
  const std::string_view own_id(reinterpret_cast<const char*>(own.id.data()), own.id.size());
  for (int r = 0; r < launch.world_size; ++r) {
    WireWriter writer;
    writer.text(mine.why).number(mine.invalid ? 1 : 0).text(name(mine.id.type)).text(run);
    writer.text(own_id).number(own.blocks_at_once).text(own_link).text(name(env.check));
    if (r != launch.rank) bootstrap.send(r, world_id, before_the_first_call, {writer.take(), {}});
  }
  std::string why;
  bool invalid = false;
  std::string differs;
  for (int r = 0; r < launch.world_size; ++r) {
    if (r == launch.rank) continue;
    const Parcel theirs = bootstrap.receive(r, world_id, before_the_first_call, deadline, nullptr);
    WireReader reader(theirs.bytes);
    const std::string reason = reader.text();
    const bool reason_invalid = reader.number<int>() != 0;
    const std::string type = reader.text();
    const std::string named = reader.text();
    if (r == 0) run = named;
    Hardware& one = hardware[static_cast<std::size_t>(r)];
    const std::string id = reader.text();
    std::memcpy(one.id.data(), id.data(), std::min(id.size(), one.id.size()));
    one.blocks_at_once = reader.number<std::int32_t>();
    const std::string link = reader.text();
    const std::string check = reader.text();
    const std::string peer = to_string(bootstrap.peer(r));
    if (!reason.empty() && why.empty()) {
      why = format("{} {}", peer, reason);
      invalid = reason_invalid;
    }
    if (type != name(mine.id.type) && differs.empty()) {
      differs =
          format("rank {} runs on {}, {} on {}; allowed: one kind of device in a world (--device or TANDEM_DEVICE)",
                 launch.rank, name(mine.id.type), peer, type);
    }
    if (link != own_link && differs.empty()) {
      differs = format("rank {} emulates the link {}, {} {}; allowed: the same on all ranks, or none (TANDEM_LINK)",
                       launch.rank, own_link, peer, link);
    }
    if (check != name(env.check) && differs.empty()) {
      differs = format("rank {} checks {}, {} {}; allowed: the same on all ranks (TANDEM_CHECK)", launch.rank,
                       name(env.check), peer, check);
    }
  }
  bootstrap.flush(everyone(launch), deadline, nullptr);
  if (mine.error) std::rethrow_exception(mine.error);
  if (!why.empty() && invalid) throw InvalidArgument(why);
  if (!why.empty()) throw Unsupported(why);
  if (!differs.empty()) throw InvalidArgument(differs);
  return {std::move(run), resident_blocks_of(hardware)};
}

/// `compare`, with errors that name the waiting rank and the job.
Agreed agree(Mesh& mesh, const Launch& launch, const Env& env, const Opened& mine) {
  try {
    try {
      return compare(mesh, launch, env, mine);
    } catch (const PeerLost&) {
      mesh.throw_if_lost();  // the peer that this rank waited for may have left because another was lost
      throw;
    }
  } catch (const PeerLost& error) {
    throw lost_peer(format("{}: init of job '{}', says rank {}", error.what(), launch.job, launch.rank),
                    peer_of(error));
  } catch (const Timeout& error) {
    throw Timeout(format("init of job '{}' waited {} ms: {}, says rank {}", launch.job, env.timeout.count(),
                         error.what(), launch.rank),
                  error.peer());
  }
}

/// For a sentence that says who started the ranks.
std::string_view starter(const Launch& launch) {
  if (launch.launcher.empty()) return "its caller";
  return launch.launcher == "none" ? "no launcher" : std::string_view(launch.launcher);
}

}  // namespace

World init(const InitOptions& options) {
  if (options.env) check_env(*options.env);
  const Env env = options.env ? *options.env : Env::from_process();
  const Launch launch = options.launch ? *options.launch : Launch::detect();
  check_launch(launch);
  auto seat = std::make_unique<Seat>(launch.job, launch.rank);
  // The device is opened before the sockets, whose descriptors must be higher than the driver's (see move_high).
  Opened opened = open(options, launch, env);
  make_room_for_descriptors(2 * static_cast<std::size_t>(launch.world_size), opened.log);  // a socket and a pidfd each
  auto mesh =
      std::make_unique<Mesh>(launch.rank, connect_ranks({launch.rank, launch.world_size, launch.job, env.timeout}),
                             std::min(env.timeout, longest_goodbye));
  const Agreed agreed = agree(*mesh, launch, env, opened);

  if (opened.trace != nullptr) {
    opened.trace->belong_to(launch.job, agreed.run);
    opened.device->trace().enable(true);
  }
  auto core = std::make_shared<Core>(std::move(seat), launch, env, std::move(opened.log), std::move(opened.trace),
                                     std::move(opened.device), agreed.resident_blocks, std::move(mesh));
  auto team = Team::State::make(core, 0, everyone(launch));
  World world(std::make_shared<World::State>(core, Team(team)));
  team->meet("init");
  if (opened.id.type == DeviceType::cuda && launch.local_size > device_count(DeviceType::cuda)) {
    world.log().write(LogLevel::info, format("{} ranks on this node and {} GPUs that this one sees: some may share one",
                                             launch.local_size, device_count(DeviceType::cuda)));
  }
  if (world.log().enabled(LogLevel::info)) world.log().write(LogLevel::info, world.describe());
  return world;
}

const World::State& World::state() const {
  if (state_ == nullptr) throw InvalidArgument("a world was used that was moved from");
  return *state_;
}

int World::rank() const { return launch().rank; }
int World::size() const { return launch().world_size; }
const Launch& World::launch() const { return state().core().launch(); }
const Env& World::env() const { return state().core().env(); }
const Log& World::log() const { return state().core().log(); }
Device& World::device() const { return *state().core().device(); }
const std::shared_ptr<Device>& World::shared_device() const { return state().core().device(); }
Team World::team() const { return state().team(); }

std::vector<int> World::gone() const {
  std::vector<int> ranks = state().core().gone();
  std::ranges::sort(ranks);
  return ranks;
}

std::string World::describe() const {
  const Bootstrap& bootstrap = state().core().bootstrap();
  std::string text = format("world of {} rank{} on one node, started by {} (job {})\n", size(), size() == 1 ? "" : "s",
                            starter(launch()), launch().job);
  for (int r = 0; r < size(); ++r) {
    text += format("  {}{}\n", to_string(bootstrap.peer(r)), r == rank() ? ": this one" : "");
  }
  text += format("device {}: {}\n", to_string(device().id()), device().describe());
  const std::string why = why_no_device(DeviceType::cuda);
  if (device().id().type == DeviceType::host && !why.empty()) text += format("no CUDA device: {}\n", why);
  text += format("deadline of each wait: {} ms\n", env().timeout.count());
  return text;
}

}  // namespace tandem
