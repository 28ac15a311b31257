package daemon

import (
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/groupcast/groupcast/internal/identity"
)

// NotFor says in words that a call is for others than its caller.
func NotFor(method string, caller identity.ID, denied error, roles []identity.Role) error {
	whose := make([]string, len(roles))
	for i, role := range roles {
		whose[i] = string(role) + "s"
	}
	return fmt.Errorf("%s: %w to %s (it is for %s)", InWords(method), denied, caller.InWords(), strings.Join(whose, " and "))
}

// InWords says what a method does, as in "create group".
func InWords(method string) string {
	var words strings.Builder
	for i, r := range path.Base(method) {
		if i > 0 && unicode.IsUpper(r) {
			words.WriteByte(' ')
		}
		words.WriteRune(unicode.ToLower(r))
	}
	return words.String()
}
