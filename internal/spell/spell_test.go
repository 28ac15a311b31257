package spell_test

import (
	"testing"

	"github.com/groupcast/groupcast/internal/spell"
)

func TestNearest(t *testing.T) {
	candidates := []string{"endpoints", "trustDomain", "credentialsDir", "renew"}
	for given, want := range map[string]string{
		"endpoint": "endpoints", "trustdomain": "trustDomain", "credentials": "credentialsDir",
		"renwe": "renew", "new": "renew", "RENEW": "renew",
	} {
		if got := spell.Nearest(given, candidates); got != want {
			t.Errorf("%q is nearest to %q, want %q", given, got, want)
		}
	}
	if got := spell.Nearest("x", nil); got != "" {
		t.Errorf("nearest of nothing is %q", got)
	}
}

// Somebody who wrote something that resembles nothing known is not asked whether that was meant.
func TestAlike(t *testing.T) {
	candidates := []string{"name", "store-data-dir", "two"}
	for given, want := range map[string]string{"tow": "two", "naem": "name", "store-datadir": "store-data-dir", "wait": "", "x": ""} {
		if got := spell.Alike(given, candidates); got != want {
			t.Errorf("%q is like %q, want %q", given, got, want)
		}
	}
	if got := spell.DidYouMean("") + spell.DidYouMean("a"); got != ": did you mean a?" {
		t.Errorf("asked %q", got)
	}
}
