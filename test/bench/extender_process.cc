#include "test/bench/extender_process.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "test/extender/http/http_client.h"

namespace numafit::bench {
namespace {

using extender::http::RawClient;

int FreePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  ::close(fd);
  return bound ? ntohs(address.sin_port) : 0;
}

bool Listens(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool listens = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(fd);
  return listens;
}

}  // namespace

ExtenderProcess::ExtenderProcess(const std::string& program, int api_port, std::string_view more)
    : port_(FreePort()), read_port_(FreePort()) {
  std::string folder = (std::filesystem::temp_directory_path() / "numafit-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return;
  folder_ = folder;
  const std::string kubeconfig = folder_ + "/kubeconfig";
  std::ofstream(kubeconfig) << fmt::format(
      "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
      "clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]\n"
      "users: [{{name: u, user: {{}}}}]\n"
      "contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
      api_port);
  const std::string config = folder_ + "/extender.yaml";
  std::ofstream(config) << "apiVersion: numafit.io/v1alpha1\nkind: ExtenderConfiguration\n" << more;
  std::vector<std::string> words = {program,
                                    "--config=" + config,
                                    "--inventory=reports",
                                    "--kubeconfig=" + kubeconfig,
                                    fmt::format("--listen=127.0.0.1:{}", port_),
                                    fmt::format("--read-listen=127.0.0.1:{}", read_port_),
                                    "--log-level=error"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, argv.data(), environ) != 0) {
    pid_ = -1;
  }
}

ExtenderProcess::~ExtenderProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (!folder_.empty()) std::filesystem::remove_all(folder_);
}

bool ExtenderProcess::runs() const {
  return pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0;
}

bool ExtenderProcess::ready() const {
  return Listens(read_port_) && RawClient(read_port_).Get("/readyz").status == 200;
}

double ExtenderProcess::Megabytes(std::string_view key) const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::atof(line.c_str() + key.size() + 1) / 1000;
  }
  return 0;
}

double ExtenderProcess::CpuSeconds() const {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid_));
  std::string word;
  double ticks = 0;
  for (int i = 1; i <= 15 && stat >> word; ++i) {
    if (i == 14 || i == 15) ticks += std::atof(word.c_str());
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double ExtenderProcess::Metric(const std::string& name) const {
  const std::string text = "\n" + RawClient(read_port_).Get("/metrics").body;
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::atof(text.c_str() + at + name.size() + 2);
}

}  // namespace numafit::bench
