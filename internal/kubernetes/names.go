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

// Label returns a name, as of a node or a pod, as one DNS label. A name that is one stays as it is; of
// another, the end of its hash is kept, so that no two names become one.
func Label(name string) string {
	label := strings.ReplaceAll(name, ".", "-")
	if label == name && len(name) <= maxLabel {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	suffix := "-" + hex.EncodeToString(hash[:4])
	return strings.TrimRight(label[:min(len(label), maxLabel-len(suffix))], "-") + suffix
}
