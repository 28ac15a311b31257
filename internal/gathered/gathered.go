// Package gathered says which paths uploads can have below their client's directory: a gatherer refuses others, and a
// client does not even try them.
package gathered

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/groupcast/groupcast/internal/object"
)

// ErrPath says that an upload cannot have its path.
var ErrPath = errors.New("path not allowed")

// ErrBundle says that a bundle exceeds its limits.
var ErrBundle = errors.New("bundle too large")

// The limits of a bundle: its bytes, and its number of files and empty directories. A gatherer holds the table of a complete bundle in its
// memory. Clients of the SDK make bundles of a quarter of the bytes, and a tenth of the items.
const (
	BundleBytes = 16 << 20
	BundleItems = 10_000
)

// StreamSuffix ends the name of a stream's directory.
const StreamSuffix = ".stream"

// maxElements is how many names a path can have.
const maxElements = 31

// CheckPath returns why a file, or a stream, cannot have a path, written with slashes. Each element must be a name that an
// object can have: none leads elsewhere.
func CheckPath(path string, stream bool) error {
	elements := strings.Split(path, "/")
	last := len(elements) - 1
	switch {
	case len(elements) > maxElements:
		return fmt.Errorf("%w: %.200q is below %d directories: want at most %d", ErrPath, path, last, maxElements-1)
	case len(path) > object.MaxPath:
		return fmt.Errorf("%w: %.200q… has %d bytes: want at most %d", ErrPath, path, len(path), object.MaxPath)
	}
	for i, element := range elements {
		if err := checkElement(element, i == last && stream); err != nil {
			return fmt.Errorf("%w: %.200q: %w", ErrPath, path, err)
		}
	}
	return nil
}

// checkElement returns why a path cannot have this element, as the last one of a stream or as any other.
func checkElement(element string, stream bool) error {
	if stream { // its name is made longer, too
		return cmp.Or(object.CheckName(element), object.CheckName(element+StreamSuffix))
	}
	if strings.HasSuffix(element, StreamSuffix) {
		return fmt.Errorf("what ends with %s is a stream's own directory", StreamSuffix)
	}
	return object.CheckName(element)
}
