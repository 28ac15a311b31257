package identity

import (
	"errors"
	"strings"
)

// CheckSession says why a member's session in a group cannot be called so. It is called as the
// member is, or NAME.PART: so one member may have several, to send while it receives.
func CheckSession(name string) error {
	member, part, isPart := strings.Cut(name, ".")
	if !isPart {
		return CheckName(name)
	}
	return errors.Join(CheckName(member), CheckName(part))
}

// SessionOf returns whose session it is that is called so.
func SessionOf(session string) (member string) {
	member, _, _ = strings.Cut(session, ".")
	return member
}

// Session returns what a session of a member is called: as the member is, where it has no part.
func (id ID) Session(part string) string {
	if part == "" {
		return id.Name
	}
	return id.Name + "." + part
}

// MayBe reports whether a session of a group may be of this identity: of an operator every one, of a
// member its own, of a replicator the one of its name.
func (id ID) MayBe(session string) bool {
	switch id.Role {
	case Operator:
		return true
	case Member:
		return SessionOf(session) == id.Name
	case Replicator:
		return session == id.Name
	default:
		return false
	}
}
