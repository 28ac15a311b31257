package daemon

import (
	"fmt"
	"strings"
)

// ParseLabels returns the labels of a setting, written as KEY=VALUE, by key; the error names the first that is not.
func ParseLabels(setting []string) (labels map[string]string, err error) {
	labels = make(map[string]string)
	for _, label := range setting {
		key, value, found := strings.Cut(label, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("%q is not KEY=VALUE, as site=a", label)
		}
		labels[key] = value
	}
	return labels, nil
}
