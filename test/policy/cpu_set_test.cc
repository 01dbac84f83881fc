#include "policy/cpu_set.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>
#include <vector>

#include "absl/hash/hash.h"

namespace numafit::policy {
namespace {

TEST(CpuSet, IsFormattedAsTheKubeletDoes) {
  EXPECT_EQ(FormatCpuSet({}), "");
  EXPECT_EQ(FormatCpuSet({7}), "7");
  EXPECT_EQ(FormatCpuSet({1, 2, 5}), "1-2,5");
  EXPECT_EQ(FormatCpuSet({4095, 63, 64, 65, 0, 255, 256}), "0,63-65,255-256,4095");
}

TEST(CpuSet, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*ParseCpuSet(""), CpuSet());
  EXPECT_EQ(*ParseCpuSet("5,1-2"), (CpuSet{1, 2, 5}));
  EXPECT_EQ(*ParseCpuSet("0-3,2-4"), (CpuSet{0, 1, 2, 3, 4}));
  for (const char* text :
       {",", "1,", "a", "1-", "-1", "3-1", " 1", "1 ", "0-4096", "1-2-3", "+1"}) {
    const auto set = ParseCpuSet(text);
    EXPECT_FALSE(set.ok()) << text;
  }
}

TEST(CpuSet, HighIdsComeAndGoWithoutATrace) {
  CpuSet set{1};
  set.Add(3000);
  EXPECT_NE(set, CpuSet{1});
  set.Remove(3000);
  EXPECT_EQ(set, CpuSet{1});
  EXPECT_EQ((CpuSet{1, 3000} & CpuSet{1, 2999}), CpuSet{1});
  EXPECT_EQ((CpuSet{1, 3000} - CpuSet{3000}), CpuSet{1});
  EXPECT_EQ(absl::HashOf(CpuSet{1, 3000} - CpuSet{3000}), absl::HashOf(CpuSet{1}));
  EXPECT_FALSE(set.contains(4095));
}

// Against a set that cannot be wrong.
TEST(CpuSet, AgreesWithABitset) {
  using Bits = std::bitset<CpuSet::kMaxIds>;
  std::mt19937 random(7);
  const auto make = [&](int most, CpuSet& set, Bits& bits) {
    for (int n = std::uniform_int_distribution<int>(0, 40)(random); n > 0; --n) {
      const int id = std::uniform_int_distribution<int>(0, most - 1)(random);
      set.Add(id);
      bits.set(static_cast<std::size_t>(id));
    }
  };
  const auto same = [](const CpuSet& set, const Bits& bits) {
    Bits read;
    int last = -1;
    set.ForEach([&](int id) {
      EXPECT_GT(id, last);
      last = id;
      read.set(static_cast<std::size_t>(id));
    });
    EXPECT_EQ(read, bits);
    EXPECT_EQ(set.count(), static_cast<int>(bits.count()));
    EXPECT_EQ(set.empty(), bits.none());
  };
  for (int i = 0; i < 3000; ++i) {
    CpuSet a;
    CpuSet b;
    Bits x;
    Bits y;
    make(i % 3 == 0 ? 64 : i % 3 == 1 ? 300 : CpuSet::kMaxIds, a, x);
    make(i % 2 == 0 ? 256 : 1024, b, y);
    same(a, x);
    same(a | b, x | y);
    same(a & b, x & y);
    same(a - b, x & ~y);
    EXPECT_EQ(a.CountAnd(b), static_cast<int>((x & y).count()));
    EXPECT_EQ(a.intersects(b), (x & y).any());
    EXPECT_EQ(a.IsSubsetOf(b), (x & ~y).none());
    EXPECT_TRUE(a.IsSubsetOf(a | b));
    EXPECT_EQ(a == b, x == y);
    EXPECT_EQ((a <=> b) == 0, x == y);
    EXPECT_EQ((a | b), (b | a));
  }
}

}  // namespace
}  // namespace numafit::policy
