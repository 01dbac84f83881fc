// Package pki makes the certificates of the lab: one authority, short-lived, only for loopback.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs every certificate of one lab.
type Authority struct {
	Dir         string // where the files are written
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Pair names the two PEM files of a certificate.
type Pair struct{ Cert, Key string }

// NewAuthority makes an authority and writes its certificate to dir/ca.crt.
func NewAuthority(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate(pkix.Name{CommonName: "numafit-lab"})
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	authority := &Authority{Dir: dir, certificate: certificate, key: key}
	return authority, writePEM(authority.CAFile(), "CERTIFICATE", der)
}

// CAFile is the authority's own certificate.
func (a *Authority) CAFile() string { return filepath.Join(a.Dir, "ca.crt") }

// Client makes a client certificate: the user name and its groups, as the API server reads them.
func (a *Authority) Client(file, user string, groups ...string) (Pair, error) {
	template := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(file, template)
}

// Server makes a serving certificate for the given addresses and names.
func (a *Authority) Server(file string, hosts ...string) (Pair, error) {
	template := newTemplate(pkix.Name{CommonName: file})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.sign(file, template)
}

func (a *Authority) sign(file string, template *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate %s: %w", file, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	pair := Pair{
		Cert: filepath.Join(a.Dir, file+".crt"),
		Key:  filepath.Join(a.Dir, file+".key"),
	}
	if err := writePEM(pair.Cert, "CERTIFICATE", der); err != nil {
		return Pair{}, err
	}
	return pair, writePEM(pair.Key, "EC PRIVATE KEY", keyDER)
}

// ServiceAccountKey makes the key that signs service account tokens.
func ServiceAccountKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return writePEM(path, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

func newTemplate(subject pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(365 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

func writePEM(path, kind string, der []byte) error {
	block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return os.WriteFile(path, block, 0o600)
}
