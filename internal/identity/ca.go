package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// CertificateLifetime is how long an issued certificate lives. It is renewed when half of that has passed.
const CertificateLifetime = time.Hour

// caLifetime is how long the built-in CA's own certificate lives.
const caLifetime = 10 * 365 * 24 * time.Hour

// CA issues certificates for the identities of one trust domain.
type CA struct {
	TrustDomain string
	// Now is the clock by which certificates are dated.
	Now func() time.Time
	// Managers returns the CA certificates, in DER, below which the managers' own certificates are; nil is this CA alone.
	Managers func() [][]byte

	certificate *x509.Certificate
	key         crypto.Signer
}

// CA files, below the CA's directory.
const (
	caCertificateFile = "ca.crt"
	// CAKeyFile is the CA's private key.
	CAKeyFile = "ca.key"
)

// OpenCA reads the CA in dir. If there is none, it creates one.
func OpenCA(dir, trustDomain string) (*CA, error) {
	certificatePEM, err := os.ReadFile(filepath.Join(dir, caCertificateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return createCA(dir, trustDomain)
	}
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, CAKeyFile))
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	ca, err := ParseCA(certificatePEM, keyPEM, trustDomain)
	if err != nil {
		return nil, fmt.Errorf("%w (in %s)", err, dir)
	}
	return ca, nil
}

// ParseCA reads a CA from its two PEM texts.
func ParseCA(certificatePEM, keyPEM []byte, trustDomain string) (*CA, error) {
	certificates, err := parseCertificates(certificatePEM)
	if err != nil {
		return nil, fmt.Errorf("read CA %s: %w", caCertificateFile, err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read CA %s: %w", CAKeyFile, err)
	}
	ca := &CA{TrustDomain: trustDomain, Now: time.Now, certificate: certificates[0], key: key}
	if public, ok := ca.certificate.PublicKey.(*ecdsa.PublicKey); !ok || !public.Equal(key.Public()) {
		return nil, fmt.Errorf("read CA: %s and %s do not belong together", caCertificateFile, CAKeyFile)
	}
	return ca, nil
}

// createCA creates a CA, unless a key is already there: that key may have certified others, and
// only its owner knows whether the certificate can be restored from elsewhere.
func createCA(dir, trustDomain string) (*CA, error) {
	if _, err := os.Stat(filepath.Join(dir, CAKeyFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read CA: %s is there but %s is missing in %s: restore it, or remove the key to make a new CA", CAKeyFile, caCertificateFile, dir)
	}
	ca, err := NewCA(trustDomain, time.Now)
	if err != nil {
		return nil, err
	}
	return ca, ca.Save(dir)
}

// Save writes the CA into its directory.
func (ca *CA) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create CA: %w", err)
	}
	certificatePEM, keyPEM, err := ca.PEM()
	if err != nil {
		return err
	}
	// The key goes first: a certificate without its key would look like a CA without being one.
	if err := WriteFile(filepath.Join(dir, CAKeyFile), keyPEM, 0o600); err != nil {
		return fmt.Errorf("create CA: %w", err)
	}
	if err := WriteFile(filepath.Join(dir, caCertificateFile), certificatePEM, 0o644); err != nil {
		return fmt.Errorf("create CA: %w", err)
	}
	return nil
}

// PEM returns the CA as the two texts that ParseCA reads.
func (ca *CA) PEM() (certificate, key []byte, err error) {
	key, err = encodeKey(ca.key)
	return encodeCertificates(ca.certificate.Raw), key, err
}

// ReadAuthority returns the fingerprint of the CA whose certificate is the first in a PEM file.
func ReadAuthority(name string) (Fingerprint, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("read the managers' CA: %w", err)
	}
	certificates, err := parseCertificates(text)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("read the managers' CA %s: %w", name, err)
	}
	return sha256.Sum256(certificates[0].Raw), nil
}

