// Package gathered says which paths uploads can have below their client's directory: a gatherer refuses others, and a
// client does not begin with them.
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

// ErrBundle says that a bundle is more than it may be.
var ErrBundle = errors.New("bundle too large")

// How much may come in a bundle: its bytes, and its files and directories that nothing is in. A gatherer has a bundle's table in its memory
// when it is whole. Clients of the SDK make bundles of a quarter of that, and of a tenth.
const (
	BundleBytes = 16 << 20
	BundleItems = 10_000
)

// StreamSuffix is at the end of the name of a stream's directory.
const StreamSuffix = ".stream"

// maxElements is how many names a path can have.
const maxElements = 31

// CheckPath says why a file, or a stream, cannot have a path, with slashes. Each element of it is a name that an object can
// have: none leads elsewhere.
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

// checkElement says why a path cannot have this element, of a stream's directory or of anything else.
func checkElement(element string, stream bool) error {
	if stream { // and its name is made longer
		return cmp.Or(object.CheckName(element), object.CheckName(element+StreamSuffix))
	}
	if strings.HasSuffix(element, StreamSuffix) {
		return fmt.Errorf("what ends with %s is a stream's own directory", StreamSuffix)
	}
	return object.CheckName(element)
}
