package datagram

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
)

const keySize = 16

// SecretSize is the length of a link's secret: its name, and a key for each direction.
const SecretSize = 8 + 2*keySize

// Label is the label under which a link's secret is exported from TLS (RFC 5705). It names the
// version of this layout: different versions share no key.
const Label = "EXPORTER-groupcast-datagrams-1"

// LinkID names a link.
type LinkID [8]byte

// Secret is known only to the two ends of a link.
type Secret [SecretSize]byte

// Link returns the link's name, which is not secret.
func (s Secret) Link() LinkID { return LinkID(s[:8]) }

// Down returns the box for what goes from parent to child.
func (s Secret) Down() *Box { return newBox(s.Link(), s[8:8+keySize]) }

// Up returns the box for what goes from child to parent.
func (s Secret) Up() *Box { return newBox(s.Link(), s[8+keySize:]) }

// Box seals and opens the datagrams of a link in one direction. It has no state: the caller must
// never seal with the same number twice.
type Box struct {
	link LinkID
	aead cipher.AEAD
}

func newBox(link LinkID, key []byte) *Box {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("datagram: " + err.Error()) // the key's size is right
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("datagram: " + err.Error())
	}
	return &Box{link: link, aead: aead}
}

// ErrForged says that a datagram was not sealed with the key.
var ErrForged = errors.New("datagram was not sealed by the neighbour")

// Seal appends a whole datagram.
func (b *Box) Seal(to []byte, h Header, payload []byte) []byte {
	begun := len(to)
	to = append(to, b.link[:]...)
	to = binary.BigEndian.AppendUint64(to, h.Number)
	clear := to[begun:]
	to = h.appendSealed(to)
	to = append(to, payload...)
	nonce := nonceOf(h.Number)
	// This seals in place: the plaintext is exactly what follows the clear part.
	return b.aead.Seal(to[:begun+clearSize], nonce[:], to[begun+clearSize:], clear[:clearSize])
}

// Open opens a datagram in place. The payload that it returns is part of it.
func (b *Box) Open(whole []byte) (Header, []byte, error) {
	if len(whole) < Overhead || len(whole) > MaxDatagram || LinkID(whole[:8]) != b.link {
		return Header{}, nil, ErrForged
	}
	number := binary.BigEndian.Uint64(whole[8:])
	nonce := nonceOf(number)
	opened, err := b.aead.Open(whole[clearSize:clearSize], nonce[:], whole[clearSize:], whole[:clearSize])
	if err != nil {
		return Header{}, nil, ErrForged
	}
	return parseSealed(number, opened)
}

func nonceOf(number uint64) (nonce [12]byte) {
	binary.BigEndian.PutUint64(nonce[4:], number)
	return nonce
}

// LinkOf returns the link that a datagram says it belongs to.
func LinkOf(whole []byte) (link LinkID, ok bool) {
	if len(whole) < Overhead || len(whole) > MaxDatagram {
		return link, false
	}
	return LinkID(whole[:8]), true
}
