package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// How long a capability is valid. It is renewed at half of that, so that what neighbours are shown
// is still valid for ten minutes after every manager is gone.
const (
	CapabilityLifetime = 20 * time.Minute
	CapabilityRenewal  = CapabilityLifetime / 2
)

// capabilityTolerance is how far the clocks of whoever shows a capability and
// of whoever checks it may differ from the managers', which both know: see Clock.
const capabilityTolerance = 30 * time.Second

// MaxCapability is the greatest length of a capability, in bytes.
const MaxCapability = 4096

// Duty is what the holder of a capability does in a delivery. The numbers are
// those of groupcast.group.v1.Duty.
type Duty uint8

// The duties.
const (
	Send    Duty = 1
	Receive Duty = 2
	Relay   Duty = 3
)

// Capability is a manager's statement that the holder has a duty in a delivery.
// Anyone who trusts the manager's CA can check it without asking a manager.
type Capability struct {
	Holder          ID
	Group, Delivery string
	Duty            Duty
	// Issued and Expires are by the managers' clock, to the second.
	Issued, Expires time.Time
}

// ErrCapability says that a capability is refused.
var ErrCapability = errors.New("capability refused")

// A capability as it travels; numbers are big-endian:
//
//	 0         4         12        20     21
//	+---------+---------+---------+------+------+--------+--
//	| "GCC1"  | issued  | expires | duty | size | string | …  4 strings: role and name
//	+---------+---------+---------+------+------+--------+--  of the holder, group, delivery
//	+-------+------+-------------+--    +------+-----------+
//	| count | size | certificate | …    | size | signature |
//	+-------+------+-------------+--    +------+-----------+
//	 1       2      DER, leaf first      2      ECDSA in ASN.1
//
// Times are seconds since 1970, the sizes of strings have one byte, the others
// two. The signature covers capabilityDomain and all that comes before it here.
const capabilityMagic = "GCC1"

// capabilityDomain ensures that a signature made with the same key for another purpose, such as a
// TLS handshake, does not count as that of a capability.
const capabilityDomain = "groupcast capability, version 1\x00"

// maxCapabilityChain is how many certificates a capability can hold.
const maxCapabilityChain = 4

// Signer signs capabilities with a manager's credentials.
type Signer struct {
	key   *ecdsa.PrivateKey
	chain []byte // as it is in capabilities
}

// NewSigner returns a signer with a manager's credentials.
func NewSigner(by *Credentials) (*Signer, error) {
	key, isECDSA := by.Certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !isECDSA {
		return nil, fmt.Errorf("sign capability: the manager's key is a %T: want ECDSA", by.Certificate.PrivateKey)
	}
	chain, err := appendChain(nil, by.Certificate.Certificate)
	if err != nil {
		return nil, fmt.Errorf("sign capability: %w", err)
	}
	return &Signer{key, chain}, nil
}

// SignCapability signs one statement with a manager's credentials.
func SignCapability(by *Credentials, statement Capability) ([]byte, error) {
	signer, err := NewSigner(by)
	if err != nil {
		return nil, err
	}
	return signer.Sign(statement)
}

// Sign signs a statement.
func (s *Signer) Sign(statement Capability) ([]byte, error) {
	token := append(appendStatement([]byte(capabilityMagic), statement), s.chain...)
	signature, err := s.key.Sign(rand.Reader, capabilityDigest(token), crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign capability: %w", err)
	}
	token = appendSized(token, signature)
	if len(token) > MaxCapability {
		return nil, fmt.Errorf("sign capability: it has %d bytes with the manager's certificates: at most %d", len(token), MaxCapability)
	}
	return token, nil
}

func appendStatement(to []byte, c Capability) []byte {
	to = binary.BigEndian.AppendUint64(to, uint64(c.Issued.Unix()))
	to = binary.BigEndian.AppendUint64(to, uint64(c.Expires.Unix()))
	to = append(to, byte(c.Duty))
	for _, text := range []string{string(c.Holder.Role), c.Holder.Name, c.Group, c.Delivery} {
		to = append(append(to, byte(len(text))), text...)
	}
	return to
}

// appendChain appends the certificates but for roots: whoever checks has its own.
func appendChain(to []byte, chain [][]byte) ([]byte, error) {
	count := len(to)
	to = append(to, 0)
	for _, der := range chain {
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(certificate.RawIssuer, certificate.RawSubject) {
			to = appendSized(to, der)
			to[count]++
		}
	}
	return to, nil
}

func appendSized(to, value []byte) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(value))), value...)
}

