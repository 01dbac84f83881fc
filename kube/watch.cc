#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kube/backoff.h"
#include "kube/client.h"
#include "kube/decode.h"
#include "kube/http/transport.h"
#include "kube/requests.h"
#include "kube/watch_frames.h"

namespace numafit::kube {
namespace {

using std::chrono::milliseconds;

// A list page is answered in one go, but a busy server may take its time to begin.
constexpr milliseconds kListTimeout{60'000};
constexpr std::size_t kMaxListBytes = std::size_t{512} << 20;
// The server ends a stream by itself after timeout_seconds; some more for its jitter.
constexpr milliseconds kStreamGrace{30'000};
// A stream that lasted this long, or brought news, was a good one: the next follows at once.
constexpr milliseconds kGoodStream{5'000};
// So many refused watches in a row, and the resource version is not trusted any more.
constexpr int kRefusalsBeforeList = 3;

// Where the objects of a kind are, and in what they come.
struct BuiltIn {
  static constexpr char kListAccept[] =
      "application/vnd.kubernetes.protobuf, application/json;q=0.5";
  static constexpr char kWatchAccept[] =
      "application/vnd.kubernetes.protobuf;stream=watch, application/json;stream=watch;q=0.5";
};
// They have no protobuf.
struct Custom {
  static constexpr char kListAccept[] = "application/json";
  static constexpr char kWatchAccept[] = "application/json;stream=watch, application/json;q=0.5";
};
template <typename T>
struct Resource : Custom {};
template <>
struct Resource<api::Pod> : BuiltIn {};
template <>
struct Resource<api::Node> : BuiltIn {};

bool IsGone(const absl::Status& status) {
  return absl::IsOutOfRange(status);
}

// Whether a refusal may be about the resource version. An API server that has just started knows no
// roles yet (403) and sends clients away (429) for a while: no reason to read everything again.
bool MayBeTheVersion(const absl::Status& status) {
  return !absl::IsUnauthenticated(status) && !absl::IsPermissionDenied(status) &&
         !absl::IsResourceExhausted(status);
}

// One list + watch, on a thread of its own:
//   list all pages -> on_list -> watch from the list's resource version -> events …
// and from there, when a stream ends: in good order or cut: watch again from the last version seen;
// 410 Gone (as HTTP status or as ERROR event): list again. Attempts without progress are spaced by
// the back-off, and by Retry-After where the server asks for more.
template <typename T>
class ListWatch : public Watch {
 public:
  ListWatch(Transport* transport, std::string path, WatchOptions options, WatchHandlers<T> handlers)
      : transport_(transport),
        path_(std::move(path)),
        options_(std::move(options)),
        handlers_(std::move(handlers)),
        backoff_(milliseconds(options_.backoff_initial_ms), milliseconds(options_.backoff_max_ms),
                 std::random_device()()),
        thread_([this] { Run(); }) {}

  ~ListWatch() override {
    cancel_.Set();
    thread_.join();
  }

  [[nodiscard]] bool synced() const override { return synced_.load(std::memory_order_acquire); }

  [[nodiscard]] double seconds_since_contact() const override {
    const auto last = Clock::time_point(Clock::duration(contact_.load(std::memory_order_relaxed)));
    return std::chrono::duration<double>(Clock::now() - last).count();
  }

 private:
  void Run() {
    if (transport_ == nullptr) {
      Report(absl::UnimplementedError("this client has no transport to watch over"));
      return;
    }
    bool need_list = true;
    int refusals = 0;
    while (!cancel_.IsSet()) {
      retry_after_ = milliseconds(0);
      progress_ = false;
      const absl::Status status = need_list ? ListAll() : WatchOnce();
      if (cancel_.IsSet()) return;
      if (status.ok() && need_list) {
        need_list = false;
        refusals = 0;
        continue;
      }
      if (IsGone(status)) {
        need_list = true;
        refusals = 0;
      } else if (status.ok()) {
        refusals = 0;
      } else {
        Report(status);
        refusals =
            (refused_ && MayBeTheVersion(status)) || absl::IsDataLoss(status) ? refusals + 1 : 0;
        if (refusals >= kRefusalsBeforeList) need_list = true;
      }
      if (progress_) {
        backoff_.Reset();
      }
      if (progress_ && retry_after_.count() == 0) continue;
      if (!cancel_.SleepFor(std::max(backoff_.Next(), retry_after_))) return;
    }
  }

  // Tells the handler when the state, or the reason for it, changes.
  void Report(const absl::Status& status) {
    if (status == reported_) return;
    reported_ = status;
    if (handlers_.on_state) handlers_.on_state(status);
  }

  void Touch() {
    contact_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  }

  std::string Target(std::string_view query) const {
    std::string target = fmt::format("{}?{}", path_, query);
    if (!options_.field_selector.empty()) {
      target += "&fieldSelector=" + EscapeUrl(options_.field_selector);
    }
    if (!options_.label_selector.empty()) {
      target += "&labelSelector=" + EscapeUrl(options_.label_selector);
    }
    return target;
  }

  absl::StatusOr<List<T>> ListPage(const std::string& continue_token, int limit) {
    std::string query = fmt::format("limit={}", limit);
    if (!continue_token.empty()) query += "&continue=" + EscapeUrl(continue_token);
    std::string body;
    std::string content_type;
    const auto sink = [&](const Response& header, std::string_view piece) -> absl::Status {
      Touch();
      content_type = header.content_type;
      if (body.size() + piece.size() > kMaxListBytes) {
        return absl::DataLossError("a list page above 512 MiB");
      }
      body.append(piece);
      return absl::OkStatus();
    };
    const absl::StatusOr<Response> response = transport_->Stream(
        Get(Target(query), Resource<T>::kListAccept),
        {.header_timeout = kListTimeout, .idle_timeout = kListTimeout, .cancel = &cancel_}, sink);
    refused_ = false;
    if (!response.ok()) return response.status();
    if (response->status != 200) return Refusal(*response);
    return DecodeList<T>(body, EncodingOf(content_type));
  }

  absl::Status ListAll() {
    std::vector<T> items;
    std::string continue_token;
    int limit = std::max(options_.page_size, 0);
    for (;;) {
      absl::StatusOr<List<T>> page = ListPage(continue_token, limit);
      if (!page.ok()) {
        // The pages' snapshot is too old already: everything in one answer then (as client-go).
        if (IsGone(page.status()) && limit != 0) {
          items.clear();
          continue_token.clear();
          limit = 0;
          continue;
        }
        // On a list 410 has no better meaning than any other refusal.
        if (!IsGone(page.status())) return page.status();
        return absl::UnavailableError(std::string(page.status().message()));
      }
      if (handlers_.on_page) handlers_.on_page(page->items);
      if (items.empty()) {
        items = std::move(page->items);
      } else {
        std::move(page->items.begin(), page->items.end(), std::back_inserter(items));
      }
      resource_version_ = std::move(page->resource_version);
      continue_token = std::move(page->continue_token);
      if (continue_token.empty()) break;
    }
    Report(absl::OkStatus());
    backoff_.Reset();
    if (handlers_.on_list) handlers_.on_list(std::move(items));
    synced_.store(true, std::memory_order_release);
    return absl::OkStatus();
  }

  absl::Status WatchOnce() {
    const auto query =
        fmt::format("watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
                    options_.timeout_seconds, EscapeUrl(resource_version_));
    WatchFrames frames(Encoding::kProtobuf);
    Encoding encoding = Encoding::kProtobuf;
    bool first = true;
    const auto sink = [&](const Response& header, std::string_view piece) -> absl::Status {
      Touch();
      if (first) {
        first = false;
        encoding = EncodingOf(header.content_type);
        frames = WatchFrames(encoding);
        Report(absl::OkStatus());
      }
      return frames.Feed(piece,
                         [&](std::string_view frame) { return HandleFrame(frame, encoding); });
    };
    const Clock::time_point start = Clock::now();
    const milliseconds patience =
        milliseconds(std::chrono::seconds(std::max(options_.timeout_seconds, 1))) + kStreamGrace;
    refused_ = false;
    const absl::StatusOr<Response> response = transport_->Stream(
        Get(Target(query), Resource<T>::kWatchAccept),
        {.header_timeout = kListTimeout, .idle_timeout = patience, .cancel = &cancel_}, sink);
    if (Clock::now() - start >= kGoodStream) progress_ = true;
    if (!response.ok()) return response.status();
    if (response->status != 200) return Refusal(*response);
    if (frames.InsideFrame()) return absl::UnavailableError("the watch stream was cut in a frame");
    return absl::OkStatus();
  }

  absl::Status HandleFrame(std::string_view frame, Encoding encoding) {
    absl::StatusOr<Event<T>> event = DecodeEvent<T>(frame, encoding);
    if (!event.ok()) return event.status();
    if (cancel_.IsSet()) return absl::CancelledError("stopped");
    if (event->type == EventType::kError) {
      refused_ = true;
      return ToAbslStatus(event->error.code, event->error);
    }
    std::string version = event->object.metadata.resource_version;
    if (!version.empty() && version != resource_version_) {
      resource_version_ = std::move(version);
      progress_ = true;
    }
    if (event->type == EventType::kUpsert && handlers_.on_upsert) {
      handlers_.on_upsert(std::move(event->object));
    } else if (event->type == EventType::kDelete && handlers_.on_delete) {
      handlers_.on_delete(std::move(event->object));
    }
    return absl::OkStatus();
  }

  absl::Status Refusal(const Response& response) {
    refused_ = true;
    retry_after_ = milliseconds(std::chrono::seconds(response.retry_after_seconds));
    return StatusOf(response);
  }

  static Request Get(std::string target, const char* accept) {
    return {.method = "GET",
            .target = std::move(target),
            .accept = accept,
            .content_type = {},
            .body = {}};
  }

  Transport* const transport_;
  const std::string path_;
  const WatchOptions options_;
  const WatchHandlers<T> handlers_;
  std::atomic<bool> synced_ = false;
  std::atomic<Clock::rep> contact_ = Clock::now().time_since_epoch().count();
  Cancel cancel_;

  // Of the thread alone.
  Backoff backoff_;
  absl::Status reported_;
  std::string resource_version_;
  milliseconds retry_after_{0};
  bool progress_ = false;  // this attempt brought something new
  bool refused_ = false;   // this attempt was answered, with a no

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Watch> WatchPods(Client& client, WatchOptions options,
                                 WatchHandlers<api::Pod> handlers) {
  return std::make_unique<ListWatch<api::Pod>>(client.transport(), "/api/v1/pods",
                                               std::move(options), std::move(handlers));
}

std::unique_ptr<Watch> WatchNodes(Client& client, WatchOptions options,
                                  WatchHandlers<api::Node> handlers) {
  return std::make_unique<ListWatch<api::Node>>(client.transport(), "/api/v1/nodes",
                                                std::move(options), std::move(handlers));
}

std::unique_ptr<Watch> WatchNodeReports(Client& client, WatchOptions options,
                                        WatchHandlers<api::NodeReport> handlers) {
  return std::make_unique<ListWatch<api::NodeReport>>(client.transport(), kNodeReportsPath,
                                                      std::move(options), std::move(handlers));
}

std::unique_ptr<Watch> WatchWorkloads(Client& client, const std::string& version,
                                      WatchOptions options, WatchHandlers<api::Workload> handlers) {
  return std::make_unique<ListWatch<api::Workload>>(
      client.transport(), KueuePath(version, "workloads"), std::move(options), std::move(handlers));
}

std::unique_ptr<Watch> WatchAdmissionChecks(Client& client, const std::string& version,
                                            WatchOptions options,
                                            WatchHandlers<api::AdmissionCheck> handlers) {
  return std::make_unique<ListWatch<api::AdmissionCheck>>(client.transport(),
                                                          KueuePath(version, "admissionchecks"),
                                                          std::move(options), std::move(handlers));
}

std::unique_ptr<Watch> WatchResourceFlavors(Client& client, const std::string& version,
                                            WatchOptions options,
                                            WatchHandlers<api::ResourceFlavor> handlers) {
  return std::make_unique<ListWatch<api::ResourceFlavor>>(client.transport(),
                                                          KueuePath(version, "resourceflavors"),
                                                          std::move(options), std::move(handlers));
}

std::unique_ptr<Watch> WatchClusterQueues(Client& client, const std::string& version,
                                          WatchOptions options,
                                          WatchHandlers<api::ClusterQueue> handlers) {
  return std::make_unique<ListWatch<api::ClusterQueue>>(client.transport(),
                                                        KueuePath(version, "clusterqueues"),
                                                        std::move(options), std::move(handlers));
}

std::unique_ptr<Watch> WatchNodeResourceTopologies(
    Client& client, WatchOptions options, WatchHandlers<api::NodeResourceTopology> handlers) {
  return std::make_unique<ListWatch<api::NodeResourceTopology>>(
      client.transport(), kNodeResourceTopologiesPath, std::move(options), std::move(handlers));
}

}  // namespace numafit::kube
