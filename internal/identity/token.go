package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"
	"time"
)

// MaxTokenLifetime is the longest time for which a join token can be used.
const MaxTokenLifetime = 10 * time.Minute

// Token is a join token: whoever holds it may enroll once. It is written
//
//	gct1.ID.SECRET.CA
//
// with 96 random bits of ID, the fingerprint of the CA, by which the holder recognizes the manager,
// and 256 random bits of SECRET, of which the manager keeps a hash under the ID.
type Token struct {
	ID     string
	Secret string
	CA     Fingerprint
}

const tokenPrefix = "gct1"

// ErrToken says that a text is not a join token.
var ErrToken = errors.New("not a join token: want one from `groupcast token create`, as in gct1.ID.SECRET.CA")

// NewToken makes a token for a CA.
func NewToken(ca Fingerprint) Token {
	return Token{ID: random(12), Secret: random(32), CA: ca}
}

func random(size int) string {
	b := make([]byte, size)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func (t Token) String() string {
	return strings.Join([]string{tokenPrefix, t.ID, t.Secret, base64.RawURLEncoding.EncodeToString(t.CA[:])}, ".")
}

// ParseToken reads what String writes.
func ParseToken(text string) (Token, error) {
	text = strings.TrimSpace(text)
	if strings.ContainsAny(text, "\r\n") { // base64 would ignore them
		return Token{}, ErrToken
	}
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] != tokenPrefix || len(parts[1]) != 16 || len(parts[2]) != 43 {
		return Token{}, ErrToken
	}
	for _, part := range parts[1:3] {
		if _, err := base64.RawURLEncoding.DecodeString(part); err != nil {
			return Token{}, ErrToken
		}
	}
	ca, err := base64.RawURLEncoding.DecodeString(parts[3])
	if err != nil || len(ca) != len(Fingerprint{}) {
		return Token{}, ErrToken
	}
	return Token{ID: parts[1], Secret: parts[2], CA: Fingerprint(ca)}, nil
}

// Hash is what the manager keeps of a token.
func (t Token) Hash() []byte {
	hash := sha256.Sum256([]byte(t.Secret))
	return hash[:]
}

// Matches compares the token with a kept hash, in constant time.
func (t Token) Matches(hash []byte) bool {
	return subtle.ConstantTimeCompare(t.Hash(), hash) == 1
}