func capabilityDigest(signed []byte) []byte {
	digest := sha256.Sum256(append([]byte(capabilityDomain), signed...))
	return digest[:]
}

// CheckCapability returns what a manager of the trust domain stated, if one did and the statement
// is in force. It does not check whether the statement is about the right holder, group and
// delivery: see Permits.
func CheckCapability(token []byte, roots *x509.CertPool, trustDomain string, now time.Time) (Capability, error) {
	if len(token) > MaxCapability {
		return Capability{}, fmt.Errorf("%w: it has %d bytes: at most %d", ErrCapability, len(token), MaxCapability)
	}
	parsed, err := parseCapability(token)
	if err != nil {
		return Capability{}, fmt.Errorf("%w: %w", ErrCapability, err)
	}
	if err := parsed.check(roots, trustDomain, now); err != nil {
		return Capability{}, fmt.Errorf("%w: %w", ErrCapability, err)
	}
	return parsed.statement, nil
}

// Permits returns an error unless the capability is the holder's, for the duty in the delivery.
func (c Capability) Permits(holder ID, group, delivery string, duty Duty) error {
	if c.Holder == holder && c.Group == group && c.Delivery == delivery && c.Duty == duty {
		return nil
	}
	return fmt.Errorf("%w: it is for %s in delivery %.40s of group %q with duty %d", ErrCapability, c.Holder, c.Delivery, c.Group, c.Duty)
}

// parsedCapability is a capability as it was received; nothing has been checked.
type parsedCapability struct {
	statement         Capability
	chain             []*x509.Certificate
	signed, signature []byte
}

func (p *parsedCapability) check(roots *x509.CertPool, trustDomain string, now time.Time) error {
	signer, err := verifyChain(p.chain, roots, trustDomain, x509.ExtKeyUsageServerAuth, now)
	if err != nil {
		return err
	}
	key, isECDSA := p.chain[0].PublicKey.(*ecdsa.PublicKey)
	switch s := p.statement; {
	case signer.ID.Role != Manager:
		return fmt.Errorf("signed by %s: want a manager", signer.ID)
	case !isECDSA || !ecdsa.VerifyASN1(key, capabilityDigest(p.signed), p.signature):
		return errors.New("the signature is wrong")
	case now.Before(s.Issued.Add(-capabilityTolerance)):
		return fmt.Errorf("it is not in force before %v", s.Issued)
	case now.After(s.Expires.Add(capabilityTolerance)):
		return fmt.Errorf("it expired at %v", s.Expires)
	}
	return nil
}

func parseCapability(token []byte) (*parsedCapability, error) {
	r := capabilityReader{rest: token}
	if string(r.take(len(capabilityMagic))) != capabilityMagic {
		return nil, errors.New("it is no capability")
	}
	p := &parsedCapability{statement: r.statement()}
	count := int(r.byte())
	if count == 0 || count > maxCapabilityChain {
		return nil, fmt.Errorf("it holds %d certificates: want 1 to %d", count, maxCapabilityChain)
	}
	for range count {
		certificate, err := x509.ParseCertificate(r.sized())
		if err != nil {
			return nil, fmt.Errorf("parse certificate: %w", err)
		}
		p.chain = append(p.chain, certificate)
	}
	p.signed = token[:len(token)-len(r.rest)]
	p.signature = r.sized()
	if r.short || len(r.rest) > 0 {
		return nil, errors.New("its length is wrong")
	}
	return p, p.statement.Holder.validHolder()
}

// validHolder returns what is wrong with a holder: members hold capabilities for each of their sessions.
func (id ID) validHolder() error {
	if id.Role == Member {
		return CheckSession(id.Name)
	}
	return id.Validate()
}

// capabilityReader takes a capability apart; anything missing reads as zero.
type capabilityReader struct {
	rest  []byte
	short bool
}

func (r *capabilityReader) take(n int) []byte {
	if n > len(r.rest) {
		r.rest, r.short = nil, true
		return make([]byte, min(n, 8))
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *capabilityReader) byte() byte    { return r.take(1)[0] }
func (r *capabilityReader) text() string  { return string(r.take(int(r.byte()))) }
func (r *capabilityReader) sized() []byte { return r.take(int(binary.BigEndian.Uint16(r.take(2)))) }

func (r *capabilityReader) time() time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(r.take(8))), 0)
}

func (r *capabilityReader) statement() Capability {
	c := Capability{Issued: r.time(), Expires: r.time(), Duty: Duty(r.byte())}
	c.Holder = ID{Role: Role(r.text()), Name: r.text()}
	c.Group, c.Delivery = r.text(), r.text()
	return c
}
