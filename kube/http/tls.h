// TLS settings of a client, from PEM text.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

struct ssl_ctx_st;  // SSL_CTX

namespace numafit::kube {

struct TlsContextDeleter {
  void operator()(ssl_ctx_st* context) const;
};
using TlsContext = std::unique_ptr<ssl_ctx_st, TlsContextDeleter>;

struct TlsSettings {
  std::string ca_pem;  // empty: the system's roots
  bool insecure_skip_verify = false;
  std::string client_cert_pem;  // leaf first, then intermediates; empty: none
  std::string client_key_pem;
};

// TLS 1.2 or newer. InvalidArgument names the PEM that cannot be used.
absl::StatusOr<TlsContext> MakeTlsContext(const TlsSettings& settings);

// The newest error of OpenSSL's queue of this thread as text; empties the queue.
std::string TakeTlsError();

}  // namespace numafit::kube
