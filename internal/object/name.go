package object

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of names, in bytes.
const (
	MaxElement = 255
	MaxPath    = 4096
)

// kept begins the names that Groupcast keeps to itself where objects land, and reserved is the one of what has not
// landed whole.
const (
	kept     = ".groupcast-"
	reserved = kept + "partial"
)

// IsRefused reports whether something cannot be written for its name, or since something of another kind has
// that, or the name of its directory: no disk is to blame.
func IsRefused(err error) bool { return errors.Is(err, ErrName) || errors.Is(err, syscall.ENOTDIR) }

// CheckName says why an object cannot have this name.
func CheckName(name string) error { return checkElement(name) }

// checkElement says why a path cannot have this element.
func checkElement(element string) error {
	switch {
	case element == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case element == "." || element == "..":
		return fmt.Errorf("%w: %q leaves its directory", ErrName, element)
	case len(element) > MaxElement:
		return fmt.Errorf("%w: %.20q… has %d bytes: want at most %d", ErrName, element, len(element), MaxElement)
	case strings.ContainsAny(element, "/\x00"):
		return fmt.Errorf("%w: %q contains a slash or a zero byte", ErrName, element)
	case !utf8.ValidString(element):
		return fmt.Errorf("%w: %q is not UTF-8", ErrName, element)
	case strings.HasPrefix(fold(element), kept):
		return fmt.Errorf("%w: %q begins with %s, which is reserved: what a receiver has not finished, or relays, is there", ErrName, element, kept)
	}
	return nil
}

// checkPath says why a table cannot have this path.
func checkPath(path string) error {
	if len(path) > MaxPath {
		return fmt.Errorf("%w: %.20q… has %d bytes: want at most %d", ErrName, path, len(path), MaxPath)
	}
	for element := range strings.SplitSeq(path, "/") {
		if err := checkElement(element); err != nil {
			return fmt.Errorf("path %.100q: %w", path, err)
		}
	}
	return nil
}

// fold returns what names have in common that some file systems take for one.
func fold(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return norm.NFD.String(cases.Fold().String(norm.NFD.String(name)))
		}
	}
	return strings.ToLower(name)
}

// compare orders paths element by element: a directory comes before what is in
// it, and that before its next sibling.
func compare(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return weight(a[i]) - weight(b[i])
		}
	}
	return len(a) - len(b)
}

// weight puts the slash before all that a name can hold.
func weight(b byte) int {
	if b == '/' {
		return 0
	}
	return int(b)
}

// parent returns the directory that a path is in; empty if it is the outermost.
func parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// IsPartial reports whether a name is that of the directory that has what has not landed
// whole.
func IsPartial(name string) bool { return name == reserved }
