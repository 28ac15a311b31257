package identity

import (
	"errors"
	"strings"
)

// CheckSession returns why a member's session in a group cannot have a name. The name is the
// member's, or NAME.PART: so one member can have several sessions, for instance to send while it
// receives.
func CheckSession(name string) error {
	member, part, isPart := strings.Cut(name, ".")
	if !isPart {
		return CheckName(name)
	}
	return errors.Join(CheckName(member), CheckName(part))
}

// SessionOf returns the member whose session has a name.
func SessionOf(session string) (member string) {
	member, _, _ = strings.Cut(session, ".")
	return member
}

// Session returns the name of a member's session: the member's own if part is empty.
func (id ID) Session(part string) string {
	if part == "" {
		return id.Name
	}
	return id.Name + "." + part
}

// MayBe reports whether the identity may have a session of this name: an operator may have any, a
// member its own, a replicator the one of its name.
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
