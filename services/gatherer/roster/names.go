package roster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/groupcast/groupcast/internal/identity"
)

// nameFor returns the name of the client that a peer attaches as: its own, unless it asks for another. A member is
// itself alone; an operator attaches for anybody.
func nameFor(asked string, peer identity.ID) (string, error) {
	name := cmp.Or(asked, peer.Name)
	if err := identity.CheckName(name); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoName, err)
	}
	if peer.Role != identity.Operator && peer.Name != name {
		return "", fmt.Errorf("%w: %s uploads as %s alone, and operators as anybody", ErrName, peer.InWords(), peer.Name)
	}
	return name, nil
}

// groupsOf returns the groups that the managers let the member of a client's name into. An agent that attaches is no
// member, whatever its name.
func (r *Roster) groupsOf(name string, peer identity.ID) ([]string, error) {
	if peer.Role != identity.Member && peer.Role != identity.Operator {
		return nil, nil
	}
	return r.Groups(name)
}

// roleOf is the role of the client that a peer is. An operator is none: it attaches for whoever has the name.
func roleOf(peer identity.ID) identity.Role {
	if peer.Role == identity.Operator {
		return ""
	}
	return peer.Role
}

// isFree returns an error if a name belongs to a client of another role. That is somebody else, who would be fenced, and whose files
// would be read and replaced. A name is free again when nothing of its client is here. The roster is locked.
func (r *Roster) isFree(name string, peer identity.ID) error {
	has, wants := r.register.roleOf(name), roleOf(peer)
	if has == "" || wants == "" || has == wants {
		return nil
	}
	if r.clients[name] == nil {
		if _, err := os.Lstat(filepath.Join(r.Dir, name)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s is that of %s here, whose files %s would get: enroll one of them under another name", ErrName, name, identity.ID{Role: has, Name: name}.InWords(), peer.InWords())
}
