#include "cache/demand_table.h"

#include <gtest/gtest.h>

#include "test/cache/machines.h"

namespace numafit::cache {
namespace {

TEST(DemandTableTest, EqualDemandsAreOneObject) {
  DemandTable table;
  const auto first = table.Intern(*test::Want(2, 1));
  EXPECT_EQ(table.Intern(*test::Want(2, 1)), first);
  EXPECT_NE(table.Intern(*test::Want(1, 2)), first);
  policy::Demand named = *test::Want(2, 1);
  named.containers[0].name = "another";
  EXPECT_NE(table.Intern(named), first);
  EXPECT_EQ(table.Intern(named)->containers[0].name, "another");
  policy::Demand strict = *test::Want(2, 1);
  strict.alignment = policy::AlignmentNeed::kGuaranteed;
  EXPECT_EQ(table.Intern(strict)->alignment, policy::AlignmentNeed::kGuaranteed);
}

TEST(DemandTableTest, ThoseThatNobodyUsesAreDropped) {
  DemandTable table;
  const auto kept = table.Intern(*test::Want(1, 0));
  for (int i = 2; i < 10'000; ++i) table.Intern(*test::Want(i, 0));
  EXPECT_LT(table.size(), 2'000U);
  EXPECT_EQ(table.Intern(*test::Want(1, 0)), kept);
}

}  // namespace
}  // namespace numafit::cache
