package fast

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
)

// ProofSize is how long a proof is: as much as is left in every JOIN, however long its names and its text are.
const ProofSize = 14

// Proof shows that a JOIN is of the member that has its name: all members have the group's key, and could say any name under it.
type Proof [ProofSize]byte

// NameKey derives the key with which the member of a name proves it, from a secret that is the sender's, and no member's.
func NameKey(secret []byte, name string) []byte {
	return proofKey(secret, "groupcast replication 1 name"+name)
}

// MutualKey derives the key with which the member of a name and the sender prove themselves to each other, from the key of the
// name and from what is announced: all members can seal an announcement, also another in the sender's session.
func (a Announcement) MutualKey(name []byte) []byte {
	a.Datagram = 0 // it is decided later
	return proofKey(name, "groupcast replication 1 mutual"+string(a.append(nil)))
}

func proofKey(secret []byte, info string) []byte {
	key, err := hkdf.Expand(sha256.New, secret, info, sha256.Size)
	if err != nil {
		panic("fast: " + err.Error()) // only in a mode that refuses short secrets
	}
	return key
}

// Prove returns the proof of a JOIN: by the key of its name, for this session, for the public keys of sender and member,
// and for all that it says. So it is of no use under another key, and for no other word.
func (s Secret) Prove(key, sender, member []byte, j Joining) (p Proof) {
	mac := hmac.New(sha256.New, key)
	for _, part := range [][]byte{s.salt[:], sender, member, j.append(nil)} { // all but the last have one length
		mac.Write(part)
	}
	copy(p[:], mac.Sum(nil))
	return p
}

// IsProven reports whether a JOIN has the right proof.
func (s Secret) IsProven(key, sender, member []byte, j Joining) bool {
	want := s.Prove(key, sender, member, j)
	return hmac.Equal(want[:], j.Proof[:])
}
