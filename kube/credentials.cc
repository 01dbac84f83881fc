#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "kube/client.h"
#include "kube/kubeconfig.h"
#include "kube/read_file.h"

namespace numafit::kube {
namespace {

// Collects the first error of one kubeconfig; every message names the file and the key.
class Reader {
 public:
  Reader(const std::string& name, const ReadReferencedFile& read_file)
      : name_(name), read_file_(read_file) {}

  void Fail(const std::string& key, std::string_view message) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(fmt::format("{}: {}: {}", name_, key, message));
    }
  }
  [[nodiscard]] const absl::Status& status() const { return status_; }

  std::string Text(const YAML::Node& map, const std::string& path, const char* key) {
    const YAML::Node value = map[key];
    if (!value || value.IsNull()) return "";
    if (value.IsScalar()) return value.Scalar();
    Fail(fmt::format("{}.{}", path, key), "expected a string");
    return "";
  }

  bool Flag(const YAML::Node& map, const std::string& path, const char* key) {
    const std::string text = Text(map, path, key);
    if (text.empty() || text == "false") return false;
    if (text != "true") Fail(fmt::format("{}.{}", path, key), "expected true or false");
    return text == "true";
  }

  // `key`-data in base64, else the file that `key` names; empty when neither is there.
  std::string Pem(const YAML::Node& map, const std::string& path, const char* key) {
    const std::string data_key = fmt::format("{}-data", key);
    if (const std::string data = Text(map, path, data_key.c_str()); !data.empty()) {
      std::string pem;
      if (!absl::Base64Unescape(data, &pem)) {
        Fail(fmt::format("{}.{}", path, data_key), "not base64");
      }
      return pem;
    }
    const std::string file = Text(map, path, key);
    if (file.empty()) return "";
    absl::StatusOr<std::string> pem = read_file_(file);
    if (!pem.ok()) {
      const absl::string_view message = pem.status().message();
      Fail(fmt::format("{}.{}", path, key), {message.data(), message.size()});
      return "";
    }
    return *std::move(pem);
  }

  // The entry called `wanted` of a list of {name, <kind>}: its <kind>, and its path for errors.
  YAML::Node Entry(const YAML::Node& root, const char* list, const char* kind,
                   const std::string& wanted, std::string& path) {
    const YAML::Node entries = root[list];
    if (entries && !entries.IsNull() && !entries.IsSequence()) {
      Fail(list, "expected a list");
      return YAML::Node(YAML::NodeType::Map);
    }
    for (std::size_t i = 0; entries && i < entries.size(); ++i) {
      const YAML::Node entry = entries[i];
      path = fmt::format("{}[{}]", list, i);
      if (!entry.IsMap()) {
        Fail(path, "expected a mapping");
        break;
      }
      if (Text(entry, path, "name") != wanted) continue;
      path = fmt::format("{}.{}", path, kind);
      const YAML::Node value = entry[kind];
      if (value && value.IsMap()) return value;
      if (value && !value.IsNull()) Fail(path, "expected a mapping");
      return YAML::Node(YAML::NodeType::Map);
    }
    Fail(list, fmt::format("no entry is called \"{}\"", wanted));
    return YAML::Node(YAML::NodeType::Map);
  }

 private:
  const std::string& name_;
  const ReadReferencedFile& read_file_;
  absl::Status status_;
};

void ReadCluster(Reader& reader, const YAML::Node& cluster, const std::string& path,
                 Credentials& credentials) {
  credentials.server = reader.Text(cluster, path, "server");
  if (credentials.server.empty()) reader.Fail(path + ".server", "missing");
  credentials.ca_pem = reader.Pem(cluster, path, "certificate-authority");
  credentials.insecure_skip_verify = reader.Flag(cluster, path, "insecure-skip-tls-verify");
  credentials.tls_server_name = reader.Text(cluster, path, "tls-server-name");
  if (!reader.Text(cluster, path, "proxy-url").empty()) {
    reader.Fail(path + ".proxy-url", "proxies are not supported");
  }
}

