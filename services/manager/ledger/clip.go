package ledger

import "strings"

// Clip returns the beginning of a text that somebody said, as a copy that can be remembered without the rest.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:most], ""))
}
