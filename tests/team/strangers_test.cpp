// SPDX-License-Identifier: Apache-2.0
// Processes of another user that use the socket at which a job's ranks meet.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tandem/base/error.hpp"
#include "tandem/team/world.hpp"

#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/shared.hpp"
#include "support/socket_names.hpp"
#include "team/another_world.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using testing::expect_says;
using testing::refusal;
using testing::run_ranks;

enum class Said { nothing, no_other_user, is_other_user, listens, holds, was_let_go, was_kept };

/// A process of another user that occupies, or connects to, the socket at which rank 0 of this user's job listens.
class Stranger {
 public:
  explicit Stranger(const std::string& job) {
    const std::string name = testing::socket_prefix(testing::hash_of_job(job)) + "/0";
    address_.sun_family = AF_UNIX;
    name.copy(address_.sun_path, sizeof(address_.sun_path));
    address_.sun_path[0] = '\0';
    length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  }
  ~Stranger() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  /// All start the process, and return false if this root cannot become another user.
  [[nodiscard]] bool listens() {
    return lives([this](int socket) {
      if (::bind(socket, address(), length_) == 0 && ::listen(socket, 64) == 0) *said_ = Said::listens;
      ::pause();
    });
  }
  [[nodiscard]] bool binds() {
    return lives([this](int socket) {
      if (::bind(socket, address(), length_) == 0) *said_ = Said::holds;
      ::pause();
    });
  }
  [[nodiscard]] bool connects() {
    return lives([this](int socket) {
      while (::connect(socket, address(), length_) != 0) ::usleep(1000);
      pollfd polled{socket, POLLIN, 0};
      char nothing = 0;
      const bool closed = ::poll(&polled, 1, 5000) == 1 && ::recv(socket, &nothing, 1, MSG_DONTWAIT) == 0;
      *said_ = closed ? Said::was_let_go : Said::was_kept;
    });
  }

  /// Waits for what it reports next.
  [[nodiscard]] Said says() const { return after(Said::is_other_user); }

 private:
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }

  [[nodiscard]] Said after(Said before) const {
    for (int i = 0; i < 10'000 && *said_ == before; ++i) std::this_thread::sleep_for(1ms);
    return *said_;
  }

  template <typename Life> [[nodiscard]] bool lives(const Life& life) {
    pid_ = ::fork();
    if (pid_ != 0) return after(Said::nothing) != Said::no_other_user;
    constexpr id_t nobody = 65534;
    if (::setresgid(nobody, nobody, nobody) == 0 && ::setresuid(nobody, nobody, nobody) == 0) {
      *said_ = Said::is_other_user;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // only now: a change of the user clears it
      life(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    } else {
      *said_ = Said::no_other_user;
    }
    ::_exit(0);
  }

  sockaddr_un address_{};
  socklen_t length_ = 0;
  const testing::Shared<std::atomic<Said>> said_;
  pid_t pid_ = -1;
};

class Strangers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user as well";
  }
  /// The options with which rank `rank` of two joins the job.
  [[nodiscard]] InitOptions joining(int rank) const {
    return {.launch = Launch{rank, 2, rank, 2, 1, job_, "tests"}, .env = Env{}, .device = DeviceId{}};
  }

  const std::string job_ = "strangers." + std::to_string(::getpid());
  Stranger stranger_{job_};
};

TEST_F(Strangers, ASocketOfAnotherUserIsNoRank0) {
  if (!stranger_.listens()) GTEST_SKIP() << "this root cannot become another user";
  ASSERT_EQ(stranger_.says(), Said::listens);
  run_ranks(1, [this](World&) {
    InitOptions options = joining(1);
    options.env->timeout = 300ms;
    expect_says(refusal<Timeout>(options), {"rank 0", job_, "belongs to another user", "300 ms"});
  });
}

TEST_F(Strangers, ASocketOfAnotherUserIsNotASecondJobOfThisOne) {
  if (!stranger_.listens()) GTEST_SKIP() << "this root cannot become another user";
  ASSERT_EQ(stranger_.says(), Said::listens);
  run_ranks(1, [this](World&) {
    expect_says(refusal<DeviceError>(joining(0)), {"rank 0", job_, "of another user", "TANDEM_JOB"});
  });
}

TEST_F(Strangers, ASocketAtWhichNobodyListensIsNotASecondJobOfThisUserEither) {
  if (!stranger_.binds()) GTEST_SKIP() << "this root cannot become another user";
  ASSERT_EQ(stranger_.says(), Said::holds);
  run_ranks(1, [this](World&) {
    expect_says(refusal<DeviceError>(joining(0)), {"rank 0", job_, "does not answer", "TANDEM_JOB"});
  });
}

TEST_F(Strangers, WhoIsAnotherUserIsNotLetIn) {
  if (!stranger_.connects()) GTEST_SKIP() << "this root cannot become another user";
  run_ranks(2, [this](World& world) {
    if (world.rank() == 1) {  // while rank 0 still waits for this rank
      EXPECT_EQ(stranger_.says(), Said::was_let_go);
    }
    const World guarded = init(joining(world.rank()));
    EXPECT_EQ(guarded.size(), 2);
    guarded.team().barrier();
    world.team().barrier();
  });
}

}  // namespace
}  // namespace tandem
