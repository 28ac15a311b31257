package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

const (
	// shortestPrefix is how many digits of an id have to be given at least.
	shortestPrefix = 4
	idLength       = 32
)

// NewID makes up an id, as deliveries and replications have.
func NewID() string {
	var id [idLength / 2]byte
	rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// IsID reports whether a text is an id, and a whole one.
func IsID(text string) bool { return len(text) == idLength && CheckPrefix("", text) == nil }

// CheckPrefix says why the first digits of an id cannot be those of any id.
func CheckPrefix(field, prefix string) error {
	var problems Checks
	if strings.Trim(prefix, "0123456789abcdef") != "" { // other characters are not counted as digits
		problems.That(false, field, "%q is no id: those have the digits 0 to 9 and a to f", prefix)
		return problems.Err()
	}
	problems.That(len(prefix) >= shortestPrefix, field, "has %d digits: want %d at least", len(prefix), shortestPrefix)
	problems.That(len(prefix) <= idLength, field, "has %d digits: an id has %d", len(prefix), idLength)
	return problems.Err()
}

// NewestFirst returns where something stands in lists that begin with the newest, as a string by which they are sorted.
func NewestFirst(created time.Time, id string) string {
	return fmt.Sprintf("%016x%s", ^uint64(created.UnixNano()), id)
}
