package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Credentials are a certificate, its key, and the authorities by which to check others.
type Credentials struct {
	Certificate tls.Certificate
	Roots       *x509.CertPool
	Authorities [][]byte // those of Roots, in DER
	ID          ID
	// Interrupted says that the writer of the files was stopped before it had replaced all of them: they have to be
	// written again.
	Interrupted bool
}

// Source gives the credentials to use now; they change when they are renewed.
type Source interface {
	Credentials() (*Credentials, error)
}

// Trusting returns the credentials with more authorities to check others by. They show their own authorities as well, to peers
// that know them by these alone.
func (c *Credentials) Trusting(others ...[]byte) (*Credentials, error) {
	next := *c
	next.Roots, next.Authorities = c.Roots.Clone(), slices.Concat(c.Authorities, others)
	for _, der := range others {
		authority, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("read authority: %w", err)
		}
		next.Roots.AddCert(authority)
	}
	next.Certificate.Certificate = slices.Clone(c.Certificate.Certificate)
	for _, authority := range c.Authorities {
		isShown := func(der []byte) bool { return bytes.Equal(der, authority) }
		if !slices.ContainsFunc(next.Certificate.Certificate, isShown) {
			next.Certificate.Certificate = append(next.Certificate.Certificate, authority)
		}
	}
	return &next, nil
}

// Key is a fresh private key on its way to a certificate.
type Key struct {
	pem     []byte
	request []byte
}

// NewKey makes a key and the request to certify it.
func NewKey() (*Key, error) {
	key, err := generateKey()
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate request: %w", err)
	}
	text, err := encodeKey(key)
	return &Key{pem: text, request: request}, err
}

// Request returns the PKCS #10 request to send to the CA.
func (k *Key) Request() []byte { return k.request }

// Certified joins the key with the certificate that was issued for it.
func (k *Key) Certified(certificate []byte, authorities [][]byte) (*Bundle, error) {
	if len(authorities) == 0 {
		return nil, errors.New("certificate came without authorities")
	}
	bundle := &Bundle{
		Key:         k.pem,
		Certificate: encodeCertificates(append([][]byte{certificate}, authorities...)...),
		Authorities: encodeCertificates(authorities...),
	}
	_, err := bundle.Credentials()
	return bundle, err
}

// IssueBundle makes a key and certifies it at once. It is for the process that has the CA.
func (ca *CA) IssueBundle(id ID, stamp Stamp, hosts ...string) (*Bundle, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	public, err := PublicKey(key.Request())
	if err != nil {
		return nil, err
	}
	certificate, err := ca.Issue(id, public, stamp, hosts...)
	if err != nil {
		return nil, err
	}
	return key.Certified(certificate, ca.Authorities())
}

// IssueCredentials makes a key, certifies it, and returns the parsed credentials.
func (ca *CA) IssueCredentials(id ID, stamp Stamp, hosts ...string) (*Credentials, error) {
	bundle, err := ca.IssueBundle(id, stamp, hosts...)
	if err != nil {
		return nil, err
	}
	return bundle.Credentials()
}

// Bundle is credentials as the three PEM texts that are kept in files.
type Bundle struct {
	Key, Certificate, Authorities []byte
}

