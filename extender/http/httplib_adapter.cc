#include "extender/http/httplib_adapter.h"

#include <algorithm>
#include <cstring>

#include "httplib.h"

namespace numafit::extender::http {
namespace {

// What httplib reads is the head in memory; what it writes is caught without copying the body.
class HeadStream : public httplib::Stream {
 public:
  HeadStream(std::string_view head, std::string_view remote, Answer* answer)
      : head_(head), remote_(remote), answer_(answer) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* data, std::size_t size) override {
    const std::size_t count = std::min(size, head_.size());
    std::memcpy(data, head_.data(), count);
    head_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* data, std::size_t size) override {
    if (answer_->head.empty()) {
      answer_->head.assign(data, size);
    } else if (answer_->body.empty()) {
      answer_->body = std::string_view(data, size);
    }
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = remote_;
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  socket_t socket() const override { return 0; }

 private:
  std::string_view head_;
  std::string_view remote_;
  Answer* answer_;
};

struct Call {
  const std::function<void(Response&)>* serve = nullptr;
  std::string* output = nullptr;
  Answer* answer = nullptr;
  const std::atomic<bool>* draining = nullptr;
};
// httplib's handlers get no context of ours; the call that this thread is in.
thread_local Call* current_call = nullptr;

}  // namespace

class HttplibAdapter::Server : public httplib::Server {
 public:
  explicit Server(std::int64_t keep_alive_seconds) {
    // httplib's writer takes an invalid listening socket for a shutdown.
    svr_sock_ = 0;
    set_keep_alive_timeout(static_cast<time_t>(keep_alive_seconds));
    set_keep_alive_max_count(1'000'000'000);
    set_pre_routing_handler(Serve);
    set_post_routing_handler(BeforeHead);
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.content_length_ > 0 || !response.body.empty()) return;
      Call& call = *current_call;
      AppendError("not a request that this server understands", &call.answer->error_body);
      SetBody(call.answer->error_body, kJson, &response);
    });
    set_exception_handler([](const httplib::Request&, httplib::Response& response,
                             std::exception_ptr) { response.status = 500; });
  }
  ~Server() override { svr_sock_ = INVALID_SOCKET; }

  void Run(HeadStream& stream, Answer* answer) {
    bool client_closes = false;
    process_request(stream, false, client_closes,
                    [](httplib::Request& request) { request.ranges.clear(); });
    answer->close = answer->close || client_closes;
  }

 private:
  static void SetBody(const std::string& body, std::string_view content_type,
                      httplib::Response* response) {
    if (body.empty()) return;
    response->set_content_provider(
        body.size(), std::string(content_type),
        [&body](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
          return sink.write(body.data() + offset, length);
        });
  }

  static HandlerResponse Serve(const httplib::Request&, httplib::Response& http_response) {
    Call& call = *current_call;
    Response response{.body = *call.output};
    try {
      (*call.serve)(response);
    } catch (const std::exception& error) {
      call.answer->exception = true;
      response.status = 500;
      response.content_type = kJson;
      response.body.clear();
      AppendError("an internal error; the log has the rest", &response.body);
    }
    http_response.status = response.status;
    SetBody(response.body, response.content_type, &http_response);
    return HandlerResponse::Handled;
  }

  static void BeforeHead(const httplib::Request&, httplib::Response& response) {
    Call& call = *current_call;
    call.answer->status = response.status;
    if (response.status >= 400 || *call.draining) {
      call.answer->close = true;
      response.headers.erase("Keep-Alive");
      response.headers.erase("Connection");
      response.set_header("Connection", "close");
    }
  }
};

HttplibAdapter::HttplibAdapter(std::int64_t keep_alive_seconds)
    : server_(std::make_unique<Server>(keep_alive_seconds)) {}
HttplibAdapter::~HttplibAdapter() = default;

void HttplibAdapter::Run(std::string_view head, std::string_view remote,
                         const std::atomic<bool>& draining,
                         const std::function<void(Response&)>& serve, std::string* output,
                         Answer* answer) {
  *answer = Answer{};
  output->clear();
  Call call{&serve, output, answer, &draining};
  current_call = &call;
  HeadStream stream(head, remote, answer);
  try {
    server_->Run(stream, answer);
  } catch (...) {
    answer->exception = true;
  }
  current_call = nullptr;
  if (answer->head.empty()) answer->close = true;
}

}  // namespace numafit::extender::http
