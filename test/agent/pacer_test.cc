#include "agent/pacer.h"

#include <gtest/gtest.h>

namespace numafit::agent {
namespace {

using std::chrono::milliseconds;
using Look = Pacer::Look;

class PacerTest : public ::testing::Test {
 protected:
  PacerTest()
      : pacer_({milliseconds(100), milliseconds(300), milliseconds(500), milliseconds(30'000)},
               At(0)) {}

  static Pacer::Time At(int ms) { return Pacer::Time() + milliseconds(1'000'000 + ms); }
  // What is due then, done at once.
  Look Take(int ms) {
    const Look look = pacer_.Due(At(ms));
    pacer_.Done(look, At(ms));
    return look;
  }

  Pacer pacer_;
};

TEST_F(PacerTest, StartsWithEverything) {
  EXPECT_EQ(Take(0), Look::kEverything);
}

TEST_F(PacerTest, ChangeIsLookedAtWhenItHasSettled) {
  Take(0);
  pacer_.OnChange(At(350));
  EXPECT_EQ(pacer_.Due(At(351)), Look::kNothing);
  EXPECT_EQ(pacer_.Next(), At(450));
  EXPECT_EQ(Take(450), Look::kPods);
  EXPECT_EQ(pacer_.Due(At(451)), Look::kNothing);
}

TEST_F(PacerTest, ChangesThatGoOnDoNotPutItOffForEver) {
  Take(0);
  int first = 0;
  for (int ms = 400; ms < 1'000 && first == 0; ms += 10) {
    pacer_.OnChange(At(ms));
    if (pacer_.Due(At(ms)) == Look::kPods) first = ms;
  }
  EXPECT_EQ(first, 700);
}

TEST_F(PacerTest, AtMostAFewReportsASecond) {
  Take(0);
  int looks = 0;
  for (int ms = 1; ms <= 10'000; ++ms) {
    pacer_.OnChange(At(ms));
    if (Take(ms) == Look::kPods) ++looks;
  }
  EXPECT_GE(looks, 25);
  EXPECT_LE(looks, 34);
}

TEST_F(PacerTest, KubeletThatCameOrWentIsAReasonToReadEverything) {
  Take(0);
  pacer_.OnKubelet(At(400));
  pacer_.OnChange(At(410));
  EXPECT_EQ(Take(510), Look::kEverything);
  pacer_.OnChange(At(1'000));
  EXPECT_EQ(Take(1'100), Look::kPods);
}

TEST_F(PacerTest, TheEndOfTheKubeletIsToldAtOnce) {
  Take(0);
  pacer_.OnChange(At(10));
  pacer_.OnKubeletEnd();
  EXPECT_LE(pacer_.Next(), At(10));
  EXPECT_EQ(Take(10), Look::kPods);
  EXPECT_EQ(Take(11), Look::kNothing);
  // One that is back before the end was noticed is read as a whole.
  pacer_.OnKubelet(At(400));
  pacer_.OnKubeletEnd();
  EXPECT_EQ(Take(401), Look::kPods);
  EXPECT_EQ(Take(701), Look::kEverything);
}

TEST_F(PacerTest, AsksForPodsAndReadsEverythingNowAndThen) {
  Take(0);
  EXPECT_EQ(Take(499), Look::kNothing);
  EXPECT_EQ(pacer_.Due(At(500)), Look::kPodsChanged);
  int full = 0;
  int asked = 0;
  for (int ms = 1'000; ms <= 61'000; ms += 5) {
    const Look look = Take(ms);
    full += look == Look::kEverything ? 1 : 0;
    asked += look == Look::kPodsChanged ? 1 : 0;
  }
  EXPECT_EQ(full, 2);
  EXPECT_GE(asked, 110);
}

}  // namespace
}  // namespace numafit::agent
