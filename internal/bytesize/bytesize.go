// Package bytesize is how numbers of bytes are written and read: 512MiB, 4GiB, 100MB.
package bytesize

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Size is a number of bytes.
type Size uint64

var (
	binary  = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	decimal = []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
)

// String returns the exact number in the unit in which it is shortest; a power of 1024 if two are equally short.
func (s Size) String() string {
	twos, tens := s.in(binary, 1024), s.in(decimal, 1000)
	if len(strings.TrimRight(tens, "kMGTPEB")) < len(strings.TrimRight(twos, "KMGTPEiB")) {
		return tens
	}
	return twos
}

// in returns the number in the largest of the units of which it is a multiple.
func (s Size) in(units []string, step Size) string {
	unit := 0
	for s > 0 && s%step == 0 && unit < len(units)-1 {
		s, unit = s/step, unit+1
	}
	return fmt.Sprintf("%d%s", uint64(s), units[unit])
}

// MarshalText writes the exact number.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a number with or without a unit: MB is a million, MiB is 1024 KiB.
func (s *Size) UnmarshalText(text []byte) error { return s.Set(string(text)) }

// UnmarshalJSON reads what UnmarshalText reads, and plain numbers, as YAML and JSON have them.
func (s *Size) UnmarshalJSON(text []byte) error {
	plain := string(text)
	if unquoted, err := strconv.Unquote(plain); err == nil {
		plain = unquoted
	}
	return s.Set(plain)
}

// Set reads a number for a flag.
func (s *Size) Set(text string) error {
	bytes, err := humanize.ParseBytes(text)
	none := bytes == 0 && strings.ContainsAny(text, "123456789") // less than one byte is refused, as most settings take 0 for no limit
	if err != nil || none {
		return fmt.Errorf("%q is no number of bytes, as 512MiB or 4GiB", text)
	}
	*s = Size(bytes)
	return nil
}

// Type returns the name of the type in help texts.
func (s *Size) Type() string { return "bytes" }

// Short returns an approximate number of bytes, for people.
func Short(bytes uint64) string { return humanize.IBytes(bytes) }
