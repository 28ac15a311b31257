package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// serviceAccount splits the user name of a ServiceAccount, system:serviceaccount:NAMESPACE:NAME.
func serviceAccount(username string) (namespace, name string, is bool) {
	rest, is := strings.CutPrefix(username, "system:serviceaccount:")
	if !is {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// maxLabel is the length of the longest DNS label.
const maxLabel = 63

// suffixSize is the length of the suffix that is added to a name: a hyphen and hexadecimal digits of a hash.
const suffixSize = 1 + 8

// Label returns the name of a node or a pod as one DNS label. A name that is one already stays as it is, unless it ends like those that
// are made here. To all others the beginning of their hash is added, so that no two names become one.
func Label(name string) string {
	label := strings.ReplaceAll(name, ".", "-")
	if label == name && len(name) <= maxLabel && !endsWithHash(name) {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(hash[:4])
	return strings.TrimRight(label[:min(len(label), maxLabel-len(suffix))], "-") + suffix
}

// endsWithHash reports whether a hash could have been added to a name: anybody can compute one, and name a node like that.
func endsWithHash(name string) bool {
	if len(name) < suffixSize {
		return false
	}
	digits, is := strings.CutPrefix(name[len(name)-suffixSize:], "-")
	return is && strings.Trim(digits, "0123456789abcdef") == ""
}
