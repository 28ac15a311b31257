package ledger_test

import (
	"strings"
	"testing"

	"github.com/groupcast/groupcast/services/manager/ledger"
)

// A character that is no digit is reported as that, and not counted as a digit.
func TestCheckPrefixTellsOneThing(t *testing.T) {
	for prefix, want := range map[string]string{
		"":                      "has 0 digits: want 4 at least",
		"abc":                   "has 3 digits: want 4 at least",
		"zzz":                   `"zzz" is no id: those have the digits 0 to 9 and a to f`,
		"ABCD":                  `"ABCD" is no id: those have the digits 0 to 9 and a to f`,
		strings.Repeat("z", 33): `"` + strings.Repeat("z", 33) + `" is no id: those have the digits 0 to 9 and a to f`,
		strings.Repeat("a", 33): "has 33 digits: an id has 32",
	} {
		err := ledger.CheckPrefix("delivery", prefix)
		if err == nil || err.Error() != "delivery: "+want {
			t.Errorf("%q: %v, want %s", prefix, err, want)
		}
	}
	for _, prefix := range []string{"0123", strings.Repeat("f", 32)} {
		if err := ledger.CheckPrefix("delivery", prefix); err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

func TestIsID(t *testing.T) {
	for text, want := range map[string]bool{ledger.NewID(): true, "": false, "0123": false, strings.Repeat("g", 32): false, strings.Repeat("a", 33): false} {
		if ledger.IsID(text) != want {
			t.Errorf("%q is an id: %v", text, !want)
		}
	}
}
