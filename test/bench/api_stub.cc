#include "test/bench/api_stub.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

namespace numafit::bench {
namespace {

const char* TypeOf(ApiStub::Encoding encoding) {
  return encoding == ApiStub::Encoding::kJson ? "application/json"
                                              : "application/vnd.kubernetes.protobuf";
}

}  // namespace

class ApiStub::Impl {
 public:
  struct Kind {
    Encoding encoding;
    Count count;
    List list;
    std::string waiting;  // frames that no watch has taken yet
    std::atomic<int> watches = 0;

    Kind(Encoding coded, Count counts, List lists)
        : encoding(coded), count(std::move(counts)), list(std::move(lists)) {}
  };

  Impl() {
    server.set_tcp_nodelay(true);
    server.set_keep_alive_max_count(1'000'000);
    server.new_task_queue = [] { return new httplib::ThreadPool(16); };
    // Annotations of Pods and Nodes that are woken, and Events.
    server.Patch(".*", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("{}", "application/json");
    });
    server.Post(".*", [](const httplib::Request&, httplib::Response& response) {
      response.status = 201;
      response.set_content("{}", "application/json");
    });
  }

  void Page(Kind& kind, const httplib::Request& request, httplib::Response& response) {
    const std::string from = request.get_param_value("continue");
    const std::string limit = request.get_param_value("limit");
    const std::lock_guard lock(mutex);
    if (from.empty()) kind.waiting.clear();
    const std::size_t count = kind.count();
    const std::size_t begin = from.empty() ? 0 : std::min(count, std::size_t{std::stoul(from)});
    const std::size_t most = limit.empty() || limit == "0" ? count : std::stoul(limit);
    const std::size_t end = std::min(count, begin + most);
    response.set_content(kind.list(begin, end, end < count ? std::to_string(end) : std::string()),
                         TypeOf(kind.encoding));
  }

  void Watch(Kind& kind, httplib::Response& response) {
    ++kind.watches;
    response.set_chunked_content_provider(
        kind.encoding == Encoding::kJson ? std::string(TypeOf(kind.encoding))
                                         : std::string(TypeOf(kind.encoding)) + ";stream=watch",
        [this, &kind](std::size_t, httplib::DataSink& sink) {
          std::string frames;
          {
            std::unique_lock lock(mutex);
            news.wait_for(lock, std::chrono::milliseconds(200),
                          [&] { return stopping || !kind.waiting.empty(); });
            // A client that has gone is not to take what is meant for the next.
            if (stopping || !sink.is_writable()) return false;
            frames.swap(kind.waiting);
          }
          return frames.empty() || sink.write(frames.data(), frames.size());
        },
        [&kind](bool) { --kind.watches; });
  }

  std::mutex mutex;
  std::condition_variable news;
  std::atomic<bool> stopping = false;
  std::deque<Kind> kinds;
  std::deque<Kind> empty_kinds;  // what a selector leaves of each
  httplib::Server server;
  int port = 0;
  std::thread thread;
};

ApiStub::ApiStub() : impl_(std::make_unique<Impl>()) {}

ApiStub::~ApiStub() {
  impl_->stopping = true;
  impl_->news.notify_all();
  impl_->server.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

int ApiStub::Serve(const std::string& path, Encoding encoding, Count count, List list) {
  Impl* const impl = impl_.get();
  Impl::Kind& nobody = impl->empty_kinds.emplace_back(
      encoding, [] { return std::size_t{0}; }, list);
  Impl::Kind& kind = impl->kinds.emplace_back(encoding, std::move(count), std::move(list));
  impl->server.Get(
      path, [impl, &kind, &nobody](const httplib::Request& request, httplib::Response& response) {
        // Nobody is nominated.
        const bool none = request.get_param_value("fieldSelector").find("nominatedNodeName!=") !=
                          std::string::npos;
        Impl::Kind& asked = none ? nobody : kind;
        if (request.get_param_value("watch") == "true") return impl->Watch(asked, response);
        impl->Page(asked, request, response);
      });
  return static_cast<int>(impl->kinds.size()) - 1;
}

void ApiStub::Answer(const std::string& path, const std::string& json) {
  impl_->server.Get(path, [json](const httplib::Request&, httplib::Response& response) {
    response.set_content(json, "application/json");
  });
}

void ApiStub::Start() {
  impl_->port = impl_->server.bind_to_any_port("127.0.0.1");
  impl_->thread = std::thread([this] { impl_->server.listen_after_bind(); });
  while (!impl_->server.is_running()) std::this_thread::yield();
}

int ApiStub::port() const {
  return impl_->port;
}

std::mutex& ApiStub::mutex() {
  return impl_->mutex;
}

void ApiStub::Send(int kind, std::string_view frame) {
  impl_->kinds[static_cast<std::size_t>(kind)].waiting += frame;
  impl_->news.notify_all();
}

bool ApiStub::watched(int kind) const {
  return impl_->kinds[static_cast<std::size_t>(kind)].watches > 0;
}

std::string EncodeJsonList(std::string_view kind, const std::vector<std::string>& items,
                           std::int64_t version, const std::string& next) {
  std::string body =
      fmt::format(R"({{"kind":"{}","metadata":{{"resourceVersion":"{}")", kind, version);
  if (!next.empty()) body += fmt::format(R"(,"continue":"{}")", next);
  body += R"(},"items":[)";
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) body += ',';
    body += items[i];
  }
  return body + "]}";
}

}  // namespace numafit::bench
