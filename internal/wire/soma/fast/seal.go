package fast

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	keySize = 16
	// phaseBits is how many numbers share a key: RFC 9001, section 6.6, allows twice as many.
	phaseBits = 22
)

// ErrForged says that a datagram was not sealed with the key.
var ErrForged = errors.New("datagram was not sealed by a peer")

// Salt is drawn by a sender each time it starts.
type Salt [SaltSize]byte

// Session is the name of what a salt belongs to.
func (s Salt) Session() uint32 { return binary.BigEndian.Uint32(s[:]) }

// Secret is what the keys of one session come from.
type Secret struct {
	salt Salt
	root []byte
}

// NewSecret derives a session's secret from the group's key.
func NewSecret(group []byte, salt Salt) Secret {
	root, err := hkdf.Extract(sha256.New, group, salt[:])
	if err != nil {
		panic("fast: " + err.Error()) // only in a mode that refuses short keys
	}
	return Secret{salt: salt, root: root}
}

// Under returns the secret of the same session under another key of the group.
func (s Secret) Under(group []byte) Secret { return NewSecret(group, s.salt) }

// Session is the name of the session.
func (s Secret) Session() uint32 { return s.salt.Session() }

// Group returns the box for what the sender says to the group.
func (s Secret) Group() *Box {
	return newBox(s.salt.Session(), s.root, "groupcast replication 1 group")
}

// Joining returns the box for the JOIN of a member with this public key.
func (s Secret) Joining(member []byte) *Box {
	return newBox(s.salt.Session(), s.root, "groupcast replication 1 join"+string(member))
}

// Pair is what only a member and the sender know.
type Pair struct {
	session uint32
	root    []byte
}

// Pair derives the secret of a member and the sender from one's private key and the
// other's public one, and from what they prove themselves to each other with; nil where they do not.
func (s Secret) Pair(own *ecdh.PrivateKey, peer, mutual []byte) (Pair, error) {
	public, err := ecdh.X25519().NewPublicKey(peer)
	if err != nil {
		return Pair{}, fmt.Errorf("%w: public key: %w", ErrProtocol, err)
	}
	shared, err := own.ECDH(public)
	if err != nil {
		return Pair{}, fmt.Errorf("%w: public key: %w", ErrProtocol, err)
	}
	root, err := hkdf.Extract(sha256.New, append(shared, mutual...), s.root)
	if err != nil {
		return Pair{}, fmt.Errorf("derive the secret of a member: %w", err)
	}
	return Pair{session: s.salt.Session(), root: root}, nil
}

// Down returns the box for what the sender says to the member, and Up for the other way.
func (p Pair) Down() *Box { return newBox(p.session, p.root, "groupcast replication 1 down") }

// Up returns the box for what the member says to the sender.
func (p Pair) Up() *Box { return newBox(p.session, p.root, "groupcast replication 1 up") }

// Box seals and opens the datagrams of one direction. It belongs to one goroutine. Whoever
// seals must never use a number twice.
type Box struct {
	session uint32
	root    []byte
	label   string
	phases  [2]phase // of the latest two, each at its parity
	nonce   [12]byte
}

type phase struct {
	number uint64
	aead   cipher.AEAD
}

func newBox(session uint32, root []byte, label string) *Box {
	b := &Box{session: session, root: root, label: label}
	b.phases[0] = b.derive(0)
	return b
}

// derive returns the key of a phase.
func (b *Box) derive(number uint64) phase {
	key, err := hkdf.Expand(sha256.New, b.root, fmt.Sprintf("%s phase %d", b.label, number), keySize)
	if err != nil {
		panic("fast: " + err.Error())
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("fast: " + err.Error()) // the key's size is right
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("fast: " + err.Error())
	}
	return phase{number: number, aead: aead}
}

// at returns the key of a number, and the phase it is of. A phase is kept once something of it was real.
func (b *Box) at(number uint64) phase {
	wanted := number >> phaseBits
	if p := b.phases[wanted%2]; p.aead != nil && p.number == wanted {
		return p
	}
	return b.derive(wanted)
}

// Seal appends a whole datagram.
func (b *Box) Seal(to []byte, h Head, payload []byte) []byte { return b.SealAfter(to, h, nil, payload) }

// SealAfter appends a datagram of which a part, directly after the head, is clear.
func (b *Box) SealAfter(to []byte, h Head, clear, payload []byte) []byte {
	begun := len(to)
	h.Session = b.session
	to = append(append(to, make([]byte, headSize)...), clear...)
	h.put(to[begun:])
	current := b.at(h.Number)
	b.phases[current.number%2] = current
	binary.BigEndian.PutUint64(b.nonce[4:], h.Number)
	return current.aead.Seal(to, b.nonce[:], payload, to[begun:])
}

// Open appends the payload of a datagram.
func (b *Box) Open(to []byte, h Head, datagram []byte) ([]byte, error) {
	return b.OpenAfter(to, h, 0, datagram)
}

// OpenAfter appends the payload of a datagram of which so many bytes after the head are clear.
func (b *Box) OpenAfter(to []byte, h Head, clear int, datagram []byte) ([]byte, error) {
	if len(datagram) < Overhead+clear || h.Session != b.session {
		return nil, ErrForged
	}
	current := b.at(h.Number)
	binary.BigEndian.PutUint64(b.nonce[4:], h.Number)
	opened, err := current.aead.Open(to, b.nonce[:], datagram[headSize+clear:], datagram[:headSize+clear])
	if err != nil {
		return nil, ErrForged
	}
	b.phases[current.number%2] = current
	return opened, nil
}
