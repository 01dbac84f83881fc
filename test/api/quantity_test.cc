#include "api/quantity.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace numafit::api {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

struct ReadCase {
  const char* text;
  std::int64_t milli;
  std::int64_t value;
};

// MilliValue and Value of resource.ParseQuantity (k8s.io/apimachinery v0.36.3), recorded.
constexpr ReadCase kRead[] = {
    {"0", 0, 0},
    {"1", 1000, 1},
    {"-4", -4000, -4},
    {"+4", 4000, 4},
    {"500m", 500, 1},
    {"0.5", 500, 1},
    {".5", 500, 1},
    {"5.", 5000, 5},
    {".", 0, 0},
    {"-", 0, 0},
    {"+", 0, 0},
    {"Ki", 0, 0},
    {"1k", 1000000, 1000},
    {"1Ki", 1024000, 1024},
    {"16Gi", 17179869184000, 17179869184},
    {"1.5Gi", 1610612736000, 1610612736},
    {"0.1Ki", 102400, 103},
    {"1e3", 1000000, 1000},
    {"1E3", 1000000, 1000},
    {"1e-3", 1, 1},
    {"1e+3", 1000000, 1000},
    {"1n", 1, 1},
    {"1u", 1, 1},
    {"-1n", -1, -1},
    {"1500u", 2, 1},
    {"1000001n", 2, 1},
    {"7Pi", 7881299347898368000, 7881299347898368},
    {"0.0001", 1, 1},
    {"1.0001", 1001, 2},
    {"0e5", 0, 0},
    {"007", 7000, 7},
    {"00", 0, 0},
    {"-0.0", 0, 0},
    {"3.141592653589793238462643383279", 3142, 4},
    {"0Ki", 0, 0},
    {"1P", 1000000000000000000, 1000000000000000},
    {"1T", 1000000000000000, 1000000000000},
    {"1G", 1000000000000, 1000000000},
    {"1M", 1000000000, 1000000},
    {"1Ti", 1099511627776000, 1099511627776},
    {"1Pi", 1125899906842624000, 1125899906842624},
    {"1Mi", 1048576000, 1048576},
    {"9007199254740993", 9007199254740993000, 9007199254740993},
};

TEST(QuantityTest, ReadsWhatApimachineryReads) {
  for (const ReadCase& c : kRead) {
    const auto quantity = Quantity::Parse(c.text);
    ASSERT_TRUE(quantity.ok()) << c.text << ": " << quantity.status();
    EXPECT_EQ(quantity->milli(), c.milli) << c.text;
    EXPECT_EQ(quantity->value(), c.value) << c.text;
  }
}

TEST(QuantityTest, RefusesWhatApimachineryRefuses) {
  for (const char* text : {"",
                           "K",
                           "1K",
                           "1e",
                           "1mm",
                           "1 ",
                           " 1",
                           "1Mi5",
                           "abc",
                           "0x10",
                           "1e99999999999999999999",
                           "1.2.3",
                           "--1",
                           "1e5m",
                           "1,5",
                           "NaN",
                           "1i",
                           "1Kii",
                           "1ei",
                           "1e1.5",
                           "1e+-3",
                           "1e++3"}) {
    const auto quantity = Quantity::Parse(text);
    ASSERT_FALSE(quantity.ok()) << text;
    EXPECT_EQ(quantity.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(quantity.status().message().find(std::string("\"") + text + "\""),
              absl::string_view::npos)
        << quantity.status();
  }
}

// Where apimachinery's MilliValue wraps around.
TEST(QuantityTest, SaturatesInsteadOfOverflowing) {
  for (const char* text : {"8Ei", "1E", "9223372036854775807", "9223372036854775808",
                           "100000000000000000000000", "1e400", "1e999999999999", "9999999Ei"}) {
    const auto quantity = Quantity::Parse(text);
    ASSERT_TRUE(quantity.ok()) << text << quantity.status();
    EXPECT_EQ(quantity->milli(), kMax) << text;
    const auto negative = Quantity::Parse(std::string("-") + text);
    ASSERT_TRUE(negative.ok()) << text;
    EXPECT_EQ(negative->milli(), -kMax) << text;
  }
  EXPECT_EQ(Quantity::FromInt(kMax).milli(), kMax);
  EXPECT_EQ(Quantity::FromInt(-7).milli(), -7000);
}

TEST(QuantityTest, VanishinglySmallIsRoundedUpToTheSmallestStep) {
  EXPECT_EQ(Quantity::Parse("1e-400")->milli(), 1);
  EXPECT_EQ(Quantity::Parse("1e-999999999999")->milli(), 1);
  EXPECT_EQ(Quantity::Parse(std::string("0.") + std::string(500, '0') + "1")->milli(), 1);
}

TEST(QuantityTest, PrintsAFormThatReadsBack) {
  EXPECT_EQ(Quantity::Parse("4")->ToString(), "4");
  EXPECT_EQ(Quantity::Parse("1Ki")->ToString(), "1024");
  EXPECT_EQ(Quantity::Parse("0.25")->ToString(), "250m");
  for (const ReadCase& c : kRead) {
    const Quantity quantity = *Quantity::Parse(c.text);
    EXPECT_EQ(*Quantity::Parse(quantity.ToString()), quantity) << c.text;
  }
}

TEST(QuantityTest, ComparesByAmount) {
  EXPECT_EQ(*Quantity::Parse("1"), *Quantity::Parse("1000m"));
  EXPECT_LT(*Quantity::Parse("1G"), *Quantity::Parse("1Gi"));
  EXPECT_TRUE(Quantity::Parse("0m")->IsZero());
}

}  // namespace
}  // namespace numafit::api
