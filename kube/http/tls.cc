#include "kube/http/tls.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>

namespace numafit::kube {
namespace {

template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using X509Ptr = std::unique_ptr<X509, Freer<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

BioPtr Open(const std::string& pem) {
  return BioPtr(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

absl::Status Unusable(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", what, TakeTlsError()));
}

// An encrypted key must not make OpenSSL ask on the terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

absl::Status AddRoots(SSL_CTX* context, const std::string& pem) {
  const BioPtr bio = Open(pem);
  int count = 0;
  while (const X509Ptr certificate{PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)}) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate.get()) != 1) {
      return Unusable("CA certificate");
    }
    ++count;
  }
  if (count == 0) return Unusable("CA certificate: no PEM certificate");
  ERR_clear_error();  // the end of the text
  return absl::OkStatus();
}

absl::Status AddClientCertificate(SSL_CTX* context, const TlsSettings& settings) {
  const BioPtr chain = Open(settings.client_cert_pem);
  const X509Ptr leaf{PEM_read_bio_X509(chain.get(), nullptr, NoPassword, nullptr)};
  if (leaf == nullptr || SSL_CTX_use_certificate(context, leaf.get()) != 1) {
    return Unusable("client certificate");
  }
  while (X509Ptr next{PEM_read_bio_X509(chain.get(), nullptr, NoPassword, nullptr)}) {
    if (SSL_CTX_add0_chain_cert(context, next.get()) != 1) return Unusable("client certificate");
    static_cast<void>(next.release());  // the context owns it now
  }
  ERR_clear_error();
  const BioPtr bio = Open(settings.client_key_pem);
  const KeyPtr key{PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr)};
  if (key == nullptr || SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return Unusable("client key");
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    return Unusable("client key does not belong to the client certificate");
  }
  return absl::OkStatus();
}

}  // namespace

void TlsContextDeleter::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

std::string TakeTlsError() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "nothing usable in it";
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : text.data();
}

absl::StatusOr<TlsContext> MakeTlsContext(const TlsSettings& settings) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::InternalError("TLS: " + TakeTlsError());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  if (settings.insecure_skip_verify) {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  } else {
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    if (settings.ca_pem.empty()) {
      if (SSL_CTX_set_default_verify_paths(context.get()) != 1) return Unusable("system roots");
    } else if (absl::Status status = AddRoots(context.get(), settings.ca_pem); !status.ok()) {
      return status;
    }
  }
  if (!settings.client_cert_pem.empty() || !settings.client_key_pem.empty()) {
    absl::Status status = AddClientCertificate(context.get(), settings);
    if (!status.ok()) return status;
  }
  return context;
}

}  // namespace numafit::kube
