// The HTTP side of a made-up API server: lists in pages and one watch per kind, and no more, so
// that the machine's time is left to the program that asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace numafit::bench {

class ApiStub {
 public:
  enum class Encoding { kProtobuf, kJson };
  // The body of a page with items begin … end - 1 of `count`; `next` is empty on the last one.
  // Called under mutex().
  using Count = std::function<std::size_t()>;
  using List =
      std::function<std::string(std::size_t begin, std::size_t end, const std::string& next)>;

  ApiStub();
  // Ends all connections. What Count and List look at has to be there until then.
  ~ApiStub();
  ApiStub(const ApiStub&) = delete;
  ApiStub& operator=(const ApiStub&) = delete;

  // --- before Start ---
  // The number of the kind, for the functions below.
  int Serve(const std::string& path, Encoding encoding, Count count, List list);
  void Answer(const std::string& path, const std::string& json);
  void Start();

  [[nodiscard]] int port() const;
  // Of everything that the lists tell.
  [[nodiscard]] std::mutex& mutex();
  // News for the watch of this kind, which waits for it until it is there; a list that begins makes
  // what nobody took void. Under mutex().
  void Send(int kind, std::string_view frame);
  [[nodiscard]] bool watched(int kind) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A list of already encoded objects.
[[nodiscard]] std::string EncodeJsonList(std::string_view kind,
                                         const std::vector<std::string>& items,
                                         std::int64_t version, const std::string& next);

}  // namespace numafit::bench
