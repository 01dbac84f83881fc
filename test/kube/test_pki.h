// Certificates for tests, made on the spot and valid for an hour.
#pragma once

#include <memory>
#include <string>
#include <vector>

struct x509_st;
struct evp_pkey_st;

namespace numafit::kube_testing {

struct Identity {
  std::string cert_pem;
  std::string key_pem;
};

class TestCa {
 public:
  explicit TestCa(const std::string& name);
  ~TestCa();
  TestCa(const TestCa&) = delete;
  TestCa& operator=(const TestCa&) = delete;

  [[nodiscard]] const std::string& pem() const { return pem_; }
  // `names` as OpenSSL writes them: "IP:127.0.0.1", "DNS:localhost".
  [[nodiscard]] Identity Issue(const std::string& common_name,
                               const std::vector<std::string>& names) const;

 private:
  x509_st* cert_;
  evp_pkey_st* key_;
  std::string pem_;
};

}  // namespace numafit::kube_testing