// NewCA makes a CA that lives in memory.
func NewCA(trustDomain string, now func() time.Time) (*CA, error) {
	key, err := generateKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: "Groupcast CA of " + trustDomain},
		NotBefore:             now().Add(-ClockTolerance),
		NotAfter:              now().Add(caLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create CA: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("create CA: %w", err)
	}
	return &CA{TrustDomain: trustDomain, Now: now, certificate: certificate, key: key}, nil
}

// Authorities returns the CA certificates, in DER, that whoever this CA certifies is to trust: first that of the CA that
// issues the managers' own certificates, then this one.
func (ca *CA) Authorities() [][]byte {
	var all [][]byte
	if ca.Managers != nil {
		all = slices.Clone(ca.Managers())
	}
	isOwn := func(der []byte) bool { return bytes.Equal(der, ca.certificate.Raw) }
	if !slices.ContainsFunc(all, isOwn) {
		all = append(all, ca.certificate.Raw)
	}
	return all
}

// AuthoritiesPEM returns the Authorities as the text that ReadAuthority reads.
func (ca *CA) AuthoritiesPEM() []byte { return encodeCertificates(ca.Authorities()...) }

// Front returns the hash that join tokens know the managers by: that of the CA that issues the managers' own certificates.
func (ca *CA) Front() Fingerprint { return sha256.Sum256(ca.Authorities()[0]) }

// Fingerprint returns the hash by which stores identify the CA.
func (ca *CA) Fingerprint() Fingerprint { return sha256.Sum256(ca.certificate.Raw) }

// Fingerprint is the SHA-256 of a CA's certificate.
type Fingerprint [sha256.Size]byte

func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// Stamp orders the certificates of one identity without a clock: it is the store's revision when a
// certificate was issued. When an identity is revoked, every certificate with a lower stamp is
// refused.
type Stamp uint64

// Issue certifies that the holder of the public key is id. Everything else in the certificate is
// decided here, and not taken from a request. Hosts are DNS names and addresses, for clients of a
// gateway that identify servers by these, as curl does.
func (ca *CA) Issue(id ID, public crypto.PublicKey, stamp Stamp, hosts ...string) ([]byte, error) {
	if err := id.Validate(); err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	now := ca.Now()
	names, addresses := partHosts(hosts)
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: id.String(), SerialNumber: strconv.FormatUint(uint64(stamp), 10)},
		URIs:         []*url.URL{id.URI(ca.TrustDomain)},
		DNSNames:     names,
		IPAddresses:  addresses,
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(CertificateLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, public, ca.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate of %s: %w", id, err)
	}
	return der, nil
}

// partHosts parts DNS names from addresses.
func partHosts(hosts []string) (names []string, addresses []net.IP) {
	for _, host := range hosts {
		if address := net.ParseIP(host); address != nil {
			addresses = append(addresses, address)
			continue
		}
		names = append(names, host)
	}
	return names, addresses
}

// stampOf returns the stamp of a certificate; zero if a foreign issuer wrote none.
func stampOf(certificate *x509.Certificate) Stamp {
	stamp, err := strconv.ParseUint(certificate.Subject.SerialNumber, 10, 64)
	if err != nil {
		return 0
	}
	return Stamp(stamp)
}

// PublicKey checks a PKCS #10 request and returns the key to be certified.
func PublicKey(request []byte) (crypto.PublicKey, error) {
	parsed, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("parse certificate request: %w", err)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("check certificate request: %w", err)
	}
	key, isECDSA := parsed.PublicKey.(*ecdsa.PublicKey)
	if !isECDSA || key.Curve != elliptic.P256() {
		return nil, errors.New("certificate request: want a P-256 key")
	}
	return key, nil
}

func generateKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

func newSerial() *big.Int {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic("identity: no randomness: " + err.Error())
	}
	return serial
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("holds no PEM block")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key of type %T cannot sign", key)
	}
	return signer, nil
}

func encodeCertificates(certificates ...[]byte) []byte {
	var text bytes.Buffer
	for _, der := range certificates {
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			panic("identity: encode certificate: " + err.Error())
		}
	}
	return text.Bytes()
}

func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate: %w", err)
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("holds no certificate in PEM")
	}
	return certificates, nil
}
