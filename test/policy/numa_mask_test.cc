#include "policy/numa_mask.h"

#include <gtest/gtest.h>

#include <vector>

#include "policy/numa_subsets.h"
#include "test/policy/machines.h"

namespace numafit::policy {
namespace {

using testing::MaskOf;

TEST(NumaMask, IsASetOfIds) {
  NumaMask mask = MaskOf({0, 63});
  EXPECT_EQ(mask.count(), 2);
  EXPECT_TRUE(mask.contains(63));
  EXPECT_FALSE(mask.contains(1));
  EXPECT_EQ(mask.first(), 0);
  mask.add(5);
  std::vector<int> ids;
  mask.ForEach([&](int id) { ids.push_back(id); });
  EXPECT_EQ(ids, (std::vector<int>{0, 5, 63}));
  EXPECT_EQ(mask & MaskOf({5, 6}), MaskOf({5}));
  EXPECT_EQ(MaskOf({1}) | MaskOf({2}), MaskOf({1, 2}));
  EXPECT_TRUE(NumaMask().empty());
}

TEST(NumaMask, NarrowerIsFewerThenSmaller) {
  EXPECT_TRUE(MaskOf({7}).IsNarrowerThan(MaskOf({0, 1})));
  EXPECT_TRUE(MaskOf({0, 3}).IsNarrowerThan(MaskOf({1, 3})));
  EXPECT_FALSE(MaskOf({1}).IsNarrowerThan(MaskOf({1})));
}

TEST(NumaSubsets, AreListedInNumericalOrder) {
  std::vector<std::uint64_t> seen;
  ForEachSubsetOfSize(MaskOf({0, 2, 3, 9}), 2, [&](NumaMask mask) {
    seen.push_back(mask.bits());
    return true;
  });
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{0b101, 0b1001, 0b1100, 513, 516, 520}));
}

TEST(NumaSubsets, OfEverySizeAreAsManyAsTheyShould) {
  const NumaMask five = MaskOf({1, 2, 4, 8, 60});
  for (const auto& [size, expected] : {std::pair{0, 0}, {1, 5}, {2, 10}, {4, 5}, {5, 1}, {6, 0}}) {
    int count = 0;
    ForEachSubsetOfSize(five, size, [&](NumaMask mask) {
      EXPECT_EQ(mask.count(), size);
      ++count;
      return true;
    });
    EXPECT_EQ(count, expected) << size;
  }
}

TEST(NumaSubsets, KnowWhenTheyAreTooMany) {
  EXPECT_FALSE(SubsetsAreTooMany(64, 1));
  EXPECT_FALSE(SubsetsAreTooMany(16, 8));
  EXPECT_TRUE(SubsetsAreTooMany(36, 18));
  EXPECT_FALSE(SubsetsAreTooMany(36, 36));
  EXPECT_FALSE(SubsetsAreTooMany(36, 35));
}

TEST(NumaSubsets, CompressAndExpandAreInverse) {
  const NumaSubsets subsets(MaskOf({3, 7, 20}));
  EXPECT_EQ(subsets.Expand(0b101), MaskOf({3, 20}));
  EXPECT_EQ(subsets.Compress(MaskOf({3, 20, 40})), 0b101U);
}

}  // namespace
}  // namespace numafit::policy
