#include "extender/json_text.h"

#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numafit::extender {
namespace {

std::string Quote(const std::string& text) {
  std::string out;
  AppendJsonString(text, &out);
  return out;
}

TEST(JsonTextTest, EveryByteAtEveryPlaceComesBack) {
  for (int c = 0; c < 128; ++c) {
    for (std::size_t length = 1; length < 20; ++length) {
      for (std::size_t at = 0; at < length; ++at) {
        std::string text(length, 'a');
        text[at] = static_cast<char>(c);
        ASSERT_EQ(nlohmann::json::parse(Quote(text)).get<std::string>(), text);
      }
    }
  }
}

TEST(JsonTextTest, KeepsUtf8AndReplacesWhatIsNot) {
  EXPECT_EQ(Quote("Größe 測試 🙂"), "\"Größe 測試 🙂\"");
  for (const char* bad : {"\x80", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                          "abcdefgh\xFF", "\xE2\x82"}) {
    EXPECT_TRUE(nlohmann::json::accept(Quote(bad))) << bad;
    EXPECT_NE(Quote(bad).find("\xEF\xBF\xBD"), std::string::npos);
  }
}

}  // namespace
}  // namespace numafit::extender