void ReadUser(Reader& reader, const YAML::Node& user, const std::string& path,
              Credentials& credentials) {
  credentials.token = reader.Text(user, path, "token");
  credentials.token_file = reader.Text(user, path, "tokenFile");
  credentials.client_cert_pem = reader.Pem(user, path, "client-certificate");
  credentials.client_key_pem = reader.Pem(user, path, "client-key");
  if (!credentials.client_cert_pem.empty() && credentials.client_key_pem.empty()) {
    reader.Fail(path + ".client-key", "missing beside client-certificate");
  }
  if (!credentials.client_key_pem.empty() && credentials.client_cert_pem.empty()) {
    reader.Fail(path + ".client-certificate", "missing beside client-key");
  }
  for (const char* key : {"exec", "auth-provider", "username", "password", "as"}) {
    if (user[key] && !user[key].IsNull()) {
      reader.Fail(fmt::format("{}.{}", path, key),
                  "not supported; use a token, tokenFile or a client certificate");
    }
  }
}

}  // namespace

absl::StatusOr<Credentials> ParseKubeconfig(const std::string& text, const std::string& name,
                                            const ReadReferencedFile& read_file) try {
  const YAML::Node root = YAML::Load(text);
  Reader reader(name, read_file);
  if (!root.IsMap()) {
    return absl::InvalidArgumentError(fmt::format("{}: not a kubeconfig file", name));
  }
  const std::string current = reader.Text(root, "kubeconfig", "current-context");
  if (current.empty()) reader.Fail("current-context", "missing");
  std::string path;
  Credentials credentials;
  if (reader.status().ok()) {
    const YAML::Node context = reader.Entry(root, "contexts", "context", current, path);
    const std::string cluster_name = reader.Text(context, path, "cluster");
    const std::string user_name = reader.Text(context, path, "user");
    if (reader.status().ok()) {
      const YAML::Node cluster = reader.Entry(root, "clusters", "cluster", cluster_name, path);
      ReadCluster(reader, cluster, path, credentials);
    }
    // A context without a user is anonymous.
    if (reader.status().ok() && !user_name.empty()) {
      const YAML::Node user = reader.Entry(root, "users", "user", user_name, path);
      ReadUser(reader, user, path, credentials);
    }
  }
  if (!reader.status().ok()) return reader.status();
  return credentials;
} catch (const YAML::Exception& error) {
  return absl::InvalidArgumentError(fmt::format(
      "{}: line {}, column {}: {}", name, error.mark.line + 1, error.mark.column + 1, error.msg));
} catch (const std::exception& error) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", name, error.what()));
}

absl::StatusOr<Credentials> LoadKubeconfig(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const auto resolve = [&](const std::string& file) { return (folder / file).string(); };
  absl::StatusOr<Credentials> credentials = ParseKubeconfig(
      *text, path, [&](const std::string& file) { return ReadFile(resolve(file)); });
  if (credentials.ok() && !credentials->token_file.empty()) {
    credentials->token_file = resolve(credentials->token_file);
    if (const auto token = ReadFile(credentials->token_file); !token.ok()) {
      const absl::string_view message = token.status().message();
      return absl::InvalidArgumentError(
          fmt::format("{}: tokenFile: {}", path, std::string(message.data(), message.size())));
    }
  }
  return credentials;
}

absl::StatusOr<Credentials> InClusterCredentials(const std::string& folder) {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr || *host == '\0' || *port == '\0') {
    return absl::FailedPreconditionError(
        "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
  }
  const std::string address = host;
  Credentials credentials;
  credentials.server = address.find(':') == std::string::npos
                           ? fmt::format("https://{}:{}", address, port)
                           : fmt::format("https://[{}]:{}", address, port);
  credentials.token_file = folder + "/token";
  if (const auto token = ReadFile(credentials.token_file); !token.ok()) return token.status();
  absl::StatusOr<std::string> ca = ReadFile(folder + "/ca.crt");
  if (!ca.ok()) return ca.status();
  credentials.ca_pem = *std::move(ca);
  return credentials;
}

}  // namespace numafit::kube
