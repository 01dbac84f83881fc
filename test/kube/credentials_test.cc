#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "kube/backoff.h"
#include "kube/client.h"
#include "kube/http/transport.h"

namespace numafit::kube {
namespace {

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

class KubeconfigTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/kubeconfig-" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  // A kubeconfig with these lines in its cluster and user.
  std::string Config(const std::string& cluster, const std::string& user) {
    return Write("config",
                 "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
                 "contexts:\n"
                 "- {name: there, context: {cluster: x, user: y}}\n"
                 "- {name: here, context: {cluster: c1, user: u1, namespace: team-a}}\n"
                 "clusters:\n- name: c1\n  cluster: {" +
                     cluster + "}\nusers:\n- name: u1\n  user: {" + user + "}\n");
  }

  std::string folder_;
};

TEST_F(KubeconfigTest, ReadsInlineData) {
  const auto credentials =
      LoadKubeconfig(Config("server: 'https://10.0.0.1:6443', certificate-authority-data: Y2E=, "
                            "tls-server-name: kubernetes",
                            "client-certificate-data: Y2VydA==, client-key-data: a2V5"));
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ(credentials->server, "https://10.0.0.1:6443");
  EXPECT_EQ(credentials->ca_pem, "ca");
  EXPECT_EQ(credentials->tls_server_name, "kubernetes");
  EXPECT_EQ(credentials->client_cert_pem, "cert");
  EXPECT_EQ(credentials->client_key_pem, "key");
  EXPECT_FALSE(credentials->insecure_skip_verify);
}

TEST_F(KubeconfigTest, ReadsFilesBesideItself) {
  std::filesystem::create_directories(folder_ + "/pki");
  Write("pki/ca.crt", "CA");
  Write("token", "secret\n");
  Write("cert", "CERT");
  Write("key", "KEY");
  const auto credentials = LoadKubeconfig(
      Config("server: 'https://h', certificate-authority: pki/ca.crt, "
             "insecure-skip-tls-verify: true",
             "tokenFile: token, client-certificate: " + folder_ + "/cert, client-key: key"));
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ(credentials->ca_pem, "CA");
  EXPECT_EQ(credentials->token_file, folder_ + "/token");
  EXPECT_EQ(credentials->client_cert_pem, "CERT");
  EXPECT_EQ(credentials->client_key_pem, "KEY");
  EXPECT_TRUE(credentials->insecure_skip_verify);
}

TEST_F(KubeconfigTest, JsonIsFineToo) {
  const auto credentials = LoadKubeconfig(Write(
      "config",
      R"({"current-context":"a","contexts":[{"name":"a","context":{"cluster":"c","user":"u"}}],
          "clusters":[{"name":"c","cluster":{"server":"http://h:1"}}],
          "users":[{"name":"u","user":{"token":"t"}}]})"));
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ(credentials->server, "http://h:1");
  EXPECT_EQ(credentials->token, "t");
}

TEST_F(KubeconfigTest, ErrorsNameFileAndKey) {
  const struct {
    const char* cluster;
    const char* user;
    const char* message;
  } kCases[] = {
      {"", "token: t", "clusters[0].cluster.server: missing"},
      {"server: []", "token: t", "clusters[0].cluster.server: expected a string"},
      {"server: h, certificate-authority-data: '%%%'", "token: t",
       "clusters[0].cluster.certificate-authority-data: not base64"},
      {"server: h, certificate-authority: nowhere.crt", "token: t", "nowhere.crt: No such file"},
      {"server: h, insecure-skip-tls-verify: maybe", "token: t",
       "insecure-skip-tls-verify: expected true or false"},
      {"server: h, proxy-url: 'http://p'", "token: t", "proxy-url: proxies are not supported"},
      {"server: h", "exec: {command: aws}", "users[0].user.exec: not supported"},
      {"server: h", "auth-provider: {name: x}", "users[0].user.auth-provider: not supported"},
      {"server: h", "client-certificate-data: YQ==", "users[0].user.client-key: missing"},
      {"server: h", "client-key-data: YQ==", "users[0].user.client-certificate: missing"},
      {"server: h", "tokenFile: gone", "tokenFile"},
  };
  for (const auto& c : kCases) {
    const std::string path = Config(c.cluster, c.user);
    const auto credentials = LoadKubeconfig(path);
    ASSERT_FALSE(credentials.ok()) << c.message;
    EXPECT_NE(Message(credentials.status()).find(c.message), std::string::npos)
        << credentials.status();
    EXPECT_TRUE(Message(credentials.status()).starts_with(path)) << credentials.status();
  }
}

TEST_F(KubeconfigTest, BrokenFilesAreErrors) {
  const std::string there = "current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\n";
  const struct {
    std::string text;
    const char* message;
  } kCases[] = {
      {"", "not a kubeconfig"},
      {"- a", "not a kubeconfig"},
      {"a: [", "line 1, column"},
      {"a: b", "current-context: missing"},
      {"current-context: a", "contexts: no entry is called \"a\""},
      {"current-context: a\ncontexts: {}", "contexts: expected a list"},
      {"current-context: a\ncontexts: [1]", "contexts[0]: expected a mapping"},
      {"current-context: a\ncontexts: [{name: a, context: x}]", "contexts[0].context: expected"},
      {there, "clusters: no entry is called \"c\""},
      {std::string(100'000, '['), "config"},
  };
  for (const auto& c : kCases) {
    const auto credentials = LoadKubeconfig(Write("config", c.text));
    ASSERT_FALSE(credentials.ok()) << c.message;
    EXPECT_NE(Message(credentials.status()).find(c.message), std::string::npos)
        << credentials.status();
  }
  EXPECT_TRUE(absl::IsNotFound(LoadKubeconfig(folder_ + "/nowhere").status()));
  EXPECT_FALSE(LoadKubeconfig(folder_).ok());
}

TEST_F(KubeconfigTest, InClusterReadsTheServiceAccount) {
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_EQ(InClusterCredentials(folder_).status().code(), absl::StatusCode::kFailedPrecondition);
  ::setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
  ::setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  EXPECT_TRUE(absl::IsNotFound(InClusterCredentials(folder_).status()));
  Write("token", "t");
  Write("ca.crt", "CA");
  auto credentials = InClusterCredentials(folder_);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ(credentials->server, "https://10.96.0.1:443");
  EXPECT_EQ(credentials->token_file, folder_ + "/token");
  EXPECT_EQ(credentials->ca_pem, "CA");
  ::setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  EXPECT_EQ(InClusterCredentials(folder_)->server, "https://[fd00::1]:443");
  ::unsetenv("KUBERNETES_SERVICE_HOST");
}

TEST_F(KubeconfigTest, TheTokenFollowsItsFile) {
  const std::string path = Write("token", " first\n");
  TokenSource source("fallback", path);
  EXPECT_EQ(source.Get(), "first");
  // Replaced as the kubelet does: another file under the same name.
  Write("next", "second");
  std::filesystem::rename(folder_ + "/next", path);
  EXPECT_EQ(source.Get(), "second");
  std::filesystem::remove(path);
  EXPECT_EQ(source.Get(), "second");
  Write("token", "bad\nheader");
  EXPECT_EQ(source.Get(), "second");
  TokenSource missing("fallback", folder_ + "/nowhere");
  EXPECT_EQ(missing.Get(), "fallback");
}

TEST(ServerUrlTest, ReadsAddresses) {
  const struct {
    const char* url;
    bool tls;
    const char* host;
    const char* port;
    const char* prefix;
  } kCases[] = {
      {"https://127.0.0.1:6443", true, "127.0.0.1", "6443", ""},
      {"https://kube.example", true, "kube.example", "443", ""},
      {"http://kube.example/", false, "kube.example", "80", ""},
      {"https://proxy/k8s/clusters/c-1/", true, "proxy", "443", "/k8s/clusters/c-1"},
      {"https://[fd00::1]:6443/x", true, "fd00::1", "6443", "/x"},
      {"https://[::1]", true, "::1", "443", ""},
      {"localhost:8080", false, "localhost", "8080", ""},
  };
  for (const auto& c : kCases) {
    const auto url = ParseServerUrl(c.url);
    ASSERT_TRUE(url.ok()) << c.url << url.status();
    EXPECT_EQ(url->tls, c.tls) << c.url;
    EXPECT_EQ(url->endpoint.host, c.host) << c.url;
    EXPECT_EQ(url->endpoint.port, c.port) << c.url;
    EXPECT_EQ(url->prefix, c.prefix) << c.url;
  }
}

TEST(ServerUrlTest, RefusesWhatIsNoAddress) {
  for (const char* url : {"", "https://", "ftp://h", "https://h:", "https://h:x", "https://h:65536",
                          "https://h:123456", "https://u@h", "https://h?q", "https://[::1",
                          "https://[::1]x", "https://h/\r\nX: y", "https://h\x01", "https://:1"}) {
    const auto parsed = ParseServerUrl(url);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << url;
  }
}

TEST(EscapeUrlTest, LeavesOnlyWhatIsUnreserved) {
  EXPECT_EQ(EscapeUrl("aZ9-._~"), "aZ9-._~");
  EXPECT_EQ(EscapeUrl("spec.nodeName!=,a/b c\xff"), "spec.nodeName%21%3D%2Ca%2Fb%20c%FF");
}

TEST(BackoffTest, DoublesUpToItsCapAndStartsAgain) {
  Backoff backoff(std::chrono::milliseconds(100), std::chrono::milliseconds(1000), 7);
  for (int round = 0; round < 2; ++round) {
    for (const int full : {100, 200, 400, 800, 1000, 1000, 1000}) {
      const auto wait = backoff.Next().count();
      EXPECT_GE(wait, full / 2);
      EXPECT_LE(wait, full);
    }
    backoff.Reset();
  }
}

TEST(BackoffTest, TwoClientsDoNotWaitAlike) {
  Backoff a(std::chrono::milliseconds(10'000), std::chrono::milliseconds(10'000), 1);
  Backoff b(std::chrono::milliseconds(10'000), std::chrono::milliseconds(10'000), 2);
  int equal = 0;
  for (int i = 0; i < 20; ++i) equal += a.Next() == b.Next() ? 1 : 0;
  EXPECT_LT(equal, 20);
}

TEST(BackoffTest, NonsenseSettingsStillWait) {
  Backoff backoff(std::chrono::milliseconds(0), std::chrono::milliseconds(-5), 1);
  EXPECT_GE(backoff.Next().count(), 1);
}

}  // namespace
}  // namespace numafit::kube