// Credentials parses the bundle.
func (b *Bundle) Credentials() (*Credentials, error) {
	pair, err := tls.X509KeyPair(b.Certificate, b.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	authorities, err := parseCertificates(b.Authorities)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	roots := x509.NewCertPool()
	for _, authority := range authorities {
		roots.AddCert(authority)
	}
	credentials := &Credentials{Certificate: pair, Roots: roots}
	for _, authority := range authorities {
		credentials.Authorities = append(credentials.Authorities, authority.Raw)
	}
	if len(pair.Leaf.URIs) == 1 {
		credentials.ID, err = ParseURI(pair.Leaf.URIs[0], pair.Leaf.URIs[0].Host)
	} else {
		err = fmt.Errorf("certificate has %d URIs: want one identity", len(pair.Leaf.URIs))
	}
	return credentials, err
}

// Check says why peers of the trust domain refuse these credentials at now, if they do: none of the authorities has issued them, they are not
// in force, not for servers and clients both, or hold no identity of the domain.
func (c *Credentials) Check(trustDomain string, now time.Time) error {
	var chain []*x509.Certificate
	for _, raw := range c.Certificate.Certificate {
		certificate, err := x509.ParseCertificate(raw)
		if err != nil {
			return err
		}
		chain = append(chain, certificate)
	}
	for usage, name := range map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "a server's", x509.ExtKeyUsageClientAuth: "a client's"} {
		if err := verifyIssued(chain, c.Roots, usage, now); err != nil {
			return fmt.Errorf("as %s: %w", name, err)
		}
	}
	_, err := idOf(chain[0], trustDomain)
	return err
}

// RenewalDue reports whether half of the certificate's life has passed at now. It is also due if
// now is before that life, and if the files are incomplete, so that other programs cannot read
// them.
func (c *Credentials) RenewalDue(now time.Time) bool {
	leaf := c.Certificate.Leaf
	half := leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
	return c.Interrupted || now.After(half) || now.Before(leaf.NotBefore)
}

// Expiry returns when the certificate expires, by the issuer's clock.
func (c *Credentials) Expiry() time.Time { return c.Certificate.Leaf.NotAfter }

// Files are credentials in three PEM files, which are read again when they change. They may be
// written by this project, cert-manager, SPIRE or by hand.
//
// When this project writes them, the key's file also contains the certificate, after the key: two
// files cannot be replaced at once, and a power cut in between would leave a key without its
// certificate. Programs that want only the key skip the rest, as earlier versions do.
type Files struct {
	Certificate, Key, Authorities string

	mu      sync.Mutex
	current *Credentials
	read    [3]fileState
	checked time.Time
	trouble error
	// unwritten is what current was parsed from, if the files could not be replaced by it so far: they have the certificate superseded.
	unwritten  *Bundle
	superseded []byte
}

type fileState struct {
	modified time.Time
	size     int64
}

// FilesIn returns the credentials in a directory under their usual names.
func FilesIn(dir string) *Files {
	return &Files{
		Certificate: filepath.Join(dir, "tls.crt"),
		Key:         filepath.Join(dir, "tls.key"),
		Authorities: filepath.Join(dir, "ca.crt"),
	}
}

// recheck is how long credentials are used before the files are checked again.
const recheck = time.Second

// Credentials returns what the files contain. While they cannot be read, for instance in the middle
// of a change, the last ones that could be read stay in use.
func (f *Files) Credentials() (*Credentials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil && time.Since(f.checked) < recheck {
		return f.current, nil
	}
	f.checked = time.Now()
	states, err := f.states()
	if err == nil && f.current != nil && states == f.read {
		f.trouble = nil
		return f.current, nil
	}
	if err == nil {
		err = f.loadSettled(states)
	}
	f.trouble = err
	if f.current == nil {
		f.loadInterrupted(states)
	}
	if f.current != nil {
		return f.current, nil
	}
	return nil, err
}

// Trouble says why the files cannot be read, when they were last looked at: what Credentials returns is what they had before. Nil is that
// they can.
func (f *Files) Trouble() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trouble
}

const (
	// settleTries is how often to read files that do not match: somebody may have replaced one of them, and not yet the other.
	settleTries = 50
	settlePause = 20 * time.Millisecond
)

// loadSettled reads the files. If credentials are already in use it tries once, as it can read them
// later; for the first ones it waits.
func (f *Files) loadSettled(states [3]fileState) error {
	for try := 1; ; try++ {
		credentials, err := f.load()
		if err == nil {
			f.read = states
			f.take(credentials)
			return nil
		}
		if f.current != nil || try == settleTries {
			return err
		}
		time.Sleep(settlePause)
	}
}

