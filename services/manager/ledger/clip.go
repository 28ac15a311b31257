package ledger

import "strings"

// Clip returns the beginning of a text that somebody said, to be remembered: without what it was cut from.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:most], ""))
}
