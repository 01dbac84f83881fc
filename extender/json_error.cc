#include "extender/json_error.h"

#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace numafit::extender {
namespace {

// Accepts every value and keeps none, so that the size of the text costs no memory.
class ErrorFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …"
    if (const std::size_t at = what.find(": "); at != std::string::npos) what.erase(0, at + 2);
    // What was read last may be long, and is the sender's text.
    if (const std::size_t at = what.find("; last read"); at != std::string::npos) what.resize(at);
    if (what.size() > 200) what.resize(200);
    message_ = fmt::format("malformed JSON at byte {}: {}", position, what);
    return false;
  }

  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  std::string message_;
};

}  // namespace

std::string DescribeJsonError(std::string_view text) {
  ErrorFinder finder;
  nlohmann::json::sax_parse(text.begin(), text.end(), &finder);
  return finder.message();
}

}  // namespace numafit::extender
