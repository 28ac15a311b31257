package alone

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"strings"
)

const (
	// phraseBytes is how much chance is in a phrase that is made up: nobody tries 2^80.
	phraseBytes = 10
	// leastPhrase is the fewest characters of a phrase: whoever guesses it may send and receive.
	leastPhrase = 16
)

// letters leaves out what is easily mistaken for something else.
var letters = base32.NewEncoding("abcdefghijkmnpqrstuvwxyz23456789").WithPadding(base32.NoPadding)

// NewPhrase makes a phrase up, as "k7qd-92mf-xw3p-bt6h".
func NewPhrase() string {
	chance := make([]byte, phraseBytes)
	_, _ = rand.Read(chance) // it never fails
	text := letters.EncodeToString(chance)
	var parts []string
	for ; len(text) > 4; text = text[4:] {
		parts = append(parts, text[:4])
	}
	return strings.Join(append(parts, text), "-")
}

// meeting is what a phrase stands for.
type meeting struct {
	key   []byte
	group netip.AddrPort
}

// meet derives from a phrase the key, and the group where all that know the phrase meet: an address of
// the organization's own (RFC 2365), so that two replications seldom share one.
func meet(phrase string) (meeting, error) {
	plain := strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(phrase))
	if len(plain) < leastPhrase {
		return meeting{}, fmt.Errorf("the phrase has %d characters: whoever guesses it can send and receive, so it needs %d; leave --key out to have one made up", len(plain), leastPhrase)
	}
	derived, err := hkdf.Key(sha256.New, []byte(plain), nil, "groupcast replication phrase 1", 37)
	if err != nil {
		return meeting{}, fmt.Errorf("derive a key from the phrase: %w", err)
	}
	address := netip.AddrFrom4([4]byte{239, 192 | derived[32]&3, derived[33], derived[34]})
	port := 49152 + (uint16(derived[35])<<8|uint16(derived[36]))%16384
	return meeting{key: derived[:32], group: netip.AddrPortFrom(address, port)}, nil
}
