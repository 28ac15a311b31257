// Package bytesize is how numbers of bytes are written and read: 512MiB, 4GiB, 100MB.
package bytesize

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// Size is a number of bytes.
type Size uint64

var units = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// String returns the exact number in the largest unit that it is a multiple of.
func (s Size) String() string {
	if s == 0 {
		return "0B"
	}
	unit := min(bits.TrailingZeros64(uint64(s))/10, len(units)-1)
	return fmt.Sprintf("%d%s", uint64(s)>>(10*unit), units[unit])
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
	none := bytes == 0 && strings.ContainsAny(text, "123456789") // less than one: most settings take 0 for no limit
	if err != nil || none {
		return fmt.Errorf("%q is no number of bytes, as 512MiB or 4GiB", text)
	}
	*s = Size(bytes)
	return nil
}

// Type is what a help text calls it.
func (s *Size) Type() string { return "bytes" }

// Short returns about how many bytes, for people.
func Short(bytes uint64) string { return humanize.IBytes(bytes) }
