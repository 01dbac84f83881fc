#include "test/kube/test_pki.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>

namespace numafit::kube_testing {
namespace {

std::string ReadBio(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

std::string CertPem(X509* cert) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, cert);
  return ReadBio(bio);
}

std::string KeyPem(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return ReadBio(bio);
}

void AddExtension(X509* cert, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  X509_add_ext(cert, extension, -1);
  X509_EXTENSION_free(extension);
}

X509* NewCert(EVP_PKEY* key, const std::string& common_name) {
  static std::atomic<long> serial = 1;
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
  X509_gmtime_adj(X509_getm_notBefore(cert), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  return cert;
}

}  // namespace

TestCa::TestCa(const std::string& name) : cert_(nullptr), key_(EVP_EC_gen("P-256")) {
  cert_ = NewCert(key_, name);
  X509_set_issuer_name(cert_, X509_get_subject_name(cert_));
  AddExtension(cert_, cert_, NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(cert_, key_, EVP_sha256());
  pem_ = CertPem(cert_);
}

TestCa::~TestCa() {
  X509_free(cert_);
  EVP_PKEY_free(key_);
}

Identity TestCa::Issue(const std::string& common_name,
                       const std::vector<std::string>& names) const {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = NewCert(key, common_name);
  X509_set_issuer_name(cert, X509_get_subject_name(cert_));
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ",") + name;
  if (!joined.empty()) AddExtension(cert, cert_, NID_subject_alt_name, joined);
  X509_sign(cert, key_, EVP_sha256());
  Identity identity{.cert_pem = CertPem(cert), .key_pem = KeyPem(key)};
  X509_free(cert);
  EVP_PKEY_free(key);
  return identity;
}

}  // namespace numafit::kube_testing
