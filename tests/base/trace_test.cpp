// SPDX-License-Identifier: Apache-2.0
#include "tandem/base/trace.hpp"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Trace, IsOffAtFirst) { EXPECT_FALSE(Trace().enabled()); }

TEST(Trace, BecomesAChromeDocumentWithATrackForEachRankAndStream) {
  Trace trace;
  trace.enable(true);
  trace.name_track(7, "compute");
  trace.add({"GEMM \"own\"", TraceKind::compute, 7, 1'000'000, 3'500'000});
  const std::string text = Trace::chrome_document({trace.chrome_events(0), trace.chrome_events(2)}, "emulated link");
  EXPECT_NE(text.find(R"("label":"emulated link")"), std::string::npos);
  EXPECT_NE(text.find(R"("name":"rank 2")"), std::string::npos);
  EXPECT_NE(text.find(R"("name":"GEMM \"own\"","cat":"compute","pid":2,"tid":7,"ts":1000.000,"dur":2500.000)"),
            std::string::npos)
      << text;
  trace.clear();
  EXPECT_TRUE(trace.events().empty());
}

}  // namespace
}  // namespace tandem
