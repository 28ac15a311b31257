package fast

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// Fencing is what a sender tells another that has the same group's key.
type Fencing struct {
	Announcement
	Salt Salt          // of the sender that tells it
	Age  time.Duration // since it began, or since it waits for members
}

// HasBegun reports whether it has members: from then on it announces how large datagrams are.
func (f Fencing) HasBegun() bool { return f.Datagram > 0 }

const ageSize = 4

// fencing returns the box for what the sender with a salt tells the one whose session this is.
func (s Secret) fencing(by Salt) *Box {
	return newBox(s.salt.Session(), s.root, "groupcast replication 1 fence"+string(by[:]))
}

// Fence seals a FENCE to the sender whose session this is.
func (s Secret) Fence(number uint64, f Fencing) []byte {
	age := min(max(f.Age.Milliseconds(), 0), math.MaxUint32)
	payload := f.append(binary.BigEndian.AppendUint32(nil, uint32(age)))
	return s.fencing(f.Salt).SealAfter(nil, Head{Kind: Fence, Number: number}, f.Salt[:], payload)
}

// OpenFence opens a FENCE to the sender whose session this is.
func (s Secret) OpenFence(h Head, datagram []byte) (Fencing, error) {
	if h.Kind != Fence || len(datagram) < Overhead+SaltSize {
		return Fencing{}, ErrForged
	}
	f := Fencing{Salt: Salt(datagram[headSize:])}
	payload, err := s.fencing(f.Salt).OpenAfter(nil, h, SaltSize, datagram)
	if err != nil {
		return Fencing{}, err
	}
	if len(payload) < ageSize {
		return Fencing{}, fmt.Errorf("%w: FENCE of %d bytes", ErrProtocol, len(payload))
	}
	f.Age = time.Duration(binary.BigEndian.Uint32(payload)) * time.Millisecond
	f.Announcement, err = ParseAnnouncement(payload[ageSize:])
	return f, err
}
