// Package identity says who a process is, and proves it: identities as SPIFFE-style names in
// certificates, the built-in CA that issues these, join tokens that are exchanged for a first
// certificate, and TLS 1.3 configurations that check them.
//
// A peer is known only by the URI in its certificate, never by its address or by a DNS name:
//
//	spiffe://TRUST_DOMAIN/groupcast/ROLE/NAME
package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Role is the kind of process that an identity stands for.
type Role string

// The roles.
const (
	Manager    Role = "manager"
	Agent      Role = "agent"
	Gatherer   Role = "gatherer"
	Replicator Role = "replicator"
	Member     Role = "member"
	Operator   Role = "operator"
	// Gateway is the proxy in front of the managers: it says who called it, and may do nothing itself.
	Gateway Role = "gateway"
)

// Roles lists every role.
var Roles = []Role{Manager, Agent, Gatherer, Replicator, Member, Operator, Gateway}

// DefaultTrustDomain is the trust domain if the configuration names none.
const DefaultTrustDomain = "groupcast.local"

// ID is an identity: a role and a name within it.
type ID struct {
	Role Role
	Name string
}

// named is a message that names somebody.
type named interface {
	GetRole() string
	GetName() string
}

// Named returns the identity that a message names by role and name.
func Named(message named) ID {
	return ID{Role: Role(message.GetRole()), Name: message.GetName()}
}

func (id ID) String() string { return string(id.Role) + "/" + id.Name }

// InWords returns the identity as people read it, as in "member node-7".
func (id ID) InWords() string { return string(id.Role) + " " + id.Name }

// URI returns the identity as certificates carry it.
func (id ID) URI(trustDomain string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: "/groupcast/" + id.String()}
}

// Validate returns what is wrong with an identity.
func (id ID) Validate() error {
	if !slices.Contains(Roles, id.Role) {
		return fmt.Errorf("role %q is not one of %v", id.Role, Roles)
	}
	if group, member, relays := id.Relay(); relays {
		return errors.Join(CheckName(member), CheckName(group))
	}
	return CheckName(id.Name)
}

// RelayOf returns the identity that a member of a group has as a session agent, for that group alone.
func RelayOf(group, member string) ID { return ID{Agent, member + "." + group} }

// Relay returns the group and the member if an agent is a member's: no other agent has a dot in its name.
func (id ID) Relay() (group, member string, relays bool) {
	if id.Role != Agent {
		return "", "", false
	}
	member, group, relays = strings.Cut(id.Name, ".")
	return group, member, relays
}

// ErrForeign says that a certificate does not hold an identity of this trust domain.
var ErrForeign = errors.New("certificate holds no identity of this trust domain")

// ParseURI reads an identity of the trust domain.
func ParseURI(uri *url.URL, trustDomain string) (ID, error) {
	rest, ok := strings.CutPrefix(uri.String(), "spiffe://"+trustDomain+"/groupcast/")
	role, name, ok2 := strings.Cut(rest, "/")
	id := ID{Role: Role(role), Name: name}
	if !ok || !ok2 || id.Validate() != nil {
		return ID{}, fmt.Errorf("%w %s: %s", ErrForeign, trustDomain, uri)
	}
	return id, nil
}

// idOf returns the one identity that a certificate holds.
func idOf(certificate *x509.Certificate, trustDomain string) (ID, error) {
	if len(certificate.URIs) != 1 {
		return ID{}, fmt.Errorf("%w %s: it has %d URIs", ErrForeign, trustDomain, len(certificate.URIs))
	}
	return ParseURI(certificate.URIs[0], trustDomain)
}

// CheckTrustDomain returns why name is not a trust domain: 1 to 255 letters, digits, hyphens, underscores and inner dots. Upper-case
// letters are taken, which SPIFFE does not: managers have taken them.
func CheckTrustDomain(name string) error {
	if name == "" {
		return fmt.Errorf("is empty: name one, as %s", DefaultTrustDomain)
	}
	ok := len(name) <= 255 && !slices.Contains(strings.Split(name, "."), "")
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	}
	if !ok {
		return fmt.Errorf("is %.80q: want 1 to 255 letters, digits, hyphens and inner dots, as %s", name, DefaultTrustDomain)
	}
	return nil
}

// CheckName returns why name is not a DNS label: 1 to 63 lower-case letters, digits and inner hyphens (RFC 1123).
func CheckName(name string) error {
	if name == "" {
		return errors.New("name is empty: want a DNS label, as in node-7")
	}
	ok := len(name) <= 63 && name[0] != '-' && name[len(name)-1] != '-'
	for _, r := range name {
		ok = ok && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-')
	}
	if !ok {
		return fmt.Errorf("name %.80q is not a DNS label: want 1 to 63 of a-z, 0-9 and inner hyphens, as in node-7", name)
	}
	return nil
}