// take has credentials used that were read, unless those in use are to replace them. Others are of somebody else, who has
// enrolled anew or renewed as well: theirs count.
func (f *Files) take(read *Credentials) {
	if f.unwritten != nil && bytes.Equal(read.Certificate.Leaf.Raw, f.superseded) {
		return
	}
	f.current, f.unwritten = read, nil
}

// loadInterrupted reads files that a power cut or a kill has left half replaced: the key's file has both.
func (f *Files) loadInterrupted(states [3]fileState) {
	credentials, err := (&Files{Certificate: f.Key, Key: f.Key, Authorities: f.Authorities}).load()
	if err != nil {
		return // what is wrong with the files themselves is more telling
	}
	credentials.Interrupted = true
	f.current, f.read = credentials, states
}

func (f *Files) states() (states [3]fileState, err error) {
	for i, name := range []string{f.Certificate, f.Key, f.Authorities} {
		info, err := os.Stat(name)
		if err != nil {
			return states, fmt.Errorf("read credentials: %w", err)
		}
		states[i] = fileState{info.ModTime(), info.Size()}
	}
	return states, nil
}

func (f *Files) load() (*Credentials, error) {
	var bundle Bundle
	for _, part := range []struct {
		name string
		text *[]byte
	}{{f.Certificate, &bundle.Certificate}, {f.Key, &bundle.Key}, {f.Authorities, &bundle.Authorities}} {
		var err error
		if *part.text, err = os.ReadFile(part.name); err != nil {
			return nil, fmt.Errorf("read credentials: %w", err)
		}
	}
	credentials, err := bundle.Credentials()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Certificate, err)
	}
	return credentials, nil
}

// Write replaces the content of the files. Wherever it is interrupted, they can be read.
func (f *Files) Write(bundle *Bundle) error {
	if err := os.MkdirAll(filepath.Dir(f.Key), 0o700); err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	pair := slices.Concat(bundle.Key, bundle.Certificate)
	err := WriteFiles(File{f.Authorities, bundle.Authorities, 0o644}, File{f.Key, pair, 0o600}, File{f.Certificate, bundle.Certificate, 0o644})
	if err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked, f.unwritten = time.Time{}, nil
	return nil
}

// Adopt has a renewed bundle used in place of what the files contain, and writes it to them. If that fails, as on a full
// disk, it is used all the same, from memory, until WriteAdopted succeeds or somebody else has replaced the files.
func (f *Files) Adopt(renewed *Bundle) error {
	credentials, err := renewed.Credentials()
	if err != nil {
		return err
	}
	f.mu.Lock()
	if f.unwritten == nil && f.current != nil {
		f.superseded = f.current.Certificate.Leaf.Raw
	}
	f.current, f.unwritten = credentials, renewed
	f.mu.Unlock()
	return f.Write(renewed)
}

// WriteAdopted tries once more to write what is in memory alone, if anything is. It reports whether it has.
func (f *Files) WriteAdopted() (written bool, err error) {
	f.mu.Lock()
	unwritten := f.unwritten
	f.mu.Unlock()
	if unwritten == nil {
		return false, nil
	}
	err = f.Write(unwritten)
	return err == nil, err
}

// SelfIssued are credentials of a process that has the CA: it renews them itself.
type SelfIssued struct {
	ca *CA
	id ID

	mu      sync.Mutex
	current *Credentials
}

// NewSelfIssued returns credentials of the identity, issued by the CA.
func NewSelfIssued(ca *CA, id ID) (*SelfIssued, error) {
	s := &SelfIssued{ca: ca, id: id}
	_, err := s.Credentials()
	return s, err
}

// managerStamp is the stamp of certificates that managers issue to themselves:
// a process that holds the CA cannot be revoked by it.
const managerStamp = Stamp(1)

// Credentials returns the current credentials, renewed if that was due.
func (s *SelfIssued) Credentials() (*Credentials, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && !s.current.RenewalDue(s.ca.Now()) {
		return s.current, nil
	}
	var err error
	s.current, err = s.ca.IssueCredentials(s.id, managerStamp)
	return s.current, err
}
